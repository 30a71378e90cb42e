"""Records are decoded in an environment that has Spark, and what `orderedkafka bundle --requirements` says; no more."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2
from support.another_spark import environment, spark
from support.ranges import whole_range
from support.records import Record, Records
from support.registry import registry
from support.topics import Topics

from airflow_provider_orderedkafka.decoding.formats import Avro, Decode, JsonSchema, Protobuf
from airflow_provider_orderedkafka.tools import cli

pytestmark = [pytest.mark.fault, pytest.mark.timeout(900)]

OTHERS = [pytest.param(version, marks=pytest.mark.nightly) for version in ("4.0.4", "4.1.3", "4.2.0", "4.3.0")]
ORDER = {"type": "record", "name": "order", "fields": [{"name": "id", "type": "long"}]}
OBJECT = {"type": "object", "title": "order", "properties": {"id": {"type": "integer"}}}
PROTO = 'syntax = "proto3"; package shop; message Order { int64 id = 1; }'
TRANSFORM = """
def to_text(records):
    return records.selectExpr("key", "to_json(value) AS value", "_source")
"""

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with registry(tmp_path_factory.mktemp("registry")) as found:
        yield found


def descriptors() -> bytes:
    """What `protoc` makes of PROTO."""
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    file.message_type.add(name="Order").field.add(name="id", number=1, type=3, label=1)
    return descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()


def written(client: SchemaRegistryClient, topics: dict[str, str]) -> dict[str, tuple[bytes, Decode]]:
    """For each format a record as its serialiser writes it into a topic, and how it is decoded."""
    contexts = {kind: SerializationContext(topic, MessageField.VALUE) for kind, topic in topics.items()}
    avro = AvroSerializer(client, json.dumps(ORDER))({"id": 7}, contexts["avro"])
    objects = JSONSerializer(json.dumps(OBJECT), client)({"id": 7}, contexts["json"])
    number = client.register_schema(f"{topics['protobuf']}-value", Schema(PROTO, "PROTOBUF"))
    first_message, seven = b"\x00", b"\x08\x07"
    message = b"\x00" + number.to_bytes(4, "big") + first_message + seven
    return {
        "avro": (avro, Decode(value=Avro(registry="main"))),
        "json": (objects, Decode(value=JsonSchema(registry="main"))),
        "protobuf": (message, Decode(value=Protobuf(registry="main", descriptors=descriptors()))),
    }


@pytest.fixture
def run(kafka: Any, tmp_path: Path, url: str) -> Run:
    """Runs the packaged application by the spark-submit of an environment, as on a cluster without Airflow."""
    assert cli.main(["bundle", str(tmp_path / "code")]) == 0
    [bundle] = (tmp_path / "code").glob("*.zip")
    (tmp_path / "to_text.py").write_text(TRANSFORM)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYSPARK", "SPARK"))}
    secret = json.dumps({"registry.url": url})

    def submit(home: Path, source: str, output: str, decode: Decode, **more: str) -> "subprocess.CompletedProcess[str]":
        loaded = whole_range(kafka.bootstrap_servers, source)
        load = [
            *("--range", loaded.to_text(), "--checkpoint", str(tmp_path / source), "--output-topic", output),
            *("--option", f"kafka.bootstrap.servers={kafka.bootstrap_servers}", "--decode", decode.to_text()),
            *("--transform", "to_text:to_text"),
        ]
        files = f"{bundle},{tmp_path / 'to_text.py'}"
        command = [home / "bin" / "spark-submit", "--master", "local[1]", "--py-files", files]
        return subprocess.run(
            [*command, tmp_path / "code" / "ordered_replay.py", *load],
            env={**kept, "PYSPARK_PYTHON": str(home / "bin" / "python"), "ORDEREDKAFKA_OPTIONS": secret, **more},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

    return submit


@pytest.mark.parametrize("version", ["3.5.8", *OTHERS])
def test_each_format_is_decoded_with_what_the_requirements_name_and_nothing_else(
    run: Run, topics: Topics, records: Records, url: str, version: str
) -> None:
    home = environment(spark(version))
    sources = {kind: topics.create(kind) for kind in ("avro", "json", "protobuf")}
    with SchemaRegistryClient({"url": url}) as client:
        made = written(client, sources)
    for kind, (value, decode) in made.items():
        records.produce(sources[kind], [Record(value, 1)])
        output = topics.create(f"{kind}-out")
        done = run(home, sources[kind], output, decode)
        assert done.returncode == 0, (kind, done.stderr[-4_000:])
        assert [json.loads(each.value or b"") for each in records.read(output)] == [{"id": 7}], kind
