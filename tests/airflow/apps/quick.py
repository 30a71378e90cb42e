"""An application for the tests: writes a line for each run, and a report, without starting Spark.

Beside the arguments of the packaged applications, which are read as they read them, it takes `--diary FILE`, where it
writes what it was given, and `--orders FILE`, whose lines say what the next runs do: `fail CODE`, `note CODE`
(which fails once a batch is noted), `die`, `hang` or `doubt`; otherwise it succeeds.
"""

import argparse
import json
import os
import signal
import sys
import time
from dataclasses import replace
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

from airflow_provider_orderedkafka.core.progress import Progress
from airflow_provider_orderedkafka.spark.application.command import read_arguments
from airflow_provider_orderedkafka.spark.state.checkpoint import Checkpoint
from airflow_provider_orderedkafka.storage import LocalState

sys.path.append(str(Path(__file__).parents[2]))  # it runs in a process of its own

from support.runs import a_report


def main():
    parser = argparse.ArgumentParser()
    for name in ("diary", "orders"):
        parser.add_argument(f"--{name}")
    own, argv = parser.parse_known_args()
    given = read_arguments(argv, "quick.py")
    loaded, attempt = given.range, given.attempt or 1
    with Path(own.diary).open("a") as diary:
        diary.write(json.dumps(an_entry(given, argv)) + "\n")
    print(a_progress(loaded, attempt).line, flush=True)
    order = next_order(own.orders)
    if order[0] == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if order[0] == "hang":
        time.sleep(600)
    checkpoint = Path(given.checkpoint)
    checkpoint.mkdir(parents=True, exist_ok=True)
    failed = order[0] in {"fail", "note"}
    if order[0] == "note":
        (checkpoint / "notes").mkdir(exist_ok=True)
        (checkpoint / "notes" / "1.json").write_text("{}")
    report = a_report(loaded, attempt, complete=not failed)
    if order[0] == "doubt":
        report = replace(report, dead_letters=2, may_be_doubled=3, may_be_out_of_order=4, lost=5)
        report = replace(report, core_ms=6_000, bytes_written=7)
    Checkpoint(LocalState(checkpoint)).put_report(report)
    sys.exit(int(order[1]) if failed else 0)


def an_entry(given, argv):
    environment = json.loads(os.environ.get("ORDEREDKAFKA_OPTIONS", "{}"))
    return {
        "range": given.range.id,
        "offsets": given.range.offsets,
        "attempt": given.attempt or 0,
        "job": given.job.to_value(),
        "checkpoint": given.checkpoint,
        "function": given.transform_name,
        "rest": [each for flag, each in pairwise(["", *argv, ""]) if not {flag, each} & {"--work", "--attempt", ""}],
        "options": sorted(environment),
        "secret": sha256(environment.get("kafka.sasl.password", "").encode()).hexdigest(),
        "pid": os.getpid(),
    }


def next_order(path):
    if path is None or not Path(path).exists():
        return ["succeed"]
    first, *others = [*Path(path).read_text().splitlines(), ""]
    Path(path).write_text("\n".join(filter(None, others)))
    return first.split() or ["succeed"]


def a_progress(loaded, attempt):
    return Progress(
        range_id=loaded.id,
        attempt=attempt,
        batch=1,
        offsets_done=loaded.offsets,
        offsets_planned=loaded.offsets,
        rows_read=loaded.offsets,
        rows_emitted=loaded.offsets,
        late=0,
        rows_per_second=1,
        order_time=None,
        seconds_left=None,
        batches=1,
    )


if __name__ == "__main__":
    main()
