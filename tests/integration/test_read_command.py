"""`orderedkafka read`: what it prints and writes, and how it ends."""

import json
import subprocess
import sys
from io import BytesIO

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from support.records import Record

from airflow_provider_orderedkafka.kafka.write.rows import Source, stamps
from airflow_provider_orderedkafka.tools.cli import main

BASE = 1_700_000_000_000
SETTING = 2


@pytest.fixture
def topic(topics, records):
    """A topic of three partitions, 60 records, a millisecond apart and dealt out in turn."""
    name = topics.create(partitions=3)
    for partition in range(3):
        some = [Record(b'{"order": %d}' % n, BASE + n, partition, b"k%d" % n) for n in range(partition, 60, 3)]
        records.produce(name, some)
    return name


@pytest.fixture
def run(kafka, capfdbinary):
    def running(*arguments):
        code = main(["read", *arguments, "--bootstrap-servers", kafka.bootstrap_servers])
        printed = capfdbinary.readouterr()
        return code, printed.out, printed.err.decode()

    return running


def lines(text):
    return [json.loads(line) for line in text.splitlines()]


def test_records_are_json_lines_in_time_order_where_no_terminal_is(run, topic):
    code, out, _ = run(topic)
    found = lines(out)
    assert code == 0
    assert [row["value"] for row in found] == [f'{{"order": {n}}}' for n in range(60)]
    assert found[4] == {
        "key": "k4",
        "value": '{"order": 4}',
        "topic": topic,
        "partition": 1,
        "offset": 1,
        "timestamp": "2023-11-14T22:13:20.004Z",
        "timestampType": 0,
        "order_time": "2023-11-14T22:13:20.004Z",
        "late": False,
    }


def test_bytes_that_are_no_text_come_in_base64(run, topics, records):
    topic = topics.create()
    records.produce(topic, [Record(b"\xff", BASE, headers=[("a", b"1"), ("b", None)])])
    [row] = lines(run(topic, "--columns", "value,headers")[1])
    assert row == {"value": {"base64": "/w=="}, "headers": [{"key": "a", "value": "1"}, {"key": "b", "value": None}]}


VALUES = {
    "type": "record",
    "name": "values",
    "fields": [
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "days", "type": {"type": "array", "items": {"type": "int", "logicalType": "date"}}},
        {"name": "marks", "type": {"type": "map", "values": "bytes"}},
        {"name": "rate", "type": "double"},
    ],
}


def test_json_has_every_value_as_it_was_written(run, topics, records):
    """Microseconds, bytes in a map, numbers that JSON does not have, and moments that Python does not have."""
    topic = topics.create()
    given = [
        {"at": BASE * 1_000 + 123_456, "days": [0], "marks": {"a": b"x", "b": b"\xff"}, "rate": float("nan")},
        {"at": 2**62, "days": [2**30], "marks": {"a": b"x"}, "rate": float("-inf")},
    ]
    for row in given:
        data = BytesIO()
        fastavro.schemaless_writer(data, fastavro.parse_schema(VALUES), row)
        records.produce(topic, [Record(data.getvalue(), 2**53)])
    decode = json.dumps({"value": {"kind": "avro", "schema": json.dumps(VALUES)}})
    first, second = lines(run(topic, "--decode", decode, "--columns", "timestamp,value")[1])
    assert first["value"] == {
        "at": "2023-11-14T22:13:20.123456Z",
        "days": ["1970-01-01"],
        "marks": [["a", "x"], ["b", {"base64": "/w=="}]],
        "rate": "NaN",
    }
    assert second == {
        "timestamp": f"{2**53} ms",
        "value": {"at": f"{2**62 // 1_000} ms", "days": [f"{2**30} days"], "marks": [["a", "x"]], "rate": "-Infinity"},
    }


