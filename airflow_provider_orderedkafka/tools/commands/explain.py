"""Explain an exit code, the name of an error, or a message: what it means, and what to do.

orderedkafka explain 75
orderedkafka explain DataLossError
orderedkafka explain "the log ends at orders[0]@3: records that were loaded are gone from Kafka"
"""

import argparse
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Final

from ... import errors
from ...core.notation.spelling import meant
from ...errors import OrderedKafkaError, SettingError


@dataclass(frozen=True, slots=True)
class Explained:
    what: str
    means: str
    do: str


_AGAIN = "Run it again: Airflow's retries do. If it stays, the message before it says what is missing."

CODES: Final[Mapping[int, tuple[str, str]]] = MappingProxyType(
    {
        0: ("It went well.", "Nothing."),
        1: ("Python or Spark ended by itself, before or beside the load.", "Look for the first error in the log."),
        errors.USAGE: (
            "A setting, an option or an argument is wrong.",
            "Do what the message says: a retry fails again.",
        ),
        errors.NOT_RUNNING: ("The broker for trying does not run.", "`orderedkafka broker start`"),
        errors.FINAL: ("A person has to decide or to mend something.", "Do what the message says, then run it again."),
        errors.TEMPORARY: ("A retry may succeed: something did not answer, or died.", _AGAIN),
        errors.INTERRUPTED: ("Ctrl-C ended it.", "Run it again: it goes on where it was."),
        errors.PIPE_CLOSED: ("Who read its output left, such as `head`.", "Nothing."),
        errors.TERMINATED: ("It was told to end (SIGTERM).", "Run it again: it goes on where it was."),
    }
)

