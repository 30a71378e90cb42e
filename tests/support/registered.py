"""Records that were written with the schemas of a registry, which is Confluent's own stand-in for one."""

import json
from io import BytesIO

import fastavro
import pyarrow as pa
from confluent_kafka.schema_registry import Schema
from confluent_kafka.schema_registry.schema_registry_client import SchemaRegistryClient

from airflow_provider_orderedkafka.decoding import payloads
from airflow_provider_orderedkafka.decoding import registry as registries
from airflow_provider_orderedkafka.decoding.formats import Decode
from airflow_provider_orderedkafka.decoding.payloads import RecordDecoder

REGISTRY = registries.Registry.of({"registry.url": "mock://registry", "subscribe": "orders"})
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def small_registry(monkeypatch):
    """Empty, in this process."""
    client = SchemaRegistryClient.new_client({"url": "mock://registry", "ssl.ca.location": False})  # it asks nobody
    registries._schema.cache_clear()
    payloads._asked.cache_clear()
    monkeypatch.setattr(registries, "_client", lambda _: client)
    return client


def order(*fields):
    return json.dumps({"type": "record", "name": "order", "fields": list(fields)})


ID, NAME = {"name": "id", "type": "int"}, {"name": "name", "type": ["null", "string"], "default": None}
V1 = order(ID)
V2 = order({"name": "id", "type": "long"}, NAME, {"name": "state", "type": "string", "default": "new"})


def register(registry, text, subject="orders-value", kind="AVRO"):
    return registry.register_schema(subject, Schema(text, kind))


def framed(schema_id, text, row):
    data = BytesIO()
    fastavro.schemaless_writer(data, fastavro.parse_schema(json.loads(text)), row)
    return b"\x00" + schema_id.to_bytes(4, "big") + data.getvalue()


def records(values, headers=None):
    count = len(values)
    columns = {
        "key": pa.array([None] * count, pa.binary()),
        "value": pa.array(values, pa.binary()),
        "topic": pa.array(["orders"] * count),
        "partition": pa.array([3] * count, pa.int32()),
        "offset": pa.array(range(10, 10 + count), pa.int64()),
    }
    if headers is not None:
        columns["headers"] = pa.array(headers, HEADERS)
    return pa.RecordBatch.from_pydict(columns)


def decoder(value, max_bad=0):
    return RecordDecoder.of(Decode(value=value), ["orders"], REGISTRY, max_bad)


def decoded(found, batch):
    return found.split(batch)[0]


def values(batch):
    return batch.column("value").to_pylist()
