"""Show what the next run of a load would load: from where to where, how much, in which batches, and why.

Reads the ledger and Kafka; changes nothing. Needs Airflow's configuration (AIRFLOW_HOME) and the load's DAG file.
"""

import argparse
import runpy
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_orderedkafka.core.documents import Ledger, Range
from airflow_provider_orderedkafka.core.lifecycle import status_of
from airflow_provider_orderedkafka.core.moves import joined
from airflow_provider_orderedkafka.core.next_range import NothingToLoad
from airflow_provider_orderedkafka.core.notation.starts import Moment
from airflow_provider_orderedkafka.core.order.planning import Planner
from airflow_provider_orderedkafka.core.pacing import Verdict
from airflow_provider_orderedkafka.core.plan import WINDOW, Planned, needs_sample, size_of, window
from airflow_provider_orderedkafka.errors import LifecycleError, OrderedKafkaError, SettingError
from airflow_provider_orderedkafka.ledgers import location_for
from airflow_provider_orderedkafka.load import OrderedLoad
from airflow_provider_orderedkafka.loads.ledger import AIRFLOW, LedgerStore
from airflow_provider_orderedkafka.tools.commands.at_airflow import airflow, is_about_airflow, store_of

if TYPE_CHECKING:
    from airflow_provider_orderedkafka.loads.waiting import First

SHOWN = 50
SHOWN_ENDS = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("dag_file", type=Path, help="the DAG file that defines the load")
    parser.add_argument("load", nargs="?", help="name of the load, if the file defines several")
    parser.add_argument("--json", action="store_true", help="print the range document")


def run(arguments: argparse.Namespace) -> int:
    """Plan the next range, and print it."""
    with airflow():
        return _plan(arguments)


def _plan(arguments: argparse.Namespace) -> int:
    load = _the_load(arguments.dag_file, arguments.load)
    planned, verdict = _open_range(load) or _next_range(load)
    if isinstance(planned, NothingToLoad):
        print(planned.reason)
        return 0
    if arguments.json:
        print(planned.to_text())
        return 0
    print(explained(planned, verdict.reason, waits=not verdict.run))
    print(in_batches(planned, _batches(load, planned)))
    return 0


def _open_range(load: OrderedLoad) -> tuple[Range, Verdict] | None:
    store = _store(load)
    ledger = None if store is None else store.ledger()
    if store is None or ledger is None or ledger.open is None:
        return None
    planned = store.range(ledger.open.range_id)
    sentence = status_of(ledger, ledger.open.range_id).sentence
    reason = f"{sentence}; a run would take it over, or skip while its owner is active"
    return None if planned is None else (planned, Verdict(run=True, reason=reason))


def _next_range(load: OrderedLoad) -> tuple[Range | NothingToLoad, Verdict]:
    from airflow_provider_orderedkafka.hooks.ordered_kafka import OrderedKafkaHook

    hook, store = OrderedKafkaHook(load.kafka_conn_id), _store(load)
    ledger = (None if store is None else store.ledger()) or _imagined(load, hook.first_look(load))
    if added := [topic for topic in load.topics if topic not in ledger.topics]:
        first = hook.first_look(load, added)
        ledger = joined(ledger, first.place.offsets, first.topics)
    return hook.plan(load, ledger), hook.verdict(load, ledger)


def _batches(load: OrderedLoad, planned: Range) -> list[Planned]:
    """The first batches of a range, as an application with the default slices would plan them."""
    from airflow_provider_orderedkafka.hooks.ordered_kafka import OrderedKafkaHook
    from airflow_provider_orderedkafka.kafka.lookup.log import KafkaLog
    from airflow_provider_orderedkafka.kafka.read.samples import average_bytes
    from airflow_provider_orderedkafka.kafka.reading import ReadSettings

    if not planned.offsets:
        return []
    config = OrderedKafkaHook(load.kafka_conn_id).config
    settings = ReadSettings(config, planned.isolation, on_data_loss=planned.on_data_loss, topic_ids=planned.topics)
    size = size_of(planned, average_bytes(planned.span, settings) if needs_sample(planned) else None)
    ends = Planner(KafkaLog(config, planned.isolation), planned.span).ends(size.offsets, WINDOW)
    return window(planned, 1, planned.start, ends, size)


def in_batches(planned: Range, batches: Sequence[Planned]) -> str:
    """The batches of a range, for people: how many, how large, and where the first ones end."""
    if not batches:
        return "batches   none"
    first, about = batches[0], "about " if batches[0].about else ""
    size = "" if first.bytes is None else f", some {first.bytes / 2**20:,.0f} MiB"
    lines = [f"batches   {about}{first.batches:,}, of {first.offsets:,} offsets{size}"]
    for each in batches[:SHOWN_ENDS]:
        ends = list(each.end(planned).offsets.items())
        more = f" and {len(ends) - SHOWN_ENDS:,} more" if len(ends) > SHOWN_ENDS else ""
        lines.append(f"  {each.batch:,} ends at {', '.join(p.at(offset) for p, offset in ends[:SHOWN_ENDS])}{more}")
    return "\n".join(lines)


def explained(planned: Range, reason: str, *, waits: bool) -> str:
    start, end = planned.start.offsets, planned.end.offsets
    lines = [
        f"load      {planned.load}, from revision {planned.ledger_revision}",
        f"now       a run would {'wait' if waits else 'start'}: {reason}",
        f"range     {planned.reason}",
        f"cut       {Moment(planned.end.floor.time) if planned.end.floor.time >= 0 else 'none'}",
        *(f"  {p.at(start[p])} to {offset}: {offset - start[p]:,} offsets" for p, offset in list(end.items())[:SHOWN]),
    ]
    more = len(end) - SHOWN
    return "\n".join(lines + ([f"  and {more:,} more partitions"] if more > 0 else []))


def _the_load(path: Path, name: str | None) -> OrderedLoad:
    if not path.is_file():
        raise SettingError(f"there is no DAG file {str(path)!r}: name the file that defines the load")
    found = {value.name: value for value in _defined(path) if isinstance(value, OrderedLoad)}
    if name is None and len(found) == 1:
        return next(iter(found.values()))
    if name in found:
        return found[name]
    known = ", ".join(map(repr, sorted(found))) or "none"
    raise SettingError(
        f"{str(path)!r} defines the loads {known}, found {name!r}: name one of them, and keep it in "
        "a variable of the file"
    )


def _defined(path: Path) -> Iterable[object]:
    try:
        return runpy.run_path(str(path)).values()
    except OrderedKafkaError:
        raise
    except Exception as error:
        if is_about_airflow(error):
            raise
        raise SettingError(f"DAG file {str(path)!r} does not run: {type(error).__name__}: {error}") from error


def _store(load: OrderedLoad) -> LedgerStore | None:
    """The load's documents; None if Airflow has not parsed the DAG yet."""
    try:
        return store_of(load.name, location_for(load.name, load.ledger) or AIRFLOW)
    except LifecycleError:
        return None


def _imagined(load: OrderedLoad, first: "First") -> Ledger:
    from airflow_provider_orderedkafka.context import now_ms
    from airflow_provider_orderedkafka.core.moves import first_look

    return first_look(
        load.name, instance="imagined", home_dag=None, place=first.place, topics=first.topics, now=now_ms()
    )
