"""Show, abandon, rewind, restore or move the ledger of a load, or show who did that and why.

Needs Airflow's configuration (AIRFLOW_HOME) and its metadata database; rewind and restore need Kafka, too.
"""

import argparse
import getpass
import json
import sys
from collections.abc import Callable

from ...context import now_ms
from ...core.codec import for_programs
from ...core.notation.spelling import counted
from ...errors import SettingError
from ...load import check_absolute
from ...loads import ledger_operations
from ...loads.ledger import AIRFLOW, LedgerStore, setting_for
from .at_airflow import airflow, place_of, run_is_active, store_of

TO_HELP = (
    "'earliest', 'latest', a timestamp ('2026-01-31T12:00:00Z'), a time ago ('-2h'), or offsets as JSON; 'current' "
    "keeps the position, and lets another DAG take the load over"
)

AT_HELP = "where the ledger is: a location, or 'airflow' (default: where the load's DAG says)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="show|history|abandon|rewind|restore|move")
    abouts = {
        "show": "show how far the load has come, and its latest runs",
        "history": "show how its ranges ended, and who moved it: when, by whom and why",
        "abandon": "give the open range up; the next run plans a new one from the ledger",
        "rewind": "move the ledger back or ahead; shows what changes, and asks",
        "restore": "restore a lost ledger from its copy in the consumer group",
        "move": "move the ledger to another store; no range may be open",
    }
    found = {name: actions.add_parser(name, help=about, description=about) for name, about in abouts.items()}
    show, history, abandon, rewind, restore, move = found.values()
    rewind.add_argument("--to", required=True, metavar="PLACE", help=TO_HELP)
    rewind.add_argument("--topic", action="append", default=[], help="rewind only this topic; can be repeated")
    move.add_argument("--to", required=True, metavar="LOCATION", help="where to: a location, or 'airflow'")
    move.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    for action in (rewind, restore):
        action.add_argument(
            "--kafka-conn-id", metavar="ID", default="kafka_default", help="Kafka connection (default: %(default)s)"
        )
    for action in (abandon, rewind, restore):
        action.add_argument("--reason", required=True, help="why, in a few words, for the ledger's history")
        action.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    for action in (show, history, abandon, rewind, restore, move):
        action.add_argument("load", help="name of the load")
        action.add_argument("--json", action="store_true", help="print the result as JSON")
        action.add_argument("--from" if action is move else "--at", dest="at", metavar="LOCATION", help=AT_HELP)


def run(arguments: argparse.Namespace) -> int:
    with airflow():
        return _ACTIONS[arguments.action](arguments, store_of(arguments.load, arguments.at))


def _show(arguments: argparse.Namespace, store: LedgerStore) -> int:
    ledger = ledger_operations.ledger_of(store)
    shown = (
        json.dumps(ledger.for_programs())
        if arguments.json
        else ledger_operations.shown(ledger, ledger_operations.opened_range(store, ledger))
    )
    print(shown)
    return 0


def _history(arguments: argparse.Namespace, store: LedgerStore) -> int:
    found = ledger_operations.ledger_of(store).outcomes[::-1]
    as_json = json.dumps(for_programs(found))
    print(as_json if arguments.json else ledger_operations.history(found))
    return 0


def _abandon(arguments: argparse.Namespace, store: LedgerStore) -> int:
    ledger = ledger_operations.ledger_of(store)
    person = _person(arguments)
    _say(arguments, ledger_operations.preview_of_abandon(ledger))
    if ledger_operations.objection(ledger, "abandon", person.is_active) is None:
        _agreed(arguments, "Abandon the open range?")
    return _done(arguments, ledger_operations.abandon(store, person, ledger).revision)


def _rewind(arguments: argparse.Namespace, store: LedgerStore) -> int:
    from ...hooks.ordered_kafka import OrderedKafkaHook

    ledger = ledger_operations.ledger_of(store)
    hook = OrderedKafkaHook(arguments.kafka_conn_id)
    found = ledger_operations.place_to_go(store, ledger, arguments.to, arguments.topic, hook.resolve)
    _say(arguments, ledger_operations.preview(ledger, found.place, found.topics))
    _agreed(arguments, "Move the ledger?")
    mirror, person = hook.mirror(store.load), _person(arguments)
    after = ledger_operations.rewind(store, mirror, person, ledger, found.place, topics=found.topics)
    return _done(arguments, after.revision)


def _restore(arguments: argparse.Namespace, store: LedgerStore) -> int:
    from ...hooks.ordered_kafka import OrderedKafkaHook

    hook = OrderedKafkaHook(arguments.kafka_conn_id)
    mirror = hook.mirror(store.load)
    mirrored = mirror.read()
    if mirrored is not None:
        rows = counted(mirrored.rows, "row")
        _say(arguments, f"the mirror is at revision {mirrored.revision}, with {rows} written")
        _agreed(arguments, "Restore the ledger from it?")
    topics = {} if mirrored is None else hook.topic_ids(mirrored.place.offsets.topics)
    return _done(arguments, ledger_operations.restore(store, mirror, _person(arguments), mirrored, topics).revision)


def _move(arguments: argparse.Namespace, store: LedgerStore) -> int:
    to = arguments.to.rstrip("/")
    if to != AIRFLOW:
        check_absolute(to, "ledger")
    if to == place_of(arguments.load, arguments.at).rstrip("/"):
        raise SettingError(
            f"the ledger of load {arguments.load!r} is already at {to!r}: if its DAG names the new location "
            "already, name the old one with --from"
        )
    _say(arguments, f"load {arguments.load}: pause its DAG first; after the move, runs that use the old ledger fail")
    _agreed(arguments, f"Move the ledger to {to!r}?")
    ledger_operations.move(store, store_of(arguments.load, to), to)
    done = f"done: the ledger is at {to!r}; {setting_for(to)} in its OrderedLoad"
    print(json.dumps({"load": arguments.load, "ledger": to}) if arguments.json else done)
    return 0


_ACTIONS: dict[str, Callable[[argparse.Namespace, LedgerStore], int]] = {
    "show": _show,
    "history": _history,
    "abandon": _abandon,
    "rewind": _rewind,
    "restore": _restore,
    "move": _move,
}


def _person(arguments: argparse.Namespace) -> ledger_operations.Person:
    return ledger_operations.Person(getpass.getuser(), arguments.reason, now_ms(), run_is_active)


def _agreed(arguments: argparse.Namespace, question: str) -> None:
    if arguments.yes:
        return
    if not sys.stdin.isatty():
        raise SettingError("this needs a confirmation, and there is no terminal to ask on: add --yes")
    if input(f"{question} [y/N] ").strip().lower() not in {"y", "yes"}:
        raise SettingError("nothing was changed")


def _say(arguments: argparse.Namespace, text: str) -> None:
    """Say it to a person, also where a program reads what the command prints."""
    print(text, file=sys.stderr if arguments.json else sys.stdout)


def _done(arguments: argparse.Namespace, revision: int) -> int:
    done = f"done: the ledger is at revision {revision}"
    print(json.dumps({"load": arguments.load, "revision": revision}) if arguments.json else done)
    return 0