TROUBLES: Final = (
    Explained(
        "is it up, can it be reached",
        "No broker answered at the address of the connection.",
        "Compare the address and `security.protocol` with the cluster's, from the machine that said it: "
        "`orderedkafka doctor`. A retry goes on where the load was.",
    ),
    Explained(
        "does not exist at",
        "There is no such topic, or the principal may not see it.",
        "Take the nearest name that the message offers, create the topic (`create=` for an output), or allow "
        "the principal to DESCRIBE it.",
    ),
    Explained(
        "that were loaded are gone from Kafka",
        "The log ends before the place up to which the load has come: the topic was emptied, or restored from an "
        "older copy.",
        "See what is there with `orderedkafka read`; then move the ledger with `orderedkafka ledger rewind <load> --to "
        "earliest --topic <topic>`.",
    ),
    Explained(
        "which is gone: the log starts at",
        "Retention deleted records before they were loaded.",
        "Set `on_data_loss='count'`, by hand `--option failOnDataLoss=false`: what is lost is counted, never skipped "
        "silently. Load more often, or keep records longer.",
    ),
    Explained(
        "cannot be decoded",
        "A record does not have the format or the schema that `decode=` names.",
        "Correct the format, or let some pass as dead letters: `max_bad_records` and `dead_letters` of Decode. "
        "`orderedkafka dead-letters <topic>` shows them.",
    ),
    Explained(
        "Python code in a task failed",
        "The transform, or a function that it calls, raised an error; behind it are the lines of your files, and which "
        "records the task was reading.",
        "Mend them, then clear the task `load`: it goes on with the same range, and leaves out what is written.",
    ),
    Explained(
        "died at work",
        "A Python worker or an executor ended, often for lack of memory.",
        "Give executors more memory (`spark.executor.memoryOverhead` is that of Python), or set a smaller "
        "`batch_offsets`. A retry goes on where the load was.",
    ),
    Explained(
        "or of spark.local.dir, is full",
        "There is no room for the checkpoint or for what Spark keeps meanwhile.",
        "Free some space, and run the task again. Do not delete the checkpoint: it knows what is written.",
    ),
    Explained(
        "has taken over this checkpoint",
        "A newer attempt loads the range, and this one has stopped.",
        "Nothing: follow the newer attempt.",
    ),
    Explained(
        "which is active: let it finish",
        "A DAG run holds the range, so nobody else may move or give up the ledger.",
        "Let the run finish, or mark it failed in Airflow first.",
    ),
    Explained(
        "belongs to DAG",
        "Another DAG loads under this name, and a name is one ledger.",
        "Give this load a name of its own; if the DAG was renamed, `orderedkafka ledger rewind <load> --to-current "
        "--reason renamed`.",
    ),
    Explained(
        "is defined by two files",
        "The same DAG stands in two files that Airflow parses, and they take turns.",
        "Delete one of them, or give DAG and load in it names of their own; `orderedkafka doctor --dags` finds others. "
        "If one of them does not define it any more, `orderedkafka ledger rewind <load> --to-current --reason moved`.",
    ),
    Explained(
        "has no ledger yet",
        "The load has not run yet, or its ledger was lost.",
        "Run it once; if it was lost, `orderedkafka ledger restore <load> --reason '...'` takes it up from the "
        "consumer group.",
    ),
    Explained(
        "is spent",
        "The load has written as many rows as `row_limit` allows.",
        "Raise the limit: the next range goes on where this one stopped.",
    ),
    Explained(
        "it was moved in between",
        "The ledger was rewound or restored while a run had its range.",
        "Clear the run's `resolve`: it plans a new range from where the ledger is now.",
    ),
    Explained(
        "no master answers at",
        "No address of the Spark connection answers from this worker: the cluster is down, or elsewhere.",
        "Nothing, if it comes back: no attempt was counted. Otherwise correct the connection's host.",
    ),
    Explained(
        "Spark finds no Java",
        "spark-submit needs a Java, by JAVA_HOME or on the PATH of Airflow's worker.",
        "Install Java 17 or newer there, or correct JAVA_HOME: `orderedkafka doctor` says what it finds.",
    ),
    Explained(
        "is for Spark",
        "A package in `packages=` was built for another Spark, or another Scala.",
        "Name the one for this Spark, as in the message, or the package's own Spark with `spark_binary=`.",
    ),
    Explained(
        "in Maven's repositories",
        "No repository has a package of `packages=` by that name in that version.",
        "Correct it: `group:name:version`. One of your own repositories is named with `repositories=`.",
    ),
    Explained(
        "Spark has no classes for",
        "The package of a table's format was not named, or does not bring its catalog.",
        "Name it with `packages=`, in the version for this Spark: Tables and files, in the documents.",
    ),
    Explained(
        "a package is missing, or is for another Spark",
        "Spark found classes of another version than it needs, or none.",
        "Compare each of `packages=` and `jars=` with the Spark and the Scala that `orderedkafka doctor` finds.",
    ),
    Explained(
        "gives other values in another attempt",
        "The transform uses the time, or chance: what is written again after a failure is not what was written before.",
        "Take such values from the record, such as `order_time`. A column with the time of loading does no harm.",
    ),
    Explained(
        "Spark knows no catalog",
        "The catalog of the table is not configured in this Spark.",
        "Set `spark.sql.catalog.<name>` in `conf=` or in the Spark connection, with the package of its format.",
    ),
)
"""What people meet, by a part of the message."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("what", nargs="+", help="an exit code, the name of an error, or a message")
    parser.add_argument("--json", action="store_true", help="print it as JSON")


def run(arguments: argparse.Namespace) -> int:
    found = explained(" ".join(arguments.what))
    if arguments.json:
        print(json.dumps([asdict(each) for each in found]))
    else:
        print("\n\n".join(f"{each.what}\n  {each.means}\n  -> {each.do}" for each in found))
    return 0


def explained(asked: str) -> list[Explained]:
    """All that is known about it; `SettingError` if that is nothing."""
    if asked.strip().isdecimal():
        return [_code(int(asked))]
    flat = " ".join(asked.split())
    kinds = [kind for name, kind in _kinds().items() if name.lower() in flat.lower()]
    troubles = [each for each in TROUBLES if each.what in flat]
    found = troubles or [_kind(kind) for kind in kinds[-1:]]
    if not found:
        known = "give an exit code, the name of an error, or a whole message; docs/trouble.md has them by symptom"
        raise SettingError(f"{asked!r} is not known: {meant(flat, _kinds(), known)}")
    return found


def _code(code: int) -> Explained:
    if code not in CODES:
        known = ", ".join(map(str, CODES))
        raise SettingError(f"exit code {code} is none of this project, which ends with {known}")
    means, do = CODES[code]
    return Explained(f"exit code {code}", means, do)


def _kinds() -> dict[str, type[OrderedKafkaError]]:
    """The errors by their names, the base class first."""
    found = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, OrderedKafkaError)]
    return {kind.__name__: kind for kind in found}


def _kind(kind: type[OrderedKafkaError]) -> Explained:
    code = errors.exit_code(kind())
    return Explained(f"{kind.__name__}, exit code {code}", str(kind.__doc__), CODES[code][1])
