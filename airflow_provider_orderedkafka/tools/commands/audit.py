"""Compare what a load wrote with what its source has: which rows are missing, doubled, altered, out of order or stray.

    orderedkafka audit --checkpoint /data/checkpoints/orders --option kafka.bootstrap.servers=localhost:9092
    orderedkafka audit dags/orders_ordered.py orders --json
    orderedkafka audit --table delta:/lake/orders --topic orders --option kafka.bootstrap.servers=localhost:9092

Reads the source and the output again, and changes nothing. Exits with 0 if all is as promised, with 65 if something is
not, or cannot be known any more, and with 75 if ranges are not loaded yet. A --table is one that another program wrote,
with columns topic, partition and offset: it has to have each record of its topics between --start and --end once.
"""

import argparse
import json
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ...core.documents import Ledger, Report
from ...core.notation.spelling import meant
from ...errors import SettingError
from ...kafka.clients.config import KafkaConfig
from ...load import OrderedLoad
from ...loads.ledger import AIRFLOW, store_in
from ...locations import local_root, location_for, open_location, reports_at
from ...outputs import OF_THE_SINK, OPTIONS_VARIABLE
from .at_airflow import airflow, store_of
from .plan import defined_in
from .read import add_places

if TYPE_CHECKING:
    from ...audit.auditing import Audit

PLACES = 20


class Where(NamedTuple):
    """Where the reports of a load are, its ledger, and how its clusters are reached."""

    checkpoint: str
    source: Mapping[str, str]
    output: Mapping[str, str]
    ledger: Callable[[], Ledger | None]
    load: str | None = None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("dag_file", nargs="?", type=Path, help="the DAG file that defines the load")
    parser.add_argument("load", nargs="?", help="name of the load, if the file defines several")
    parser.add_argument("--checkpoint", metavar="LOCATION", help="the load's checkpoint, if no DAG file is named")
    parser.add_argument("--range", metavar="ID", help="audit this range only")
    for name, of in (("--option", "Kafka's client"), ("--sink-option", "the client for the output's own cluster")):
        parser.add_argument(
            name, action="append", default=[], metavar="kafka.NAME=VALUE", help=f"an option of {of}, as when loading"
        )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--places",
        type=int,
        default=PLACES,
        metavar="COUNT",
        help="how many places of each finding to show (default: %(default)s)",
    )
    others = parser.add_argument_group("a table that another program wrote")
    others.add_argument("--table", help="as delta:/lake/orders, iceberg:lake.shop.orders or parquet:/lake/orders")
    others.add_argument(
        "--topic", dest="topics", action="append", default=[], metavar="TOPIC", help="a topic in it; may be repeated"
    )
    add_places(others)


def run(arguments: argparse.Namespace) -> int:
    found = _of_load(arguments) if arguments.table is None else _of_table(arguments)
    print(json.dumps(found.to_json()) if arguments.json else found.text)
    return found.exit_code


def _of_table(arguments: argparse.Namespace) -> "Audit":
    from ...audit.auditing import audit_table

    table = _table(arguments)
    source, _ = _clusters(arguments)
    return audit_table(table, source, arguments.topics, (arguments.start, arguments.end), arguments.places)


def _table(arguments: argparse.Namespace) -> str:
    from ...audit.tables import OF_OTHERS

    load_options = {
        "the DAG file": "dag_file",
        "--checkpoint": "checkpoint",
        "--range": "range",
        "--sink-option": "sink_option",
    }
    if given := [name for name, each in load_options.items() if getattr(arguments, each)]:
        raise SettingError(
            f"--table {arguments.table!r} is a table of another program, but {given[0]} belongs to a load: leave out "
            "one of the two"
        )
    if not arguments.topics:
        raise SettingError(
            f"--table {arguments.table!r} is compared with topics: name each one, such as --topic orders"
        )
    kind, _, place = arguments.table.partition(":")
    if kind not in OF_OTHERS or not place or ("/" in place) == (kind == "iceberg"):
        known = f"known are {', '.join(OF_OTHERS)}"
        hint = "" if kind in OF_OTHERS else f"; {meant(kind, OF_OTHERS, known)}"
        raise SettingError(
            "--table takes a Delta table by its location, as delta:/lake/orders, an Iceberg table by its name, as "
            f"iceberg:lake.shop.orders, or a folder, as parquet:/lake/orders, found {arguments.table!r}{hint}"
        )
    return str(arguments.table)


