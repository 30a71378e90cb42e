"""Formats and transforms in a DAG: checked when it is parsed, and passed on to the application."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from airflow_provider_orderedkafka import Avro, Decode, DeltaOutput, Json, OrderedLoad
from airflow_provider_orderedkafka.errors import SettingError

GOOD = {"schedule": None, "catchup": False, "max_active_runs": 1}


def orders_in(folder, load=None, **arguments):
    from airflow.sdk import DAG

    from airflow_provider_orderedkafka.dag import ordered_load

    with DAG("parsed", start_date=datetime(2026, 1, 1, tzinfo=UTC), **GOOD) as dag:
        dag.fileloc = str(folder / "orders.py")
        return ordered_load(OrderedLoad("orders", topics=["orders"], **(load or {})), output_topic="out", **arguments)


def test_a_transform_and_formats_reach_the_application_and_tell_the_output_from_others(tmp_path):
    (tmp_path / "mine.py").write_text("def enrich(frame):\n    return frame\n")
    decode = Decode(value=Avro(registry="main"), max_bad_records=5, dead_letters="dead")
    steps = orders_in(tmp_path, decode=decode, transform="mine:enrich", py_files="a.py").steps
    load = steps["load"]
    assert load.application_args == ["--transform", "mine:enrich"]
    assert load.py_files == f"a.py,{tmp_path / 'mine.py'}"
    assert load._arguments("r.json", "/c", 1)[-2:] == ["--decode", decode.to_text()]
    assert "transform='mine:enrich'" in load.digest
    assert '"format": "avro", "registry": "main"' in load.digest
    assert steps["resolve"].outputs == ["out", "dead"], "both have to be there before a range is written down"
    other = orders_in(tmp_path, decode=replace(decode, max_bad_records=9), transform="mine:enrich").steps["load"]
    assert other.digest == load.digest, "so many bad records more may be let pass to get out of an error"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"decode": "avro"}, r"decode must be Decode\(value=..., key=...\), found 'avro'"),
        ({"decode": Decode(value=Json("a int"), max_bad_records=1, dead_letters="orders")}, r"dead_letters='orders'"),
        ({"decode": Decode(max_bad_records=1, dead_letters=DeltaOutput("/dead"))}, r"where rows go to Kafka"),
        ({"transform": "mine:enrich"}, r"no mine\.py beside the DAG file"),
    ],
)
def test_formats_and_transforms_are_checked_when_the_dag_is_parsed(tmp_path, arguments, why):
    with pytest.raises(SettingError, match=why):
        orders_in(tmp_path, **arguments)


def test_bad_records_and_a_row_limit_are_refused_together(tmp_path):
    decode = Decode(value=Json("a int"), max_bad_records=1, dead_letters="dead")
    with pytest.raises(SettingError, match="row_limit=5 and max_bad_records=1"):
        orders_in(tmp_path, {"row_limit": 5}, decode=decode)
