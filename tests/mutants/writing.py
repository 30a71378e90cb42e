"""What is written, and when it counts as written."""

PACKAGE = "airflow_provider_orderedkafka"
BATCHES = "tests/unit/test_batches.py"
DYING = "tests/property/test_attempts.py"
DYING += "::test_a_batch_of_which_a_dying_spark_does_not_say_what_its_tasks_did_is_not_counted"
NOTES = "tests/unit/test_notes.py"

MUTANTS = [
    (
        "what a dying Spark says of some of its tasks is taken for all",
        f"{PACKAGE}/spark/session/counting.py",
        {"if tasks is not None and len(found) < tasks:": "if False:"},
        (
            "tests/property/test_attempts.py::test_a_batch_of_which_a_dying_spark_does_not_say_what_its_tasks_did_is_not_counted",
        ),
    ),
    (
        "a Spark that is gone is not asked",
        f"{PACKAGE}/spark/session/counting.py",
        {"    rows.isLocal()  # raises if the JVM is gone\n": ""},
        (
            "tests/property/test_attempts.py::test_a_batch_of_which_a_dying_spark_does_not_say_what_its_tasks_did_is_not_counted",
        ),
    ),
    (
        "commit before flush",
        f"{PACKAGE}/kafka/write/producer.py",
        {"self._wait(lambda: self.producer.flush(_POLL_SECONDS), 0, deliveries)": "deliveries.check()"},
        ("tests/unit/test_sending.py",),
    ),
    (
        "a failed delivery is forgotten",
        f"{PACKAGE}/kafka/write/producer.py",
        {"self.first = (describe, error, message)": "return"},
        ("tests/unit/test_sending.py",),
    ),
    (
        "why a client gave up is forgotten",
        f"{PACKAGE}/kafka/write/producer.py",
        {"if not isinstance(error, _GAVE_UP) or not deliveries.purged:": "if True:"},
        ("tests/unit/test_sending.py",),
    ),
    (
        "note after write",
        f"{PACKAGE}/spark/application/batch_loop.py",
        {
            "return self._work.writer.write(batch, note, before)": (
                "written = self._work.writer.write(batch, note, before); "
                "self._work.checkpoint.put_note(note); return written"
            ),
            "self._work.checkpoint.put_note(note)\n            self._note": "self._note",
        },
        (BATCHES,),
    ),
    (
        "counts before write",
        f"{PACKAGE}/spark/application/batch_loop.py",
        {
            "tally = self._written(batch)": (
                "self._work.checkpoint.put_counts(self._counted(batch, Tally())); tally = self._written(batch)"
            )
        },
        (BATCHES,),
    ),
    (
        "what is there before is ignored",
        f"{PACKAGE}/spark/application/batch_loop.py",
        {"before = output.before(note)": "before = None"},
        (BATCHES,),
    ),
    (
        "a doubt is not noted",
        f"{PACKAGE}/spark/application/batch_loop.py",
        {"note = note.doubted(None if before is None else before.doubt)": "pass"},
        (NOTES,),
    ),
    (
        "an output that is named later is not noted",
        f"{PACKAGE}/core/batches.py",
        {"{**kept, **later, **whole}": "{**kept, **whole}"},
        (NOTES,),
    ),
    (
        "a topic that grew takes its new partitions into a begun batch",
        f"{PACKAGE}/core/batches.py",
        {"if partition.topic not in self.output_ids}": "if partition not in self.outputs}"},
        (NOTES,),
    ),
    (
        "what one try could not know is forgotten",
        f"{PACKAGE}/core/batches.py",
        {"doubts=(*self.doubts, doubt)": "doubts=(doubt,)"},
        (NOTES,),
    ),
    (
        "the next batch begins where the last one was planned to end",
        f"{PACKAGE}/spark/application/batch_loop.py",
        {"(counts.batch + 1, counts.end)": "(counts.batch + 1, self._work.loaded.end)"},
        (BATCHES,),
    ),
    (
        "a process that stood still goes on sending",
        f"{PACKAGE}/kafka/write/producer.py",
        {"if now - before > STILL:": "if False:"},
        ("tests/unit/test_sending.py",),
    ),
    (
        "a process that computes stands still",
        f"{PACKAGE}/kafka/write/producer.py",
        {" - time.process_time()": ""},
        ("tests/unit/test_sending.py",),
    ),
    (
        "what an overtaken attempt may have doubled is nobody's",
        f"{PACKAGE}/spark/application/batch_loop.py",
        {"if rows != 0 and self._overtaken():": "if False:"},
        ("tests/property/test_standing_still.py",),
    ),
    (
        "a write that nobody came between stays unsure",
        f"{PACKAGE}/spark/application/batch_loop.py",
        {"self.unsure = None\n        self.counts": "self.counts"},
        (BATCHES,),
    ),
    (
        "a query that was told to end has ended",
        f"{PACKAGE}/spark/application/query.py",
        {"                query.stop()  # Spark's": "                # Spark's"},
        ("tests/integration/test_query.py",),
    ),
    (
        "Spark is kept from reporting a batch that was not loaded for a moment alone",
        f"{PACKAGE}/spark/application/query.py",
        {"while loop.over:  # until": "if loop.over:  # until"},
        ("tests/integration/test_query.py",),
    ),
    (
        "what was doubled after a commit is nobody's",
        f"{PACKAGE}/loads/loading.py",
        {"    if after == ledger:\n": "    if True:\n"},
        ("tests/unit/test_books.py",),
    ),
    (
        "only as many writers are fenced as there are now",
        f"{PACKAGE}/spark/lanes/kafka_output.py",
        {"self.turns.fence(note.writers": "self.turns.fence(self.writers"},
        ("tests/property/test_standing_still.py",),
    ),
    *(
        (why, f"{PACKAGE}/kafka/{module}.py", {line: instead}, ("tests/integration/test_turns.py",))
        for why, module, line, instead in (
            ("a writer does not look whose turn it is", "write/turns", "            self._check(config)\n", ""),
            ("writers of earlier turns are not fenced", "write/turns", "list(pool.map(self._fence,", "len(("),
            ("a transaction stays open while rows are awaited", "write/turns", "self._timer.start()", "pass"),
            ("a transaction is as large as it gets", "write/turns", "if self._bytes >= MOST_BYTES:", "if False:"),
            (
                "open transactions are not awaited",
                "replay/replays",
                "  self._wait_for_transactions(partitions)",
                "  pass",
            ),
            ("what was aborted counts", "replay/replays", 'starts, take, "read_committed")', "starts, take)"),
        )
    ),
]
