"""What a replay's form is checked for before anything is planned."""

from collections.abc import Collection, Mapping
from typing import Any

from airflow_provider_orderedkafka.core.starts import parse_start
from airflow_provider_orderedkafka.errors import SettingError


def check_form(params: Mapping[str, Any], given: Mapping[str, Any] | None, taken: Collection[str]) -> None:
    """Refuse keys that the form has not got, places that cannot be read, and duplicates that nobody agreed to.

    :param params: The run's params.
    :param given: What the trigger was given; Airflow itself takes any key.
    :param taken: The topics that other loads write to.
    """
    unknown = sorted(set(given or {}) - set(params))
    if unknown:
        raise SettingError(f"the form has no {unknown[0]!r}: it takes {', '.join(map(repr, sorted(params)))}")
    for name in ("start", "end"):
        parse_start(params[name], name)
    if params["target"] in taken and not params["duplicates_are_fine"]:
        raise SettingError(
            f"topic {params['target']!r} is written to by another load: its rows would be there twice; name a new "
            "topic, or say that duplicates are fine"
        )
