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
        "a first run without a minimum waits for its delay",
        f"{PACKAGE}/core/pacing.py",
        {"and situation.since.last_run is None": "and situation.since.first_look < 0"},
        ("tests/unit/test_pacing.py",),
    ),
    (
        "the oldest record is the one with the lowest timestamp, late or not",
        f"{PACKAGE}/core/next_range.py",
        {"max(time if counts(time, span.latest) else BEFORE_TIME, span.floor.of(p))": "time"},
        (NEXT_RANGE,),
    ),
    ("grace ignored", f"{PACKAGE}/core/next_range.py", {"(seen.now - terms.grace, f": "(seen.now, f"}, (NEXT_RANGE,)),
    (
        "an open transaction is overtaken",
        f"{PACKAGE}/core/order/cuts.py",
        {"else min(time, max(open_since, at_most))": "else time"},
        (NEXT_RANGE,),
    ),
    (
        "a run that waits never reads its ledger again",
        f"{PACKAGE}/triggers/offsets.py",
        {"self._known is not None and time.monotonic() - self._known_at <= THOROUGH_SECONDS": "self._known"},
        ("tests/airflow/test_waiting.py::test_where_a_ledger_cannot_be_read_a_run_goes_on_waiting_and_says_so",),
    ),
    (
        "a watcher starts a run by what it knew a minute ago",
        f"{PACKAGE}/triggers/offsets.py",
        {"if reason is not None and known is not None:": "if False:"},
        ("tests/airflow/test_watcher.py",),
    ),
]
