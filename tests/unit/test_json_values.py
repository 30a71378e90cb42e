import datetime as dt
from decimal import Decimal

import pytest
from support.messages import naming

from airflow_provider_orderedkafka.decoding.formats import arrow_type, parsed_columns
from airflow_provider_orderedkafka.decoding.json_values import JsonWriter, columns_of
from airflow_provider_orderedkafka.errors import SettingError


def reader(schema):
    return JsonWriter(arrow_type(parsed_columns(schema)))


def test_objects_become_rows_of_the_columns_that_were_asked_for():
    given = [
        b'{"order": 1, "at": "2026-01-02T03:04:05Z", "day": "2026-01-02", "amount": "1.25", "other": [1, {}]}',
        b' {\n "lines": [{"sku": "a", "n": 2}], "ok": true}\r\n',
    ]
    columns = (
        "order long, at timestamp, day date, amount decimal(10, 2), lines array<struct<sku: string, n int>>, ok boolean"
    )
    found, errors = reader(columns).read(given)
    assert not errors
    assert found.to_pylist() == [
        {
            "order": 1,
            "at": dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC),
            "day": dt.date(2026, 1, 2),
            "amount": Decimal("1.25"),
            "lines": None,
            "ok": None,
        },
        {"order": None, "at": None, "day": None, "amount": None, "lines": [{"sku": "a", "n": 2}], "ok": True},
    ]


POISON = {
    "nothing": b"",
    "spaces": b"  ",
    "not JSON": b"hello",
    "a list": b"[1]",
    "two objects": b'{"order": 1} {"order": 2}',
    "cut off": b'{"order": 1',
    "cut off behind a brace": b'{"order": {}',
    "more behind it": b'{"order": 1} x',
    "a member behind it": b'{"order": 1}, "x": {}',
    "a text for a number": b'{"order": "one"}',
    "half a number": b'{"order": 1.5}',
    "too large a number": b'{"order": 99999999999999999999}',
    "not UTF-8": b'{"name": "\xff"}',
    "half a character": b'{"name": "\\ud800"}',
    "a line break in a text": b'{"name": "a\nb"}',
    "a zero byte": b'{"order": 1}\x00',
    "twice the same member": b'{"order": 1, "order": 2}',
    "no date": b'{"day": "2026-13-01"}',
    "very deep": b'{"order": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
}


@pytest.mark.parametrize("payload", POISON.values(), ids=POISON)
def test_a_bad_object_is_told_apart_from_its_neighbours(payload):
    given = [b'{"order": 1}', payload, b'{"order": 3}', b'{"order": 4}']
    found, errors = reader("order long, name string, day date").read(given)
    assert list(errors) == [1]
    assert [row and row["order"] for row in found.to_pylist()] == [1, None, 3, 4]


@pytest.mark.parametrize("columns", ["rate float, of array<struct<rate: float>>", "rate double, of array<float>"])
def test_too_large_a_number_is_bad_and_not_infinity(columns):
    wide = "double" in columns
    given = [b'{"rate": -0.0}', b'{"rate": 1e39}', b'{"rate": 1}', b'{"rate": -3.5e38}', b'{"rate": 1e400}']
    deep = b'{"of": [1, -1e39]}' if wide else b'{"of": [{"rate": 1}, {"rate": -1e39}]}'
    found, errors = reader(columns).read([*given, deep])
    assert list(errors) == ([4, 5] if wide else [1, 3, 4, 5])
    rates = [row and str(row["rate"]) for row in found.to_pylist()]
    assert rates == ["-0.0", "1e+39" if wide else None, "1.0", "-3.5e+38" if wide else None, None, None]


def test_what_is_written_as_infinity_or_as_no_number_stays_that():
    given = [b'{"rate": Infinity}', b'{"rate": -Infinity}', b'{"rate": NaN}', b'{"rate": null}', b'{"rate": 1e-50}']
    found, errors = reader("rate float").read(given)
    assert not errors
    assert [str(row["rate"]) for row in found.to_pylist()] == ["inf", "-inf", "nan", "None", "0.0"]


def test_a_null_of_json_is_null_among_objects():
    found, errors = reader("order long").read([b'{"order": 1}', b"null", b"{}", b"null "])
    assert found.to_pylist() == [{"order": 1}, None, {"order": None}, None]
    assert list(errors) == [3]


