"""What of a record is believed, and which records are bad."""

PACKAGE = "airflow_provider_orderedkafka"
AVRO = "tests/unit/test_avro.py"
JSON = "tests/unit/test_json_values.py"
DECODING = "tests/unit/test_decoding.py"
SCHEMAS = "tests/unit/test_schema_changes.py"
TYPES = "tests/unit/test_changed_types.py"
EVOLUTION = "tests/property/test_schema_evolution.py"
LAKES = "tests/fault/test_lakes.py"
DEBEZIUM = "tests/unit/test_debezium.py"

MUTANTS = [
    (
        "a change that is not known is one of a row",
        f"{PACKAGE}/decoding/debezium.py",
        {"yield pc.invert(known), why": "yield pc.is_null(known), why"},
        (DEBEZIUM,),
    ),
    (
        "the placeholder for a value that was not told is a value",
        f"{PACKAGE}/decoding/debezium.py",
        {"pc.and_(pc.invert(gone), _are_placeholders(column, marks, [*data]))": "pc.and_(gone, gone)"},
        (DEBEZIUM,),
    ),
    (
        "a payload that is not there deletes the row",
        f"{PACKAGE}/decoding/debezium.py",
        {'if inner is value or "schema" not in fields:': "if inner is value:", 'fields["schema"].is_valid()': "True"},
        (DEBEZIUM,),
    ),
    (
        "an event whose key is another one than its row's is believed",
        f"{PACKAGE}/decoding/debezium.py",
        {"pc.fill_null(differs, fill_value=True)": "False"},
        (DEBEZIUM,),
    ),
    (
        "what says nothing of a row is left out because of its topic's name",
        f"{PACKAGE}/decoding/debezium.py",
        {"apart = pc.and_(heartbeats, pc.and_(": "apart = pc.and_(True, pc.and_("},
        (DEBEZIUM,),
    ),
    (
        "bytes behind an Avro record are ignored",
        f"{PACKAGE}/decoding/avro.py",
        {"if data.tell() != len(payload):": "if False:"},
        (AVRO,),
    ),
    (
        "two JSON objects in one record shift the rows",
        f"{PACKAGE}/decoding/json_values.py",
        {"if not all(map(_is_object, texts)):": "if False:"},
        (JSON,),
    ),
    (
        "JSON is not looked at for UTF-8",
        f"{PACKAGE}/decoding/json_values.py",
        {"table.validate(full=True)": "table.validate()"},
        (JSON,),
    ),
    (
        "a field registered meanwhile is left out silently",
        f"{PACKAGE}/decoding/payloads.py",
        {"        self._check_known(writer, schema)\n": ""},
        (SCHEMAS,),
    ),
    (
        "a type that was widened meanwhile makes bad records",
        f"{PACKAGE}/decoding/payloads.py",
        {"        if errors and self._changed": "        if False and self._changed"},
        (SCHEMAS,),
    ),
    (
        "a Protobuf field that was renamed is taken for another one",
        f"{PACKAGE}/decoding/evolution.py",
        {"if number is not None and _message(number) in messages:": "if False:"},
        (SCHEMAS,),
    ),
    (
        "what was written means what its writer says, and not the reader",
        f"{PACKAGE}/decoding/evolution.py",
        {"[own] if own in known else known": "[own]"},
        (TYPES,),
    ),
    (
        "a number is read in another unit than it was written in",
        f"{PACKAGE}/decoding/evolution.py",
        {"if known and not all(each in known for each in own) and len(units) > 1:": "if False:"},
        (TYPES,),
    ),
    (
        "a whole number that a float cannot have exactly is a bad record",
        f"{PACKAGE}/decoding/evolution.py",
        {"safe=not pa.types.is_floating(kind)": "safe=True"},
        (EVOLUTION,),
    ),
    (
        "a symbol of an Avro enum is taken for its number in a union",
        f"{PACKAGE}/decoding/avro.py",
        {
            '{("int32", "int64"): "long"': '{("int", "long"): "long"',
            "else str(node.field.type)": "else str(node.physical)",
        },
        (TYPES,),
    ),
    (
        "a Protobuf message that was moved is taken for the first one",
        f"{PACKAGE}/decoding/payloads.py",
        {"    return replace(form, message=names.pop())": "    return form"},
        (TYPES,),
    ),
    (
        "a Protobuf number that has no sign is read with one",
        f"{PACKAGE}/decoding/protobuf.py",
        {"if bits and not 0 <= low <= high < 2**bits:": "if False:"},
        (TYPES,),
    ),
    (
        "rows of several schemas come out in the order of the schemas",
        f"{PACKAGE}/decoding/payloads.py",
        {"places[rows] = np.arange(len(rows))": "places[np.sort(rows)] = np.arange(len(rows))"},
        (SCHEMAS,),
    ),
    (
        "of two headers with a schema's id the first one counts",
        f"{PACKAGE}/decoding/payloads.py",
        {"places[parents[named]] = named": "places[parents[named[::-1]]] = named[::-1]"},
        (DECODING,),
    ),
    (
        "a bad record passes where none may",
        f"{PACKAGE}/decoding/payloads.py",
        {"if self.max_bad is not None and len(errors) > self.max_bad:": "if False:"},
        (DECODING,),
    ),
    (
        "a table's batch is committed without its bad records, before they are dead letters",
        f"{PACKAGE}/spark/tables/writer.py",
        {"*, most: int | None = 0": "*, most: int | None = None"},
        ("tests/integration/test_decoding.py::test_dead_letters_of_a_table_are_loaded_into_it_once_they_can_be_read",),
    ),
    (
        "a record that is a dead letter gives rows once it can be read",
        f"{PACKAGE}/spark/lanes/frames.py",
        {"        if not self.without:\n": "        if True:\n"},
        (f"{LAKES}::test_dead_letters_go_to_a_table_of_their_own_and_are_loaded_again_by_way_of_a_topic[delta]",),
    ),
    (
        "a record gives rows beside its dead letter",
        f"{PACKAGE}/spark/lanes/making.py",
        {"bad = [index.get(place) in errors for place in found]": "bad = [each.is_valid for each in said]"},
        ("tests/unit/test_row_transform.py",),
    ),
    (
        "a run may have any number of dead letters",
        f"{PACKAGE}/spark/application/batch_loop.py",
        {"        check_bad(total.dead_letters, self._work.max_bad)\n": ""},
        ("tests/unit/test_batches.py",),
    ),
]
