"""See it work: a shop's flash sale in a real Kafka, loaded in time order by the example DAG, checked event by event.

Starts a broker on this machine, writes two topics of a shop, runs the example DAG twice with new events in between,
and compares the order of its output with that of a plain reader. Takes about two minutes and stops what it started.
"""

import argparse
import sys
import textwrap
import traceback
from pathlib import Path

from airflow_provider_orderedkafka.demo.errors import DemoError
from airflow_provider_orderedkafka.errors import OrderedKafkaError, SettingError

EVENTS = 240_000
LEAST_EVENTS = 48_000
"""A quarter of them is the second chapter, and the example DAG waits for 10,000 new offsets."""

SEED = 7
_WIDTH, _LINES = 96, 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare where it writes, and how large the story is."""
    parser.add_argument(
        "--directory", type=Path, default=Path(".demo"), help="where everything is written (default: %(default)s)"
    )
    parser.add_argument("--events", type=int, default=EVENTS, help="how many events are told (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=SEED, help="another seed, another story (default: %(default)s)")


def run(arguments: argparse.Namespace) -> int:
    """Play it; 0 when every promise was kept, else 1."""
    if arguments.events < LEAST_EVENTS:
        raise SettingError(
            f"--events {arguments.events} is too few: from {LEAST_EVENTS} on, each of the two runs has the 10,000 new "
            "offsets that the example DAG waits for"
        )
    from airflow_provider_orderedkafka.demo.interrupts import remembered
    from airflow_provider_orderedkafka.demo.place import Place
    from airflow_provider_orderedkafka.demo.play import Play
    from airflow_provider_orderedkafka.demo.screen import Screen

    with Place.claim(arguments.directory) as place, remembered() as check:
        screen = Screen(sys.stdout, check)
        try:
            return 0 if Play(place, screen, arguments.events, arguments.seed).run() else 1
        except KeyboardInterrupt:
            screen.say(f"\nStopped; nothing runs on. The log is {place.shown(place.log)}")
            raise
        except OrderedKafkaError as error:
            raise DemoError(f"{_brief(str(error))}\nThe log is {place.shown(place.log)}") from error
        except Exception as error:  # whatever it is: a person gets the reason, the log the rest
            place.note(traceback.format_exc())
            raise DemoError(
                f"{_brief(f'{type(error).__name__}: {error}')}\nThe log is {place.shown(place.log)}"
            ) from error


def _brief(reason: str) -> str:
    """A reason in a few lines; the log has all of it."""
    return "\n".join(textwrap.wrap(reason, _WIDTH, max_lines=_LINES, placeholder=" ..."))
