"""Upserts: a table has for each key the record that is last in the load's order."""

PACKAGE = "airflow_provider_orderedkafka"
RULES = f"{PACKAGE}/core/upserts.py"
MERGE = f"{PACKAGE}/spark/tables/upserts.py"
LAW = ("tests/property/test_upserts.py",)
REFUSED = ("tests/unit/test_upserts.py",)

MUTANTS = [
    (
        "within a partition a row is later by its time",
        MERGE,
        {'"CASE WHEN {within} THEN {later(new, there, WITHIN)} ELSE {later(new, there)} END"': '"{later(new, there)}"'},
        LAW,
    ),
    (
        "of two partitions a row is later by its time alone",
        MERGE,
        {"ELSE {later(new, there)} END": "ELSE {later(new, there, POSITION[:1])} END"},
        LAW,
    ),
    ("what is loaded again adds keys", MERGE, {'absent = "" if self.again else f': "absent = f"}, LAW),
    (
        "what is loaded again replaces other records",
        MERGE,
        {'{of_record(_new, _target)}" if self.again': '{of_record(_new, _target)}" if False'},
        LAW,
    ),
    (
        "a record gets the order time of whoever merges it last",
        MERGE,
        {"THEN {latest} ELSE": "THEN {_new('order_time')} ELSE"},
        LAW,
    ),
    (
        "records of a topic that was made anew are compared by offset with those of the former one",
        MERGE,
        {'PARTITION: Final = ("topic_id", "topic", "partition")': 'PARTITION: Final = ("topic", "partition")'},
        LAW,
    ),
    (
        "the floor is not that with which the load had come there",
        RULES,
        {"return replace(place, floor=reached.floor), seen": "return place, seen"},
        LAW,
    ),
    (
        "what is loaded again goes beyond where the load had come",
        RULES,
        {"min(end, reached.offsets.get(p, start[p]))": "end"},
        LAW,
    ),
    ("what is loaded again takes the load back", RULES, {' and loaded.upsert.stage != "again"': ""}, LAW),
    (
        "an older mirror takes from a ledger how far its table has come",
        f"{PACKAGE}/loads/ledger_operations.py",
        {"and before.revision > mirrored.revision:": "and False:"},
        (*LAW, *REFUSED),
    ),
    (
        "a load of upserts may add rows",
        f"{PACKAGE}/loads/loading.py",
        {"upserting(books.store.ledger(), loaded,": "upserting(books.store.ledger() if job.upserts else None, loaded,"},
        REFUSED,
    ),
    (
        "a partition that was added is left out in part",
        RULES,
        {"known = ledger.place.offsets.updated(ledger.reached.offsets)": "known = ledger.reached.offsets"},
        REFUSED,
    ),
]
