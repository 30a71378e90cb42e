"""Check the arguments of `ordered_load` before any operator gets them; errors name the load and what was meant."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import fields
from inspect import signature
from typing import Any

from airflow_provider_orderedkafka.core.documents import Kind
from airflow_provider_orderedkafka.core.notation.spelling import meant
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.load import OrderedLoad
from airflow_provider_orderedkafka.parsing import ON_THE_RUN_BEFORE, WHY_ALONE

STEPS = ("wait", "resolve", "load", "commit")
OURS = ("task_id", "load", "range_id", "digest", "outputs")
"""Arguments that the group sets itself, because a load's state depends on them."""

ON_THE_GROUP = {
    **{name: name for name in ("application", "checkpoint", "create_output", "decode", "end", "keep_order", "mode")},
    **{name: name for name in ("asset", "on_clear", "output", "output_topic", "row_limit", "start")},
    "conn_id": "spark_conn_id",
    "kind": "mode",
    "plan_only": "dry_run",
}
"""Parameters of operators that `ordered_load` sets from its own, and what it calls them."""

HIDDEN = {*ON_THE_GROUP, "dag", "digest", "load", "outputs", "range_id", "task_group", "task_id"}
"""Parameters of operators that no error offers."""


def check_load(load: object) -> None:
    """`SettingError` unless it is an `OrderedLoad`."""
    if not isinstance(load, OrderedLoad):
        raise SettingError(
            f"ordered_load() takes an OrderedLoad, found {load!r}: "
            "ordered_load(OrderedLoad('orders', topics=['orders']), output_topic='orders-ordered')"
        )


def check_arguments(
    load: OrderedLoad,
    mode: Kind,
    given: Collection[str],
    steps: Mapping[str, Mapping[str, Any]],
    own: Collection[str],
    *,
    spark_submit: bool,
) -> None:
    """`SettingError` for an argument that nobody takes, that the group sets, or that has another name or place.

    `given` are those of `ordered_load` beyond its `own`. Another operator than spark-submit's checks its arguments
    itself.
    """
    _check_steps(load, steps)
    operators = _operators()
    if not spark_submit:
        operators.pop("load")
    elif given:
        _check_given(load, given, own, _parameters(operators["load"]))
    for step, arguments in steps.items():
        _check_free(load, mode, step, arguments)
        if step in operators:
            _check_step(load, step, arguments, _parameters(operators[step]))


def _check_steps(load: OrderedLoad, steps: Mapping[str, Mapping[str, Any]]) -> None:
    if not isinstance(steps, Mapping):
        raise SettingError(
            f"load {load.name!r}: steps must be arguments by step, such as {{'load': {{'retries': 3}}}}, "
            f"found {steps!r}"
        )
    for step, arguments in steps.items():
        if step not in STEPS:
            raise SettingError(f"load {load.name!r}: steps names {step!r}, the steps are {', '.join(STEPS)}")
        if not isinstance(arguments, Mapping):
            raise SettingError(
                f"load {load.name!r}: steps gives {arguments!r} for {step!r}: expected arguments by name, such as "
                "{'retries': 3}"
            )


def _check_free(load: OrderedLoad, mode: Kind, step: str, arguments: Mapping[str, Any]) -> None:
    """Refuse what a load's state depends on."""
    for name in OURS:
        if name in arguments:
            raise SettingError(
                f"load {load.name!r}: steps sets {name!r} of {step!r} to {arguments[name]!r}: {name} is the group's "
                "own, leave it out; with the four operators by hand you choose it yourself"
            )
    for name in ON_THE_RUN_BEFORE:
        if mode == "incremental" and arguments.get(name):
            raise SettingError(
                f"load {load.name!r} is incremental and steps sets {name}=True for {step!r}: {WHY_ALONE}; leave it "
                "out, or give the load mode='interval'"
            )


def _check_given(load: OrderedLoad, given: Iterable[str], own: Collection[str], known: Collection[str]) -> None:
    settings = {field.name for field in fields(OrderedLoad)}
    for name in given:
        if name in ON_THE_GROUP:
            raise SettingError(f"load {load.name!r}: ordered_load() calls {name!r} {ON_THE_GROUP[name]!r}")
        if name in settings and name not in known:
            raise SettingError(
                f"load {load.name!r}: {name!r} is a setting of the load, not of ordered_load(): "
                f"OrderedLoad({load.name!r}, ..., {name}=...)"
            )
    _check_known(load, given, known, {*own, *known} - (HIDDEN - {*own}), "ordered_load() takes no argument")


def _check_step(load: OrderedLoad, step: str, given: Mapping[str, Any], known: Collection[str]) -> None:
    for name, value in given.items():
        if name in ON_THE_GROUP and name in known:
            raise SettingError(
                f"load {load.name!r}: steps sets {name!r} of {step!r} to {value!r}: give it to ordered_load(), as "
                f"{ON_THE_GROUP[name]!r}"
            )
    _check_known(load, given, known, {*known} - HIDDEN, f"steps: the task {step!r} takes no argument")


def _check_known(
    load: OrderedLoad, given: Iterable[str], known: Collection[str], offered: Collection[str], what: str
) -> None:
    for name in given:
        if name not in known:
            raise SettingError(f"load {load.name!r}: {what} {name!r}; {meant(name, offered, 'leave it out')}")


def _operators() -> dict[str, type]:
    from airflow_provider_orderedkafka.operators.commit import CommitOffsetRangeOperator
    from airflow_provider_orderedkafka.operators.resolve import ResolveOffsetRangeOperator
    from airflow_provider_orderedkafka.operators.submit import SubmitOrderedLoadOperator
    from airflow_provider_orderedkafka.sensors.offsets import OffsetRangeSensor

    return {
        "wait": OffsetRangeSensor,
        "resolve": ResolveOffsetRangeOperator,
        "load": SubmitOrderedLoadOperator,
        "commit": CommitOffsetRangeOperator,
    }


def _parameters(operator: type) -> set[str]:
    """The names of what an operator takes, with those of its bases and those that it refuses in its own words."""
    made = [vars(each)["__init__"] for each in operator.__mro__ if "__init__" in vars(each)]
    found = {name for each in made for name in signature(each).parameters}
    return (found | {*getattr(operator, "refused", ())}) - {"self", "args", "kwargs"}
