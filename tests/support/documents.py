"""One of everything that is written down somewhere, and its text: what tests/golden holds."""

import json
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from airflow_provider_orderedkafka.core.batches import (
    Allotment,
    Counts,
    Doubt,
    Holding,
    Note,
    Overtaken,
    Planned,
    Setup,
    Surplus,
    Tally,
)
from airflow_provider_orderedkafka.core.codec import Document
from airflow_provider_orderedkafka.core.commits import TableVersion
from airflow_provider_orderedkafka.core.documents import (
    Boundaries,
    Boundary,
    Changes,
    Claim,
    Claims,
    Destination,
    Ends,
    Intervals,
    Jobs,
    Ledger,
    Moved,
    Open,
    Outcome,
    Range,
    Report,
    Times,
    Uncertain,
    Upsert,
)
from airflow_provider_orderedkafka.core.order.cuts import Floor, Place
from airflow_provider_orderedkafka.core.order.positions import Offsets, TopicPartition
from airflow_provider_orderedkafka.core.pacing import WatcherState
from airflow_provider_orderedkafka.core.progress import Progress
from airflow_provider_orderedkafka.core.status import Backlog, BatchRow, RangeRow, Status, Stop
from airflow_provider_orderedkafka.decoding.formats import Avro, Decode, Protobuf
from airflow_provider_orderedkafka.job import Allow, Application, Job, Rows, Work
from airflow_provider_orderedkafka.kafka.write.rows import Source, stamps
from airflow_provider_orderedkafka.loads import ledger, mirror
from airflow_provider_orderedkafka.outputs import DeltaOutput, IcebergOutput, KafkaOutput, NewTopics
from airflow_provider_orderedkafka.spark.connector.stream import StreamOffset
from support.keeping import Values
from support.plain import plain_range, plain_report

ORDERS = TopicPartition("orders", 0)
LATER_ORDERS = TopicPartition("orders", 2)
REFUNDS = TopicPartition("refünds", 0)
DEAD = TopicPartition("orders-dead", 1)
TOPICS = {"orders": "Zs1qd1TDRHmTCqH6SgWgrA", "refünds": "r3yYJr0aQeSXJcTzGrV3lQ"}


def offsets(orders: int, later: int, refunds: int) -> Offsets:
    """Partition 1 of the orders takes no part."""
    return Offsets({ORDERS: orders, LATER_ORDERS: later, REFUNDS: refunds})


START = Place(offsets(3, 0, 7), Floor())
END = Place(offsets(30, 5, 7), Floor(1_769_860_800_000))
IN_A_TIE = Place(offsets(12, 1, 7), Floor(1_769_860_700_000, LATER_ORDERS))

