"""Many waiting runs in one triggerer's loop, against a real broker."""

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time.comms import ErrorResponse
from cryptography.fernet import Fernet
from support.runs import FIRST, LOAD, DictStore, place

from airflow_provider_orderedkafka import OrderedLoad
from airflow_provider_orderedkafka.core import lifecycle
from airflow_provider_orderedkafka.core.documents import OUTCOMES_KEPT, Outcome
from airflow_provider_orderedkafka.core.order.cuts import Floor, Place
from airflow_provider_orderedkafka.core.order.positions import Offsets, TopicPartition
from airflow_provider_orderedkafka.core.pacing import Verdict
from airflow_provider_orderedkafka.errors import CredentialsError, StateError, UnreachableError
from airflow_provider_orderedkafka.hooks.ordered_kafka import OrderedKafkaHook
from airflow_provider_orderedkafka.loads import ledger_operations
from airflow_provider_orderedkafka.loads.ledger import LedgerStore
from airflow_provider_orderedkafka.tools.commands.at_airflow import store_of
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
    ledger = lifecycle.first_look("l" * 100, instance="i", home_dag="d", place=place, topics=topics, now=0)
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
    often = 'wait="always", tasks={"wait": {"poke_interval": 0.2}}'
    assert bench.dag('min_offsets=10, max_delay="2s"', often).test().state == "success"
    assert [entry["offsets"] for entry in bench.diary] == [3]
    said = capsys.readouterr().out
    assert said.count("3 of 10 offsets are there, the delay runs out in") == 2, "by the task, and by the triggerer"


def test_a_run_does_not_go_on_at_once_when_its_worker_may_not_have_told_that_it_waits(waiting_on):
    store, ledger, _ = waiting_on
    store.save(replace(ledger, place=place(1)), ledger)
    trigger, began = OffsetRangeTrigger.waiting(OrderedLoad(LOAD, topics=["t"]), ledger, 1, None), time.monotonic()
    assert asyncio.run(anext(trigger.run())).payload == {"reason": "moved"}
    assert time.monotonic() - began >= 1


def refusal(status):
    detail = {"status_code": status, "message": "Server returned error"}
    return AirflowRuntimeError(ErrorResponse(error=ErrorType.API_SERVER_ERROR, detail=detail))


HICCUPS = [refusal(503), PermissionError("of a state store"), EOFError(), UnreachableError("Airflow cannot be asked")]


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("hiccup", HICCUPS, ids=lambda error: type(error).__name__)
def test_a_deferred_wait_outlives_hiccups_of_airflow(monkeypatch, hiccup, stored):
    store, hiccups = LedgerStore(LOAD, DictStore(), lambda: None), [hiccup, hiccup]
    store.save(FIRST, None)

    def now_and_then(answer):
        def ask(*_):
            if hiccups:
                raise hiccups.pop()
            return answer

        return ask

    if stored:
        monkeypatch.setattr(offsets, "LARGEST", 0)
    monkeypatch.setattr(OffsetRangeTrigger, "_ask", now_and_then(Verdict(run=True, reason="enough")))
    monkeypatch.setattr(offsets, "ledger_store", now_and_then(store))
    trigger = OffsetRangeTrigger.waiting(OrderedLoad(LOAD, topics=["t"]), FIRST, 0.01, None)
    assert asyncio.run(anext(trigger.run())).payload == {"reason": "enough"}
    assert hiccups == []


def test_a_connection_that_airflow_does_not_find_for_a_moment_ends_no_wait(monkeypatch, kafka, airflow_home):
    monkeypatch.delenv("AIRFLOW_CONN_KAFKA_DEFAULT", raising=False)
    extra = json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": kafka.bootstrap_servers}})
    looks = []

    def verdict(hook, load, ledger, *, known):
        looks.append(hook.config.servers)
        return Verdict(run=True, reason="enough")

    monkeypatch.setattr(OrderedKafkaHook, "verdict", verdict)
    monkeypatch.setattr(offsets, "_hooks", {})

    async def story():
        trigger = OffsetRangeTrigger.waiting(OrderedLoad(LOAD, topics=["t"]), FIRST, 0.01, None)
        waits = asyncio.ensure_future(anext(trigger.run()))
        await asyncio.sleep(1)
        assert not waits.done()
        monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", extra)
        return await asyncio.wait_for(waits, 30)

    assert asyncio.run(story()).payload == {"reason": "enough"}
    assert looks == [kafka.bootstrap_servers]


def test_credentials_that_are_refused_are_read_anew_before_a_wait_ends_for_a_retry(monkeypatch, airflow_home):
    known, asked = ["old"], []

    def verdict(hook, load, ledger, *, known):
        asked.append(hook.config["sasl.password"])
        if asked[-1] != "new":
            raise CredentialsError("no such user")
        return Verdict(run=True, reason="enough")

    def connection():
        extra = {"bootstrap.servers": "nowhere:1", "sasl.username": "u", "sasl.password": known[0]}
        monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps({"conn_type": "kafka", "extra": extra}))

    monkeypatch.setattr(OrderedKafkaHook, "verdict", verdict)
    monkeypatch.setattr(offsets, "_hooks", {})
    monkeypatch.setattr(offsets.status, "looked", lambda *_: None)
    connection()
    assert first_event(FIRST) == {"error": "no such user", "kind": "CredentialsError"}
    known[0] = "new"
    connection()
    assert first_event(FIRST) == {"reason": "enough"}
    assert asked == ["old", "old", "old", "new"]


