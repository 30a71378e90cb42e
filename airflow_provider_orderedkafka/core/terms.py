"""What is asked of a load's ranges, in one form: by a load in Airflow, a stream, a batch read or a load by hand."""

from dataclasses import dataclass
from typing import Final, NamedTuple

from airflow_provider_orderedkafka.core.documents import Isolation, OnDataLoss
from airflow_provider_orderedkafka.core.notation.starts import Start
from airflow_provider_orderedkafka.core.notation.subscriptions import Subscription
from airflow_provider_orderedkafka.core.pacing import Pace


class WayOut(NamedTuple):
    """Who stands in a log that is not what it was, and what a person may do; `{topic}` stands for the topic."""

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
    """The ways out of a load that has a ledger in Airflow; it may leave a topic out at any time."""
    rewind = f"`orderedkafka ledger rewind {load} --topic {{topic}} --to"
    return WayOut(
        f"load {load!r}",
        f'begin in the new one with {rewind} earliest --reason "created again"`',
        f'go on from its end with {rewind} latest --reason "records are gone"`',
    )


@dataclass(frozen=True, slots=True)
class Terms:
    """What is asked for; times and durations in milliseconds, None for no bound.

    `end` is an end that is asked for by itself, `end_time` and `grace` bound how young records may be, and
    `transaction_wait` is how long an open transaction is waited for.
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
