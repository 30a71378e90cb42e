"""Another way to run the application than spark-submit, kept in the same books. The application is a quick one."""

import sys
from datetime import UTC, datetime

from support.bench import APPLICATION, steps_of

SOURCE = """
from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

from airflow_provider_orderedkafka import OrderedLoad
from airflow_provider_orderedkafka.dag import ordered_load

def elsewhere(launch):
    return BashOperator(
        bash_command='{python} {application} {more} --range "$RANGE" --checkpoint "$CHECKPOINT"; code=$?; '
            'test -f "$REPORT" && exit $code',
        env={{"RANGE": launch.range, "CHECKPOINT": launch.checkpoint, "REPORT": launch.report}},
        append_env=True,
        **launch.task,
    )

load = OrderedLoad({load!r}, topics=[{topic!r}], start="earliest")
with DAG({load!r}, schedule=None, catchup=False, max_active_runs=1):
    ordered_load(load, submit=elsewhere, checkpoint={checkpoint!r}, {arguments})
"""


def a_dag(bench, dag_file, folder, arguments=""):
    more = f"--diary {folder / 'diary'} --orders {folder / 'orders'}"
    facts = {"python": sys.executable, "application": APPLICATION, "checkpoint": str(folder / "checkpoints")}
    source = SOURCE.format(load=bench.load, topic=bench.topic, more=more, arguments=arguments, **facts)
    return dag_file(source, "elsewhere.py")


def test_what_fails_elsewhere_is_taken_over_by_the_next_run_with_the_next_attempt(
    bench, dag_file, states, ledger_of, tmp_path
):
    bench.write(5)
    bench.order("fail 75")
    dag = a_dag(bench, dag_file, tmp_path)
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


def test_what_is_committed_is_not_started_elsewhere_again(bench, dag_file, states, tmp_path):
    bench.write(5)
    dag = a_dag(bench, dag_file, tmp_path, 'mode="replay", start="earliest", end="latest"')
    when = {"logical_date": datetime(2026, 1, 1, tzinfo=UTC), "run_after": datetime(2026, 1, 1, tzinfo=UTC)}
    assert dag.test(**when).state == "success"
    assert steps_of(bench, states(dag.test(**when))) == {"resolve": "success", "load": "skipped", "commit": "success"}
    assert len(bench.diary) == 1


def test_what_airflow_could_not_read_later_is_not_started_elsewhere(bench, dag_file, states, ledger_of, tmp_path):
    bench.write(5)
    source = SOURCE.format(
        load=bench.load,
        topic=bench.topic,
        more=f"--diary {tmp_path / 'diary'}",
        arguments="",
        python=sys.executable,
        application=APPLICATION,
        checkpoint="nope://bucket/loads",
    )
    assert steps_of(bench, states(dag_file(source, "elsewhere.py").test()))["load"] == "failed"
    assert ledger_of(bench.load).open.attempt == 0
    assert bench.diary == []