def test_what_a_load_wrote_says_with_its_headers_from_where_it_is_and_why_it_is_a_dead_letter(run, topics, records):
    topic = topics.create()
    source = Source(("a",), *map(np.array, ([0, -1], [3, -1], [7, -1], [BASE, -1])))
    placed, alone = stamps("r1", source, np.array([0, 0]))
    why = ("orderedkafka.error", b"too long\xff")
    headers = [[("orderedkafka", bytes(placed)), why], [("orderedkafka", bytes(alone))], [("orderedkafka", b"x")], []]
    records.produce(topic, [Record(b"v", BASE + n, headers=some) for n, some in enumerate(headers)])
    columns = [{"from": "a[3]@7", "range": "r1", "error": "too long\ufffd"}, {"range": "r1"}, {}, {}]
    found = lines(run(topic, "--columns", "value,headers")[1])
    assert [{name: row[name] for name in row if name not in {"value", "headers"}} for row in found] == columns
    head, first, *_ = run(topic, "--columns", "value,headers", "--format", "table")[1].decode().splitlines()
    assert head.split() == ["FROM", "RANGE", "VALUE", "HEADERS", "ERROR"]
    assert first.startswith("a[3]@7  r1     v      [")
    assert all("from" not in row for row in lines(run(topic)[1]))


def test_a_limit_a_start_and_an_end(run, topic):
    assert len(lines(run(topic, "--limit", "7")[1])) == 7
    found = lines(run(topic, "--start", str(BASE + 10), "--end", str(BASE + 20), "--columns", "value")[1])
    assert [row["value"] for row in found] == [f'{{"order": {n}}}' for n in range(10, 20)]
    assert lines(run(topic, "--start", "-2h")[1]) == []


def test_what_came_before_and_after_a_record_over_all_partitions(run, topic):
    found = lines(run(topic, "--around", f"{topic}[1]@10", "--limit", "3")[1])
    assert [row["key"] for row in found] == [f"k{n}" for n in range(28, 35)]
    code, _, error = run(topic, "--around", f"{topic}[1]@20")
    assert code == SETTING
    assert f"{topic}[1]@20" in error
    code, _, error = run(topic, "--around", f"{topic}[9]@1")
    assert (code, f"{topic}[9]" in error, f"{topic}[0], {topic}[1]" in error) == (SETTING, True, True)


def around(run, topic, record, limit):
    columns = ["--columns", "topic,partition,offset,value,late"]
    code, out, error = run(topic, "--around", f"{topic}[{record}", "--limit", str(limit), *columns)
    assert code == 0, error
    return [row["value"] + " late" * row["late"] for row in lines(out)]


def test_a_record_of_the_future_or_late_has_around_it_what_is_by_its_place_in_the_order(run, topics, records):
    """Late ones, too, whose time came long before them in their partition."""
    topic = topics.create(partitions=2)
    late = [Record(b"l%d" % n, BASE + 5 + n) for n in range(100)]
    future = Record(b"future", 4_070_908_800_000)
    records.produce(topic, [*(Record(b"a%d" % n, BASE + n) for n in range(300)), future, *late])
    records.produce(topic, [Record(b"b%d" % n, BASE + n, 1) for n in range(600)])
    assert around(run, topic, "0]@300", 3) == ["a298", "b298", "a299", "future", "l0 late", "l1 late", "l2 late"]
    assert around(run, topic, "0]@400", 2) == ["l97 late", "l98 late", "l99 late", "b299", "b300"]


def test_what_is_around_a_record_is_found_beyond_offsets_that_hold_none(run, topics, records):
    topic = topics.create()
    records.produce(topic, [Record(b"a%d" % n, BASE + n) for n in range(5)])
    records.abort(topic, [Record(b"x%d" % n, BASE + n) for n in range(500)])
    records.produce(topic, [Record(b"b%d" % n, BASE + 9 + n) for n in range(3)])
    assert around(run, topic, "0]@506", 3) == ["a2", "a3", "a4", "b0", "b1", "b2"]
    assert around(run, topic, "0]@506", 9) == ["a0", "a1", "a2", "a3", "a4", "b0", "b1", "b2"]


def test_a_table_has_a_head_and_a_line_for_each_record_with_each_column_below_its_name(run, topics, records):
    topic = topics.create()
    records.produce(topic, [Record(b"one\ntwo", BASE + 5, key=b"a"), Record(b"x" * 99, BASE, key=b"longer")])
    head, *found = run(topic, "-f", "table")[1].decode().splitlines()
    assert head.split() == ["ORDER_TIME", "RECORD", "LATE", "KEY", "VALUE", "TIMESTAMP", "TIMESTAMPTYPE"]
    assert [line[head.index("RECORD") :].split()[0] for line in found] == [f"{topic}[0]@0", f"{topic}[0]@1"]
    assert [line[head.index("LATE") :][:4].strip() for line in found] == ["", "late"]
    assert [line[head.index("VALUE") :].split()[0] for line in found] == ["one\\ntwo", "x" * 60]


