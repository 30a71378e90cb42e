"""The operator that maintains a load's table: what it refuses when a DAG is parsed, and a run on a real Delta table."""

import sys
from datetime import timedelta
from pathlib import Path

import pyarrow as pa

from airflow_provider_orderedkafka.core.notation.starts import Moment
from airflow_provider_orderedkafka.tools.commands.at_airflow import store_of

BINARY = str(Path(sys.executable).with_name("spark-submit"))
CANARY = "canary-3e9c41d7"
SOURCE = """
from airflow.sdk import DAG
from airflow_provider_orderedkafka import OrderedLoad, SparkSubmit
from airflow_provider_orderedkafka.operators.maintenance import TableMaintenanceOperator

with DAG("maintained", schedule=None):
    TableMaintenanceOperator(
        task_id="maintain",
        load=OrderedLoad({load!r}, topics=[{topic!r}]),
        to={to!r},
        spark=SparkSubmit(
            spark_binary={binary!r},
            packages="io.delta:delta-spark_4.2_2.13:4.4.0",
            conf={{
                "spark.hadoop.fs.s3a.secret.key": {secret!r},
                "spark.sql.shuffle.partitions": "2",
                "spark.databricks.delta.snapshotPartitions": "2",
            }},
        ),
        retention="1d",
    )
"""


def test_nothing_runs_while_it_is_not_known_what_is_open_and_what_an_open_range_needs_is_kept(
    bench, dag_file, states, tmp_path, capfd
):
    from deltalake import DeltaTable, write_deltalake

    path = tmp_path / "lake"
    for number in range(5):
        write_deltalake(str(path), pa.table({"n": [number]}), mode="append")
    given = {"load": bench.load, "topic": bench.topic, "to": f"delta:{path}", "secret": CANARY, "binary": BINARY}
    dag = dag_file(SOURCE.format(**given), "maintained.py")
    assert states(dag.test()) == {"maintain": "failed"}
    assert "ledger=" in capfd.readouterr().out
    bench.write(1)
    bench.order("fail 65")
    bench.dag().test()
    [opened] = store_of(bench.load).open_ranges()
    run = dag.test()
    printed = capfd.readouterr()
    assert states(run) == {"maintain": "success"}, printed.out[-3000:]
    [maintained] = run.get_task_instances()
    a_day_before = Moment(opened.planned_at - timedelta(days=1) // timedelta(milliseconds=1))
    assert maintained.xcom_pull(task_ids="maintain") == str(a_day_before)
    assert CANARY not in printed.out + printed.err
    found = DeltaTable(str(path))
    assert (len(found.file_uris()), sorted(found.to_pyarrow_table()["n"].to_pylist())) == (1, [*range(5)])
