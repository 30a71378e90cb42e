"""An application author's program, for a type checker: nothing is ignored here."""

from pyspark.sql import DataFrame, SparkSession

from airflow_provider_orderedkafka.errors import OrderedKafkaError, exit_code
from airflow_provider_orderedkafka.kafka.provenance import read_provenance
from airflow_provider_orderedkafka.spark import register
from airflow_provider_orderedkafka.spark.app import run_available_now
from airflow_provider_orderedkafka.spark.ordering import keep_order
from airflow_provider_orderedkafka.spark.rows import row_transform
from airflow_provider_orderedkafka.spark.table_sink import table_sink


def only_paid(records: DataFrame) -> DataFrame:
    return records.where("get_json_object(cast(value as string), '$.state') = 'paid'")


@row_transform("key binary, value string")
def upper(record: dict[str, bytes]) -> dict[str, bytes | str]:
    return {"key": record["key"], "value": record["value"].decode().upper()}


def copy(session: SparkSession) -> None:
    register(session)
    read: DataFrame = session.read.format("orderedkafka").option("subscribe", "orders").load()
    keep_order(read, by="key", writers=2).write.format("orderedkafka").mode("append").save()


def offset_of(headers: list[tuple[str, bytes]]) -> int | None:
    try:
        found = read_provenance(headers)
    except OrderedKafkaError as error:
        raise SystemExit(exit_code(error)) from error
    return None if found is None else found.offset


if __name__ == "__main__":
    run_available_now(arrow_transform=upper)
    report = run_available_now(only_paid, sink=table_sink)
    if report is not None:
        print(report.rows_emitted, report.late)
