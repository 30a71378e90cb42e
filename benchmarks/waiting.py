"""A thousand loads that wait in one triggerer: what is asked of Kafka, of the ledgers' location and of Airflow.

    python -m benchmarks.waiting                  1,000 runs that wait, for two minutes, each with a topic of its own
    python -m benchmarks.waiting --watch          1,000 watchers of an asset instead

The triggers run as in a triggerer, side by side in one asyncio loop, against a real broker, with their ledgers in one
location, whose requests are counted. A heartbeat in the same loop is to come every 20 ms; what it comes late by is the
time for which the loop stood still. At the end enough is written to every topic, and each trigger has to fire.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

HEARTBEAT, LONG = 0.02, 0.5
PARTITIONS = 4


async def beat(late: list[float]) -> None:
    """Note what each heartbeat comes late by, in seconds."""
    while True:
        due = time.perf_counter() + HEARTBEAT
        await asyncio.sleep(HEARTBEAT)
        late.append(time.perf_counter() - due)


async def wait_for_all(triggers: list[Any], seconds: float, then: Callable[[], None]) -> dict[str, Any]:
    """Let them wait, then bring what they wait for; how it went."""
    late: list[float] = []
    heart = asyncio.create_task(beat(late))
    begun, used = time.perf_counter(), time.process_time()
    tasks = [asyncio.create_task(anext(trigger.run())) for trigger in triggers]
    await asyncio.sleep(seconds)
    share = (time.process_time() - used) / (time.perf_counter() - begun)
    waited, early = len(late), sum(task.done() for task in tasks)
    ASKED.stop()
    await asyncio.to_thread(then)
    begun = time.perf_counter()
    fired = [event.payload for event in await asyncio.gather(*tasks)]
    heart.cancel()
    return {
        "early": early,
        "fired": sum("reason" in payload for payload in fired),
        "last fired after": time.perf_counter() - begun,
        "loop stood still for at most": max(late[:waited]),
        "half of its heartbeats late by": statistics.median(late[:waited]),
        f"times it stood still for {LONG:g} s": sum(each > LONG for each in late[:waited]),
        "heartbeats": waited,
        "share of a core": share,
    }


class Asked:
    """What is asked while the triggers wait, by the second."""

    def __init__(self) -> None:
        self._counted: dict[str, Counter[int]] = {}
        self._begun, self._ended = time.perf_counter(), 0.0

    def begin(self) -> None:
        self.__init__()  # type: ignore[misc]

    def stop(self) -> None:
        self._ended = time.perf_counter()

    def counted(self, whom: str, asking: Callable[..., Any]) -> Callable[..., Any]:
        """The same, but counted."""

        def asked(*args: Any, **kwargs: Any) -> Any:
            if not self._ended:
                self._counted.setdefault(whom, Counter())[int(time.perf_counter() - self._begun)] += 1
            return asking(*args, **kwargs)

        return asked

    def found(self) -> dict[str, float]:
        seconds = self._ended - self._begun
        return {
            f"requests a second to {whom}, {what}": number
            for whom, counts in self._counted.items()
            for what, number in (("all in all", counts.total() / seconds), ("at most", float(max(counts.values()))))
        }


ASKED = Asked()


def count() -> None:
    """Count what is asked of a location, of Kafka, and of Airflow's API, which is not there: nothing is queued."""
    from confluent_kafka.admin import AdminClient

    from airflow_provider_orderedkafka.storage import LocalState
    from airflow_provider_orderedkafka.triggers import offsets

    for name in ("names", "get", "put", "create", "delete"):
        setattr(LocalState, name, ASKED.counted("the ledgers' location", getattr(LocalState, name)))
    for name in ("list_offsets", "list_topics", "describe_topics"):
        setattr(AdminClient, name, ASKED.counted("Kafka", getattr(AdminClient, name)))
    offsets.queued_behind = ASKED.counted("Airflow's API", lambda _: None)


