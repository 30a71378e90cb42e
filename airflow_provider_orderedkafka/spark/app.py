"""`run_available_now`: load a range with your own transform.

    from airflow_provider_orderedkafka.spark.app import run_available_now

    def only_paid(df):
        return df.where("get_json_object(cast(value as string), '$.state') = 'paid'")

    if __name__ == "__main__":
        run_available_now(only_paid)

The command line names the topics, the output and the checkpoint; `--help` lists all arguments.
"""

import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from ..core.documents import Report
from ..core.notation.secrets import masked
from ..core.notation.spelling import arguments
from ..errors import TERMINATED, OrderedKafkaError, exit_code
from ..outputs import OPTIONS_VARIABLE
from .session.starting import lacking

if TYPE_CHECKING:
    from .application.attempt import MakeSink
    from .application.batch_loop import Writer
    from .lanes.frames import RangeFrames
    from .lanes.making import Arguments, Transform


@arguments()
def run_available_now(
    transform: "Transform | None" = None,
    *,
    arrow_transform: "Transform | None" = None,
    sink: "MakeSink | None" = None,
    argv: Sequence[str] | None = None,
) -> Report | None:
    """Load the range that the command line asks for, and return the report; exit the process if that fails.

    :param transform: A function from DataFrame to DataFrame. It must not shuffle, and must keep the column `_source`.
    :param arrow_transform: A function from `pyarrow.RecordBatch` to `pyarrow.RecordBatch` instead; faster.
    :param sink: Where the rows go. Default: what the command line names, to Kafka, tables or files; `table_sink` writes
        to tables and files alone.
    :param argv: The command line without the program's name. Default: `sys.argv[1:]`; the process is then the
        application's own, and what it starts does not inherit `ORDEREDKAFKA_OPTIONS`.
    """
    program = Path(sys.argv[0]).name
    if argv is None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _terminated)
    with in_one_line(program):
        try:  # for a Python that lacks packages: all of them in one message, and no traceback
            from .application.attempt import Loader
            from .application.command import read_arguments
        except ModuleNotFoundError as error:
            raise lacking(error) from error
        arguments = read_arguments(sys.argv[1:] if argv is None else argv, program)
        if argv is None:
            os.environ.pop(OPTIONS_VARIABLE, None)
        return Loader(arguments.with_functions(transform, arrow_transform), sink or _sink).load()


@contextmanager
def in_one_line(program: str) -> Iterator[None]:
    """Exit the process with the code of an error of ours, which is told in one line."""
    try:
        yield
    except OrderedKafkaError as error:
        sys.stdout.flush()
        print(f"{program}: {masked(str(error))}", file=sys.stderr, flush=True)
        raise SystemExit(exit_code(error)) from None
    except KeyboardInterrupt as error:
        raise SystemExit(exit_code(error)) from None


def _sink(arguments: "Arguments", frames: "RangeFrames") -> "Writer":
    """The sink that the output asks for, imported once it is known that this machine has numpy and pyarrow."""
    if arguments.job.table is None:
        from .lanes.kafka_lanes import writer_for

        return writer_for(arguments, frames)
    from .table_sink import table_sink

    return table_sink(arguments, frames)


def _terminated(*_: object) -> NoReturn:
    """Exit cleanly on SIGTERM: stop the tasks, release the lease."""
    raise SystemExit(TERMINATED)
