"""What a person asks of a run in its form holds for its range, and for whoever loads that."""

import pytest
from support.bench import steps_of
from support.messages import says

ALL = ("wait", "resolve", "load", "commit")


def form_text(found, key, step="resolve"):
    (task,) = [ti for ti in found.get_task_instances() if ti.task_id.endswith(f".{step}")]
    return task.xcom_pull(task_ids=task.task_id, key=key)


def run(bench, settings="", arguments="", **form):
    """A run of a DAG that is parsed for it, as by a worker: Airflow keeps what a form says in the parsed one."""
    return bench.dag(settings, arguments, params="load_params()").test(run_conf=form)


def test_a_run_by_hand_loads_what_is_there_below_the_minimum(bench, states, capsys):
    bench.write(3)
    found = bench.dag("min_offsets=10").test()
    assert steps_of(bench, states(found)) == dict.fromkeys(ALL, "success")
    assert [entry["offsets"] for entry in bench.diary] == [3]
    assert form_text(found, "return_value", "wait") == (
        "started by hand, so it does not wait: 3 of 10 offsets are there, no delay is set"
    )


def test_a_run_loads_as_much_as_its_form_says_and_the_next_one_the_rest(bench, ledger_of):
    bench.write(10)
    run(bench, "max_offsets=6", max_offsets=4)
    said = "4 offsets in 1 partition, the most that this run was asked for; 6 wait for the next run"
    assert ledger_of(bench.load).outcomes[-1].reason == said
    assert [entry["offsets"] for entry in bench.diary] == [4]
    run(bench, "max_offsets=6", max_offsets=100)
    said = "6 offsets in 1 partition, the most that max_offsets=6 allows"
    assert ledger_of(bench.load).outcomes[-1].reason == said


@pytest.mark.parametrize(
    ("asked", "of_the_load", "said"), [(4, None, "run"), (4, 9, "run"), (9, 4, "limit"), (None, 4, "limit")]
)
def test_the_smaller_one_of_two_row_limits_is_written_down_with_the_range(bench, ledger_of, asked, of_the_load, said):
    bench.write(3)
    run(bench, f"row_limit={of_the_load}", row_limit=asked)
    assert says(ledger_of(bench.load).outcomes[-1].reason, f"{said} ... 4 ... rows")


def test_what_a_run_was_asked_for_holds_for_whoever_takes_its_range_over(bench, states, ledger_of):
    bench.write(10)
    bench.order("fail 75")
    run(bench, max_offsets=4)
    refused = run(bench, max_offsets=3)
    assert steps_of(bench, states(refused))["resolve"] == "failed"
    assert ledger_of(bench.load).open.owner != f"{bench.load}/{refused.run_id}"
    run(bench)
    assert [(entry["offsets"], entry["attempt"]) for entry in bench.diary] == [(4, 1), (4, 2)]
    run(bench)
    assert bench.diary[-1]["offsets"] == 6


def test_a_run_whose_form_says_so_waits(bench, states):
    bench.write(3)
    wait = 'tasks={"wait": {"deferrable": False, "poke_interval": 0.2, "timeout": 1, "soft_fail": True}}'
    assert steps_of(bench, states(run(bench, "min_offsets=10", wait, now=False)))["wait"] == "skipped"
    assert bench.diary == []
    assert steps_of(bench, states(run(bench, "min_offsets=10", wait)))["commit"] == "success"


def test_where_some_records_may_be_bad_the_form_asks_for_no_rows_and_takes_none(bench, states, capsys, topics):
    bench.write(3)
    rows = f'decode=Decode(value=Json("a long")), bad_records=Allow(1, to={topics.create("dead")!r})'
    dag = bench.dag(arguments=f'to="topic:{bench.output}"', rows=rows, params="load_params(row_limit=False)")
    assert list(dag.params) == ["now", "max_offsets"]
    assert steps_of(bench, states(dag.test(run_conf={"row_limit": 2})))["resolve"] == "failed"
    assert "'row_limit'" in "".join(capsys.readouterr())
    assert bench.diary == []
    assert dag.test(run_conf={"max_offsets": 2}).state == "success"
