"""Another way to run the application than spark-submit, kept in the same books. The application is a quick one."""

from datetime import UTC, datetime

from support.bench import steps_of


def a_dag(bench, folder, arguments="", *, group="ordered_load", checkpoint=None):
    arguments = f"spark=by_shell, checkpoint={checkpoint or str(folder / 'checkpoints')!r}, {arguments}"
    return bench.dag(arguments=arguments, group=group, first="from support.services import by_shell")


def test_what_fails_elsewhere_is_taken_over_by_the_next_run_with_the_next_attempt(bench, states, ledger_of, tmp_path):
    bench.write(5)
    bench.order("fail 75")
    dag = a_dag(bench, tmp_path)
    first = dag.test()
    assert steps_of(bench, states(first))["load"] == "failed"
    opened = ledger_of(bench.load).open
    assert (opened.attempt, opened.owner) == (1, f"{bench.load}/{first.run_id}")
    assert opened.checkpoint == f"{tmp_path}/checkpoints/{opened.range_id}"
    second = dag.test()
    assert steps_of(bench, states(second)) == dict.fromkeys(("wait", "resolve", "load", "commit"), "success")
    ledger = ledger_of(bench.load)
    assert (ledger.revision, ledger.rows_emitted, ledger.open) == (1, 5, None)
    assert [entry["range"] for entry in bench.diary] == [opened.range_id] * 2


def test_what_is_committed_is_not_started_elsewhere_again(bench, states, tmp_path):
    bench.write(5)
    dag = a_dag(bench, tmp_path, 'start="earliest", end="latest"', group="ordered_replay")
    when = {"logical_date": datetime(2026, 1, 1, tzinfo=UTC), "run_after": datetime(2026, 1, 1, tzinfo=UTC)}
    assert dag.test(**when).state == "success"
    assert steps_of(bench, states(dag.test(**when))) == {"resolve": "success", "load": "skipped", "commit": "success"}
    assert len(bench.diary) == 1


def test_what_airflow_could_not_read_later_is_not_started_elsewhere(bench, states, ledger_of, tmp_path):
    bench.write(5)
    dag = a_dag(bench, tmp_path, checkpoint="nope://bucket/loads")
    assert steps_of(bench, states(dag.test()))["load"] == "failed"
    assert ledger_of(bench.load).open.attempt == 0
    assert bench.diary == []
