"""Hundreds of waiting sensors in one triggerer: what a look takes, how long its loop stands still, how many clients.

    python -m benchmarks.waiting                  300 triggers for 30 s, each of a load with a topic of its own

The triggers run as in a triggerer, side by side in one asyncio loop, against a real broker. A heartbeat in the same
loop is to come every 20 ms; what it comes late by is the time for which the loop stood still. At the end enough is
written to every topic, and each trigger has to fire.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

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
    tasks = [asyncio.create_task(anext(trigger.run())) for trigger in triggers]
    await asyncio.sleep(seconds)
    early = sum(task.done() for task in tasks)
    await asyncio.to_thread(then)
    begun = time.perf_counter()
    fired = [event.payload for event in await asyncio.gather(*tasks)]
    heart.cancel()
    return {
        "early": early,
        "fired": sum("reason" in payload for payload in fired),
        "last fired after": time.perf_counter() - begun,
        "loop stood still for at most": max(late),
        f"times it stood still for {LONG:g} s": sum(each > LONG for each in late),
        "heartbeats": len(late),
    }


def measured(servers: str, count: int, seconds: float, poll: float, slow: float) -> dict[str, Any]:
    """Run the triggers against this broker, which takes `slow` seconds longer to answer."""
    from airflow_provider_orderedkafka import OrderedLoad
    from airflow_provider_orderedkafka.core import moves
    from airflow_provider_orderedkafka.hooks.ordered_kafka import OrderedKafkaHook
    from airflow_provider_orderedkafka.kafka.clients import pools
    from airflow_provider_orderedkafka.triggers.offsets import OffsetRangeTrigger

    names = [f"waiting-{number}-{os.getpid()}" for number in range(count)]
    create(servers, names)
    looks: list[float] = []

    class Timed(OffsetRangeTrigger):
        def _ask(self, load: OrderedLoad, ledger: Any) -> Any:
            begun = time.perf_counter()
            time.sleep(slow)
            try:
                return super()._ask(load, ledger)
            finally:
                looks.append(time.perf_counter() - begun)

    def waiting(name: str) -> OffsetRangeTrigger:
        load = OrderedLoad(name, topics=[name], start="earliest", min_offsets=10, grace="0s")
        first = OrderedKafkaHook().first_look(load)
        ledger = moves.first_look(name, instance="i", home_dag="d", place=first.place, topics=first.topics, now=0)
        return Timed.waiting(load, ledger, poll, None)

    triggers = [waiting(name) for name in names]
    found = asyncio.run(wait_for_all(triggers, seconds, lambda: produce(servers, names)))
    found |= {"looks": len(looks), "median look": statistics.median(looks), "longest look": max(looks)}
    return found | {"clients": len(pools._admins._kept)}


def create(servers: str, names: list[str]) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    client = AdminClient({"bootstrap.servers": servers})
    for future in client.create_topics([NewTopic(name, PARTITIONS, 1) for name in names]).values():
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
    from airflow_provider_orderedkafka.tools.broker.local_kafka import LocalKafka

    if given is not None:
        yield given
        return
    with tempfile.TemporaryDirectory() as work, LocalKafka(Path(work) / "kafka") as embedded:
        yield embedded.bootstrap_servers


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--triggers", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--poll", type=float, default=5, help="seconds between two looks of one trigger")
    parser.add_argument("--slow", type=float, default=0, help="seconds that every answer takes longer")
    parser.add_argument("--servers", help="a broker that is there already")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with broker(arguments.servers) as servers, tempfile.TemporaryDirectory() as home:
        os.environ["AIRFLOW_HOME"] = home
        extra = {"bootstrap.servers": servers}
        os.environ["AIRFLOW_CONN_KAFKA_DEFAULT"] = json.dumps({"conn_type": "kafka", "extra": extra})
        found = measured(servers, arguments.triggers, arguments.seconds, arguments.poll, arguments.slow)
    if arguments.json:
        print(json.dumps(found))
        return 0
    print(f"{arguments.triggers} triggers, {PARTITIONS} partitions each, a look every {arguments.poll:g} s")
    for name, value in found.items():
        print(f"  {name:<30} {f'{value * 1000:,.1f} ms' if isinstance(value, float) else f'{value:,}'}")
    return int(found["early"] > 0 or found["fired"] < arguments.triggers)


if __name__ == "__main__":
    sys.exit(main())
