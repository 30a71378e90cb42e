"""Wrong products, each of which has to fail a test: `make mutants` makes them and runs the tests.

Each is a name, a file, what is replaced in it by what, and the tests that should catch it, quick ones first. A text
that is replaced has to be in its file exactly once: a mutant that applies no more is an error, adapt or replace it.
"""

PACKAGE = "airflow_provider_orderedkafka"
BATCHES = "tests/unit/test_batches.py"
BOOKS = "tests/unit/test_books.py"
CUTS = "tests/property/test_cuts.py"
LANDED = "tests/property/test_landed.py"
LIFE = "tests/property/test_lifecycle.py"
LIMIT = "tests/unit/test_limit_in_a_batch.py"
MODEL = "tests/property/test_attempts.py"
READING = "tests/property/test_reading.py"
SIGHTS = "tests/unit/test_sights.py"

MUTANTS = [
    # What is written, and when it counts as written.
    (
        "commit before flush",
        f"{PACKAGE}/kafka/sending.py",
        {"self._wait(lambda: self.producer.flush(_POLL_SECONDS), 0, deliveries)": "deliveries.check()"},
        ("tests/unit/test_sending.py",),
    ),
    (
        "a failed delivery is forgotten",
        f"{PACKAGE}/kafka/sending.py",
        {"self.first = (describe, error, message)": "return"},
        ("tests/unit/test_sending.py",),
    ),
    (
        "why a client gave up is forgotten",
        f"{PACKAGE}/kafka/sending.py",
        {"if not isinstance(error, _GAVE_UP) or not deliveries.purged:": "if True:"},
        ("tests/unit/test_sending.py",),
    ),
    (
        "note after write",
        f"{PACKAGE}/spark/batches.py",
        {
            "return self._parts.writer.write(batch, *self._noted(batch))": (
                "note, before = self._noted(batch); written = self._parts.writer.write(batch, note, before); "
                "self._parts.checkpoint.put_note(note); return written"
            ),
            "self._parts.checkpoint.put_note(note)\n        return note": "pass\n        return note",
        },
        (BATCHES,),
    ),
    (
        "counts before write",
        f"{PACKAGE}/spark/batches.py",
        {
            "tally = self._written(batch)": (
                "self._parts.checkpoint.put_counts(self._counted(batch, Tally())); tally = self._written(batch)"
            )
        },
        (BATCHES,),
    ),
    (
        "what is there before is ignored",
        f"{PACKAGE}/spark/batches.py",
        {"before = output.before(note)": "before = None"},
        (BATCHES,),
    ),
    (
        "a doubt is not noted",
        f"{PACKAGE}/spark/batches.py",
        {"note = note.doubted(None if before is None else before.doubt)": "pass"},
        (BATCHES,),
    ),
    (
        "an output that is named later is not noted",
        f"{PACKAGE}/core/batches.py",
        {"outputs=self.outputs.updated(later),": "outputs=self.outputs,"},
        (BATCHES,),
    ),
    (
        "a topic that grew takes its new partitions into a begun batch",
        f"{PACKAGE}/core/batches.py",
        {"if partition.topic not in self.output_ids}": "if partition not in self.outputs}"},
        (BATCHES,),
    ),
    (
        "what one try could not know is forgotten",
        f"{PACKAGE}/core/batches.py",
        {"doubts=(*self.doubts, doubt)": "doubts=(doubt,)"},
        (BATCHES,),
    ),
    (
        "the next batch begins where the last one was planned to end",
        f"{PACKAGE}/spark/batches.py",
        {"(counts.batch + 1, counts.end)": "(counts.batch + 1, self._parts.loaded.end)"},
        ("tests/property/test_row_limit.py",),
    ),
    # By what a row is known.
    (
        "landed rows not left out",
        f"{PACKAGE}/kafka/missing.py",
        {"return batch.filter(~there) if there.any() else batch": "return batch"},
        (LANDED,),
    ),
    (
        "ordinal ignored",
        f"{PACKAGE}/kafka/missing.py",
        {'if self.giving == "one" else self._ordinals.of(source)': "if True else self._ordinals.of(source)"},
        (LANDED,),
    ),
    (
        "rows of a record are numbered in each batch anew",
        f"{PACKAGE}/kafka/sources.py",
        {"self._seen.update(zip(records, (before + lengths).tolist(), strict=True))": "pass"},
        (LANDED,),
    ),
    (
        "rows of a join that matches twice are left out",
        f"{PACKAGE}/kafka/missing.py",
        {"there &= ~several": "pass"},
        (LANDED,),
    ),
    (
        "a slice takes along what is not its own",
        f"{PACKAGE}/kafka/landed.py",
        {"(places >= start - first) & (places < end - first)": "places < end - first"},
        (LANDED,),
    ),
    (
        "what landed counts as lost",
        f"{PACKAGE}/kafka/landed.py",
        {"return sum(lost.values()) - len(there)": "return sum(lost.values())"},
        (LANDED,),
    ),
    (
        "one range is taken for another that begins alike",
        f"{PACKAGE}/kafka/provenance.py",
        {"return bytes((version, len(name))) + name": "return bytes((version,)) + name"},
        ("tests/property/test_provenance.py",),
    ),
    (
        "partition counts not pinned",
        f"{PACKAGE}/kafka/placing.py",
        {"if partitioner is None or not targets.settings.partitions:": "if True:"},
        ("tests/integration/test_writing.py::test_keys_are_placed_over_as_many_partitions_as_were_pinned",),
    ),
    (
        "rows of other batches count as landed",
        f"{PACKAGE}/kafka/replays.py",
        {"mine = (offsets >= start.get(partition, 0)) & (offsets < end.get(partition, 0))": "mine = offsets >= 0"},
        ("tests/integration/test_replays.py::test_rows_of_the_ranges_other_batches_are_not_among_those_that_landed",),
    ),
    (
        "a replay reads for as long as it takes and calls that stillness",
        f"{PACKAGE}/kafka/settling.py",
        {"(0.0, 0.0) if came else (still + pause, waited + pause)": "(still + pause, waited + pause)"},
        ("tests/unit/test_settling.py",),
    ),
    (
        "a report of another range of the same name is believed",
        f"{PACKAGE}/core/documents.py",
        {'and self.fingerprint in {"", loaded.fingerprint}': ""},
        ("tests/unit/test_checkpoint.py",),
    ),
    (
        "two loads by hand give their ranges one name",
        f"{PACKAGE}/spark/by_hand.py",
        {"-{secrets.token_hex(6)}": ""},
        (MODEL,),
    ),
    (
        "ordinal left out of the header",
        f"{PACKAGE}/kafka/provenance.py",
        {'table["ordinal"], table["partition"] = ordinals,': 'table["ordinal"], table["partition"] = 0,'},
        (MODEL,),
    ),
    (
        "slices of a replay cut by time",
        f"{PACKAGE}/spark/direct_writer.py",
        {"self.frames.slices(batch, each, literal=bool(landed))": "self.frames.slices(batch, each)"},
        (MODEL,),
    ),
    (
        "an output that grew is written whole in a begun batch",
        f"{PACKAGE}/spark/kafka_output.py",
        {"partitions=now | noted)": "partitions=now)"},
        (MODEL,),
    ),
    (
        "a batch that the limit cut counts up to its planned end",
        f"{PACKAGE}/spark/batches.py",
        {
            "batch = self._limited(batch)": "planned, batch = batch, self._limited(batch)",
            "self.counts = self._counted(batch, tally)": "self.counts = self._counted(planned, tally)",
        },
        (MODEL,),
    ),
    (
        "dead letters are forgotten from run to run",
        f"{PACKAGE}/core/moves.py",
        {"dead_letters=ledger.dead_letters + report.dead_letters,": ""},
        (MODEL,),
    ),
    (
        "rows without a key are spread by their number",
        f"{PACKAGE}/spark/ordering.py",
        {"    if SOURCE in frame.columns:\n        place =": "    if False:\n        place ="},
        (MODEL,),
    ),
    (
        "rows without a key are left to Kafka's client where partitions are kept in order",
        f"{PACKAGE}/spark/kafka_lanes.py",
        {'"by source" if asked.keep_order == "partition" else "anywhere"': '"anywhere"'},
        (MODEL,),
    ),
    (
        "of what landed only the first slice's is left out",
        f"{PACKAGE}/spark/kafka_writer.py",
        {
            "rows = missing(rows, before.landed, self": (
                "rows = missing(rows, parts[0] if parts else before.landed, self"
            )
        },
        (MODEL,),
    ),
    (
        "slices take nothing along",
        f"{PACKAGE}/spark/direct_writer.py",
        {"landed.within(part.spans)": "landed.within({})"},
        (MODEL,),
    ),
    (
        "the rows of the last record pass the limit",
        f"{PACKAGE}/spark/limit.py",
        {"left = 0 if surplus is None else surplus.rows": "surplus = None; left = 0"},
        (MODEL,),
    ),
    (
        "a counted batch is written again",
        f"{PACKAGE}/spark/batches.py",
        {"batch.number > self.counts.batch": "batch.number >= self.counts.batch"},
        (BATCHES,),
    ),
    (
        "lease not checked before a batch",
        f"{PACKAGE}/spark/batches.py",
        {"self._parts.lease.check()\n        batch =": "batch ="},
        (BATCHES,),
    ),
    (
        "a newer attempt is not seen",
        f"{PACKAGE}/spark/lease.py",
        {'if newest > self._name.removeprefix(f"{FOLDER}/"):': "if False:"},
        ("tests/unit/test_lease.py",),
    ),
    (
        "an output made anew is not seen",
        f"{PACKAGE}/kafka/replays.py",
        {"if partition.topic not in anew}": "if partition.topic}"},
        (
            "tests/integration/test_replays.py::"
            "test_an_output_that_was_made_anew_and_has_grown_past_the_note_is_known_by_its_id",
        ),
    ),
    # The row limit.
    (
        "limit counted twice",
        f"{PACKAGE}/spark/batches.py",
        {"else self.counts.total.rows)": "else 2 * self.counts.total.rows)"},
        (BATCHES,),
    ),
    (
        "dead letters do not count",
        f"{PACKAGE}/core/batches.py",
        {"return self.rows_emitted + self.dead_letters": "return self.rows_emitted"},
        (LIMIT,),
    ),
    (
        "allotment not kept",
        f"{PACKAGE}/spark/batches.py",
        {"self._parts.checkpoint.put_allotment(allotment)": "pass"},
        (BATCHES,),
    ),
    (
        "surplus dropped",
        f"{PACKAGE}/spark/limit.py",
        {"surplus=allotment.surplus": "surplus=None"},
        (LIMIT,),
    ),
    (
        "one row of the surplus too many",
        f"{PACKAGE}/spark/limit.py",
        {"left = 0 if surplus is None else surplus.rows": "left = 1 if surplus is None else surplus.rows + 1"},
        (LIMIT,),
    ),
    (
        "the last row's record comes again",
        f"{PACKAGE}/core/limits.py",
        {"record.offset + 1": "record.offset"},
        ("tests/property/test_limits.py",),
    ),
    # Which records, and in which order.
    (
        "an end off by one",
        f"{PACKAGE}/kafka/stretches.py",
        {
            "(offset >= self._begin[rank]) & (offset < self.stop[rank])": (
                "(offset >= self._begin[rank]) & (offset <= self.stop[rank])"
            )
        },
        (READING,),
    ),
    (
        "one partition ignored",
        f"{PACKAGE}/core/cuts.py",
        {"if start.offset < limit and start != end": "if start.offset < limit and start != end and partition[1] != 10"},
        (CUTS,),
    ),
    (
        "no sort",
        f"{PACKAGE}/kafka/ordering.py",
        {"order = _stable_order(order_time)": "order = np.arange(order_time.size)"},
        ("tests/unit/test_ordering.py",),
    ),
    (
        "ties by partition wrong",
        f"{PACKAGE}/kafka/ordering.py",
        {"grouped = _stable_order(rank)": "grouped = _stable_order(-rank)"},
        ("tests/unit/test_ordering.py",),
    ),
    (
        "order across topics wrong",
        f"{PACKAGE}/core/positions.py",
        {
            "sorted(offsets.items() if isinstance(offsets, Mapping) else offsets)": (
                "sorted(offsets.items() if isinstance(offsets, Mapping) else offsets, key=lambda p: (p[0][1], p[0][0]))"
            )
        },
        (CUTS,),
    ),
    (
        "a wrong order is not found",
        f"{PACKAGE}/kafka/ordering.py",
        {"return None if rising.all()": "return None if True"},
        ("tests/unit/test_ordering.py",),
    ),
    (
        "late flag inverted",
        f"{PACKAGE}/kafka/ordering.py",
        {"late=counted & (timestamp < order_time)": "late=counted & (timestamp >= order_time)"},
        ("tests/unit/test_ordering.py",),
    ),
    (
        "floor dropped by a slice",
        f"{PACKAGE}/core/cuts.py",
        {"limit, before.floor.of(partition))": "limit, BEFORE_TIME)"},
        (CUTS,),
    ),
    (
        "floor dropped by a commit",
        f"{PACKAGE}/core/moves.py",
        {"report.stop.floor": "ledger.place.floor"},
        (BOOKS,),
    ),
    (
        "future timestamps count in a plan",
        f"{PACKAGE}/core/cuts.py",
        {"return 0 <= timestamp <= latest": "return 0 <= timestamp"},
        (f"{CUTS}::test_a_timestamp_counts_from_the_epoch_up_to_the_latest",),
    ),
    (
        "future timestamps count in a slice",
        f"{PACKAGE}/kafka/ordering.py",
        {"(timestamp >= 0) & (timestamp <= slice_.latest)": "timestamp >= 0"},
        ("tests/unit/test_ordering.py",),
    ),
    (
        "compacted bounds by time",
        f"{PACKAGE}/core/planning.py",
        {"Bound(literal[place]) if self._literal[place] else": ""},
        (CUTS,),
    ),
    (
        "isolation ignored",
        f"{PACKAGE}/kafka/offsets.py",
        {"isolation_level=_LEVELS[isolation]": 'isolation_level=_LEVELS["read_uncommitted"]'},
        (
            "tests/integration/test_offsets.py::"
            "test_the_high_end_is_the_last_stable_offset_unless_uncommitted_records_are_read",
        ),
    ),
    (
        "topic id not compared",
        f"{PACKAGE}/kafka/identity.py",
        {"if found != planned.get(name, found):": "if False:"},
        ("tests/integration/test_reader_faults.py::test_a_topic_that_was_created_again_is_told_by_its_id",),
    ),
    # When to run, and where a range ends.
    (
        "min_offsets off by one",
        f"{PACKAGE}/core/pacing.py",
        {"situation.offsets >= pace.enough": "situation.offsets > pace.enough"},
        ("tests/unit/test_pacing.py",),
    ),
    (
        "max_delay ignored",
        f"{PACKAGE}/core/pacing.py",
        {"and situation.now >= due": "and situation.now < 0"},
        ("tests/unit/test_pacing.py",),
    ),
    (
        "grace ignored",
        f"{PACKAGE}/ranges.py",
        {"self.now - grace": "self.now"},
        (SIGHTS,),
    ),
    (
        "an open transaction is overtaken",
        f"{PACKAGE}/core/cuts.py",
        {"else min(time, max(open_since, at_most))": "else time"},
        (SIGHTS,),
    ),
    # Books: who may do what, once.
    (
        "ledger revision not compared",
        f"{PACKAGE}/core/moves.py",
        {"if loaded.ledger_revision != ledger.revision:": "if False:"},
        (BOOKS,),
    ),
    (
        "a report's completeness ignored",
        f"{PACKAGE}/core/moves.py",
        {"if not report.complete:": "if False:"},
        (BOOKS,),
    ),
    (
        "an early report taken for a proof",
        f"{PACKAGE}/steps/books.py",
        {"return report if report is not None and report.complete else None": "return report"},
        (BOOKS,),
    ),
    (
        "a report of elsewhere is taken",
        f"{PACKAGE}/core/moves.py",
        {"<= stop <= loaded.end.offsets[partition]": "<= stop"},
        (BOOKS,),
    ),
    (
        "take-over while the owner is active",
        f"{PACKAGE}/core/lifecycle.py",
        {"return Asker.OTHER if owner_active else Asker.HEIR": "return Asker.HEIR"},
        (BOOKS,),
    ),
    (
        "a document is not compared before it is replaced",
        f"{PACKAGE}/ledger.py",
        {"self._expect(key, type(document), before)\n        if parts:": "if parts:"},
        (f"{LIFE}::test_a_commit_compares_owner_attempt_and_revision_immediately_before_it_moves",),
    ),
    (
        "boundary decided twice",
        f"{PACKAGE}/boundaries.py",
        {
            "return self._agreed(decided) if found is None else found": "return self._agreed(decided)",
            "if self.store.boundary(decided.time) is None:": "if True:",
        },
        ("tests/unit/test_boundaries.py",),
    ),
    (
        "a boundary is decided before the grace",
        f"{PACKAGE}/boundaries.py",
        {"left = time + self.grace - self.now()": "left = time - self.now()"},
        ("tests/unit/test_boundaries.py",),
    ),
    (
        "a field that nobody knows is read",
        f"{PACKAGE}/core/codec.py",
        {"sorted(set(value) ^ set(fields))": "sorted(set(fields) - set(value))"},
        ("tests/unit/test_golden.py",),
    ),
    (
        "a document of an older version is not read",
        f"{PACKAGE}/core/codec.py",
        {"OLDEST = 1": "OLDEST = VERSION"},
        ("tests/unit/test_golden.py",),
    ),
    (
        "a format changed",
        f"{PACKAGE}/core/codec.py",
        {"sort_keys=True": "sort_keys=False"},
        ("tests/unit/test_golden.py",),
    ),
]
