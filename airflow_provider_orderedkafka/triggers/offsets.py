"""Waiting in the triggerer: for one run that deferred, or as an asset's watcher that starts runs."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Self

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from airflow_provider_orderedkafka.context import now_ms
from airflow_provider_orderedkafka.core.documents import Ledger
from airflow_provider_orderedkafka.core.pacing import Verdict, until
from airflow_provider_orderedkafka.errors import OrderedKafkaError, UnreachableError
from airflow_provider_orderedkafka.load import OrderedLoad

PATH = "airflow_provider_orderedkafka.triggers.offsets.OffsetRangeTrigger"


class OffsetRangeTrigger(BaseEventTrigger):
    """Fires when enough offsets are there, or long enough has passed.

    `waiting` is for a run that deferred: it has the numbers of its ledger with it, because a plain trigger cannot read
    the ledger, and fires once.

    :param load: The load, as `OrderedLoad.to_json` gives it.
    :param ledger: The text of the ledger that a deferred run saw.
    :param poll_interval: Seconds between two looks.
    :param moment: Without a ledger, the moment to wait for, in milliseconds.
    """

    def __init__(
        self, load: dict[str, Any], ledger: str | None = None, poll_interval: float = 5.0, moment: int | None = None
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.load = load
        self.ledger = ledger
        self.poll_interval = poll_interval
        self.moment = moment

    @classmethod
    def waiting(cls, load: OrderedLoad, ledger: Ledger | None, poll_interval: float, moment: int | None) -> Self:
        """For a run that deferred: until the ledger's load is due, or without one until the moment."""
        return cls(load.to_json(), None if ledger is None else ledger.to_text(), poll_interval, moment)

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The path and the arguments."""
        return PATH, {
            "load": self.load,
            "ledger": self.ledger,
            "poll_interval": self.poll_interval,
            "moment": self.moment,
        }

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look until it is time; Kafka's absence is waited out, what cannot mend itself ends the wait."""
        load = OrderedLoad.from_json(self.load)
        ledger = None if self.ledger is None else Ledger.from_text(self.ledger)
        while True:
            try:
                verdict = await self._verdict(load, ledger)
            except UnreachableError as error:
                self.log.warning("%s: %s", load.name, error)
            except OrderedKafkaError as error:
                yield _event(error=str(error))
                return
            else:
                self.log.info("%s: %s", load.name, verdict.reason)
                if verdict.run:
                    yield _event(reason=verdict.reason)
                    return
            await asyncio.sleep(self.poll_interval)

    async def _verdict(self, load: OrderedLoad, ledger: Ledger | None) -> Verdict:
        if ledger is None:
            return until(self.moment or 0, now_ms())
        return await asyncio.to_thread(verdict_of, load, ledger)


def _event(**told: str) -> TriggerEvent:
    return TriggerEvent(told)  # type: ignore[no-untyped-call]


def verdict_of(load: OrderedLoad, ledger: Ledger) -> Verdict:
    """What Kafka says now; blocks, so it runs in a thread."""
    from airflow_provider_orderedkafka.hooks.ordered_kafka import OrderedKafkaHook

    return OrderedKafkaHook(load.kafka_conn_id).verdict(load, ledger)