def _of_load(arguments: argparse.Namespace) -> "Audit":
    from ...audit.auditing import Clusters, audit

    if arguments.topics or (arguments.start, arguments.end) != ("earliest", "latest"):
        raise SettingError(
            "--topic, --start and --end are for --table: a load's own ranges say what it read; leave them out, or "
            "choose one range with --range"
        )
    where = _by_hand(arguments) if arguments.dag_file is None else _from_dag_file(arguments)
    known = _known(where)
    reports = known if arguments.range is None else _chosen(known, where, arguments.range)
    ledger = None if arguments.range else where.ledger()
    clusters = Clusters(where.source, where.output)
    return audit(reports, clusters, arguments.places, ledger, known.values())


def _by_hand(arguments: argparse.Namespace) -> Where:
    if arguments.checkpoint is None:
        raise SettingError(
            "name the DAG file of a load, the --checkpoint of one that was run by hand, or the --table that another "
            "program wrote"
        )
    source, output = _clusters(arguments)
    store = store_in("by hand", open_location(arguments.checkpoint))
    return Where(arguments.checkpoint, source, output, store.ledger)


def _clusters(arguments: argparse.Namespace) -> tuple[KafkaConfig, KafkaConfig]:
    """Those of the source and of the output."""
    options = {**_of_environment(), **_options(arguments.option, "--option")}
    of_sink = {name.removeprefix(OF_THE_SINK): options.pop(name) for name in [*options] if name.startswith(OF_THE_SINK)}
    source = KafkaConfig.from_options(options)
    return source, KafkaConfig.from_options({**of_sink, **_options(arguments.sink_option, "--sink-option")}, source)


def _of_environment() -> dict[str, str]:
    try:
        given = json.loads(os.environ.get(OPTIONS_VARIABLE) or "{}")
        return {str(name): str(value) for name, value in given.items()}
    except (ValueError, AttributeError):
        raise SettingError(f"{OPTIONS_VARIABLE} must be a JSON object of options, which it is not") from None


def _options(given: Sequence[str], of: str) -> dict[str, str]:
    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise SettingError(f"{of} takes name=value, found {text!r}")
        found[name] = value
    return found


def _from_dag_file(arguments: argparse.Namespace) -> Where:
    from ...hooks.ordered_kafka import OrderedKafkaHook

    with airflow():
        load, tasks = defined_in(arguments.dag_file, arguments.load)
        named = (getattr(each, "checkpoint", None) for each in tasks)
        found = arguments.checkpoint or next(filter(None, named), None)
        outputs = (getattr(getattr(each, "to", None), "kafka_conn_id", None) for each in tasks)
        output = next(filter(None, outputs), load.kafka_conn_id)
        source = OrderedKafkaHook(load.kafka_conn_id).config
        to = OrderedKafkaHook(output).config
        return Where(found or local_root(load.name), source, to, partial(_ledger_of, load), load.name)


def _ledger_of(load: OrderedLoad) -> Ledger | None:
    with airflow():
        return store_of(load.name, location_for(load.name, load.ledger) or AIRFLOW).ledger()


def _known(where: Where) -> dict[str, Report | None]:
    """The last report of each range, in the order in which they were begun."""
    found = {
        report.range_id if report is not None else name: report
        for name, report in sorted(reports_at(where.checkpoint).items(), key=_begun)
        if report is None or where.load is None or report.range.load == where.load
    }
    if not found:
        raise SettingError(
            f"there is no range at {where.checkpoint!r}: name the --checkpoint that the load was run with"
        )
    return found


def _chosen(found: Mapping[str, Report | None], where: Where, range_id: str) -> dict[str, Report | None]:
    if range_id not in found:
        hint = meant(range_id, found, f"there are {', '.join(found)}")
        raise SettingError(f"there is no range {range_id!r} at {where.checkpoint!r}; {hint}")
    return {range_id: found[range_id]}


def _begun(item: tuple[str, Report | None]) -> tuple[int, str]:
    name, report = item
    return (2**63 if report is None else report.started_at, name)
