"""Many waiting runs in one triggerer's loop, against a real broker."""

import asyncio
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

from support.runs import LOAD, TOPICS, place

from airflow_provider_orderedkafka import OrderedLoad
from airflow_provider_orderedkafka.core import moves
from airflow_provider_orderedkafka.core.pacing import Verdict
from airflow_provider_orderedkafka.triggers.offsets import OffsetRangeTrigger

ROOT = Path(__file__).parents[2]
TRIGGERS = 20
SLOW = 0.6


def test_waiting_runs_share_a_client_and_never_hold_the_loop_however_slow_kafka_is(kafka, tmp_path):
    servers = ["--servers", kafka.bootstrap_servers]
    size = ["--triggers", str(TRIGGERS), "--seconds", "4", "--poll", "1", "--slow", str(SLOW), "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.waiting", *servers, *size],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["early"], found["fired"], found["clients"]) == (0, TRIGGERS, 1)
    assert found["looks"] >= TRIGGERS
    assert found["times it stood still for 0.5 s"] <= found["looks"] / 10  # a busy machine may do that by itself


def test_looks_that_wait_for_kafka_keep_no_thread_that_others_wait_for(monkeypatch):
    answered = threading.Event()
    ledger = moves.first_look(LOAD, instance="i", home_dag="d", place=place(0), topics=TOPICS, now=0)

    def hangs(trigger, load, seen):
        answered.wait(60)
        return Verdict(run=True, reason="enough")

    monkeypatch.setattr(OffsetRangeTrigger, "_ask", hangs)

    async def story():
        triggers = [OffsetRangeTrigger.waiting(OrderedLoad(LOAD, topics=["t"]), ledger, 1, None) for _ in range(100)]
        tasks = [asyncio.create_task(anext(trigger.run())) for trigger in triggers]
        await asyncio.sleep(0.1)
        others = await asyncio.wait_for(asyncio.to_thread(lambda: "not held up"), 10)
        answered.set()
        return others, await asyncio.gather(*tasks)

    others, events = asyncio.run(story())
    assert others == "not held up"
    assert [event.payload for event in events] == [{"reason": "enough"}] * 100