RANGE = Range(
    id="orders-incremental-0123456789ab",
    load="orders",
    kind="incremental",
    reason='32 offsets in 3 partitions, "up to the cut"',
    ledger_revision=4,
    topics=TOPICS,
    start=START,
    end=END,
    planned_at=1_769_860_860_000,
    future_tolerance=300_000,
    on_data_loss="fail",
    include_headers=True,
    isolation="read_committed",
    cluster_id="MkU3OEVBNTcwNTJENDM2Qk",
    batch_offsets=20,
    rows_left=100,
    upsert=Upsert("orders/0123456789ab", "again"),
)
UNBOUNDED = plain_range(
    id="orders-replay-0123456789ab", kind="replay", on_data_loss="count", isolation="read_uncommitted"
)
OPEN = Open(
    "orders-incremental-0123456789ab", "orders/scheduled__2026-01-31T12:00:00+00:00", 2, "s3://c/orders/0", "worker-1"
)
OUTCOMES = (
    Outcome("committed", "orders-incremental-a", 1, "orders/one", 1_769_860_000_000, "cut", 90, 2, 1, 2, 3, 4),
    Outcome("abandoned", "orders-incremental-b", 1, "ada", 1_769_860_100_000, "a wrong topic"),
    Outcome("rewound", "", 2, "ada", 1_769_860_200_000, "once more"),
    Outcome("restored", "", 3, "ada", 1_769_860_300_000, "the database was lost"),
)
LEDGER = Ledger(
    load="orders",
    instance="0123456789ab",
    revision=4,
    place=IN_A_TIE,
    topics=TOPICS,
    first_looked_at=1_769_850_000_000,
    last_run_at=1_769_860_000_000,
    rows_emitted=90,
    open=OPEN,
    outcomes=OUTCOMES,
    home_dag="orders",
    dead_letters=7,
    reached=END,
    begun=START.offsets,
)
REPORT = Report(
    range_id=RANGE.id,
    attempt=2,
    complete=True,
    limit_reached=True,
    stop=IN_A_TIE,
    batches=2,
    rows_read=12,
    rows_emitted=9,
    late=1,
    replayed=4,
    lost=3,
    dead_letters=2,
    may_be_doubled=5,
    bytes_read=1_234,
    started_at=1_769_860_900_000,
    ended_at=1_769_860_960_000,
    error=None,
    range=RANGE,
    changes=Changes(inserted=1, updated=2, deleted=3, unchanged=4, moved=5, unknown=6),
    unprotected="provenance is off",
    advice="the row limit is reached",
    may_be_out_of_order=6,
    late_in=Offsets({LATER_ORDERS: 1}),
    job="0123456789abcdef",
    destination=Destination(
        "iceberg:lake.shop.orders",
        "topic:orders-dead",
        copied=True,
        identity=False,
        headers=False,
        keep_order="key",
        called="orders-incremental-0123456789ab-again-1",
    ),
    before=Ends(Offsets({DEAD: 17}), {"orders-dead": "id"}, TableVersion("0f6d1a1e", 4)),
    after=Ends(Offsets({DEAD: 19}), {"orders-dead": "id"}, TableVersion("0f6d1a1e", 6)),
    read_in=Offsets({ORDERS: 11, LATER_ORDERS: 1}),
    let_through=9,
    counting_ms=1_500,
    core_ms=41_000,
    bytes_written=5_678,
    files_written=2,
)
FAILED = plain_report(
    range=RANGE,
    complete=False,
    stop=START,
    started_at=1_769_860_900_000,
    ended_at=1_769_860_900_001,
    error="Kafka acknowledged nothing for 120 s",
)
TALLY = Tally(
    rows_read=6,
    rows_emitted=5,
    late=1,
    replayed=2,
    lost=3,
    dead_letters=1,
    may_be_doubled=4,
    bytes_read=99,
    core_ms=20_500,
    bytes_written=2_839,
    files_written=None,
    may_be_out_of_order=6,
    late_in=Offsets({LATER_ORDERS: 1}),
    read_in=Offsets({ORDERS: 6}),
)
JOB = Job(
    KafkaOutput("orders-ordered", keep_order="partition", create=NewTopics(partitions=6)),
    Rows(
        decode=Decode(value=Avro(registry="main"), key=Protobuf(descriptors=b"\x01\xff")),
        arrow_transform="shop:enrich",
        bad_records=Allow(10, to="orders-dead"),
    ),
    written="{{ params.target }}",
)
TO_A_TABLE = Job(
    IcebergOutput("lake.shop.orders"),
    Rows(application=Application("shop.py", ["--all"]), bad_records=Allow(1, DeltaOutput("s3a://lake/dead"))),
)
LOADED = replace(RANGE, claim="orders-interval-0123456789ab", job=JOB.key)
PROGRESS = Progress(RANGE.id, 2, 1, 12, 32, 11, 9, 1, 5_000, 1_769_860_700_000, 30, 40, about=True)

