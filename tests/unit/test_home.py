"""A ledger is moved by one DAG in one file; a rename has a way out."""

import zipfile
from dataclasses import replace
from types import SimpleNamespace

import pytest
from support.messages import naming
from support.runs import LOAD, TOPICS, DictStore, World, place

from airflow_provider_orderedkafka import context
from airflow_provider_orderedkafka.core import lifecycle
from airflow_provider_orderedkafka.core.notation.subscriptions import Named
from airflow_provider_orderedkafka.errors import LifecycleError, UnreachableError
from airflow_provider_orderedkafka.loads import books
from airflow_provider_orderedkafka.loads.books import Home
from airflow_provider_orderedkafka.operators.resolve import ResolveOffsetRangeOperator
from airflow_provider_orderedkafka.tools.doctor.connections import compared


@pytest.fixture
def world():
    return World(DictStore())


def look(world, home):
    start = books.First(place(0), TOPICS)
    return books.look(world.run("d/1").books, world.mirror, lambda _: start, Named(tuple(TOPICS)), home=home)


def anywhere(_file):
    return True


def nowhere(_file):
    return False


def test_a_ledger_remembers_the_dag_and_the_file_of_its_first_run(world):
    look(world, Home("d", "dags:a.py"))
    assert (world.ledger.home_dag, world.ledger.home_file) == ("d", "dags:a.py")
    assert look(world, Home("d", "dags:a.py", anywhere)) == world.ledger


def test_the_same_dag_in_another_file_is_refused_and_both_files_are_named(world):
    before = look(world, Home("d", "dags:a.py"))
    with pytest.raises(LifecycleError, match=naming("'dags:a.py' ... 'more:b.py' ... --to current")) as error:
        look(world, Home("d", "more:b.py", anywhere))
    assert not error.value.retryable
    assert world.ledger == before


def test_the_ledger_goes_with_a_file_that_was_moved(world):
    look(world, Home("d", "dags:a.py"))
    assert look(world, Home("d", "dags:b.py", nowhere)).home_file == "dags:b.py"
    assert world.ledger.home_file == "dags:b.py"


def test_whether_the_other_file_is_there_has_to_be_known(world):
    before = look(world, Home("d", "dags:a.py"))

    def unknown(_file):
        raise UnreachableError("the bundle cannot be opened")

    with pytest.raises(UnreachableError):
        look(world, Home("d", "dags:b.py", unknown))
    assert world.ledger == before


def test_another_dag_is_refused_and_both_are_named_with_their_files(world):
    look(world, Home("d", "dags:a.py"))
    said = r"belongs to DAG 'd' of 'dags:a.py': DAG 'e' of 'dags:e.py' cannot load .*--to current --reason renamed"
    with pytest.raises(LifecycleError, match=said):
        look(world, Home("e", "dags:e.py", nowhere))


def test_a_person_lets_the_ledger_move_to_another_dag_and_file(world):
    ledger = look(world, Home("d", "dags:a.py"))
    world.ledger_store.save(lifecycle.rewound(ledger, ledger.place, "ada", "renamed", 1, topics=TOPICS), ledger)
    assert look(world, Home("e", "dags:e.py", anywhere)).home_dag == "e"
    assert (world.ledger.home_file, world.ledger.place) == ("dags:e.py", ledger.place)


def test_a_ledger_that_names_no_file_takes_on_that_of_the_next_run(world):
    ledger = look(world, Home("d", "dags:a.py"))
    world.ledger_store.save(replace(ledger, home_file=""), ledger)
    assert look(world, Home("d", "dags:b.py", anywhere)).home_file == "dags:b.py"


def a_run(folder, file, bundle="dags"):
    named = SimpleNamespace(name=bundle, path=folder)
    return {
        "dag": SimpleNamespace(fileloc=str(file)),
        "ti": SimpleNamespace(dag_id="d", bundle_instance=named if bundle else None),
    }


@pytest.fixture
def bundles(monkeypatch, tmp_path):
    """Bundles by name; each is a folder."""

    def make(*names):
        config = ", ".join(
            f'{{"name": "{name}", "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle", '
            f'"kwargs": {{"path": "{tmp_path / name}"}}}}'
            for name in names
        )
        monkeypatch.setenv("AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST", f"[{config}]")
        for name in names:
            (tmp_path / name).mkdir(exist_ok=True)
        return tmp_path

    return make


def test_a_file_is_named_by_its_bundle_and_is_elsewhere_as_long_as_it_is_there(bundles):
    folder = bundles("dags", "more")
    own, other = folder / "dags" / "own.py", folder / "more" / "other.py"
    own.touch()
    other.touch()
    home = context.home_of(a_run(folder / "dags", own))
    assert (home.dag, home.file) == ("d", "dags:own.py")
    assert home.is_elsewhere("more:other.py")
    assert home.is_elsewhere(str(other))
    assert not home.is_elsewhere(str(own)), "it is the same file by another name"
    other.unlink()
    assert not home.is_elsewhere("more:other.py")
    assert not home.is_elsewhere("gone:other.py"), "Airflow has no such bundle any more"


def test_a_file_in_an_archive_is_there_and_one_outside_of_bundles_is_named_by_its_path(bundles):
    folder = bundles("dags")
    own = folder / "own.py"
    own.touch()
    with zipfile.ZipFile(folder / "dags" / "all.zip", "w") as archive:
        archive.writestr("other.py", "")
    home = context.home_of(a_run(folder / "dags", own))
    assert home.file == str(own)
    assert home.is_elsewhere("dags:all.zip/other.py")
    assert context.home_of(a_run(folder, own, bundle="")).file == str(own)


def a_dag(*loads, mode="incremental"):
    from airflow_provider_orderedkafka import OrderedLoad

    made = ResolveOffsetRangeOperator
    ends = {"start": "earliest", "end": "latest"} if mode == "replay" else {}
    tasks = [made(task_id=name, load=OrderedLoad(name, ["t"]), mode=mode, to="topic:out", **ends) for name in loads]
    return SimpleNamespace(tasks=tasks)


def loads_of(*files):
    return [(each.name, each.status, each.found) for each in compared(files)]


def test_the_doctor_names_the_files_that_define_one_load():
    assert loads_of(
        ("dags:a.py", {"a": a_dag("orders", "refunds")}), ("dags:r.py", {"r": a_dag("orders", mode="replay")})
    ) == [("DAG files", "ok", "2 loads in 2 files, each defined once")]
    assert loads_of(("dags:a.py", {"a": a_dag(LOAD)}), ("more:a.py", {"a": a_dag(LOAD)}), ("dags:b.py", None)) == [
        (f"load {LOAD}", "broken", "is defined by DAG 'a' of dags:a.py and by DAG 'a' of more:a.py"),
        ("DAG files", "warning", "dags:b.py cannot be parsed, so their loads are not known"),
    ]
    (_, *found), *_ = loads_of(("dags:a.py", {"a": a_dag(LOAD), "i": a_dag(LOAD, mode="interval")}))
    assert found == ["broken", "is defined by DAG 'a' of dags:a.py and by DAG 'i' of dags:a.py"]


def test_the_doctor_names_a_load_whose_ledger_is_kept_nowhere_beside_all_else(monkeypatch):
    monkeypatch.setenv("AIRFLOW__ORDEREDKAFKA__LEDGER", "ledgers")
    (load, status, found), (files, *_) = loads_of(("dags:a.py", {"a": a_dag(LOAD)}), ("dags:b.py", None))
    assert (load, status, files) == (f"load {LOAD}", "broken", "DAG files")
    assert "'ledgers'" in found