def test_a_run_that_waits_sees_a_rewind(bench, ledger_of, monkeypatch):
    monkeypatch.setattr(offsets, "THOROUGH_SECONDS", 0.2)
    monkeypatch.setattr(offsets, "ledger_store", lambda load: store_of(load.name))  # here is no triggerer's way to it
    monkeypatch.setattr(offsets.status, "looked", lambda *_: None)
    bench.write(6)
    assert bench.dag().test().state == "success"
    ledger, load = ledger_of(bench.load), OrderedLoad(bench.load, topics=[bench.topic], start="earliest")
    trigger = OffsetRangeTrigger.waiting(load, ledger, 0.1, None)
    place = ledger_operations.rewound_place(ledger, Offsets({TopicPartition(bench.topic, 0): 0}))
    person = ledger_operations.Person("me", "a bug", 1, lambda _: True)

    async def story():
        waiting = asyncio.create_task(anext(trigger.run()))
        await asyncio.sleep(1)
        assert not waiting.done()
        mirror = OrderedKafkaHook("kafka_default").mirror(bench.load, [bench.topic])
        await asyncio.to_thread(ledger_operations.rewind, store_of(bench.load), mirror, person, ledger, place)
        return await asyncio.wait_for(waiting, 20)

    assert asyncio.run(story()).payload["reason"].startswith("6 ")


@pytest.fixture
def waiting_on(monkeypatch):
    """A run that waits on what a store has, and what it asked about Kafka; nothing is there to load at offset 0."""
    store, asked = LedgerStore(LOAD, DictStore(), lambda: None), []
    store.save(FIRST, None)
    monkeypatch.setattr(offsets, "ledger_store", lambda _: store)
    monkeypatch.setattr(offsets, "THOROUGH_SECONDS", 0.2)

    def ask(trigger, load, seen):
        asked.append(seen)
        return Verdict(run=seen.place != FIRST.place, reason="moved")

    monkeypatch.setattr(OffsetRangeTrigger, "_ask", ask)
    return store, FIRST, asked


def first_event(ledger, *, seconds=10):
    trigger = OffsetRangeTrigger.waiting(OrderedLoad(LOAD, topics=["t"]), ledger, 0.01, None)
    return asyncio.run(asyncio.wait_for(anext(trigger.run()), seconds)).payload


def test_a_run_that_waits_reads_its_ledger_no_more_than_once_a_minute(waiting_on, monkeypatch):
    store, ledger, asked = waiting_on
    reads = []
    monkeypatch.setattr(offsets, "ledger_store", lambda _: reads.append(1) or store)
    with pytest.raises(TimeoutError):
        first_event(ledger, seconds=1)
    assert len(asked) > len(reads)
    assert 1 <= len(reads) <= 5


@pytest.mark.parametrize("error", [StateError("no answer"), OSError("no answer")])
def test_where_a_ledger_cannot_be_read_a_run_goes_on_waiting_and_says_so(waiting_on, monkeypatch, capsys, error):
    store, ledger, _ = waiting_on
    tries = []

    def once_more(_):
        tries.append(1)
        if len(tries) < 3:
            raise error
        return store

    monkeypatch.setattr(offsets, "ledger_store", once_more)
    store.save(replace(ledger, place=place(1)), ledger)
    assert first_event(ledger) == {"reason": "moved"}
    assert capsys.readouterr().out.count("no answer") == 2


def test_a_run_that_waits_goes_on_to_take_over_what_an_ended_run_left_and_waits_for_one_that_loads(
    waiting_on, monkeypatch
):
    store, ledger, _ = waiting_on
    store.save(lifecycle.opened(ledger, "range", "d/other"), ledger)
    ended = []
    monkeypatch.setattr(offsets, "is_active", lambda _: not ended)
    with pytest.raises(TimeoutError):
        first_event(ledger, seconds=1)
    ended.append(True)
    assert "d/other" in first_event(ledger)["reason"]


def test_looks_that_wait_for_kafka_hold_up_neither_the_loop_nor_a_thread_that_others_wait_for(monkeypatch):
    answered, asked = threading.Event(), threading.Semaphore(0)

    def hangs(trigger, load, seen):
        asked.release()
        answered.wait(60)
        return Verdict(run=True, reason="enough")

    monkeypatch.setattr(OffsetRangeTrigger, "_ask", hangs)

    async def story():
        triggers = [OffsetRangeTrigger.waiting(OrderedLoad(LOAD, topics=["t"]), FIRST, 1, None) for _ in range(100)]
        tasks = [asyncio.create_task(anext(trigger.run())) for trigger in triggers]
        for _ in range(offsets.LOOKS_AT_ONCE):
            assert await asyncio.to_thread(asked.acquire, timeout=30)
        others = await asyncio.wait_for(asyncio.to_thread(lambda: "not held up"), 10)
        answered.set()
        return others, await asyncio.gather(*tasks)

    others, events = asyncio.run(story())
    assert others == "not held up"
    assert [event.payload for event in events] == [{"reason": "enough"}] * 100
