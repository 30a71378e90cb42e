"""What very many partitions cost, from the look for new records to the commit, by a log that answers at once.

    python -m benchmarks.many_partitions                       1,250 to 20,000 partitions of 100,000 offsets each
    python -m benchmarks.many_partitions --json scale.json     and keep what was found

Each number of partitions has a process of its own: its time is the processor's, its memory is all that the process had.
`first batch` is what an application does before its first task: the ends of the first batches, the slices of the first.
"""

import argparse
import json
import multiprocessing
import resource
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.large import STEPS, Large

PARTITIONS, EACH = (1_250, 2_500, 5_000, 10_000, 20_000), 100_000
FIRST_BATCH = ("plan_batches", "slices")
MOST_SECONDS, MOST_MIB = 5, 1_024
"""For the first batch of 10,000 partitions."""


def measured(partitions: int, each: int) -> dict[str, float]:
    """The seconds of each step, the questions of the first batch, and the memory of the process."""
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        large = Large(partitions, each, Path(folder))
        assert large.range.offsets == partitions * each
        assert large.counts.end.offsets != large.report.stop.offsets == large.range.end.offsets
        for name, step in STEPS.items():
            begun, asked = time.process_time(), large.log.asked
            step(large)
            found[name] = time.process_time() - begun
            found[f"{name}, questions"] = large.log.asked - asked
    found["first batch"] = sum(found[name] for name in FIRST_BATCH)
    found["questions"] = sum(found[f"{name}, questions"] for name in FIRST_BATCH)
    found["all other steps"] = sum(found[name] for name in STEPS if name not in FIRST_BATCH)
    return found | {"MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    found = {}
    for partitions in PARTITIONS:
        with multiprocessing.get_context("spawn").Pool(1) as alone:
            found[partitions] = now = alone.apply(measured, (partitions, EACH))
        steps = ", ".join(f"{name} {now[name]:.2f} s" for name in ("first batch", "all other steps"))
        print(
            f"{partitions:,} x {EACH:,} offsets: {steps}, {now['questions']:.0f} questions, {now['MiB']:.0f} MiB",
            flush=True,
        )
    if arguments.json:
        arguments.json.write_text(json.dumps(found))
    return int(found[10_000]["first batch"] > MOST_SECONDS or found[10_000]["MiB"] > MOST_MIB)


if __name__ == "__main__":
    sys.exit(main())
