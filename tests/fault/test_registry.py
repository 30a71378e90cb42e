"""A real registry behind TLS and a login, a real Kafka, a real Spark: from Confluent's serialisers to decoded rows."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.sql import SparkSession
from support.applications import Application
from support.lake import Lake, Loading
from support.ranges import whole_range
from support.records import Record, Records
from support.registry import gate, registry
from support.table_formats import DELTA
from support.topics import Topics

from airflow_provider_orderedkafka.decoding.formats import Avro, Decode, JsonSchema, Protobuf
from airflow_provider_orderedkafka.decoding.registry import Registry
from airflow_provider_orderedkafka.errors import AccessDeniedError, SettingError, UnreachableError
from airflow_provider_orderedkafka.hooks.ordered_kafka import registry_config

pytestmark = pytest.mark.fault

TAGS = {"name": "tags", "type": {"type": "map", "values": "long"}, "default": {}}
V1 = {"type": "record", "name": "order", "fields": [{"name": "id", "type": "long"}, TAGS]}
V2 = {**V1, "fields": [*V1["fields"], {"name": "state", "type": "string", "default": "new"}]}
OBJECT = {"type": "object", "title": "order", "properties": {"id": {"type": "integer"}, "state": {"type": "string"}}}
START = 1_700_000_000_000


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """How the registry's client is configured, by a connection of Airflow's."""
    folder = tmp_path_factory.mktemp("registry")
    with registry(folder) as url, gate(url, "loader:se:cret", folder) as secured:
        extra = {"ssl.ca.location": str(secured.authority)}
        login = {"login": "loader", "password": "se:cret", "extra_dejson": extra}
        yield registry_config("main", SimpleNamespace(host=secured.url, port=None, **login))


@pytest.fixture
def client(config: dict[str, str]) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient(config) as found:
        yield found


@pytest.fixture(autouse=True)
def secret_options(config: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    options = {f"registry.{name}": value for name, value in config.items()}
    monkeypatch.setenv("ORDEREDKAFKA_OPTIONS", json.dumps(options))


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


def loaded(
    app: Application,
    topic: str,
    output: str,
    decode: Decode,
    *more: str,
    transform: Callable[[Any], Any] = to_text,
    **changes: Any,
) -> Any:
    argv = ["--output-topic", output, "--decode", decode.to_text(), *more]
    return app.load(whole_range(app.servers, topic, **changes), *argv, transform=transform)


def rows_of(records: Records, topic: str) -> list[Any]:
    return [json.loads(each.value or b"") for each in records.read(topic)]


def test_avro_of_two_schemas_an_id_in_a_header_and_a_record_without_any(
    app: Application, topics: Topics, records: Records, client: SchemaRegistryClient
) -> None:
    source, output, dead = (topics.create(name, 1) for name in ("a", "out", "dead"))
    first, second, third = written(client, source, V1, [{"id": 1, "tags": {"x": 1}}, {"id": 2}, {"id": 3}])
    [fourth] = written(client, source, V2, [{"id": 4, "state": "paid"}])
    values = [Record(each, START + n) for n, each in enumerate([first, second, b"plain text", fourth])]
    records.produce(source, [*values, Record(third[5:], START + 4, headers=[("__value_schema_id", third[:5])])])
    decode = Decode(value=Avro(registry="main"))
    report = loaded(app, source, output, decode, "--bad-records", "1", "--dead-letters", dead, include_headers=True)
    states = {1: "new", 2: "new", 4: "paid", 3: "new"}
    assert rows_of(records, output) == [
        {"id": n, "tags": {"x": 1} if n == 1 else {}, "state": state} for n, state in states.items()
    ]
    assert [each.value for each in records.read(dead)] == [b"plain text"]
    assert (report.rows_emitted, report.dead_letters) == (4, 1)


def changing(client: SchemaRegistryClient, topics: Topics, records: Records) -> tuple[str, list[dict[str, Any]]]:
    """A topic whose later records have a field that its subject does not have yet; and what will be made of them."""
    source = topics.create("a", 1)
    old = written(client, source, V1, [{"id": n} for n in range(4)])
    new = written(client, "another", V2, [{"id": n, "state": "paid"} for n in range(4, 8)])
    records.produce(source, [Record(value, START + n) for n, value in enumerate([*old, *new])])
    made = [{"id": n} if n < 4 else {"id": n, "state": "paid"} for n in range(8)]
    return source, made


def test_a_field_that_is_registered_during_a_load_ends_the_attempt_and_the_retry_has_it(
    app: Application, topics: Topics, records: Records, client: SchemaRegistryClient, capsys: pytest.CaptureFixture[str]
) -> None:
    source, made = changing(client, topics, records)
    output, decode = topics.create("out", 1), Decode(value=Avro(registry="main"))

    def registering(frame: Any) -> Any:
        """Columns are settled when a transform is asked for its rows."""
        written(client, source, V2, [{"id": 0}])
        return to_text(frame)

    with pytest.raises(SystemExit) as ended:
        loaded(app, source, output, decode, transform=registering, batch_offsets=4)
    assert ended.value.code == 75
    assert "'state'" in capsys.readouterr().err
    assert [row["id"] for row in rows_of(records, output)] == [0, 1, 2, 3]
    report = loaded(app, source, output, decode, transform=registering, batch_offsets=4)
    assert rows_of(records, output) == [{"tags": {}, **row} for row in made]
    assert (report.attempt, report.rows_emitted, report.may_be_doubled) == (2, 8, 0)


@pytest.mark.nightly
def test_a_field_that_its_subject_gets_between_two_attempts_becomes_a_column_of_a_table(
    kafka: Any, topics: Topics, records: Records, client: SchemaRegistryClient, tmp_path: Path
) -> None:
    source, made = changing(client, topics, records)
    lake = Lake(tmp_path, DELTA)
    loaded = whole_range(kafka.bootstrap_servers, source, batch_offsets=4)
    output = DELTA.output(tmp_path, "orders", new_columns="add")
    load = Loading(lake, kafka.bootstrap_servers, tmp_path, loaded, output)
    argv = ("--transform", "support.transforms:fields", "--decode", Decode(value=Avro(registry="main")).to_text())
    assert load.run(*argv)["code"] == 65  # a record of another subject's schema is bad
    written(client, source, V2, [{"id": 0}])
    assert load.run(*argv)["report"]["rows_emitted"] == 8
    assert lake.sql(f"SELECT id, state FROM {load.table} ORDER BY id") == made
    lake.close()


def test_json_schema(app: Application, topics: Topics, records: Records, client: SchemaRegistryClient) -> None:
    source, output = topics.create("a", 1), topics.create("out", 1)
    serialize = JSONSerializer(json.dumps(OBJECT), client)
    value = serialize({"id": 1, "state": "paid"}, SerializationContext(source, MessageField.VALUE))
    records.produce(source, [Record(value, START)])
    loaded(app, source, output, Decode(value=JsonSchema(registry="main")))
    assert rows_of(records, output) == [{"id": 1, "state": "paid"}]


def test_a_subject_that_is_not_there_is_told_by_its_name(config: dict[str, str]) -> None:
    with pytest.raises(SettingError, match="'nothing-value'"):
        Registry(config).newest("nothing-value")


@pytest.mark.parametrize(
    ("without", "error", "said"),
    [
        ("basic.auth.user.info", AccessDeniedError, r"\(401: "),
        ("ssl.ca.location", UnreachableError, "CERTIFICATE_VERIFY_FAILED"),
    ],
    ids=["login", "authority"],
)
def test_without_login_or_authority_nothing_is_read(
    config: dict[str, str], without: str, error: type[Exception], said: str
) -> None:
    lacking = {name: value for name, value in config.items() if name != without}
    with pytest.raises(error, match=said):
        Registry(lacking).newest("nothing-value")


def test_a_protobuf_schema_is_read_by_descriptors_if_the_registry_gives_its_source(
    client: SchemaRegistryClient, config: dict[str, str]
) -> None:
    from google.protobuf import descriptor_pb2

    from airflow_provider_orderedkafka.decoding.payloads import PayloadDecoder

    source = 'syntax = "proto3"; package shop; message Order { int64 id = 1; }'
    number = client.register_schema("proto-value", Schema(source, "PROTOBUF"))
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    file.message_type.add(name="Order").field.add(name="id", number=1, type=3, label=1)
    descriptors = descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()
    form = Protobuf(registry="main", descriptors=descriptors)
    found = PayloadDecoder.of("value", form, ["proto"], Registry(config))
    assert str(found.type) == "struct<id: int64>"
    frame, first_message, seven = b"\x00" + number.to_bytes(4, "big"), b"\x00", b"\x08\x07"
    array, errors = found.decoded(pa.array([frame + first_message + seven]))
    assert (array.to_pylist(), errors) == ([{"id": 7}], {})
