"""The row limit."""

PACKAGE = "airflow_provider_orderedkafka"
BATCHES = "tests/unit/test_batches.py"
LIMIT = "tests/unit/test_limit_in_a_batch.py"

MUTANTS = [
    (
        "limit counted twice",
        f"{PACKAGE}/spark/application/batch_loop.py",
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
        f"{PACKAGE}/spark/application/batch_loop.py",
        {"= self._work.checkpoint.kept(replace(": "= (replace("},
        (BATCHES,),
    ),
    (
        "an allotment completed with other code",
        f"{PACKAGE}/spark/application/batch_loop.py",
        {"if allotment.code != self._work.writer.setup.code:": "if False:"},
        (BATCHES,),
    ),
    (
        "an attempt that failed counts as one that took over",
        f"{PACKAGE}/spark/application/batch_loop.py",
        {"return found is not None and found.complete  #": "return found is not None  #"},
        ("tests/unit/test_attempt.py",),
    ),
    ("surplus dropped", f"{PACKAGE}/spark/lanes/limit.py", {"surplus=allotment.surplus": "surplus=None"}, (LIMIT,)),
    (
        "one row of the surplus too many",
        f"{PACKAGE}/spark/lanes/limit.py",
        {"left = 0 if surplus is None else surplus.rows": "left = 1 if surplus is None else surplus.rows + 1"},
        (LIMIT,),
    ),
    (
        "the last row's record comes again",
        f"{PACKAGE}/core/next_range.py",
        {"record.offset + 1": "record.offset"},
        ("tests/property/test_limits.py",),
    ),
    (
        "a slice that is gone while rows are counted",
        f"{PACKAGE}/spark/lanes/engine.py",
        {" if part < rows.getNumPartitions()]": "]"},
        ("tests/integration/test_engine.py::test_the_parts_of_a_frame_are_read_in_order_and_some_of_them_alone",),
    ),
]
