"""How rows are made, in a DAG: checked when it is parsed, and shipped with the application."""

from datetime import UTC, datetime

import pytest

from airflow_provider_orderedkafka import (
    Allow,
    Avro,
    Decode,
    Json,
    KafkaOutput,
    OrderedLoad,
    Rows,
    SparkSubmit,
    ordered_load,
)

GOOD = {"schedule": None, "catchup": False, "max_active_runs": 1}


def orders_in(folder, load=None, **arguments):
    from airflow.sdk import DAG

    with DAG("parsed", start_date=datetime(2026, 1, 1, tzinfo=UTC), **GOOD) as dag:
        dag.fileloc = str(folder / "orders.py")
        return ordered_load(
            OrderedLoad("orders", topics=["orders"], **(load or {})), to=KafkaOutput("out"), **arguments
        )


@pytest.mark.parametrize("kind", ["transform", "arrow_transform"])
def test_the_module_of_a_transform_beside_the_dag_travels_with_the_application_and_the_formats_in_its_job(
    tmp_path, kind
):
    (tmp_path / "mine.py").write_text("def enrich(frame):\n    return frame\n")
    rows = Rows(decode=Decode(value=Avro(registry="main")), bad_records=Allow(5, "dead"), **{kind: "mine:enrich"})
    tasks = orders_in(tmp_path, rows=rows, spark=SparkSubmit(py_files="a.py")).tasks
    assert tasks["load"].spark.py_files == f"a.py,{tmp_path / 'mine.py'}"
    job = tasks["resolve"]._job({})
    assert job.rows == rows
    assert job.topics == ("out", "dead"), "both have to be there before a range is written down"


DECODE = Decode(value=Json("a int"))
