"""When to run, and where a range ends."""

PACKAGE = "airflow_provider_orderedkafka"
NEXT_RANGE = "tests/unit/test_next_range.py"

MUTANTS = [
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
        f"{PACKAGE}/core/next_range.py",
        {"(seen.now - terms.grace, f": "(seen.now, f"},
        (NEXT_RANGE,),
    ),
    (
        "an open transaction is overtaken",
        f"{PACKAGE}/core/order/cuts.py",
        {"else min(time, max(open_since, at_most))": "else time"},
        (NEXT_RANGE,),
    ),
]
