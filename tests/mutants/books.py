"""Books: who may do what, once."""

PACKAGE = "airflow_provider_orderedkafka"
BOOKS = "tests/unit/test_books.py"
LIFE = "tests/property/test_lifecycle.py"
CHECKPOINT = "tests/unit/test_checkpoint.py"

COMPAT = "tests/airflow/test_compat.py"

MUTANTS = [
    (
        "a run of which Airflow says nothing is taken for a deleted one",
        f"{PACKAGE}/compat/airflow.py",
        {"        if _no_such_thing(error):\n": "        if True:\n"},
        (COMPAT,),
    ),
    (
        "an answer of a proxy is taken for Airflow's",
        f"{PACKAGE}/compat/airflow.py",
        {'return missing and isinstance(answer, dict) and answer.get("reason") == "not_found"': "return missing"},
        (COMPAT,),
    ),
    (
        "a state that is not known is taken for an end",
        f"{PACKAGE}/context.py",
        {"return state is not None and state not in ENDED": 'return state in {"queued", "running"}'},
        (COMPAT,),
    ),
    (
        "a hiccup of Airflow ends a deferred wait",
        f"{PACKAGE}/triggers/offsets.py",
        {"if _ends_a_wait(error):": "if True:"},
        ("tests/airflow/test_waiting.py::test_a_deferred_wait_outlives_hiccups_of_airflow",),
    ),
    (
        "a load of whole topics becomes one of chosen partitions",
        f"{PACKAGE}/loads/books.py",
        {"if ledger.chosen is None or ledger.chosen == isinstance(subscription, Assigned):": "if True:"},
        ("tests/unit/test_operations.py",),
    ),
    (
        "a topic that was created again is taken for the known one, where a partition of it is added",
        f"{PACKAGE}/core/lifecycle.py",
        {"topics={**topics, **ledger.topics})": "topics={**ledger.topics, **topics})"},
        ("tests/unit/test_operations.py",),
    ),
    (
        "ledger revision not compared",
        f"{PACKAGE}/core/lifecycle.py",
        {"if loaded.ledger_revision != ledger.revision:": "if False:"},
        (BOOKS,),
    ),
    (
        "a report's completeness ignored",
        f"{PACKAGE}/core/lifecycle.py",
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
        f"{PACKAGE}/core/lifecycle.py",
        {"<= stop <= loaded.end.offsets[partition]": "<= stop"},
        (BOOKS,),
    ),
    (
        "a failure takes the place of a report of success",
        f"{PACKAGE}/spark/state/checkpoint.py",
        {"self.state.put(FAILURE, report.to_text())": "self.state.put(REPORT, report.to_text())"},
        (CHECKPOINT,),
    ),
    (
        "who succeeds later replaces the report of who did first",
        f"{PACKAGE}/spark/state/checkpoint.py",
        {"return self.state.create(name, document.to_text())": "return not self.state.put(name, document.to_text())"},
        (CHECKPOINT,),
    ),
    (
        "the work of one attempt replaces that of another",
        f"{PACKAGE}/job.py",
        {"{sha256(text.encode()).hexdigest()[:16]}": "work"},
        ("tests/unit/test_job.py",),
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
        {"set(self._expect(key, type(document), before))": "set(self._whole(key)[1])"},
        (f"{LIFE}::test_a_commit_compares_owner_attempt_and_revision_immediately_before_it_moves",),
    ),
    (
        "a revision that was deleted is written again",
        f"{PACKAGE}/loads/ledger.py",
        {"if not created or newest > before + self._kept:": "if not created:"},
        ("tests/property/test_revisions.py",),
    ),
    (
        "the second of two writers of a revision is not told",
        f"{PACKAGE}/loads/ledger.py",
        {"self._state.create(name, text) or self._state.get(name) == text": "self._state.create(name, text) or True"},
        ("tests/property/test_revisions.py",),
    ),
    (
        "the newest revision is deleted before older ones",
        f"{PACKAGE}/loads/ledger.py",
        {"for number in numbers:  # from": "for number in reversed(numbers):  # from"},
        ("tests/property/test_revisions.py",),
    ),
    (
        "boundary decided twice",
        f"{PACKAGE}/loads/boundaries.py",
        {
            "decided if found is None else completed(found, decided)": "decided",
            "if not self._whole(found):  # another": "if True:  # another",
        },
        ("tests/unit/test_boundaries.py",),
    ),
    (
        "a boundary takes a partition that a later one does not know",
        f"{PACKAGE}/loads/boundaries.py",
        {"if above is None or partition in above:": "if True:"},
        ("tests/property/test_intervals.py",),
    ),
    (
        "a topic that a boundary lacks begins at its first offset",
        f"{PACKAGE}/loads/boundaries.py",
        {"found.topics.keys() >= set(names(self.terms.subscription))": "True"},
        ("tests/property/test_intervals.py",),
    ),
    (
        "a boundary that is uncertain shows that the next one is not",
        f"{PACKAGE}/loads/boundaries.py",
        {"partition not in unknown.starts or unknown.decided_at <= time": "True"},
        ("tests/unit/test_boundaries.py",),
    ),
    (
        "what another Airflow has open is taken over",
        f"{PACKAGE}/core/lifecycle.py",
        {"return Asker.STRANGER": "return Asker.SUCCESSOR"},
        ("tests/unit/test_two_airflows.py",),
    ),
    (
        "an open range that is none of the ledger's is not known",
        f"{PACKAGE}/loads/resolving.py",
        {"    books.store.name_claim(key)\n": ""},
        ("tests/unit/test_resolving.py",),
    ),
    (
        "another run claims the same interval once more",
        f"{PACKAGE}/loads/resolving.py",
        {'claim_key(books.store.load, "interval", (': 'claim_key(books.store.load, "interval", books.run, ('},
        ("tests/unit/test_intervals.py",),
    ),
    (
        "what was loaded and forgotten is loaded once more",
        f"{PACKAGE}/loads/resolving.py",
        {"if known.cover(times):": "if False:", "if known.meet(times):": "if False:"},
        ("tests/unit/test_intervals.py",),
    ),
    (
        "times within those that another run claims at the same moment are loaded by both",
        f"{PACKAGE}/loads/ledger.py",
        {"lambda known: times in known.last, joined": "lambda known: known.cover(times), joined"},
        ("tests/unit/test_intervals.py",),
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
        {"sorted(set(value) ^ set(fields), ": "sorted(set(fields) - set(value), "},
        ("tests/unit/test_golden.py",),
    ),
    (
        "a document of a newer version is read",
        f"{PACKAGE}/core/codec.py",
        {"if not is_integer(version) or version != VERSION:": "if not is_integer(version):"},
        ("tests/unit/test_golden.py",),
    ),
    (
        "a format changed",
        f"{PACKAGE}/core/codec.py",
        {"sort_keys=True": "sort_keys=False"},
        ("tests/unit/test_golden.py",),
    ),
]
