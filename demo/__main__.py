"""See it work: load the events of a shop's flash sale in time order, and check each of them.

Starts a Kafka broker on this machine, writes events to two topics, runs the example DAG twice with new events in
between, and compares its output with what a plain reader gets. Takes about two minutes, and stops what it started.
"""

import argparse
import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

from airflow_provider_orderedkafka.core.documents import Report
from airflow_provider_orderedkafka.errors import OrderedKafkaError
from broker import LocalKafka
from demo import DemoError
from demo.picture import draw
from demo.shop import NOTHING, OUTPUT, TOPICS, Reading, Shop, read
from demo.story import Chapter, chapter
from demo.verdict import Loaded, Order, Story, judge, summary

EVENTS, LEAST_EVENTS = 240_000, 48_000
FIRST_SECONDS, SECOND_SECONDS, OFFLINE = 180, 20, 0.005
SETTLED_MS = 7_000
"""A run ends 5 s before the present (the example DAG's grace), so all events must be older than that."""

RUN_SECONDS = 300
BROKEN, USAGE, INTERRUPTED = 65, 2, 130
DAG = Path(__file__).resolve().parents[1] / "dags" / "orders_ordered.py"
Tell = Callable[[str], None]


def play(place: Path, events: int) -> bool:
    """The whole demo; whether every promise was kept."""
    began = time.monotonic()
    print(
        f"A shop's flash sale: {events:,} events in two topics, loaded in time order by one Airflow DAG.\n"
        "Kafka, Spark and Airflow are real, and run on this machine. It takes about two minutes.\n"
        f"Their log is {shown(place / 'demo.log')}\n"
    )
    with contextlib.ExitStack() as stack:
        with step("broker") as tell:
            kafka = stack.enter_context(LocalKafka(place / "kafka", announce=tell))
            tell(f"Apache Kafka is ready at {kafka.bootstrap_servers}")
        airflow = stack.enter_context(contextlib.closing(Airflow(place, kafka.bootstrap_servers)))
        shop = Shop(kafka.bootstrap_servers)

        began_selling = now_ms() - SETTLED_MS - 1_000 * FIRST_SECONDS
        before = sell(shop, chapter(0, began_selling, events - events // 4, FIRST_SECONDS))
        plain = look(shop, before)
        with step("Airflow") as tell:
            tell("setting up (since the broker started)")
            airflow.finish("airflow db migrate")
            tell("ready, with the example DAG")
        runs = [load(airflow, shop, before)]

        floor = runs[0].report.stop.floor.time
        after = sell(shop, chapter(len(before), floor, events // 4, SECOND_SECONDS, OFFLINE))
        plain = look(shop, after, plain)
        runs.append(load(airflow, shop, after))

        with step("plain reader") as tell:
            output = read(kafka.bootstrap_servers, [OUTPUT], lambda done: tell(f"{done:,} rows read from {OUTPUT}"))
    with step("check") as tell:
        story = Story.of([before, after], [run.report.stop.floor.time for run in runs])
        verdict = judge(story, plain, output, runs)
        tell(f"{len(story):,} events compared, one by one")
    with step("picture") as tell:
        picture = place / "before-and-after.png"
        draw(picture, story, {"Before: a plain reader": plain, "After: orderedkafka": output}, boundary=len(before))
        tell(f"drawn into {shown(picture)}")
    print(
        f"\n{summary(verdict)}\n\n"
        f"  picture  {shown(picture)}\n"
        f"  log      {shown(place / 'demo.log')}\n"
        f"  topics   make broker ARGS='--directory {shown(place / 'kafka')}'\n\n"
        f"Done in {time.monotonic() - began:.0f} s. Here the DAG ran in one process, with `airflow dags test`;\n"
        "`make ui` shows it under a real scheduler."
    )
    return not verdict.broken


def sell(shop: Shop, new: Chapter) -> Chapter:
    """Let the events happen, and write them."""
    what = f"{len(new):,} events written to {' and '.join(TOPICS)}"
    with step("shop") as tell:
        while (left := new.ends_at + SETTLED_MS - now_ms()) > 0:
            tell(f"selling for another {left / 1_000:.0f} s")
            time.sleep(min(0.2, left / 1_000))
        shop.write(new, lambda done: tell(f"{done:,} of {what}"))
        tell(what)
    return new


def look(shop: Shop, new: Chapter, earlier: Reading = NOTHING) -> Reading:
    """What a plain reader gets, after what it read earlier."""
    with step("plain reader") as tell:
        plain = read(shop.servers, TOPICS, lambda done: tell(f"{done:,} rows read as they come"), earlier)
        order = Order.of(new.times[plain.events[len(earlier.events) :] - new.first])
        tell(f"{order.rows:,} rows read as they come, {order.behind:,} of them after a later one")
    return plain


def load(airflow: "Airflow", shop: Shop, new: Chapter) -> Loaded:
    """Run the example DAG once."""
    began, before = time.monotonic(), shop.written()
    with step("DAG run") as tell:
        tell("Airflow and Spark are starting")

        def watch() -> None:
            if written := shop.written() - before:
                tell(f"{written:,} of {len(new):,} rows written")

        report = airflow.run(watch)
        tell(f"wait, resolve, load, commit: {report.rows_emitted:,} rows loaded, {report.late:,} late")
    return Loaded(time.monotonic() - began, report)


class Airflow:
    """An Airflow of the demo's own; it is set up while the first events are written."""

    def __init__(self, place: Path, servers: str) -> None:
        self._home = place / "airflow"
        (self._home / "dags").mkdir(parents=True)
        shutil.copy(DAG, self._home / "dags")
        self._log = (place / "demo.log").open("a", encoding="utf-8")
        self._environment = environment(self._home, servers)
        self._start("airflow", "db", "migrate")

    def run(self, watch: Callable[[], None]) -> Report:
        """Run the DAG, and return the report of its load."""
        before = self._reports()
        self._start("airflow", "dags", "test", "orders_ordered")
        self.finish("airflow dags test orders_ordered", watch)
        new = self._reports() - before
        if len(new) != 1:
            raise DemoError(f"the DAG run left {len(new)} reports instead of one")
        return Report.from_text(new.pop().read_text("utf-8"))

    def finish(self, name: str, watch: Callable[[], None] = lambda: None) -> None:
        """Wait for the command; `DemoError` if it fails or takes too long."""
        deadline = time.monotonic() + RUN_SECONDS
        while self._process.poll() is None:
            if time.monotonic() > deadline:
                raise DemoError(f"`{name}` did not end within {RUN_SECONDS} seconds")
            watch()
            time.sleep(0.2)
        if self._process.returncode:
            raise DemoError(f"`{name}` ended with exit code {self._process.returncode}")

    def close(self) -> None:
        """End the command with all that it started."""
        with contextlib.suppress(psutil.NoSuchProcess):
            for process in [*psutil.Process(self._process.pid).children(recursive=True), self._process]:
                process.kill()
        self._process.wait()
        self._log.close()

    def _start(self, *command: str) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - Airflow's own command
            command,
            env=self._environment,
            cwd=self._home,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,  # Ctrl-C is for the demo alone, which then ends this process
        )

    def _reports(self) -> set[Path]:
        return set(self._home.glob("orderedkafka/*/*/report.json"))


def environment(home: Path, servers: str) -> dict[str, str]:
    """The environment for Airflow and Spark, without settings of another Airflow or Spark in this shell."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "SPARK_", "PYSPARK_"))}
    return kept | {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(home / "dags"),
        "AIRFLOW__ORDEREDKAFKA__LEDGER": str(home / "ledgers"),
        "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": servers}}),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[*]"}),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


@contextlib.contextmanager
def step(name: str) -> Iterator[Tell]:
    """A step has one line, which ends with its last text and the time it took; a terminal sees each text at once."""
    began, last, live = time.monotonic(), "starting", sys.stdout.isatty()

    def line() -> str:
        return f"  {name:<14}{textwrap.shorten(last, 70, placeholder='...'):<70} {time.monotonic() - began:>6.1f} s"

    def tell(text: str) -> None:
        nonlocal last
        last = text
        if live:
            print(f"\r\x1b[2K{line()}", end="", flush=True)

    try:
        yield tell
    except BaseException:
        last = f"aborted: {last}"
        raise
    finally:
        print(f"\r\x1b[2K{line()}" if live else line(), flush=True)


@contextlib.contextmanager
def claimed(place: Path) -> Iterator[None]:
    """Keep the directory for this demo, and delete what an earlier one left; nothing else is ever deleted."""
    log = place / "demo.log"
    place.mkdir(parents=True, exist_ok=True)
    if any(place.iterdir()) and not log.exists():
        raise DemoError(f"{shown(place)} has files that are not of a demo: name a new --directory")
    with log.open("a", encoding="utf-8") as mark:
        try:
            fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise DemoError(f"a demo is running in {shown(place)}: wait for it, or name another --directory") from error
        if LocalKafka(place / "kafka").running:
            raise DemoError(f"a broker runs in {shown(place / 'kafka')}: end it, or name another --directory")
        mark.truncate(0)
        for folder in ("kafka", "airflow"):
            shutil.rmtree(place / folder, ignore_errors=True)
        yield


def shown(path: Path) -> str:
    """A path to print: relative if it is below the working directory."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m demo", description=__doc__)
    parser.add_argument("--directory", type=Path, default=Path(".demo"), help="for its files (default: %(default)s)")
    parser.add_argument("--events", type=int, default=EVENTS, help="number of events (default: %(default)s)")
    arguments = parser.parse_args()
    if arguments.events < LEAST_EVENTS:  # the second run gets a quarter, and the example DAG waits for 10,000
        parser.error(f"--events {arguments.events} is too few, expected {LEAST_EVENTS} or more")
    place = arguments.directory.absolute()
    try:
        with claimed(place):
            return 0 if play(place, arguments.events) else BROKEN
    except KeyboardInterrupt:
        print(f"\nStopped; nothing is left running. The log is {shown(place / 'demo.log')}")
        return INTERRUPTED
    except (DemoError, OrderedKafkaError) as error:
        print(f"{error}\nThe log is {shown(place / 'demo.log')}", file=sys.stderr)
        return BROKEN


if __name__ == "__main__":
    sys.exit(main())
