"""See it work: load the events of a shop's flash sale in time order, and check each of them.

Starts a Kafka broker on this machine, writes events to two topics, runs the example DAG twice with new events in
between, and compares its output with what a plain reader gets. Takes about two minutes, and stops what it started.
"""

import argparse
import sys
import textwrap
import traceback
from pathlib import Path

from airflow_provider_orderedkafka.errors import FINAL, OrderedKafkaError, SettingError
from airflow_provider_orderedkafka.tools.demo import DemoError

EVENTS = 240_000
LEAST_EVENTS = 48_000
"""The second run gets a quarter of them, and the example DAG waits for 10,000 new offsets."""

SEED = 7
_WIDTH, _LINES = 96, 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--directory",
        type=Path,
        default=Path(".demo"),
        help="directory for all its files (default: %(default)s)",
    )
    parser.add_argument("--events", type=int, default=EVENTS, help="number of events (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=SEED, help="seed of the random events (default: %(default)s)")


def run(arguments: argparse.Namespace) -> int:
    """Run the demo; return 0 if every promise was kept."""
    if arguments.events < LEAST_EVENTS:
        raise SettingError(
            f"--events {arguments.events} is too few, expected {LEAST_EVENTS} or more: each of the two runs needs the "
            "10,000 new offsets that the example DAG waits for"
        )
    from airflow_provider_orderedkafka.tools.demo.place import Place
    from airflow_provider_orderedkafka.tools.demo.play import Play
    from airflow_provider_orderedkafka.tools.demo.screen import Screen, remembered

    with Place.claim(arguments.directory) as place, remembered() as check:
        screen = Screen(sys.stdout, check)
        try:
            return 0 if Play(place, screen, arguments.events, arguments.seed).run() else FINAL
        except KeyboardInterrupt:
            screen.say(f"\nStopped; nothing is left running. The log is {place.shown(place.log)}")
            raise
        except Exception as error:  # people get the reason, the log gets the traceback
            place.note(traceback.format_exc())
            reason = str(error) if isinstance(error, OrderedKafkaError) else f"{type(error).__name__}: {error}"
            raise DemoError(f"{_brief(reason)}\nThe log is {place.shown(place.log)}") from error


def _brief(reason: str) -> str:
    """Shorten a reason to a few lines; the log has all of it."""
    return "\n".join(textwrap.wrap(reason, _WIDTH, max_lines=_LINES, placeholder=" ..."))