@pytest.mark.parametrize("digits", ["1234567", "123456789"])
def test_of_a_moment_with_more_digits_microseconds_are_kept(digits):
    moments = [f"2026-01-02T03:04:05.{digits}+01:00", "9999-12-31T23:59:59Z", "1969-12-31T23:59:59.4999999Z"]
    given = [f'{{"at": "{at}", "of": [{{"day": "2026-01-02", "local": "2026-01-02T03:04:05"}}]}}' for at in moments]
    columns = "at timestamp, of array<struct<day: date, local: timestamp_ntz>>"
    found, errors = reader(columns).read([each.encode() for each in given])
    assert not errors
    assert [row["at"] for row in found.to_pylist()] == [
        dt.datetime(2026, 1, 2, 2, 4, 5, 123456, tzinfo=dt.UTC),
        dt.datetime(9999, 12, 31, 23, 59, 59, tzinfo=dt.UTC),
        dt.datetime(1969, 12, 31, 23, 59, 59, 499_999, tzinfo=dt.UTC),
    ]
    assert {str(row["of"]) for row in found.to_pylist()} == {
        str([{"day": dt.date(2026, 1, 2), "local": dt.datetime(2026, 1, 2, 3, 4, 5)}])  # noqa: DTZ001
    }


@pytest.mark.parametrize("year", ["9999", "2262", "1677", "0001"])
def test_a_moment_with_more_digits_that_nanoseconds_do_not_reach_is_bad(year):
    given = [b'{"at": "2026-01-02T03:04:05.1234567Z"}', f'{{"at": "{year}-12-31T00:00:00.1234567Z"}}'.encode()]
    found, errors = reader("at timestamp").read(given)
    assert list(errors) == [1]
    assert [row is None for row in found.to_pylist()] == [False, True]


@pytest.mark.parametrize("at", ["yesterday", "10000-01-01T00:00:00Z", "2026-02-30"])
def test_what_is_no_moment_is_bad_as_such(at):
    _, errors = reader("at timestamp").read([f'{{"at": "{at}"}}'.encode()])
    assert at in errors[0]


def test_one_object_too_many_and_one_too_few_do_not_shift_the_rows():
    found, errors = reader("order long").read([b'{"order": 1}{"order": 2}', b" ", b'{"order": 3}'])
    assert (list(errors), found.to_pylist()) == ([0, 1], [None, None, {"order": 3}])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "''"),
        ("order", "'order' ... character 6"),
        ("order longer", "type 'longer'"),
        ("order long,", "'order long,' ... character 12"),
        ("order long, order int", "character 18 ... 'order'"),
        ("a array<int", "character 12 ... '>'"),
        ("a decimal(39, 2)", "1 to 38 digits"),
        ("a decimal(3, 4)", "character 16"),
        ("a int; b int", "character 6 ... ';'"),
        ("a int b int", "'a int b int' ... character 6"),
    ],
)
def test_a_schema_that_cannot_be_read_is_refused_with_its_place(text, why):
    with pytest.raises(SettingError, match=naming(why)):
        parsed_columns(text)


def test_a_json_schema_describes_columns():
    found = columns_of(
        """{"type": "object", "properties": {"order": {"type": "integer"}, "amount": {"type": ["null", "number"]},
        "at": {"type": "string", "format": "date-time"}, "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}},
        "note": {"oneOf": [{"type": "null"}, {"type": "string"}]}, "state": {"enum": ["a", "b", null]},
        "level": {"enum": [1, 2]}, "unit": {"$ref": "#/$defs/a~1b~01"}},
        "$defs": {"a/b~1": {"type": "boolean"},
        "line": {"type": "object", "properties": {"sku": {"type": "string"}}}}}"""
    )
    assert str(found) == (
        "struct<order: int64, amount: double, at: timestamp[us, tz=UTC], lines: list<item: struct<sku: string>>, "
        "note: string, state: string, level: int64, unit: bool>"
    )


def test_choices_beside_what_a_json_schema_says_itself_only_restrict_it():
    found = columns_of(
        """{"type": "object", "properties": {"state": {"type": "string", "oneOf": [{"const": "a"}, {"const": "b"}]},
        "lines": {"type": ["array", "null"], "items": {"type": "integer"}, "anyOf": [{"minItems": 1}]}},
        "anyOf": [{"required": ["state"]}, {"properties": {"lines": {"minItems": 2}}}]}"""
    )
    assert str(found) == "struct<state: string, lines: list<item: int64>>"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"type": "string"}', '{"type": "string"}'),
        ('{"type": "object"}', "''"),
        ('{"properties": {"a": {"type": ["string", "integer"]}}}', "'a' ... ['string', 'integer']"),
        ('{"properties": {"a": {"enum": ["a", 1]}}}', "'a' ... ['integer', 'string']"),
        ('{"properties": {"a": {"enum": [[]]}}}', "'a' ... ['a list or an object']"),
        ('{"properties": {"a": {"$ref": "#"}}}', "'a.a.a"),
        ('{"properties": {"a": {"$ref": "other.json"}}}', "'other.json'"),
        ('{"properties": {"a": {"anyOf": [{"type": "string"}, {"type": "number"}]}}}', "2 choices"),
    ],
)
def test_a_json_schema_without_columns_is_refused(text, why):
    with pytest.raises(SettingError, match=naming(why)):
        columns_of(text)
