"""The row limit."""

PACKAGE = "airflow_provider_orderedkafka"
BATCHES = "tests/unit/test_batches.py"
LIMIT = "tests/unit/test_limit_in_a_batch.py"

MUTANTS = [
    (
        "limit counted twice",
        f"{PACKAGE}/spark/application/batches.py",
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
        f"{PACKAGE}/spark/application/batches.py",
        {"self._work.checkpoint.put_allotment(allotment)": "pass"},
        (BATCHES,),
    ),
    (
        "surplus dropped",
        f"{PACKAGE}/spark/lanes/limit.py",
        {"surplus=allotment.surplus": "surplus=None"},
        (LIMIT,),
    ),
    (
        "one row of the surplus too many",
        f"{PACKAGE}/spark/lanes/limit.py",
        {"left = 0 if surplus is None else surplus.rows": "left = 1 if surplus is None else surplus.rows + 1"},
        (LIMIT,),
    ),
    (
        "the last row's record comes again",
        f"{PACKAGE}/core/limits.py",
        {"record.offset + 1": "record.offset"},
        ("tests/property/test_limits.py",),
    ),
    (
        "a slice that is gone while rows are counted",
        f"{PACKAGE}/spark/lanes/limit.py",
        {"if slice_ >= slices.getNumPartitions():": "if False:"},
        ("tests/property/test_attempts.py",),
    ),
]
