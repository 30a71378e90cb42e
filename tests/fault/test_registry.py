"""A real registry, a real Kafka, a real Spark: from Confluent's serialisers to decoded rows."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.sql import SparkSession
from support.applications import Application
from support.ranges import whole_range
from support.records import Record, Records
from support.registry import registry
from support.topics import Topics

from airflow_provider_orderedkafka.decoding.formats import Avro, Decode, JsonSchema, Protobuf
from airflow_provider_orderedkafka.decoding.registry import Registry
from airflow_provider_orderedkafka.errors import SettingError

pytestmark = pytest.mark.fault

TAGS = {"name": "tags", "type": {"type": "map", "values": "long"}, "default": {}}
V1 = {"type": "record", "name": "order", "fields": [{"name": "id", "type": "long"}, TAGS]}
V2 = {**V1, "fields": [*V1["fields"], {"name": "state", "type": "string", "default": "new"}]}
OBJECT = {"type": "object", "title": "order", "properties": {"id": {"type": "integer"}, "state": {"type": "string"}}}
START = 1_700_000_000_000


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with registry(tmp_path_factory.mktemp("registry")) as found:
        yield found


@pytest.fixture
def client(url: str) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": url}) as found:
        yield found


@pytest.fixture
def app(kafka: Any, spark: SparkSession, tmp_path: Path) -> Application:
    return Application(kafka.bootstrap_servers, tmp_path)


def written(
    client: SchemaRegistryClient, topic: str, schema: dict[str, Any], rows: list[dict[str, Any]]
) -> list[bytes]:
    serialize = AvroSerializer(client, json.dumps(schema))
    return [serialize(row, SerializationContext(topic, MessageField.VALUE)) for row in rows]


def to_text(frame: Any) -> Any:
    return frame.selectExpr("key", "to_json(value) value", "_source")


def loaded(app: Application, url: str, topic: str, output: str, decode: Decode) -> Any:
    argv = ["--output-topic", output, "--option", f"registry.url={url}", "--decode", decode.to_text()]
    return app.load(whole_range(app.servers, topic), *argv, transform=to_text)


def test_avro_of_two_schemas_and_a_record_without_one(
    app: Application, topics: Topics, records: Records, url: str, client: SchemaRegistryClient
) -> None:
    source, output, dead = (topics.create(name, 1) for name in ("a", "out", "dead"))
    values = [
        *written(client, source, V1, [{"id": 1, "tags": {"x": 1}}, {"id": 2}]),
        b"plain text",
        *written(client, source, V2, [{"id": 3, "state": "paid"}]),
    ]
    records.produce(source, [Record(value, START + n) for n, value in enumerate(values)])
    decode = Decode(value=Avro(registry="main"), max_bad_records=1, dead_letters=dead)
    report = loaded(app, url, source, output, decode)
    found = [json.loads(each.value or b"") for each in records.read(output)]
    states = {1: "new", 2: "new", 3: "paid"}
    assert found == [{"id": n, "tags": {"x": 1} if n == 1 else {}, "state": state} for n, state in states.items()]
    assert [each.value for each in records.read(dead)] == [b"plain text"]
    assert (report.rows_emitted, report.dead_letters) == (3, 1)


def test_json_schema(
    app: Application, topics: Topics, records: Records, url: str, client: SchemaRegistryClient
) -> None:
    source, output = topics.create("a", 1), topics.create("out", 1)
    serialize = JSONSerializer(json.dumps(OBJECT), client)
    value = serialize({"id": 1, "state": "paid"}, SerializationContext(source, MessageField.VALUE))
    records.produce(source, [Record(value, START)])
    loaded(app, url, source, output, Decode(value=JsonSchema(registry="main")))
    assert [json.loads(each.value or b"") for each in records.read(output)] == [{"id": 1, "state": "paid"}]


def test_a_subject_that_is_not_there_is_told_by_its_name(url: str) -> None:
    with pytest.raises(SettingError, match="has no subject 'nothing-value'"):
        Registry({"url": url}).newest("nothing-value")


def test_a_protobuf_schema_is_read_by_descriptors_if_the_registry_gives_its_source(
    client: SchemaRegistryClient, url: str
) -> None:
    from google.protobuf import descriptor_pb2

    from airflow_provider_orderedkafka.decoding.payloads import PayloadDecoder

    source = 'syntax = "proto3"; package shop; message Order { int64 id = 1; }'
    client.register_schema("proto-value", Schema(source, "PROTOBUF"))
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    file.message_type.add(name="Order").field.add(name="id", number=1, type=3, label=1)
    descriptors = descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()
    form = Protobuf(registry="main", descriptors=descriptors)
    found = PayloadDecoder.of("value", form, ["proto"], Registry({"url": url}))
    assert str(found.type) == "struct<id: int64>"