DOCUMENTS: Mapping[str, Document] = {
    "range": LOADED,
    "range-unbounded": UNBOUNDED,
    "ledger": LEDGER,
    "ledger-first": Ledger("orders", "0123456789ab", 0, START, TOPICS, 1_769_850_000_000, None, 0, None, (), None),
    "ledger-rewound": replace(LEDGER, place=replace(IN_A_TIE, floor=IN_A_TIE.floor.without([ORDERS]))),
    "ledger-chosen": replace(LEDGER, chosen=True),
    "moved": Moved("s3://bucket/ledgers", LEDGER),
    "claim": Claim(Open("orders-interval-a", "orders/two"), (), "orders-interval-a"),
    "claim-ended": Claim(None, OUTCOMES[:1], "orders-interval-a"),
    "claims": Claims(("orders-interval-a", "orders-interval-b")),
    "intervals": Intervals().joined(Times(1_769_857_200_000, 1_769_860_800_000)),
    "boundary": Boundary(1_769_860_800_000, END, TOPICS, 1_769_860_860_000),
    "boundaries": Boundaries((1_769_857_200_000, 1_769_860_800_000)),
    "uncertain": Uncertain(Offsets({LATER_ORDERS: 7}), Offsets({REFUNDS: 3}), 1_769_860_700_000),
    "watch": WatcherState("4", 1_769_860_860_000, 2, "orders/one"),
    "watch-unseen": WatcherState("before the first look", 0, 1),
    "job": JOB,
    "job-table": TO_A_TABLE,
    "jobs": Jobs((JOB.key, TO_A_TABLE.key)),
    "work": Work(LOADED, JOB, "s3a://c/orders/0", None),
    "report": REPORT,
    "report-failed": FAILED,
    "setup": Setup(
        lane="direct",
        writers=4,
        keep_order="key",
        placed="murmur2",
        transform="shop:enrich",
        reason="its keys stay in their partitions",
        cluster="MkU3OEVBNTcwNTJENDM2Qk",
        job="fedcba9876543210",
        partitioner="murmur2_random",
    ),
    "setup-frames": Setup("frames", 1, "none", None, None, ""),
    "note": Note(
        2,
        1,
        START,
        IN_A_TIE,
        Offsets({TopicPartition("orders-ordered", 1): 17}),
        {"orders-ordered": "id"},
        code=("0123456789abcdef",),
        doubts=(Doubt(landed=4, doubtful=1, settled=False, known=False),),
        placed="murmur2",
        placed_over=3,
        table=TableVersion("0f6d1a1e-0c3f-4c7e-9a51-3f2d8b7f5c11", 4_611_686_018_427_387_904),
        uncompacted=("orders-dead",),
        setup="0123456789abcdef",
    ),
    "note-unprotected": Note(1, 3, START, END, Offsets(), {}),
    "counts": Counts(2, TALLY, TALLY.plus(TALLY), 2, IN_A_TIE, limit_reached=True),
    "overtaken": Overtaken(3, 2, 9),
    "overtaken-any": Overtaken(3, 2, None),
    "allotment": Allotment(2, (5, 4, 0), IN_A_TIE, Surplus("orders", 2, 0, 3)),
    "allotment-whole": Allotment(1, (), END, None),
    "holding": Holding(2, "worker-1", 4_321, 1_769_860_000_000, 7, 1_769_860_028_000, let_go=True),
    "planned": Planned(
        batch=2,
        batches=40,
        about=True,
        ends=(0, 7, 5),
        floor=Floor(1_769_860_800_000, LATER_ORDERS),
        offsets=12,
        left=456,
        bytes=3_072,
    ),
    "stream": StreamOffset(END, Offsets({REFUNDS: 7}), 1_769_861_100_000, "read_committed", TOPICS, 5, 6),
    "stream-first": StreamOffset(START, Offsets(), 0, "read_uncommitted", {}, 0, None),
    "progress": PROGRESS,
    "status": Status(
        load="orders",
        dag="orders_ordered",
        topics=("orders", "refünds"),
        of_topics=2,
        updated_at=1_769_861_000_000,
        revision=4,
        rows=1_234,
        row_limit=5_000,
        lag=Backlog(1_769_861_000_000, 40, 32, 100, None, 1_769_860_000_000, "32 of 100", {"orders": "0,3,27,30,0"}, 3),
        ranges=(
            RangeRow(
                RANGE.id,
                "incremental",
                RANGE.reason,
                RANGE.planned_at,
                32,
                None,
                END.floor.time,
                OPEN.owner,
                state="loading",
                progress=PROGRESS,
                written=(BatchRow(1, 1_769_861_000_000, 12, 11, 1),),
            ),
        ),
        stop=Stop(1_769_861_000_000, OPEN.owner, "orders.resolve", "'refünds' is gone"),
    ),
}
"""One of each that is stored."""

PART = 400
"""As long are the parts of a ledger here."""


def texts() -> dict[str, str]:
    """The text of everything, by the name of its file."""
    documents = {f"{name}.json": document.to_text() for name, document in DOCUMENTS.items()}
    mirrors = {
        "mirror.json": mirror._metadata(LEDGER, (0, 1), ORDERS),
        "mirror-portion.json": mirror._metadata(LEDGER, (1, 3), ORDERS),
    }
    return documents | mirrors | {"parts.json": parts(), "provenance.hex": "\n".join(headers())}


def parts() -> str:
    """What a store holds of a ledger that is too long for one value."""
    store = Values()
    ledger.LedgerStore("orders", store, part=PART).save(LEDGER, None)
    return json.dumps(store, sort_keys=True, ensure_ascii=False)


def headers() -> list[str]:
    """The header of a row that came from a record, and of one that came from none."""
    codes, partitions, places, times = np.array([(0, 2, 5, 1_769_860_800_000), (-1, -1, -1, 0)], np.int64).T
    source = Source(("refünds",), codes, partitions, places, times)
    return [value.hex() for value in stamps(RANGE.id, source, np.array([70_000, 0]))]
