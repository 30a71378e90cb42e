"""Which records, and in which order."""

PACKAGE = "airflow_provider_orderedkafka"
BOOKS = "tests/unit/test_books.py"
MARKS = "tests/property/test_marks.py"
CUTS = "tests/property/test_cuts.py"
NEXT = f"{PACKAGE}/core/next_range.py"
NEXT_TESTS = ("tests/unit/test_next_range.py",)
READING = "tests/property/test_reading.py"

MUTANTS = [
    (
        "what was kept for later pieces is passed over where some of it is later",
        f"{PACKAGE}/kafka/read/fetching.py",
        {"(offset >= self._piece.stop[in_piece])).all()": "(offset >= self._piece.stop[in_piece])).any()"},
        ("tests/unit/test_fetching.py",),
    ),
    (
        "an end off by one",
        f"{PACKAGE}/kafka/read/fetching.py",
        {
            "(offset >= self._begin[rank]) & (offset < self.stop[rank])": (
                "(offset >= self._begin[rank]) & (offset <= self.stop[rank])"
            )
        },
        (READING,),
    ),
    (
        "one partition ignored",
        f"{PACKAGE}/core/order/cuts.py",
        {"if start.offset < limit and start != end": "if start.offset < limit and start != end and partition[1] != 10"},
        (CUTS,),
    ),
    (
        "no sort",
        f"{PACKAGE}/kafka/read/columns.py",
        {"order = _stable_order(order_time)": "order = np.arange(order_time.size)"},
        (READING,),
    ),
    (
        "ties by partition wrong",
        f"{PACKAGE}/kafka/read/columns.py",
        {"grouped = _stable_order(rank)": "grouped = _stable_order(-rank)"},
        (READING,),
    ),
    (
        "order across topics wrong",
        f"{PACKAGE}/core/order/positions.py",
        {
            "sorted(offsets.items() if isinstance(offsets, Mapping) else offsets)": (
                "sorted(offsets.items() if isinstance(offsets, Mapping) else offsets, key=lambda p: (p[0][1], p[0][0]))"
            )
        },
        (CUTS,),
    ),
    (
        "a wrong order is not found",
        f"{PACKAGE}/kafka/read/columns.py",
        {"return None if rising.all()": "return None if True"},
        ("tests/unit/test_ordering.py",),
    ),
    (
        "late flag inverted",
        f"{PACKAGE}/kafka/read/columns.py",
        {"late=counted & (timestamp < order_time)": "late=counted & (timestamp >= order_time)"},
        (READING,),
    ),
    (
        "a search that keeps what it was told before a partition was read",
        f"{PACKAGE}/core/order/timeline.py",
        {"bisect_right(self._rows, row.until, place,": "bisect_right(self._rows, row.time, place,"},
        (f"{CUTS}::test_a_search_ends_though_the_partitions_it_asked_about_are_read_meanwhile",),
    ),
    (
        "floor dropped by a slice",
        f"{PACKAGE}/core/order/cuts.py",
        {"limit, before.floor.of(partition))": "limit, BEFORE_TIME)"},
        (CUTS,),
    ),
    (
        "floor dropped by a commit",
        f"{PACKAGE}/core/lifecycle.py",
        {"place=ledger.place.updated(report.stop)": "place=replace(ledger.place, offsets=report.stop.offsets)"},
        (BOOKS,),
    ),
    (
        "a log that was truncated is taken for the same one",
        f"{PACKAGE}/kafka/lookup/survey.py",
        {'mark.digest not in {"", seen.digest}': "False"},
        (MARKS,),
    ),
    (
        "after an election nothing is compared",
        f"{PACKAGE}/kafka/lookup/survey.py",
        {"or ends[p].epoch != m.epoch}": "}"},
        (MARKS,),
    ),
    (
        "the mark of a partition that moved is kept",
        f"{PACKAGE}/core/order/cuts.py",
        {"if later.offsets.get(p, offset) == offset}": "}"},
        (MARKS,),
    ),
    (
        "a truncated log is not looked for after a batch was written",
        f"{PACKAGE}/spark/application/batch_loop.py",
        {"        self._work.plan.check_logs()\n": ""},
        ("tests/unit/test_batches.py",),
    ),
    (
        "a reader that goes on begins the order anew",
        f"{PACKAGE}/reader.py",
        {"NO_FLOOR if begun is None else begun.place.floor": "NO_FLOOR"},
        ("tests/integration/test_arrow_reader.py",),
    ),
    (
        "future timestamps count in a plan",
        f"{PACKAGE}/core/order/cuts.py",
        {"return 0 <= timestamp <= latest": "return 0 <= timestamp"},
        (f"{CUTS}::test_a_timestamp_counts_from_the_epoch_up_to_the_latest",),
    ),
    (
        "future timestamps count in a slice",
        f"{PACKAGE}/kafka/read/columns.py",
        {"(timestamp >= 0) & (timestamp <= latest)": "timestamp >= 0"},
        (READING,),
    ),
    (
        "closing a reader does not end its wait",
        f"{PACKAGE}/reader.py",
        {"if self._closed.wait(LOOK_SECONDS):": "if time.sleep(LOOK_SECONDS):"},
        ("tests/integration/test_arrow_reader.py",),
    ),
    (
        "bounds by time where losses are counted",
        f"{PACKAGE}/core/order/planning.py",
        {'on_data_loss == "count" or partition.topic in literal': "partition.topic in literal"},
        (READING,),
    ),
    (
        "cuts that divide nothing",
        f"{PACKAGE}/core/order/planning.py",
        {" if cut.bounds not in (first.bounds, after.bounds)": ""},
        (READING,),
    ),
    (
        "compacted bounds by time",
        f"{PACKAGE}/core/order/planning.py",
        {"Bound(literal[place]) if self._literal[place] else": ""},
        (CUTS,),
    ),
    (
        "isolation ignored",
        f"{PACKAGE}/kafka/lookup/topics.py",
        {"isolation_level=_LEVELS[isolation]": 'isolation_level=_LEVELS["read_uncommitted"]'},
        (
            "tests/integration/test_offsets.py::"
            "test_the_high_end_is_the_last_stable_offset_unless_uncommitted_records_are_read",
        ),
    ),
    (
        "topic id not compared",
        f"{PACKAGE}/kafka/lookup/topics.py",
        {"if found != planned.get(name, found):": "if False:"},
        ("tests/integration/test_reader_faults.py::test_a_topic_that_was_created_again_is_told_by_its_id",),
    ),
    (
        "what was deleted of a new partition was never there",
        NEXT,
        {"known = set(place.offsets.topics)": "known: set[str] = set()"},
        NEXT_TESTS,
    ),
    (
        "an empty log never had what is asked for",
        NEXT,
        {"if offset is None or (p in found": "if offset is not None and (p in found"},
        NEXT_TESTS,
    ),
    (
        "a topic whose settings may not be read deletes nothing young",
        NEXT,
        {
            'settings.get("retention.ms", -1)': 'settings.get("retention.ms", 2**63)',
            'settings.get("retention.bytes") != "-1"': 'settings.get("retention.bytes", "-1") != "-1"',
            'settings.get("cleanup.policy", "")': 'settings.get("cleanup.policy", "delete")',
        },
        NEXT_TESTS,
    ),
    (
        "a floor that stays where nothing is cut by time",
        f"{PACKAGE}/core/order/planning.py",
        {"Place(self.span.end, self._reached())": "Place(self.span.end, self.span.floor)"},
        ("tests/property/test_ranges_in_order.py",),
    ),
    (
        "a floor that forgets which partition was the last",
        f"{PACKAGE}/core/order/planning.py",
        {"return self.span.floor.raised(time, split)": "return self.span.floor.raised(time)"},
        ("tests/property/test_ranges_in_order.py",),
    ),
    (
        "a rewind of some partitions lets all begin anew",
        f"{PACKAGE}/loads/ledger_operations.py",
        {"ledger.place.floor.without(again) if goes_on else NO_FLOOR": "NO_FLOOR if again else ledger.place.floor"},
        ("tests/property/test_ranges_in_order.py",),
    ),
    (
        "what rises anew is forgotten at the end of a range",
        f"{PACKAGE}/core/order/cuts.py",
        {"{p: max(own, reached.of(p)) for p, own in self.anew.items()}": "self.anew"},
        ("tests/property/test_ranges_in_order.py",),
    ),
]
