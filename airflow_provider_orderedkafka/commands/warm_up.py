"""Let Spark start sooner on this machine: write its classes down once, as they lie in memory, for loads to start from.

Takes Java 17 or newer, half a minute or so, and some 170 MB of the cache directory. Run it again after Spark or Java
changed: until then loads start as they did without.
"""

import argparse
import time

from airflow_provider_orderedkafka.quick_start import archive, make

_MEGABYTE = 1_000_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what may be chosen."""
    parser.add_argument("--remove", action="store_true", help="delete what was written down")


def run(arguments: argparse.Namespace) -> int:
    """Write the classes down, or delete them."""
    if arguments.remove:
        there = archive().exists()
        archive().unlink(missing_ok=True)
        print(f"{archive()} {'is deleted' if there else 'was not there'}.")
        return 0
    print("Spark starts once, and its classes are written down (half a minute or so) ...", flush=True)
    begun = time.monotonic()
    made = make()
    size, seconds = made.stat().st_size / _MEGABYTE, time.monotonic() - begun
    print(f"{made} is there: {size:.0f} MB, in {seconds:.0f} s. Loads in client mode start from it now.")
    return 0
