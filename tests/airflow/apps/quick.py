"""An application for the tests: writes a line for each run, and a report, without starting Spark.

Beside the arguments of the packaged applications it takes `--diary FILE`, where it writes what it was given, and
`--orders FILE`, whose lines say what the next runs do: `fail CODE`, `die`, `hang`, `doubt`; otherwise it succeeds.
"""

import argparse
import json
import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

from airflow_provider_orderedkafka.core.codec import PACKED, unpacked
from airflow_provider_orderedkafka.core.documents import Range
from airflow_provider_orderedkafka.core.progress import Progress

sys.path.append(str(Path(__file__).parents[2]))  # it runs in a process of its own

from support.runs import a_report


def main():
    parser = argparse.ArgumentParser()
    for name in ("range", "checkpoint", "diary", "attempt"):
        parser.add_argument(f"--{name}", required=name in {"range", "checkpoint"})
    parser.add_argument("--orders")
    arguments, rest = parser.parse_known_args()
    loaded = the_range(arguments.range)
    environment = json.loads(os.environ.get("ORDEREDKAFKA_OPTIONS", "{}"))
    with Path(arguments.diary).open("a") as diary:
        line = {"range": loaded.id, "offsets": loaded.offsets, "attempt": int(arguments.attempt or 0), "rest": rest}
        diary.write(json.dumps({**line, "options": sorted(environment), "pid": os.getpid()}) + "\n")
    print(a_progress(loaded, int(arguments.attempt or 1)).line, flush=True)
    order = next_order(arguments.orders)
    if order[0] == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if order[0] == "hang":
        time.sleep(600)
    checkpoint = Path(arguments.checkpoint)
    checkpoint.mkdir(parents=True, exist_ok=True)
    failed = order[0] == "fail"
    report = a_report(loaded, int(arguments.attempt or 1), complete=not failed)
    if order[0] == "doubt":
        report = replace(report, dead_letters=2, may_be_doubled=3, may_be_out_of_order=4, lost=5)
    (checkpoint / "report.json").write_text(report.to_text())
    sys.exit(int(order[1]) if failed else 0)


def the_range(given):
    if given.startswith(PACKED):
        return Range.from_text(unpacked(given))
    return Range.from_text(given if given.startswith("{") else Path(given).read_text())


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
    )


if __name__ == "__main__":
    main()
