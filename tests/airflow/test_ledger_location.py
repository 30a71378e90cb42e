"""A load that keeps its ledger in a location of its own, in a real Airflow: tasks, watcher, command line."""

import asyncio
from dataclasses import replace

import pytest
from airflow.models import Variable
from airflow.sdk import DAG
from support.messages import says

from airflow_provider_orderedkafka import OrderedLoad, ordered_load
from airflow_provider_orderedkafka.compat.airflow import has_asset_state
from airflow_provider_orderedkafka.context import AIRFLOW_ID
from airflow_provider_orderedkafka.core import lifecycle
from airflow_provider_orderedkafka.core.order.cuts import Place
from airflow_provider_orderedkafka.core.order.positions import Offsets
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.loads.ledger import LedgerStore
from airflow_provider_orderedkafka.locations import VARIABLE, ledger_in, location_for
from airflow_provider_orderedkafka.tools import cli
from airflow_provider_orderedkafka.tools.commands.at_airflow import MetadataStore
from airflow_provider_orderedkafka.triggers import offsets


@pytest.fixture
def location(tmp_path):
    return str(tmp_path / "ledgers")


def test_runs_go_on_from_the_ledger_in_its_location_and_airflow_keeps_none(bench, location):
    settings = f"ledger={location!r}"
    for count in (6, 4):
        bench.write(count)
        assert bench.dag(settings).test().state == "success"
    assert [entry["offsets"] for entry in bench.diary] == [6, 4]
    assert ledger_in(bench.load, location).ledger().revision == 2
    if has_asset_state():
        assert LedgerStore(bench.load, MetadataStore(bench.load)).ledger() is None


def test_what_another_airflow_has_open_in_the_same_location_is_refused_until_a_person_says_that_it_is_gone(
    bench, location, capsys
):
    bench.write(6)
    dag = bench.dag(f"ledger={location!r}")
    run = dag.test()
    store, there = ledger_in(bench.load, location), "cdef01234567"
    ledger = store.ledger()
    by = ledger.outcomes[-1].by
    assert by == f"{bench.load}/{run.run_id}@{Variable.get(AIRFLOW_ID)}"
    bench.write(4)
    planned = replace(store.range(ledger.outcomes[-1].range_id), id="theirs", ledger_revision=1)
    end = {partition: offset + 4 for partition, offset in ledger.place.offsets.items()}
    store.add_range(replace(planned, start=ledger.place, end=Place(Offsets(end), ledger.place.floor)))
    store.save(lifecycle.opened(ledger, "theirs", f"{by.rpartition('@')[0]}@{there}"), ledger)
    assert dag.test().state == "failed"
    assert there in capsys.readouterr().out
    assert store.ledger().open.attempt == 0
    Variable.set(AIRFLOW_ID, there)
    try:
        assert dag.test().state == "success"
    finally:
        Variable.delete(AIRFLOW_ID)
    assert [entry["range"] for entry in bench.diary][1:] == ["theirs"]


def test_the_command_line_finds_the_ledger_where_the_dag_says_that_it_is(bench, location, capsys):
    bench.write(6)
    dag = bench.dag(f"ledger={location!r}")
    dag.test()
    for found in ([], ["--at", location]):
        assert cli.main(["ledger", "show", bench.load, *found]) == 0
        assert says(capsys.readouterr().out, "rows ... 6\n")
    assert cli.main(["ledger", "rewind", bench.load, "--to", "earliest", "--reason", "a bug", "--yes"]) == 0
    assert cli.main(["plan", dag.fileloc]) == 0
    assert "6 offsets" in capsys.readouterr().out
    assert dag.test().state == "success"
    assert [entry["offsets"] for entry in bench.diary] == [6, 6]


def test_a_ledger_moves_from_airflow_to_a_location_and_back_and_runs_go_on_from_where_it_stands(
    bench, location, capsys, state_stores
):
    def move(*arguments):
        return cli.main(["ledger", "move", bench.load, *arguments, "--yes"])

    bench.write(6)
    in_airflow = bench.dag()
    in_airflow.test()
    assert move("--to", "airflow") == 2
    assert "'airflow'" in capsys.readouterr().err
    assert move("--to", "ledgers") == 2
    assert "absolute" in capsys.readouterr().err
    assert move("--to", location) == 0
    assert f"ledger={location!r}" in capsys.readouterr().out
    bench.write(2)
    assert in_airflow.test().state == "failed"
    assert repr(location) in capsys.readouterr().out
    assert bench.dag(f"ledger={location!r}").test().state == "success"
    assert move("--to", location) == 2
    assert "--from" in capsys.readouterr().err
    assert move("--from", "airflow", "--to", location) == 0  # it has arrived: nothing changes
    assert move("--to", "airflow") == 0
    bench.write(3)
    assert bench.dag().test().state == "success"
    assert [entry["offsets"] for entry in bench.diary] == [6, 2, 3]


def test_the_watcher_finds_ledger_and_watch_in_the_location(bench, location, monkeypatch):
    bench.write(1)
    bench.dag(f"ledger={location!r}").test()
    load = OrderedLoad(bench.load, topics=[bench.topic], ledger=location)
    trigger = offsets.OffsetRangeTrigger(**offsets.OffsetRangeTrigger.watching(load, 0.1).serialize()[1])
    bench.write(1)
    assert asyncio.run(anext(trigger.run())).payload["load"] == bench.load
    assert ledger_in(bench.load, location).watch().revision == "1"


def test_an_airflow_without_asset_state_asks_for_a_location_when_the_dag_is_parsed(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr("airflow.sdk.__version__", "1.1.8")
    with pytest.raises(SettingError, match="ledger="):
        location_for("orders", None)
    with pytest.raises(SettingError, match="ledger="), DAG("d", max_active_runs=1):
        ordered_load(OrderedLoad("orders", topics=["orders"]), to="topic:out")
    assert location_for("orders", "s3://bucket/ledgers") == "s3://bucket/ledgers"
    monkeypatch.setenv(VARIABLE, "/ledgers")
    assert location_for("orders", None) == "/ledgers"


def test_a_location_for_all_loads_is_the_same_one_for_each_process(monkeypatch):
    monkeypatch.setenv(VARIABLE, "ledgers")
    with pytest.raises(SettingError, match=r"absolute .* 'ledgers'"):
        location_for("orders", None)


def test_what_cannot_be_opened_is_named():
    with pytest.raises(SettingError, match="'nope://bucket/orders'"):
        ledger_in("orders", "nope://bucket")
