"""What Airflow's OpenLineage provider tells of a load: into a file, as it would tell a server."""

from dataclasses import replace

import pytest
from support.runs import a_range, a_report

from airflow_provider_orderedkafka import Allow, DeltaOutput, FilesOutput, IcebergOutput, KafkaOutput, Rows
from airflow_provider_orderedkafka.core.status import COUNTED, AuditRow
from airflow_provider_orderedkafka.job import Job
from airflow_provider_orderedkafka.reporting import lineage

pytest.importorskip("airflow.providers.openlineage", reason="it is not required")


REPORT = replace(a_report(a_range("r", 0, 0, 5), 1), dead_letters=1)


def flow(topics, to, letters=None, servers=None, report=REPORT):
    rows = Rows() if letters is None else Rows(bad_records=Allow(1, letters))
    return lineage.Flow("one:9092,two:9092", topics, Job(to, rows), "spark_default", report, servers)


def names(flow):
    found = lineage.facets(flow)
    return [(each.namespace, each.name) for each in found.inputs], [(e.namespace, e.name) for e in found.outputs]


@pytest.mark.parametrize(
    ("output", "servers", "outputs"),
    [
        (KafkaOutput("a"), None, [("kafka://one:9092", "a")]),
        (KafkaOutput(topics=["b", "a"]), None, [("kafka://one:9092", "b"), ("kafka://one:9092", "a")]),
        (KafkaOutput("a", kafka_conn_id="second"), "other:9092", [("kafka://other:9092", "a")]),
        (KafkaOutput("a", kafka_conn_id="second"), "SASL_SSL://other:9092", [("kafka://other:9092", "a")]),
        (IcebergOutput("lake.sales.orders"), None, [("spark://spark_default", "lake.sales.orders")]),
        (DeltaOutput(table="sales.orders"), None, [("spark://spark_default", "sales.orders")]),
        (DeltaOutput("s3a://bucket/sales/orders/"), None, [("s3://bucket", "sales/orders")]),
        (FilesOutput("/data/orders"), None, [("file", "/data/orders")]),
        (FilesOutput("hdfs:///data/orders"), None, [("hdfs", "/data/orders")]),
        (None, None, []),
    ],
)
def test_outputs_are_named_as_openlineage_names_datasets(output, servers, outputs):
    inputs = [("kafka://one:9092", "orders"), ("kafka://one:9092", "refunds")]
    assert names(flow(["orders", "refunds"], output, servers=servers)) == (inputs, outputs)


@pytest.mark.parametrize(
    ("output", "letters", "servers", "dataset"),
    [
        (KafkaOutput("a"), "dead", None, ("kafka://one:9092", "dead")),
        (KafkaOutput("a", kafka_conn_id="second"), "dead", "other:9092", ("kafka://other:9092", "dead")),
        (IcebergOutput("lake.orders"), "dead", None, ("kafka://one:9092", "dead")),
        (IcebergOutput("lake.orders"), IcebergOutput("lake.dead"), None, ("spark://spark_default", "lake.dead")),
        (DeltaOutput("/orders"), DeltaOutput("s3a://bucket/dead"), None, ("s3://bucket", "dead")),
    ],
)
def test_dead_letters_are_named_in_a_run_that_had_some(output, letters, servers, dataset):
    named = flow(["orders"], output, letters, servers)
    assert dataset in names(named)[1]
    assert dataset not in names(replace(named, report=replace(REPORT, dead_letters=0)))[1]


def test_rows_are_told_where_it_is_known_of_which_topic_they_are():
    found = lineage.facets(flow(["orders", "refunds"], KafkaOutput(topics=["a", "b"])))
    assert [each.inputFacets for each in found.inputs] == [{}, {}]
    assert [each.outputFacets for each in found.outputs] == [{}, {}]


def test_a_task_that_loaded_nothing_has_no_lineage():
    assert names(None) == ([], [])


@pytest.mark.parametrize(
    ("found", "asserted"),
    [
        ({}, dict.fromkeys(COUNTED, True)),
        ({"missing": 2}, {name: name != "missing" for name in COUNTED}),
        ({"unknown": 5}, {"unknown": False}),
        ({"doubled": 1, "unknown": 5}, {"doubled": False, "unknown": False}),
    ],
    ids=["clean", "wrong", "not known", "wrong, and the rest not known"],
)
def test_an_audit_asserts_only_what_it_knows(found, asserted):
    audit = AuditRow(1, "found", **found)
    (_, output) = lineage.checked(flow(["orders"], KafkaOutput("out")), audit).inputs
    (facet,) = output.inputFacets.values()
    assertions = {each.assertion.removeprefix("no row is "): each.success for each in facet.assertions}
    assert assertions == asserted
