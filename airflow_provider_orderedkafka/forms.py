"""Check the parameters of a replay before anything is planned."""

from collections.abc import Collection, Mapping
from typing import Any

from airflow_provider_orderedkafka.core.outputs import check_not_fed_back
from airflow_provider_orderedkafka.core.starts import parse_start
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.load import OrderedLoad


def check_form(
    params: Mapping[str, Any], given: Mapping[str, Any] | None, taken: Collection[str], load: OrderedLoad | None = None
) -> None:
    """Raise a `SettingError` for unknown keys, unreadable places, and duplicates that were not agreed to.

    Call it in a task of the replay's DAG, whose `params` are the form.

    :param params: The run's params.
    :param given: The run's `conf`: Airflow accepts any key there, and adds it to the params.
    :param taken: Topics that other loads write to.
    :param load: The replay's load; it may not write to a topic that it reads.
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
