"""Where keys belong, by the partitioners that producers use."""

import zlib

import pyarrow as pa

from airflow_provider_orderedkafka.kafka.write.writing import PARTITIONERS, misplaced


def batch(*rows: tuple[bytes | None, int]) -> pa.RecordBatch:
    keys, partitions = zip(*rows, strict=True)
    return pa.record_batch({"key": pa.array(keys, pa.binary()), "partition": pa.array(partitions, pa.int32())})


def test_crc32_is_zlibs() -> None:
    keys = [b"a", b"", b"orders-17", None]
    found = PARTITIONERS["crc32"](pa.array(keys, pa.binary()), 7).to_pylist()
    assert found == [zlib.crc32(b"a") % 7, 0, zlib.crc32(b"orders-17") % 7, None]


def test_keys_that_are_in_another_partition_are_found_and_rows_without_a_key_are_not_looked_at() -> None:
    there = zlib.crc32(b"a") % 7
    assert misplaced(batch((b"a", there), (None, 3), (b"a", there)), ("crc32", 7)) == 0
    assert misplaced(batch((b"a", there), (None, 3), (b"a", (there + 1) % 7)), ("crc32", 7)) == 1
