"""Run a Kafka on this machine until Ctrl-C. It listens on the loopback address alone, and its data is kept."""

import argparse
import os
import signal
import sys
import time
from pathlib import Path

from airflow_provider_orderedkafka.errors import OrderedKafkaError

from . import LocalKafka
from .fetching import DEFAULT_VERSION

HOME = Path(__file__).resolve().parents[1] / ".cache" / "broker"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m broker", description=__doc__)
    port = os.environ.get("PORT") or "9092"
    parser.add_argument("--port", type=int, default=port, help="for clients (default: %(default)s)")
    parser.add_argument(
        "--directory", type=Path, default=HOME, help="for data, settings and log (default: %(default)s)"
    )
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with LocalKafka(arguments.directory, port=arguments.port) as kafka:
            print(f"Apache Kafka {DEFAULT_VERSION} serves at {kafka.bootstrap_servers}, until Ctrl-C.")
            print(
                f"Its data is kept in {kafka.directory}. `make sample PORT={arguments.port}` writes events of a shop.",
                flush=True,
            )
            while kafka.running:
                time.sleep(1)
        print(f"The broker has ended by itself; look at {kafka.brokers[0].log}.", file=sys.stderr)
    except KeyboardInterrupt:
        return 0
    except OrderedKafkaError as error:
        print(error, file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
