"""The course of the demo: start a broker, write events, read them plainly, run the DAG, do it again, compare, draw."""

import time
from contextlib import ExitStack

from airflow_provider_orderedkafka.tools.demo.picture import draw
from airflow_provider_orderedkafka.tools.demo.place import Place
from airflow_provider_orderedkafka.tools.demo.reading import NOTHING, Reading, read
from airflow_provider_orderedkafka.tools.demo.runs import AirflowSide, Message, example_dag
from airflow_provider_orderedkafka.tools.demo.screen import Screen, Step
from airflow_provider_orderedkafka.tools.demo.shop import OUTPUT, Shop
from airflow_provider_orderedkafka.tools.demo.story import LANES, Chapter, Length, chapter
from airflow_provider_orderedkafka.tools.demo.summary import summary
from airflow_provider_orderedkafka.tools.demo.verdict import Loaded, Order, Told, Verdict, judge
from airflow_provider_orderedkafka.tools.embedded import EmbeddedKafka

TOPICS = sorted({lane.topic for lane in LANES})
_SECOND_SHARE = 4
_FIRST_SECONDS, _SECOND_SECONDS = 180, 20
_OFFLINE = 0.005
_SETTLED_MS = 7_000
"""A run ends 5 s before the present (the example DAG's grace), so all events must be older than that."""


class Play:
    """One run of the demo, in its own directory."""

    def __init__(self, place: Place, screen: Screen, events: int, seed: int) -> None:
        second = events // _SECOND_SHARE
        self._place = place
        self._screen = screen
        self._seed = seed
        self._plans = [Length(events - second, _FIRST_SECONDS), Length(second, _SECOND_SECONDS, _OFFLINE)]
        self._chapters: list[Chapter] = []
        self._runs: list[Loaded] = []
        self._plain = NOTHING

    def run(self) -> bool:
        """Run the demo; whether every promise was kept. Stops what it started, whatever happens."""
        began = time.monotonic()
        self._introduce()
        with ExitStack() as stack:
            servers = self._start_broker(stack)
            airflow = AirflowSide(self._place.airflow, example_dag(), servers, self._place.log)
            stack.enter_context(airflow)
            shop = Shop(servers)
            shop.open()
            self._write_chapter(shop, now_ms() - _SETTLED_MS - 1_000 * _FIRST_SECONDS)
            self._read_plainly(servers)
            self._wait_for(airflow)
            self._load(airflow, shop)
            self._write_chapter(shop, self._runs[0].report.stop.floor.time)
            self._read_plainly(servers)
            self._load(airflow, shop)
            output = self._read_back(servers)
        verdict = self._judge(output)
        self._conclude(verdict, time.monotonic() - began)
        return not verdict.broken

    def _introduce(self) -> None:
        events = sum(plan.events for plan in self._plans)
        self._screen.say(
            f"A shop's flash sale: {events:,} events in two topics, loaded in time order by one Airflow DAG.\n"
            "Kafka, Spark and Airflow are real, and run on this machine. It takes about two minutes.\n"
            f"Their log is {self._place.shown(self._place.log)}\n"
        )

    def _start_broker(self, stack: ExitStack) -> str:
        with self._screen.step("broker", "starting") as step:
            kafka = stack.enter_context(EmbeddedKafka(self._place.kafka, announce=step.announce))
            step.conclude(f"Apache Kafka {kafka.version} is ready at {kafka.bootstrap_servers}")
        return kafka.bootstrap_servers

    def _write_chapter(self, shop: Shop, begins_at: int) -> None:
        told = sum(map(len, self._chapters))
        plan = self._plans[len(self._chapters)]
        with self._screen.step("shop", "starting") as step:
            self._let_it_happen(step, begins_at + 1_000 * plan.seconds + _SETTLED_MS)
            new = chapter(self._seed, plan, told, begins_at)
            what = f"{plan.events:,} {'more ' if told else ''}events of {plan.seconds} seconds"
            shop.write(new, lambda done: step.tell(f"{done:,} of {what} written to {' and '.join(TOPICS)}"))
            step.conclude(f"{what} written to {' and '.join(TOPICS)}")
        self._chapters.append(new)

    def _let_it_happen(self, step: Step, until: int) -> None:
        while (left := until - now_ms()) > 0:
            step.tell(f"selling for another {left / 1_000:.0f} s")
            time.sleep(min(0.2, left / 1_000))

    def _read_plainly(self, servers: str) -> None:
        with self._screen.step("plain reader", "starting") as step:
            earlier = self._plain
            self._plain = read(servers, TOPICS, lambda done: step.tell(f"{done:,} rows read as they come"), earlier)
            new = self._plain.events[len(earlier.events) :]
            order = Order.of(self._chapters[-1].times[new - self._chapters[-1].first])
            step.conclude(f"{order.rows:,} rows read as they come, {order.behind:,} of them after a later one")

    def _wait_for(self, airflow: AirflowSide) -> None:
        with self._screen.step("Airflow", "setting up (since the broker started)") as step:
            airflow.wait_until_ready()
            step.conclude("ready, with the example DAG")

    def _load(self, airflow: AirflowSide, shop: Shop) -> None:
        number, began = len(self._runs) + 1, time.monotonic()
        before, planned = sum(run.report.rows_emitted for run in self._runs), self._plans[len(self._runs)].events
        with self._screen.step(f"DAG run {number}", "starting") as step:
            task = "starting"

            def hear(message: Message | None) -> None:
                nonlocal task
                task = task if message is None else f"{message['task']} {_STATES[message['state']]}"
                written = shop.written() - before
                step.tell(
                    task + (f": {written:,} of {planned:,} rows written" if written else _WAITS_FOR.get(task, ""))
                )

            report = airflow.run(hear)
            step.conclude(f"wait, resolve, load, commit: {report.rows_emitted:,} rows loaded, {report.late:,} late")
        self._runs.append(Loaded(time.monotonic() - began, report))

    def _read_back(self, servers: str) -> Reading:
        with self._screen.step("plain reader", "starting") as step:
            output = read(servers, [OUTPUT], lambda done: step.tell(f"{done:,} rows read from {OUTPUT}"))
            step.conclude(f"{len(output.events):,} rows read from {OUTPUT}")
        return output

    def _judge(self, output: Reading) -> Verdict:
        with self._screen.step("check", "comparing the output with the events that were written") as step:
            told = Told.of(self._chapters, self._runs)
            verdict = judge(told, self._plain, output, self._runs)
            step.conclude(f"{verdict.written:,} events compared, one by one")
        with self._screen.step("picture", "drawing"):
            readings = [("Before: a plain reader", self._plain), ("After: orderedkafka", output)]
            draw(self._place.picture, told, readings, boundary=len(self._chapters[0]))
        return verdict

    def _conclude(self, verdict: Verdict, seconds: float) -> None:
        self._screen.say(f"\n{summary(verdict)}\n")
        place = self._place
        self._screen.say(
            f"  picture  {place.shown(place.picture)}\n"
            f"  log      {place.shown(place.log)}\n"
            f"  topics   orderedkafka broker start --directory {place.shown(place.kafka)}\n\n"
            f"Done in {seconds:.0f} s. Here the DAG ran in one process, with dag.test();\n"
            "in a checkout, `make ui` shows it under a real scheduler."
        )


_WAITS_FOR = {"orders.load runs": ": Spark is starting"}
_STATES = {"running": "runs", "success": "is done", "skipped": "is skipped", "failed": "failed"}


def now_ms() -> int:
    return time.time_ns() // 1_000_000
