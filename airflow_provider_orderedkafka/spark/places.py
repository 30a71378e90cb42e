"""Where each micro-batch begins and ends, from the offsets that Spark writes into its checkpoint before it runs one."""

import json

from airflow_provider_orderedkafka.core.cuts import Place
from airflow_provider_orderedkafka.core.streams import StreamOffset
from airflow_provider_orderedkafka.errors import DocumentError
from airflow_provider_orderedkafka.spark.checkpoint import SPARK
from airflow_provider_orderedkafka.spark.state import State


class OffsetLog:
    """Spark's log of offsets: one file for each batch, with a version, its own settings, and the source's offset."""

    def __init__(self, state: State) -> None:
        self._state = state

    def batch(self, number: int) -> tuple[Place, Place] | None:
        """Where the batch begins and ends; None for one that only resolves the start."""
        before = None if number == 0 else self._end(number - 1)
        end = self._end(number)
        return None if before is None or end is None else (before, end)

    def _end(self, number: int) -> Place | None:
        name = f"{SPARK}/offsets/{number}"
        try:
            last = (self._state.get(name) or "").strip().splitlines()[-1]
            found = StreamOffset.from_json(json.loads(last))
        except (ValueError, IndexError, AttributeError) as error:
            raise DocumentError(
                f"Spark's offset log {name!r} in {self._state.location!r} cannot be read ({error}): it was damaged, or "
                f"written by a Spark that this release does not know"
            ) from error
        return None if found is None else found.place
