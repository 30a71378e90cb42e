"""A range that is open while its DAG, its day or its machine changes, by spark-submit and by another operator.

The application is a quick one, which notes a batch before it fails.
"""

import shutil
from pathlib import Path

import pytest
from support.bench import steps_of
from support.messages import says

from airflow_provider_orderedkafka import context

TO_WHAT_IS_ASKED = 'to=KafkaOutput("{{ dag_run.conf.to }}")'
ENDED = dict.fromkeys(("wait", "resolve", "load", "commit"), "success")


class Loading:
    """The bench's load, started one way; its checkpoints are in a folder."""

    def __init__(self, way, bench, states, ledger_of, folder):
        self._first = "" if way == "spark-submit" else "from support.services import by_shell"
        self._spark = "" if way == "spark-submit" else "spark=by_shell,"
        self._bench, self._states, self._ledger_of, self.folder = bench, states, ledger_of, folder

    def run(self, arguments, *orders, rows="", **conf):
        """A run that does as it is told; the states of its tasks, and the run."""
        self._bench.order(*orders)
        arguments = f"{arguments}, {self._spark} checkpoint={str(self.folder)!r}"
        run = self._bench.dag(arguments=arguments, rows=rows, first=self._first).test(run_conf=conf)
        return steps_of(self._bench, self._states(run)), run

    @property
    def ledger(self):
        return self._ledger_of(self._bench.load)


@pytest.fixture(params=["spark-submit", "another operator"])
def loading(request, bench, states, ledger_of, tmp_path):
    bench.write(5)
    return Loading(request.param, bench, states, ledger_of, tmp_path / "checkpoints")


def outputs(bench):
    return [entry["job"]["to"]["topic"] for entry in bench.diary]


def test_a_run_whose_template_says_another_place_finishes_a_range_where_it_was_begun(loading, bench, topics):
    from airflow.models.asset import AssetEvent
    from airflow.utils.session import create_session
    from sqlalchemy import select

    tomorrow = topics.create("tomorrow")
    assert loading.run(TO_WHAT_IS_ASKED, "note 75", to=bench.output)[0]["load"] == "failed"
    assert loading.run(TO_WHAT_IS_ASKED, to=tomorrow)[0] == ENDED
    assert outputs(bench) == [bench.output] * 2
    with create_session() as session:
        events = session.scalars(select(AssetEvent).where(AssetEvent.source_dag_id == bench.load)).all()
        assert [e.asset.uri.rpartition("/")[2] for e in events if "status" not in e.extra] == [bench.output]
    bench.write(3)
    assert loading.run(TO_WHAT_IS_ASKED, to=tomorrow)[0] == ENDED
    assert outputs(bench)[2:] == [tomorrow]


@pytest.mark.parametrize("loading", ["spark-submit"], indirect=True)  # the resolve task says so
def test_a_template_that_the_dag_says_otherwise_is_refused_once_a_batch_is_noted(loading, bench, topics, capsys):
    other = topics.create("other")
    assert loading.run(TO_WHAT_IS_ASKED, "note 75", to=bench.output)[0]["load"] == "failed"
    changed = TO_WHAT_IS_ASKED.replace("conf.to", "conf.other")
    assert loading.run(changed, to=bench.output, other=other)[0]["resolve"] == "failed"
    said = capsys.readouterr().out
    assert says(said, "'{{ dag_run.conf.to }}', ... '{{ dag_run.conf.other }}'")
    assert loading.ledger.open.attempt == 1


def test_application_and_ledger_agree_on_the_first_place_of_a_range_whose_checkpoint_is_moved(loading, bench):
    to = f"to=KafkaOutput({bench.output!r})"
    assert loading.run(to, "note 75")[0]["load"] == "failed"
    first = loading.ledger.open.checkpoint
    loading.folder = loading.folder.with_name("moved")
    assert loading.run(to, "note 75")[0]["load"] == "failed"
    assert loading.ledger.open.checkpoint == first
    states, run = loading.run(to)
    assert states == ENDED
    place = run.get_task_instance(f"{bench.load}.resolve").xcom_pull(task_ids=f"{bench.load}.resolve", key="checkpoint")
    assert {place, *(entry["checkpoint"] for entry in bench.diary)} == {first}


def test_another_attempt_on_another_disk_is_refused_before_it_is_counted_until_its_state_is_back(
    loading, bench, monkeypatch, capsys
):
    to = f"to=KafkaOutput({bench.output!r})"
    monkeypatch.setattr(context.platform, "node", lambda: "worker-1")
    assert loading.run(to, "note 75")[0]["load"] == "failed"
    place = Path(loading.ledger.open.checkpoint)
    shutil.move(place, place.with_name("on-worker-1"))
    monkeypatch.setattr(context.platform, "node", lambda: "worker-2")
    capsys.readouterr()
    assert loading.run(to)[0]["load"] == "failed"
    said = capsys.readouterr().out
    assert says(said, "'worker-1', ... 'worker-2'")
    assert repr(str(place)) in said
    assert "checkpoint=" in said
    assert f"orderedkafka ledger abandon {bench.load}" in said
    assert (loading.ledger.open.attempt, len(bench.diary)) == (1, 1)
    shutil.move(place.with_name("on-worker-1"), place)
    assert loading.run(to)[0] == ENDED
    assert [entry["attempt"] for entry in bench.diary] in ([1, 2], [0, 0])


@pytest.mark.parametrize("loading", ["another operator"], indirect=True)
def test_workers_that_change_their_names_go_on_where_their_volume_is_one(loading, bench, monkeypatch):
    to = f"to=KafkaOutput({bench.output!r})"
    for number, orders in enumerate((["note 75"], ["fail 75"], []), start=1):
        monkeypatch.setattr(context.platform, "node", lambda number=number: f"pod-{number}")
        states, _ = loading.run(to, *orders)
        if orders:
            assert (states["load"], loading.ledger.open.machine) == ("failed", f"pod-{number}")
    assert states == ENDED
    assert len({entry["range"] for entry in bench.diary}) == 1