def test_what_users_of_kcat_type_is_taken(kafka, topic, capfdbinary):
    command = ["read", topic, "-b", kafka.bootstrap_servers, "-f", "jsonl"]
    assert main([*command, "-o", str(BASE + 10), "-n", "2"]) == 0
    assert [row["key"] for row in lines(capfdbinary.readouterr().out)] == ["k10", "k11"]
    assert main([*command, "-c", "1"]) == 0
    assert [row["key"] for row in lines(capfdbinary.readouterr().out)] == ["k0"]
    assert main([*command, "-o", "-2h"]) == 0
    assert capfdbinary.readouterr().out == b""


def test_json_is_one_array(run, topic, topics):
    assert len(json.loads(run(topic, "--json")[1])) == 60
    assert json.loads(run(topics.create(), "--format", "json")[1]) == []


def test_files_of_arrow_and_parquet(run, topic, tmp_path):
    assert run(topic, "--output", str(tmp_path / "a.parquet"))[0] == 0
    assert parquet.read_table(tmp_path / "a.parquet").num_rows == 60
    assert pa.ipc.open_stream(run(topic, "--format", "arrow")[1]).read_all().num_rows == 60


@pytest.mark.parametrize(
    "given",
    [["--decode", '{"value": {"kind": "json", "schema": "other long"}}'], ["--start", "soon"], ["--follow"]],
    ids=["a record is bad", "the start is wrong", "nothing came to follow"],
)
def test_a_read_that_fails_leaves_the_file_that_was_there_and_nothing_beside_it(run, topics, records, tmp_path, given):
    topic = topics.create()
    records.produce(topic, [Record(b'{"other": 1}', BASE), Record(b"no JSON", BASE + 1)])
    before = tmp_path / "a.parquet"
    before.write_bytes(b"an older export")
    named = "no-such-topic" if given == ["--follow"] else topic
    assert run(named, "--output", str(before), *given)[0] != 0
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [("a.parquet", b"an older export")]


def test_a_file_is_replaced_behind_a_link_and_stays_as_private_as_it_was(run, topic, tmp_path):
    file, link = tmp_path / "a.jsonl", tmp_path / "link.jsonl"
    file.write_text("older")
    file.chmod(0o600)
    link.symlink_to(file)
    assert run(topic, "--output", str(link))[0] == 0
    assert (link.is_symlink(), len(lines(file.read_text())), file.stat().st_mode & 0o777) == (True, 60, 0o600)


def test_what_is_no_file_is_written_as_records_come(run, topic, tmp_path):
    assert run(topic, "--output", "/dev/stdout", "--format", "jsonl")[1].count(b"\n") == 60
    code, _, error = run(topic, "--output", str(tmp_path))
    assert (code, str(tmp_path) in error) == (SETTING, True)
    assert run(topic, "--output", str(tmp_path / "new.jsonl"), "--follow", "--limit", "5")[0] == 0
    assert len(lines((tmp_path / "new.jsonl").read_text())) == 5


def test_decoded_values(run, topic):
    decode = '{"value": {"kind": "json", "schema": "order long"}}'
    assert lines(run(topic, "--decode", decode, "--columns", "value", "--limit", "1")[1]) == [{"value": {"order": 0}}]


def test_a_registry_without_an_address_is_refused_with_the_option_that_gives_it(run, topic):
    code, _, said = run(topic, "--decode", '{"value": {"kind": "avro", "registry": "main"}}')
    assert (code, "'main'" in said, "--registry" in said) == (SETTING, True, True)


def test_it_ends_quietly_in_a_pipe_and_takes_settings_from_a_file(kafka, topic, tmp_path):
    config = tmp_path / "client.properties"
    config.write_text(f"# a comment\nbootstrap.servers = {kafka.bootstrap_servers}\n")
    command = f"{sys.executable} -m airflow_provider_orderedkafka.tools.cli read {topic} --config {config} | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60, check=False)
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("given", "word"),
    [
        (["--around", "orders@3"], "orders[3]@1042"),
        (["--around", "orders[0]@3", "--start", "-2h"], "--start"),
        (["--around", "orders[0]@3", "--columns", "value"], "topic"),
        (["--grace", "10s"], "follow"),
    ],
)
def test_what_cannot_be_meant_is_told(run, topic, given, word):
    code, _, error = run(topic, *given)
    assert code == SETTING
    assert word in error
