"""What a replay's form is checked for before anything is planned."""

from collections.abc import Collection, Mapping
from typing import Any

from airflow_provider_orderedkafka.core.outputs import check_not_fed_back
from airflow_provider_orderedkafka.core.starts import parse_start
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.load import OrderedLoad


def check_form(
    params: Mapping[str, Any], given: Mapping[str, Any] | None, taken: Collection[str], load: OrderedLoad | None = None
) -> None:
    """Refuse keys that the form has not got, places that cannot be read, and duplicates that nobody agreed to.

    Called inside of a task: the form is that of its DAG.

    :param params: The run's params.
    :param given: What the trigger was given; Airflow itself takes any key, and adds it to the run's params.
    :param taken: The topics that other loads write to.
    :param load: The load that is run; it may write into none of its own topics, whatever anybody agrees to.
    """
    from airflow.sdk import get_current_context

    form = get_current_context()["dag"].params
    unknown = sorted(set(given or {}) - set(form))
    if unknown:
        raise SettingError(f"the form has no {unknown[0]!r}: it takes {', '.join(map(repr, sorted(form)))}")
    for name in ("start", "end"):
        parse_start(params[name], name)
    if load is not None:
        check_not_fed_back(load.name, load.topics, {params["target"]: "target"})
    if params["target"] in taken and not params["duplicates_are_fine"]:
        raise SettingError(
            f"topic {params['target']!r} is written to by another load: its rows would be there twice; name a new "
            "topic, or say that duplicates are fine"
        )
