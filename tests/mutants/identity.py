"""By what a row is known."""

PACKAGE = "airflow_provider_orderedkafka"
BATCHES = "tests/unit/test_batches.py"
LANDED = "tests/property/test_landed.py"
MODEL = "tests/property/test_attempts.py"
ENGINE = "tests/integration/test_engine.py"

MUTANTS = [
    (
        "loads whose names differ a little share a job in Glue",
        f"{PACKAGE}/services/clouds.py",
        {'self.job or f"orderedkafka-{launch.load}"': 'self.job or f"orderedkafka-{named(launch.load, 100)}"'},
        ("tests/airflow/test_services.py::test_loads_whose_names_differ_a_little_have_jobs_of_their_own_in_glue",),
    ),
    (
        "landed rows not left out",
        f"{PACKAGE}/kafka/replay/landed.py",
        {"return batch.filter(~there) if there.any() else batch": "return batch"},
        (LANDED,),
    ),
    (
        "ordinal ignored",
        f"{PACKAGE}/kafka/replay/landed.py",
        {'if self.rows_per_record == "one" else self._ordinals.of(source)': "if True else self._ordinals.of(source)"},
        (LANDED,),
    ),
    (
        "rows of a record are numbered in each batch anew",
        f"{PACKAGE}/kafka/write/rows.py",
        {"self._seen.update(zip(records, (before + lengths).tolist(), strict=True))": "pass"},
        (LANDED,),
    ),
    (
        "rows of a join that matches twice are left out",
        f"{PACKAGE}/kafka/replay/landed.py",
        {"there &= ~several": "pass"},
        (LANDED,),
    ),
    (
        "a dead letter that landed is one row of its record",
        f"{PACKAGE}/kafka/replay/landed.py",
        {"(ordinal == WHOLE_RECORD) | (ordinals == ordinal)": "ordinals == ordinal"},
        (LANDED,),
    ),
    (
        "a record that is bad now counts as done by the rows of it that landed",
        f"{PACKAGE}/kafka/replay/landed.py",
        {'        if self.rows_per_record == "one":\n            return m': "        if True:\n            return m"},
        (LANDED,),
    ),
    (
        "a dead letter is the first row of its record",
        f"{PACKAGE}/spark/lanes/making.py",
        {"np.full(bad.num_rows, WHOLE_RECORD)": "np.full(bad.num_rows, 0)"},
        (MODEL,),
    ),
    (
        "rows are written before the dead letters in front of them",
        f"{PACKAGE}/spark/lanes/kafka_lanes.py",
        {
            "            if bad.num_rows:\n                yield whole_records(bad)\n            yield rows\n": (
                "            yield rows\n            if bad.num_rows:\n                yield whole_records(bad)\n"
            )
        },
        (MODEL,),
    ),
    (
        "rows that a dead letter has too are not counted by the attempt after",
        f"{PACKAGE}/spark/lanes/kafka_output.py",
        {"Tally(may_be_doubled=before.landed.in_letters_too)": "Tally()"},
        (MODEL,),
    ),
    (
        "an output whose settings may not be read counts as not compacted",
        f"{PACKAGE}/kafka/replay/replays.py",
        {"(outputs.doubtful - scan.whole) & {partition.topic for partition in read.with_gaps}": "set()"},
        (MODEL,),
    ),
    (
        "an output that was compacted when a batch was begun counts as never compacted",
        f"{PACKAGE}/spark/lanes/kafka_output.py",
        {"frozenset(topics) - set(note.uncompacted)": "frozenset()"},
        (MODEL,),
    ),
    (
        "rows of a join that two attempts have sent count once",
        f"{PACKAGE}/kafka/replay/replays.py",
        {"scan.again.total() - unknown + scan.twice": "scan.again.total() - unknown"},
        (MODEL,),
    ),
    (
        "offsets without a record are not noticed",
        f"{PACKAGE}/kafka/replay/replays.py",
        {"self._missing[partition] += max(offset - expected[partition], 0)": "pass"},
        (
            "tests/integration/test_replays.py"
            "::test_offsets_without_a_record_are_gaps_unless_retention_took_them[with a record]",
        ),
    ),
    (
        "offsets without a record at the end are not noticed",
        f"{PACKAGE}/kafka/replay/replays.py",
        {"self._missing[partition] += self._positions[partition] - at": "pass"},
        (
            "tests/integration/test_replays.py"
            "::test_offsets_without_a_record_are_gaps_unless_retention_took_them[with a marker]",
        ),
    ),
    (
        "a slice takes along what is not its own",
        f"{PACKAGE}/kafka/replay/landed.py",
        {"offsets[start:end]": "offsets[:end]"},
        (LANDED,),
    ),
    (
        "what landed counts as lost",
        f"{PACKAGE}/kafka/replay/landed.py",
        {"return sum(lost.values()) - len(there)": "return sum(lost.values())"},
        (LANDED,),
    ),
    (
        "one range is taken for another that begins alike",
        f"{PACKAGE}/kafka/provenance.py",
        {"return bytes((VERSION, len(name))) + name": "return bytes((VERSION,)) + name"},
        ("tests/property/test_provenance.py",),
    ),
    (
        "partition counts not pinned",
        f"{PACKAGE}/kafka/write/writing.py",
        {"if partitioner is None:": "if True:"},
        ("tests/integration/test_writing.py::test_keys_are_placed_over_as_many_partitions_as_were_pinned",),
    ),
    (
        "rows of other batches count as landed",
        f"{PACKAGE}/kafka/replay/replays.py",
        {"mine = (offsets >= start.get(partition, 0)) & (offsets < end.get(partition, 0))": "mine = offsets >= 0"},
        ("tests/integration/test_replays.py::test_rows_of_the_ranges_other_batches_are_not_among_those_that_landed",),
    ),
    (
        "a replay reads for as long as it takes and calls that stillness",
        f"{PACKAGE}/kafka/replay/replays.py",
        {"(0.0, 0.0) if came else (still + pause, waited + pause)": "(still + pause, waited + pause)"},
        ("tests/unit/test_settling.py",),
    ),
    (
        "a report of another range of the same name is believed",
        f"{PACKAGE}/core/documents.py",
        {"and self.range.fingerprint == loaded.fingerprint": ""},
        ("tests/unit/test_checkpoint.py",),
    ),
    (
        "two loads by hand give their ranges one name",
        f"{PACKAGE}/loads/ranges.py",
        {"-{secrets.token_hex(6)}": ""},
        (MODEL,),
    ),
    (
        "ordinal left out of the header",
        f"{PACKAGE}/kafka/write/rows.py",
        {'table["ordinal"], table["partition"] = ordinals,': 'table["ordinal"], table["partition"] = 0,'},
        (MODEL,),
    ),
    (
        "slices of a replay cut by time",
        f"{PACKAGE}/spark/lanes/kafka_lanes.py",
        {"self.frames.slices(batch, each, literal=bool(landed))": "self.frames.slices(batch, each)"},
        (MODEL,),
    ),
    (
        "an output that grew is written whole in a begun batch",
        f"{PACKAGE}/spark/lanes/kafka_output.py",
        {"range_id=range_id, partitions=note.partitions, ": "range_id=range_id, "},
        (MODEL,),
    ),
    (
        "a batch that the limit cut counts up to its planned end",
        f"{PACKAGE}/spark/application/batch_loop.py",
        {
            "self.counts = self._counted(batch, tally)": (
                "self.counts = self._counted(Batch(number, start, end), tally)"
            )
        },
        (MODEL,),
    ),
    (
        "dead letters are forgotten from run to run",
        f"{PACKAGE}/core/lifecycle.py",
        {"dead_letters=ledger.dead_letters + report.dead_letters,": ""},
        (MODEL,),
    ),
    (
        "rows without a key are spread by their number",
        f"{PACKAGE}/spark/ordering.py",
        {"    if SOURCE in frame.columns:\n        place =": "    if False:\n        place ="},
        (f"{ENGINE}::test_rows_without_a_key_go_where_their_source_says_whatever_rows_there_are_beside_them",),
    ),
    (
        "who finishes a batch forgets that its keys were relied on",
        f"{PACKAGE}/spark/lanes/kafka_output.py",
        {"return note.joined(now.topics": "return replace(note, placed=None).joined(now.topics"},
        (MODEL,),
    ),
    (
        "the DataFrame lane does not look where keys are that were relied on",
        f"{PACKAGE}/spark/lanes/kafka_lanes.py",
        {"self.frames.counters(note.placement)": "self.frames.counters()"},
        (MODEL,),
    ),
    (
        "rows in a compacted output are left out",
        f"{PACKAGE}/kafka/replay/replays.py",
        {"Offsets({**noted, **now})": "noted", "if message.topic() in self.whole:": "if False:"},
        (MODEL,),
    ),
    (
        "rows that compacted outputs have twice are not counted",
        f"{PACKAGE}/kafka/replay/replays.py",
        {"+= max(end - noted.get(partition, 0), 0)": "+= 0 * max(end, 0)"},
        (MODEL,),
    ),
    (
        "of what landed only the first slice's is left out",
        f"{PACKAGE}/spark/lanes/kafka_lanes.py",
        {
            "rows = missing(rows, before.landed, self": (
                "rows = missing(rows, parts[0] if parts else before.landed, self"
            )
        },
        (MODEL,),
    ),
    (
        "slices take nothing along",
        f"{PACKAGE}/spark/lanes/kafka_lanes.py",
        {"landed.within(part.spans)": "landed.within({})"},
        (MODEL,),
    ),
    (
        "the rows of the last record pass the limit",
        f"{PACKAGE}/spark/lanes/limit.py",
        {"left = 0 if surplus is None else surplus.rows": "surplus = None; left = 0"},
        (MODEL,),
    ),
    (
        "a batch that comes early does not wait",
        f"{PACKAGE}/spark/application/batch_loop.py",
        {"self._early.pop(self._next()[0], None)": "self._early.popitem()[1] if self._early else None"},
        (BATCHES,),
    ),
    (
        "what was begun ends where it is planned to",
        f"{PACKAGE}/spark/application/batch_loop.py",
        {"return None if begun is None else begun.end": "return None"},
        ("tests/unit/test_plan.py",),
    ),
    (
        "a plan is kept to where a batch ended elsewhere",
        f"{PACKAGE}/spark/application/batch_loop.py",
        {"self._off_plan = batch.end != end": "pass"},
        (BATCHES,),
    ),
    (
        "lease not checked before a batch",
        f"{PACKAGE}/spark/application/batch_loop.py",
        {"self._work.lease.check()\n        batch =": "batch ="},
        (BATCHES,),
    ),
    (
        "a newer attempt is not seen",
        f"{PACKAGE}/spark/state/lease.py",
        {'if newest > self._name.removeprefix(f"{LEASES}/"):': "if False:"},
        ("tests/unit/test_lease.py",),
    ),
    (
        "an output made anew is not seen",
        f"{PACKAGE}/core/batches.py",
        {"if output_ids.get(topic, was) != was}": "if False}"},
        ("tests/unit/test_notes.py", MODEL),
    ),
    (
        "rows of an Arrow transform are taken to be one of each record",
        f"{PACKAGE}/spark/session/plans.py",
        {'PlanFacts(at_most_one=not _reads(node, "ReadSeveral"))': "PlanFacts()"},
        (
            "tests/integration/test_plans.py::test_a_decoded_record_gives_one_row_and_an_arrow_transform_may_give_several",
        ),
    ),
    (
        "another partitioner may place the rest of a batch",
        f"{PACKAGE}/core/batches.py",
        {'    "partitioner": "kafka.part': '    "keep_order": "kafka.part'},
        (MODEL,),
    ),
    (
        "a resolver may say in each attempt anew where keys go",
        f"{PACKAGE}/kafka/clients/config.py",
        {"(name for name in SHAPING": "(name for name in set()"},
        ("tests/unit/test_kafka_config.py",),
    ),
    (
        "what a transform imports is no part of its code",
        f"{PACKAGE}/spark/lanes/making.py",
        {'left += _imported(code, spec.parent or "")': "pass"},
        ("tests/unit/test_transforms.py",),
    ),
    (
        "code that cannot be read has not changed",
        f"{PACKAGE}/spark/lanes/making.py",
        {"return token_hex(8)": 'return "?"'},
        ("tests/unit/test_transforms.py",),
    ),
    (
        "a transform that gives one row by now has never given several",
        f"{PACKAGE}/spark/lanes/kafka_output.py",
        {'(self.rows_per_record != "one" or landed.several)': 'self.rows_per_record != "one"'},
        (
            "tests/fault/test_changes_between_attempts.py"
            "::test_changed_code_of_a_transform_loses_none_of_several_rows_and_counts_what_may_be_doubled[to one row]",
        ),
    ),
]
