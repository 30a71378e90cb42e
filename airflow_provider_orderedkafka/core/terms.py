"""The settings of a load's ranges, for loads in Airflow, streams, batch reads and loads by hand alike."""

from dataclasses import dataclass
from typing import Final, NamedTuple

from airflow_provider_orderedkafka.core.documents import Isolation, OnDataLoss
from airflow_provider_orderedkafka.core.notation.starts import Start
from airflow_provider_orderedkafka.core.notation.subscriptions import Subscription
from airflow_provider_orderedkafka.core.pacing import Pace


class WayOut(NamedTuple):
    """Phrases for errors about a log that has changed: who was reading it, and what a person can do."""

    who: str
    created_again: str
    records_gone: str
    left_out: str = ""


NEW_CHECKPOINT: Final = WayOut(
    "the stream",
    "to read the new one, start with a new checkpoint",
    "start again with a new checkpoint",
    "to go on without it, start with a new checkpoint",
)


def rewinding(load: str) -> WayOut:
    """The ways out of a load with a ledger in Airflow, which may drop a topic at any time."""
    rewind = f"`orderedkafka ledger rewind {load} --topic {{topic}} --to"
    return WayOut(
        f"load {load!r}",
        f'begin in the new one with {rewind} earliest --reason "created again"`',
        f'go on from its end with {rewind} latest --reason "records are gone"`',
    )


@dataclass(frozen=True, slots=True)
class Terms:
    """Settings of ranges. Times and durations are in milliseconds, None means no bound.

    `end` is an explicit end, `end_time` and `grace` bound how young records may be, and `transaction_wait` is how long
    to wait for an open transaction.
    """

    load: str
    subscription: Subscription
    start: Start
    transaction_wait: int
    future_tolerance: int
    isolation: Isolation
    on_data_loss: OnDataLoss
    include_headers: bool
    pace: Pace
    end: Start | None = None
    end_time: int | None = None
    grace: int | None = None
    max_offsets: int | None = None
    batch_offsets: int | None = None
    row_limit: int | None = None
    way_out: WayOut = NEW_CHECKPOINT
