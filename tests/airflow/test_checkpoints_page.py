"""The loads of the page "Checkpoints in object stores", as they stand there."""

import re
from pathlib import Path

import pytest

from airflow_provider_orderedkafka import KafkaOutput, OrderedLoad, SparkSubmit, ordered_load

PAGE = (Path(__file__).parents[2] / "docs" / "checkpoints.md").read_text("utf-8")
LOADS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize(("scheme", "code"), list(zip(("s3a", "abfss", "gs"), LOADS, strict=True)))
def test_a_load_is_submitted_with_the_package_and_the_settings_of_its_store(scheme, code):
    from airflow.sdk import DAG

    with DAG("stored", schedule=None, catchup=False, max_active_runs=1) as dag:
        orders = OrderedLoad("orders", topics=["orders"])
        exec(code, {each.__name__: each for each in (KafkaOutput, SparkSubmit, ordered_load)} | {"orders": orders})
    load = dag.get_task("orders.load")
    assert load.checkpoint.startswith(f"{scheme}://")
    assert load.spark.packages.startswith("org.apache.hadoop:hadoop-")
    assert all(type(text) is str for setting in load.spark.conf.items() for text in setting)
