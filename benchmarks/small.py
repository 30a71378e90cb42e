"""What a small load takes, from spark-submit to its end, phase by phase: 3,000 records into a topic, and into Delta.

    python -m benchmarks.small                   medians of five alternating runs
    python -m benchmarks.small --runs 1

Every run is a process of its own, started with spark-submit, as Airflow does, beside one of an empty session. Each is
run as Java comes, with its first compiler alone, and so from an archive of the classes that such a load needs; the
archives are made first. The processor's time is that of the whole process and of the broker.
"""

import statistics
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks import writing
from benchmarks.peers import options
from benchmarks.processor import processor
from benchmarks.starting import EMPTY, EMPTY_SESSION, ROOT, ready, submit
from benchmarks.tables import LAKES
from broker import LocalKafka

RECORDS = 3_000
JAVA = "spark.driver.extraJavaOptions"
PHASES = {
    "the application runs": "Spark is starting",
    "its output is known": " lane: ",
    "its batch is loaded": "batch 1 of 1:",
    "its report is there": ": complete",
}
"""What is reached once a line like this is printed."""

QUICK = "-XX:TieredStopAtLevel=1"
WAYS = ("as Java comes", "first compiler", "first compiler, archive")
DELTA = ["--packages", LAKES["delta"].package]
DELTA += [f"--conf={'='.join(each)}" for each in LAKES["delta"].settings.items()]


class Small:
    """Runs small loads of one topic on one broker."""

    def __init__(self, folder: Path, servers: str) -> None:
        self._folder, self._servers = folder, servers
        writing.fill(servers, "source", RECORDS)

    def java(self, what: str, way: str, *, make: bool = False) -> list[str]:
        """What is given to spark-submit for a way to run Java."""
        archive = self._folder / f"{what.replace(' ', '-')}.jsa"
        of = {WAYS[0]: "", WAYS[1]: QUICK, WAYS[2]: f"{QUICK} -XX:SharedArchiveFile={archive}"}
        asked = f"{QUICK} -XX:ArchiveClassesAtExit={archive}" if make else of[way]
        return ["--conf", f"{JAVA}={asked}"] if asked else []

    def load(self, what: str, java: Sequence[str]) -> list[float]:
        """The seconds after which each phase was reached, and the process had ended; and those of the processor."""
        output = writing.make(self._servers, f"output-{uuid.uuid4().hex}")
        to_topic = what == "a topic"
        asked = {"kafka.bootstrap.servers": self._servers, "subscribe": "source", "startingOffsets": "earliest"}
        argv = [f"--option={'='.join(each)}" for each in asked.items()] + ["--checkpoint", str(self._folder / output)]
        argv += ["--output", f"topic:{output}" if to_topic else f"delta:{self._folder / f'table-{output}'}"]
        program = ROOT / "spark_apps" / ("ordered_replay.py" if to_topic else "ordered_table.py")
        begun, before = time.perf_counter(), processor()
        process = submit(self._folder, *([] if to_topic else DELTA), *java, str(program), *argv)
        assert process.stdout is not None
        lines = [(time.perf_counter() - begun, line) for line in process.stdout]
        assert process.wait(60) == 0, (self._folder / "errors").read_text()
        ended = time.perf_counter() - begun
        reached = [next(seconds for seconds, line in lines if said in line) for said in PHASES.values()]
        return [*reached, ended, processor() - before]

    def empty(self, java: Sequence[str]) -> list[float]:
        taken = ready(self._folder, EMPTY, *java)
        return [taken.first, taken.processor]


def main() -> None:
    arguments = options(__doc__).parse_args()
    taken: dict[tuple[str, str], list[list[float]]] = {}
    with tempfile.TemporaryDirectory() as work, LocalKafka(Path(work) / "kafka") as kafka:
        small = Small(Path(work), kafka.bootstrap_servers)
        for what in ("a topic", "Delta"):
            small.load(what, small.java(what, "", make=True))
            small.empty(small.java(f"{what} empty", "", make=True))
        for _ in range(arguments.runs):
            for what in ("a topic", "Delta"):
                for way in WAYS:
                    empty = small.java(f"{what} empty", way)
                    taken.setdefault((EMPTY_SESSION, way), []).append(small.empty(empty))
                    taken.setdefault((what, way), []).append(small.load(what, small.java(what, way)))
    report(taken)


def report(taken: Mapping[tuple[str, str], Sequence[Sequence[float]]]) -> None:
    print(f"{RECORDS:,} records; seconds since spark-submit, medians")
    for (what, way), runs in taken.items():
        *reached, worked = (statistics.median(column) for column in zip(*runs, strict=True))
        names = ["the session is there"] if what == EMPTY_SESSION else [*PHASES, "it ended"]
        phases = ", ".join(f"{name} {seconds:.1f}" for name, seconds in zip(names, reached, strict=True))
        print(f"  {what}, {way}: {phases}; processor {worked:.1f} s")


if __name__ == "__main__":
    main()
