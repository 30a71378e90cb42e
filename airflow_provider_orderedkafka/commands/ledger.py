"""Show a load's ledger; give its open range up; move it; take it up again from its mirror.

Needs Airflow's configuration (AIRFLOW_HOME) and its metadata database; rewind and restore need Kafka too.
"""

import argparse
import getpass
import sys
from collections.abc import Callable

from airflow_provider_orderedkafka import operations
from airflow_provider_orderedkafka.commands.at_airflow import airflow, store_of
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.ledger import LedgerStore

START_HELP = "'earliest', 'latest', a moment ('2026-01-31T12:00:00Z'), a time ago ('-2h'), or offsets as JSON"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare `show`, `abandon`, `rewind` and `restore`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="show|abandon|rewind|restore")
    show = actions.add_parser("show", help="say where the load stands, and what happened last")
    show.add_argument("--json", action="store_true", help="the document itself")
    abandon = actions.add_parser("abandon", help="give the open range up: the next run plans anew from the ledger")
    rewind = actions.add_parser("rewind", help="move the ledger: shows what that means, and asks")
    where = rewind.add_mutually_exclusive_group(required=True)
    where.add_argument("--to", metavar="PLACE", help=START_HELP)
    where.add_argument("--to-current", action="store_true", help="stay, but let another DAG take the load over")
    rewind.add_argument("--topic", action="append", default=[], help="move only this topic; may be given several times")
    restore = actions.add_parser("restore", help="take a lost ledger up again from its mirror in the consumer group")
    for action in (rewind, restore):
        action.add_argument("--kafka-conn-id", default="kafka_default", help="default: %(default)s")
    for action in (abandon, rewind, restore):
        action.add_argument("--reason", required=True, help="why, in a few words; it is kept with the ledger")
        action.add_argument("--yes", action="store_true", help="do not ask")
    for action in (show, abandon, rewind, restore):
        action.add_argument("load", help="the load's name")


def run(arguments: argparse.Namespace) -> int:
    """Do what was asked for."""
    with airflow():
        return _ACTIONS[arguments.action](arguments, store_of(arguments.load))


def _show(arguments: argparse.Namespace, store: LedgerStore) -> int:
    ledger = operations.ledger_of(store)
    print(ledger.to_text() if arguments.json else operations.shown(ledger))
    return 0


def _abandon(arguments: argparse.Namespace, store: LedgerStore) -> int:
    ledger = operations.ledger_of(store)
    print(operations.shown(ledger).split("\nstands at")[0])
    _agreed(arguments, "Give the open range up?")
    return _done(operations.abandon(store, _person(arguments)).revision)


def _rewind(arguments: argparse.Namespace, store: LedgerStore) -> int:
    from airflow_provider_orderedkafka.hooks.ordered_kafka import OrderedKafkaHook

    ledger = operations.ledger_of(store)
    hook = OrderedKafkaHook(arguments.kafka_conn_id)
    place, topics = ledger.place, operations.NO_TOPICS
    if not arguments.to_current:
        found = hook.resolve(arguments.to, operations.named(ledger, arguments.topic))
        place, topics = operations.rewound_place(ledger, found.place.offsets, found.topics), found.topics
    print(operations.preview(ledger, place, topics))
    _agreed(arguments, "Move the ledger?")
    return _done(operations.rewind(store, hook.mirror(store.load), _person(arguments), place, topics).revision)


def _restore(arguments: argparse.Namespace, store: LedgerStore) -> int:
    from airflow_provider_orderedkafka.hooks.ordered_kafka import OrderedKafkaHook

    hook = OrderedKafkaHook(arguments.kafka_conn_id)
    mirror = hook.mirror(store.load)
    mirrored = mirror.read()
    if mirrored is not None:
        print(f"the mirror is at revision {mirrored.revision}, with {mirrored.rows:,} rows written")
        _agreed(arguments, "Take it up?")
    topics = {} if mirrored is None else hook.topic_ids(mirrored.place.offsets.topics)
    return _done(operations.restore(store, mirror, _person(arguments), mirrored, topics).revision)


_ACTIONS: dict[str, Callable[[argparse.Namespace, LedgerStore], int]] = {
    "show": _show,
    "abandon": _abandon,
    "rewind": _rewind,
    "restore": _restore,
}


def _person(arguments: argparse.Namespace) -> operations.Person:
    from airflow_provider_orderedkafka.context import now_ms
    from airflow_provider_orderedkafka.metadata import run_is_active

    return operations.Person(getpass.getuser(), arguments.reason, now_ms(), run_is_active)


def _agreed(arguments: argparse.Namespace, question: str) -> None:
    if arguments.yes:
        return
    if not sys.stdin.isatty():
        raise SettingError("there is nobody to ask: add --yes to go on without")
    if input(f"{question} [y/N] ").strip().lower() not in {"y", "yes"}:
        raise SettingError("nothing was changed")


def _done(revision: int) -> int:
    print(f"done: the ledger is at revision {revision}")
    return 0
