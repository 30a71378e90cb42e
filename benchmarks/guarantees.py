"""What it costs to write exactly once: the application with both guarantees, in both lanes.

    python -m benchmarks.guarantees                                 1 million x 1 kB, medians of five alternating runs
    python -m benchmarks.guarantees --records 5000000 --size 100

Order and completeness of each output are checked, as `read_committed` sees it, before any time is printed.
"""

import statistics
import tempfile
from pathlib import Path

from pyspark.sql import DataFrame

from benchmarks.copying import application
from benchmarks.peers import options, session
from benchmarks.writing import Contender, compared, fill
from broker import LocalKafka

TARGET = 1.10
"""At most this share of the time, and of the processor's, of at least once."""


def unchanged(frame: DataFrame) -> DataFrame:
    return frame


LANES = {"direct lane": {}, "DataFrame lane": {"transform": unchanged}}
GUARANTEES = ("at_least_once", "exactly_once")


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--size", type=int, default=1_000, help="bytes of a value")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, LocalKafka(Path(directory) / "kafka") as kafka:
        servers = kafka.bootstrap_servers
        fill(servers, "source", arguments.records, arguments.size)
        spark = session(Path(directory))
        contenders = [
            Contender(
                f"{lane}, {guarantee}",
                application(Path(directory), "--sink-option", f"guarantee={guarantee}", lane=lane, **how),
                keeps_timestamps=True,
            )
            for lane, how in LANES.items()
            for guarantee in GUARANTEES
        ]
        how = {"runs": arguments.runs, "size": arguments.size}
        found = compared(spark, servers, "source", arguments.records, contenders, **how)
        spark.stop()
    for lane in LANES:
        before, after = (
            [statistics.median(column) for column in zip(*found[f"{lane}, {guarantee}"], strict=True)]
            for guarantee in GUARANTEES
        )
        wall, worked = (now / then for now, then in zip(after, before, strict=True))
        print(
            f"{lane:16} {before[0]:6.1f} -> {after[0]:6.1f} s ({wall:4.2f}), processor {before[1]:6.1f} -> "
            f"{after[1]:6.1f} s ({worked:4.2f}); target {TARGET}; complete and in order"
        )


if __name__ == "__main__":
    main()