def measured(servers: str, arguments: argparse.Namespace, ledgers: str) -> dict[str, Any]:
    """Run the triggers against this broker, which takes `slow` seconds longer to answer."""
    from airflow_provider_orderedkafka import OrderedLoad
    from airflow_provider_orderedkafka.core import lifecycle
    from airflow_provider_orderedkafka.hooks.ordered_kafka import OrderedKafkaHook
    from airflow_provider_orderedkafka.kafka.clients import pools
    from airflow_provider_orderedkafka.locations import ledger_in
    from airflow_provider_orderedkafka.triggers.offsets import OffsetRangeTrigger

    names = [f"waiting-{number}-{os.getpid()}" for number in range(arguments.triggers)]
    create(servers, names)
    looks: list[float] = []

    class Timed(OffsetRangeTrigger):
        def _ask(self, load: OrderedLoad, ledger: Any) -> Any:
            begun = time.perf_counter()
            time.sleep(arguments.slow)
            try:
                return super()._ask(load, ledger)
            finally:
                looks.append(time.perf_counter() - begun)

    def waiting(name: str) -> OffsetRangeTrigger:
        load = OrderedLoad(name, topics=[name], start="earliest", min_offsets=10, grace="0s", ledger=ledgers)
        first = OrderedKafkaHook().first_look(load)
        ledger = lifecycle.first_look(name, instance="i", home_dag="d", place=first.place, topics=first.topics, now=0)
        ledger_in(name, ledgers).save(ledger, None)
        return (
            Timed.watching(load, arguments.poll)
            if arguments.watch
            else Timed.waiting(load, ledger, arguments.poll, None, dag_id=name)
        )

    triggers = [waiting(name) for name in names]
    count()
    ASKED.begin()
    found = asyncio.run(wait_for_all(triggers, arguments.seconds, lambda: produce(servers, names)))
    found |= {"looks": len(looks), "median look": statistics.median(looks), "longest look": max(looks)}
    found |= ASKED.found() | {"MiB": psutil.Process().memory_info().rss // 2**20}
    return found | {"clients": len(pools._admins._kept)}


def create(servers: str, names: list[str]) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    client = AdminClient({"bootstrap.servers": servers})
    for start in range(0, len(names), 100):
        new = [NewTopic(name, PARTITIONS, 1) for name in names[start : start + 100]]
        for future in client.create_topics(new).values():
            future.result(60)


def produce(servers: str, names: list[str]) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": servers})
    for name in names:
        for number in range(10):
            producer.produce(name, b"x", partition=number % PARTITIONS)
        producer.poll(0)
    producer.flush(60)


@contextmanager
def broker(given: str | None) -> Iterator[str]:
    from broker import LocalKafka

    if given is not None:
        yield given
        return
    with tempfile.TemporaryDirectory() as work, LocalKafka(Path(work) / "kafka") as embedded:
        yield embedded.bootstrap_servers


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--triggers", type=int, default=1_000)
    parser.add_argument("--seconds", type=float, default=130)
    parser.add_argument("--poll", type=float, default=5, help="seconds between two looks of one trigger")
    parser.add_argument("--slow", type=float, default=0, help="seconds that every answer takes longer")
    parser.add_argument("--watch", action="store_true", help="watch assets, instead of waiting as deferred runs do")
    parser.add_argument("--servers", help="a broker that is there already")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with broker(arguments.servers) as servers, tempfile.TemporaryDirectory() as home:
        os.environ["AIRFLOW_HOME"] = home
        extra = {"bootstrap.servers": servers}
        os.environ["AIRFLOW_CONN_KAFKA_DEFAULT"] = json.dumps({"conn_type": "kafka", "extra": extra})
        found = measured(servers, arguments, f"{home}/ledgers")
    if arguments.json:
        print(json.dumps(found))
        return 0
    print(f"{arguments.triggers} triggers, {PARTITIONS} partitions each, a look every {arguments.poll:g} s")
    for name, value in found.items():
        print(f"  {name:<56} {f'{value:,.3f}' if isinstance(value, float) else f'{value:,}'}")
    return int(found["early"] > 0 or found["fired"] < arguments.triggers)


if __name__ == "__main__":
    sys.exit(main())
