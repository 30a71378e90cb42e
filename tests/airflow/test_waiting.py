"""Many waiting runs in one triggerer's loop, against a real broker."""

import asyncio
import json
import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

from cryptography.fernet import Fernet
from support.runs import LOAD, TOPICS, DictStore, place

from airflow_provider_orderedkafka import OrderedLoad
from airflow_provider_orderedkafka.core import moves
from airflow_provider_orderedkafka.core.documents import OUTCOMES_KEPT, Outcome
from airflow_provider_orderedkafka.core.order.cuts import Floor, Place
from airflow_provider_orderedkafka.core.order.positions import Offsets, TopicPartition
from airflow_provider_orderedkafka.core.pacing import Verdict
from airflow_provider_orderedkafka.loads.ledger import LedgerStore
from airflow_provider_orderedkafka.triggers import offsets
from airflow_provider_orderedkafka.triggers.offsets import OffsetRangeTrigger

ROOT = Path(__file__).parents[2]
TRIGGERS = 20


def test_waiting_runs_share_a_client_and_each_fires_once_there_is_enough(kafka, tmp_path):
    servers = ["--servers", kafka.bootstrap_servers]
    size = ["--triggers", str(TRIGGERS), "--seconds", "4", "--poll", "1", "--json"]
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


def a_large_ledger():
    """Ten thousand partitions of topics with names as long as they can be, and all the outcomes that are kept."""
    names = [str(n).ljust(249, "x") for n in range(10)]
    place = Place(Offsets({TopicPartition(name, p): 10**12 + p for name in names for p in range(1_000)}), Floor())
    topics = dict.fromkeys(names, "x" * 22)
    outcome = Outcome("committed", "r" * 120, 1, "d/" + "r" * 200, 1, "reason " * 15, 10**9)
    ledger = moves.first_look("l" * 100, instance="i", home_dag="d", place=place, topics=topics, now=0)
    return OrderedLoad(ledger.load, topics=names), replace(ledger, outcomes=(outcome,) * OUTCOMES_KEPT)


def test_what_a_trigger_takes_along_fits_into_any_database_however_many_partitions_there_are():
    from airflow.models.trigger import Trigger

    load, large = a_large_ledger()
    small = Place(Offsets(list(large.place.offsets.items())[:1_500]), Floor())
    for ledger in (large, replace(large, place=small)):
        _, arguments = OffsetRangeTrigger.waiting(load, ledger, 1, None).serialize()
        text = Trigger.encrypt_kwargs(arguments)  # where Airflow has no key it stays as it is
        assert len(Fernet(Fernet.generate_key()).encrypt(text.encode())) < 64 * 1024
        assert arguments["stored"] == (ledger is large)


def test_a_ledger_that_is_too_large_to_take_along_is_read_where_it_is_kept(monkeypatch):
    load, ledger = a_large_ledger()
    store, asked = LedgerStore(load.name, DictStore(), lambda: None), []
    store.save(ledger, None)

    def enough(trigger, load, seen):
        asked.append(seen)
        return Verdict(run=True, reason="enough")

    monkeypatch.setattr(OffsetRangeTrigger, "_ask", enough)
    monkeypatch.setattr(offsets, "ledger_store", lambda _: store)
    trigger = OffsetRangeTrigger(**OffsetRangeTrigger.waiting(load, ledger, 1, None).serialize()[1])
    assert asyncio.run(anext(trigger.run())).payload == {"reason": "enough"}
    assert asked == [ledger]


def test_a_run_that_waits_finds_its_ledger_in_airflow_by_itself_and_says_now_and_then_how_it_stands(
    bench, monkeypatch, capsys
):
    monkeypatch.setattr(offsets, "LARGEST", 0)
    bench.write(3)
    assert (
        bench.dag('min_offsets=10, max_delay="2s"', 'steps={"wait": {"poke_interval": 0.2}}').test().state == "success"
    )
    assert [entry["offsets"] for entry in bench.diary] == [3]
    said = capsys.readouterr().out
    assert said.count("3 of 10 offsets are there, the delay runs out in") == 2, "by the task, and by the triggerer"


def test_looks_that_wait_for_kafka_hold_up_neither_the_loop_nor_a_thread_that_others_wait_for(monkeypatch):
    answered, asked = threading.Event(), threading.Semaphore(0)
    ledger = moves.first_look(LOAD, instance="i", home_dag="d", place=place(0), topics=TOPICS, now=0)

    def hangs(trigger, load, seen):
        asked.release()
        answered.wait(60)
        return Verdict(run=True, reason="enough")

    monkeypatch.setattr(OffsetRangeTrigger, "_ask", hangs)

    async def story():
        triggers = [OffsetRangeTrigger.waiting(OrderedLoad(LOAD, topics=["t"]), ledger, 1, None) for _ in range(100)]
        tasks = [asyncio.create_task(anext(trigger.run())) for trigger in triggers]
        for _ in range(offsets.LOOKS_AT_ONCE):
            assert await asyncio.to_thread(asked.acquire, timeout=30)
        others = await asyncio.wait_for(asyncio.to_thread(lambda: "not held up"), 10)
        answered.set()
        return others, await asyncio.gather(*tasks)

    others, events = asyncio.run(story())
    assert others == "not held up"
    assert [event.payload for event in events] == [{"reason": "enough"}] * 100
