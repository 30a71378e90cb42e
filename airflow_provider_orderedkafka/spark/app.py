"""`run_available_now`: what an application calls to load a range, and all that happens then.

    from airflow_provider_orderedkafka.spark.app import run_available_now

    def only_paid(df):
        return df.where("get_json_object(cast(value as string), '$.state') = 'paid'")

    if __name__ == "__main__":
        run_available_now(only_paid)

The command line says what is read, where the rows go and where the state lies; `--help` lists it all.
"""

import signal
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from airflow_provider_orderedkafka.core.documents import Report
from airflow_provider_orderedkafka.errors import OrderedKafkaError, exit_code
from airflow_provider_orderedkafka.spark.command import Arguments, Transform, read_arguments
from airflow_provider_orderedkafka.spark.kafka_sink import kafka_sink
from airflow_provider_orderedkafka.spark.loading import Loader, MakeSink

INTERRUPTED = 130
SIGNALLED = 128


def run_available_now(
    transform: Transform | None = None,
    *,
    arrow_transform: Transform | None = None,
    sink: MakeSink = kafka_sink,
    argv: Sequence[str] | None = None,
) -> Report | None:
    """Load what the command line asks for, and return the report; end the process where that fails.

    :param transform: From DataFrame to DataFrame, without a shuffle; it keeps the column `_source`.
    :param arrow_transform: From `pyarrow.RecordBatch` to `pyarrow.RecordBatch`, instead.
    :param sink: Where the rows go: `kafka_sink` by default, `table_sink` for everything that Spark writes in batches.
    :param argv: The command line without the program's name; that of the process by default.
    """
    program = Path(sys.argv[0]).name
    if argv is None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _terminated)
    try:
        arguments = read_arguments(sys.argv[1:] if argv is None else argv, program)
        return Loader(_with(arguments, transform, arrow_transform), sink).load()
    except OrderedKafkaError as error:
        sys.stdout.flush()
        print(f"{program}: {error}", file=sys.stderr, flush=True)
        raise SystemExit(exit_code(error)) from None
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None


def _terminated(number: int, _: object) -> NoReturn:
    """End in order when told to: stop the tasks, let go of the lease."""
    raise SystemExit(SIGNALLED + number)


def _with(arguments: Arguments, transform: Transform | None, arrow_transform: Transform | None) -> Arguments:
    """The command line's transform wins over the program's."""
    if arguments.transform or arguments.arrow_transform:
        return arguments
    return replace(arguments, transform=transform, arrow_transform=arrow_transform)
