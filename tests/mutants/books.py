"""Books: who may do what, once."""

PACKAGE = "airflow_provider_orderedkafka"
BOOKS = "tests/unit/test_books.py"
LIFE = "tests/property/test_lifecycle.py"

MUTANTS = [
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
        f"{PACKAGE}/loads/books.py",
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
        {"return Asker.OTHER if owner_active else Asker.SUCCESSOR": "return Asker.SUCCESSOR"},
        (BOOKS,),
    ),
    (
        "a document is not compared before it is replaced",
        f"{PACKAGE}/loads/ledger.py",
        {"self._expect(key, type(document), before)\n        if parts:": "if parts:"},
        (f"{LIFE}::test_a_commit_compares_owner_attempt_and_revision_immediately_before_it_moves",),
    ),
    (
        "a revision that was deleted is written again",
        f"{PACKAGE}/loads/revisions.py",
        {"if not created or newest > before + self._kept:": "if not created:"},
        ("tests/property/test_revisions.py",),
    ),
    (
        "the second of two writers of a revision is not told",
        f"{PACKAGE}/loads/revisions.py",
        {"self._state.create(name, text) or self._state.get(name) == text": "self._state.create(name, text) or True"},
        ("tests/property/test_revisions.py",),
    ),
    (
        "the newest revision is deleted before older ones",
        f"{PACKAGE}/loads/revisions.py",
        {"for number in numbers:  # from": "for number in reversed(numbers):  # from"},
        ("tests/property/test_revisions.py",),
    ),
    (
        "boundary decided twice",
        f"{PACKAGE}/loads/boundaries.py",
        {
            "return self._agreed(decided) if found is None else found": "return self._agreed(decided)",
            "if self.store.boundary(decided.time) is None:": "if True:",
        },
        ("tests/unit/test_boundaries.py",),
    ),
    (
        "a boundary is decided before the grace",
        f"{PACKAGE}/loads/boundaries.py",
        {"left = time + grace - self.now()": "left = time - self.now()"},
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
