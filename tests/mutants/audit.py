"""Wrong auditors: what is wrong with an output is not found, or what nobody knows is called clean."""

AUDIT = "airflow_provider_orderedkafka/audit"
COMPARED = ("tests/unit/test_audit.py",)
UPSERTS = ("tests/unit/test_audit_upserts.py",)
TOPICS = "tests/integration/test_audit.py"
LOADS = "tests/integration/test_audit_loads.py"
TABLES = "tests/integration/test_audit_tables.py"
OTHERS = "tests/integration/test_audit_others.py"
TASK = "tests/airflow/test_audit.py"

MUTANTS = [
    (
        "a file of Avro that cannot be read is whatever its reader makes of it",
        f"{AUDIT}/files.py",
        {"        except Exception as error:  # of fastavro": "        except EOFError as error:  # of fastavro"},
        ("tests/unit/test_audit.py",),
    ),
    (
        "an audit calls clean what it does not know",
        f"{AUDIT}/auditing.py",
        {'return "unknown" if counts[UNKNOWN] else "clean"': 'return "clean"'},
        COMPARED,
    ),
    (
        "rows that are there twice are not looked for",
        f"{AUDIT}/comparing.py",
        {'done, "doubled", rows.doubled,': 'done, "doubled", rows.doubled[:0],'},
        COMPARED,
    ),
    (
        "a row beside the dead letter of its record is fine",
        f"{AUDIT}/comparing.py",
        {", **self._also_dead_letters()}": "}"},
        COMPARED,
    ),
    (
        "the value of a copied row is not compared",
        f"{AUDIT}/comparing.py",
        {'COPIED: Final = ("key", "value", ': 'COPIED: Final = ("key", '},
        COMPARED,
    ),
    (
        "the order time of a row is not compared",
        f"{AUDIT}/comparing.py",
        {"index], time != least, time < least)": "index], time < 0, time < 0)"},
        COMPARED,
    ),
    (
        "a row of a record that no reader sees counts as expired",
        f"{AUDIT}/comparing.py",
        {"(self.index < 0) & (self.offset < certain)": "(self.index < 0) & (certain == certain)"},
        COMPARED,
    ),
    (
        "more rows than records that are gone are as good as any",
        f"{AUDIT}/comparing.py",
        {"if found > gone:": "if found > gone + LARGE:", "FILES: Final =": "LARGE: Final = 2**62\nFILES: Final ="},
        COMPARED,
    ),
    (
        "fewer rows than records that are gone are as good as any",
        f"{AUDIT}/comparing.py",
        {"elif self.promised.copied:": "elif not self.promised.copied:"},
        COMPARED,
    ),
    (
        "whatever is missing may have been taken from the output",
        f"{AUDIT}/comparing.py",
        {"else min(count, self.found.taken - self.missed)": "else count"},
        COMPARED,
    ),
    (
        "rows of different keys have to be in order",
        f"{AUDIT}/comparing.py",
        {'if keep_order == "partition":': "if keep_order:"},
        COMPARED,
    ),
    (
        "order is not looked at",
        f"{AUDIT}/comparing.py",
        {"falls |= tied & (step < 0)": "falls |= tied & (step < -(2**62))"},
        COMPARED,
    ),
    (
        "files follow each other in any order",
        f"{AUDIT}/comparing.py",
        {"self.promised.follow | ": "False | "},
        (f"{TABLES}::test_files_follow_each_other_in_the_order_of_the_load",),
    ),
    (
        "of two rows of a record without numbers one is too many",
        f"{AUDIT}/comparing.py",
        {"if self.found.numbered:": "if True:"},
        (f"{TABLES}::test_files_of_a_transform_that_kept_the_places_of_records_are_compared_by_coverage",),
    ),
    (
        "rows that are missing before others of their record are not looked for",
        f"{AUDIT}/comparing.py",
        {"lacking = self.ordinal[which] - before - 1": "lacking = (self.ordinal[which] - before - 1) * 0"},
        COMPARED,
    ),
    (
        "how many rows the report says is not compared",
        f"{AUDIT}/comparing.py",
        {"elif wrong > 0:": "elif wrong > there:"},
        COMPARED,
    ),
    (
        "records of aborted transactions are records",
        f"{AUDIT}/messages.py",
        {"messages_in(config, spans, loaded.isolation)": 'messages_in(config, spans, "read_uncommitted")'},
        (f"{TOPICS}::test_a_row_of_an_aborted_transaction_comes_from_nowhere",),
    ),
    (
        "a row of any range counts for the one that is audited",
        f"{AUDIT}/messages.py",
        {"of = mine.get(name)": "of = mine.get(name) or next(iter(mine.values()))"},
        (f"{TOPICS}::test_a_planted_fault_is_found_with_its_place",),
    ),
    (
        "an output that was made anew is the one that it was",
        f"{AUDIT}/messages.py",
        {"if any(topic in lost or now.ids[topic] != was for": "if any(topic in lost for"},
        (f"{TOPICS}::test_of_an_output_or_a_source_that_was_made_anew_nothing_is_known",),
    ),
    (
        "what retention took from an output is missing",
        f"{AUDIT}/messages.py",
        {"return sum(hole.within(": "return 0 * sum(hole.within("},
        (f"{TOPICS}::test_what_retention_took_from_the_output_is_unknown",),
    ),
    (
        "a row behind those of a later range is in order",
        f"{AUDIT}/following.py",
        {"if self.places[newest][1] > number:": "if self.places[newest][1] < 0:"},
        (f"{TOPICS}::test_a_row_that_lies_behind_those_of_a_later_range_is_out_of_order",),
    ),
    (
        "any table of the name is the one that was loaded into",
        f"{AUDIT}/tables.py",
        {"if self.id and self.id != now:": "if self.id == now + now:"},
        (f"{TABLES}::test_a_table_that_is_as_promised_is_clean_and_another_one_in_its_place_is_unknown",),
    ),
    (
        "of a table in Hadoop's catalog the oldest metadata is read",
        f"{AUDIT}/tables.py",
        {"numbers[max(numbers)]": "numbers[min(numbers)]"},
        (f"{TABLES}::test_a_table_that_is_as_promised_is_clean_and_another_one_in_its_place_is_unknown",),
    ),
    (
        "dead letters in a table are rows",
        f"{AUDIT}/tables.py",
        {", dead=True)": ", dead=False)"},
        (f"{TABLES}::test_dead_letters_in_a_table_are_not_missing_and_a_row_beside_one_is_doubled",),
    ),
    (
        "a time that lies between two of Kafka's is the one before it",
        f"{AUDIT}/tables.py",
        {"return np.where(rest == 0, found, -3)": "return found"},
        (f"{TABLES}::test_a_micro_or_a_nanosecond_is_another_time",),
    ),
    (
        "rows of others are of the range that is audited",
        f"{AUDIT}/tables.py",
        {"self.outside += len(others) - len(nowhere)": "self._nameless += len(others) - len(nowhere)"},
        (f"{OTHERS}::test_rows_outside_of_the_range_are_left_out_and_counted",),
    ),
    (
        "a partition that a topic does not have is outside of the range",
        f"{AUDIT}/tables.py",
        {"return topic in self.loaded.topics and": "return not self.loaded.topics and"},
        (f"{OTHERS}::test_what_is_wrong_is_found_with_its_place",),
    ),
    (
        "what cannot be compared was compared",
        f"{AUDIT}/tables.py",
        {"OWN if name not in kinds or not _is_raw(kinds[name])}": "OWN if name not in kinds}"},
        (f"{OTHERS}::test_columns_that_cannot_be_compared_are_named",),
    ),
    (
        "what retention took before the start of the log was not asked for",
        "airflow_provider_orderedkafka/reader.py",
        {"span = (Place(begin.asked, NO_FLOOR), ": "span = (Place(begin.offsets, NO_FLOOR), "},
        (f"{OTHERS}::test_records_that_retention_took_cannot_be_proved_and_what_is_there_is_compared",),
    ),
    (
        "of what nobody looked at nothing is unknown",
        f"{AUDIT}/auditing.py",
        {"gone if loaded.offsets else [": "gone if loaded else ["},
        (f"{OTHERS}::test_a_range_without_an_offset_is_not_clean",),
    ),
    (
        "an audit that found something succeeds",
        "airflow_provider_orderedkafka/operators/audit.py",
        {'if row.verdict == "found":': 'if row.verdict == "wrong":'},
        (f"{TASK}::test_a_range_that_is_as_promised_is_clean_and_one_that_somebody_meddled_with_fails_with_the_place",),
    ),
    (
        "an audit that does not know succeeds",
        "airflow_provider_orderedkafka/operators/audit.py",
        {'if row.verdict == "unknown":': 'if row.verdict == "wrong":'},
        (f"{TASK}::test_what_cannot_be_known_skips_the_audit_and_says_why",),
    ),
    (
        "a sum that the report is not certain of proves that all is there",
        f"{AUDIT}/comparing.py",
        {"if not self.promised.certain:": "if not (self.promised.certain or there):"},
        COMPARED,
    ),
    (
        "the rows of a key may be in any partition",
        f"{AUDIT}/comparing.py",
        {"which[order[of_place != home[of_key]]]": "which[order[of_place != of_place]]"},
        COMPARED,
    ),
    (
        "rows of a key that partitions were added for are out of order",
        f"{AUDIT}/comparing.py",
        {' != "key" or self.found.grown)': ' != "key")'},
        COMPARED,
    ),
    (
        "rows that name their partition may be in another one",
        f"{AUDIT}/comparing.py",
        {'wrong["partition"] |= self._elsewhere(which)': 'wrong["partition"] |= self._elsewhere(which) & False'},
        COMPARED,
    ),
    (
        "what a row of a table says in its own columns is not compared",
        f"{AUDIT}/tables.py",
        {"one != other for one, other in": "one != one for one, other in"},
        (f"{TABLES}::test_a_column_that_says_other_than_its_identity_and_a_row_without_one_are_told",),
    ),
    (
        "rows of a table without an identity are of nobody",
        f"{AUDIT}/tables.py",
        {"if silent.true_count:": "if silent.true_count < 0:"},
        (f"{TABLES}::test_a_column_that_says_other_than_its_identity_and_a_row_without_one_are_told",),
    ),
    (
        "a nanosecond is no time",
        f"{AUDIT}/tables.py",
        {'("ns", 1_000_000) if': '("us", 1_000) if'},
        (f"{TABLES}::test_a_micro_or_a_nanosecond_is_another_time",),
    ),
    (
        "a hole between two ranges is none",
        f"{AUDIT}/following.py",
        {"if start > stood:": "if start > stood + start:"},
        COMPARED,
    ),
    ("an overlap of two ranges is none", f"{AUDIT}/following.py", {"elif twice > 0:": "elif twice > start:"}, COMPARED),
    (
        "a range whose folder is gone is not asked for",
        f"{AUDIT}/following.py",
        {"and each.range_id not in loaded": "and each.range_id in reports and each.range_id not in loaded"},
        COMPARED,
    ),
    (
        "an audit of a load does not ask its ledger",
        "airflow_provider_orderedkafka/tools/commands/audit.py",
        {"None if arguments.range else where.ledger()": "None"},
        (f"{LOADS}::test_ranges_by_hand_with_a_row_limit_and_late_records_are_clean",),
    ),
    (
        "the last change of a key is that in the last partition",
        f"{AUDIT}/upserts.py",
        {'WITHIN: Final = ("offset", "code", "time", "turn")': 'WITHIN: Final = ("time", "offset", "code", "turn")'},
        UPSERTS,
    ),
    (
        "a row that is of another change than the last one is fine",
        f"{AUDIT}/upserts.py",
        {"~self._same & (live == wanted)": "~live & ~live & self._same"},
        UPSERTS,
    ),
    (
        "a deleted key that is shown is fine",
        f"{AUDIT}/upserts.py",
        {'"resurrected": live & ~wanted': '"resurrected": live & ~live'},
        UPSERTS,
    ),
    (
        "of records that are gone nothing is unknown",
        f"{AUDIT}/upserts.py",
        {"self.done[home].leave_open(int(gone[at])": "self.done[home].leave_open(0"},
        UPSERTS,
    ),
    (
        "keys that may have been deleted by what is gone are missing",
        f"{AUDIT}/upserts.py",
        {"known = mine[self._sure[mine]]": "known = mine"},
        UPSERTS,
    ),
    (
        "rows that lie behind the place of the load are not looked for",
        f"{AUDIT}/upserts.py",
        {"np.flatnonzero(beyond)": "np.flatnonzero(beyond)[:0]"},
        UPSERTS,
    ),
    (
        "ranges of upserts that nobody knows have changed nothing",
        f"{AUDIT}/upserts.py",
        {"!= start:\n                    raise": "!= start and not start:\n                    raise"},
        UPSERTS,
    ),
    (
        "what a transform made is as good as compared",
        f"{AUDIT}/upserts.py",
        {'max(len(self.rows["at"]), 1)': "0"},
        UPSERTS,
    ),
]
