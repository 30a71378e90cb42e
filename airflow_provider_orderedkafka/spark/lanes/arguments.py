"""What an application is to do: the work, with its functions imported and its settings for Kafka."""

import inspect
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_orderedkafka.core.codec import TAG, encode
from airflow_provider_orderedkafka.core.documents import Range
from airflow_provider_orderedkafka.decoding.formats import Decode
from airflow_provider_orderedkafka.decoding.registry import Registry
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.job import Job
from airflow_provider_orderedkafka.kafka.clients.config import KafkaConfig
from airflow_provider_orderedkafka.spark.connector.options import SourceOptions

from .making import Making

if TYPE_CHECKING:
    from airflow_provider_orderedkafka.decoding.payloads import RecordDecoder

Transform = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Arguments:
    """The work as it is to be done here. `cluster` is the output's, where that is topics."""

    checkpoint: str
    job: Job
    source: SourceOptions
    cluster: KafkaConfig
    attempt: int | None = None
    report: str | None = None
    row_limit: int | None = None
    transform: Transform | None = None
    arrow_transform: Transform | None = None
    registry: Registry | None = None

    @property
    def session(self) -> Mapping[str, str]:
        """The settings that a Spark session needs to write there."""
        letters, table = self.job.rows.dead_letters, self.job.table
        of_letters = {} if isinstance(letters, str | None) else letters.session
        return {**of_letters, **({} if table is None else table.session)}

    @property
    def range(self) -> Range | None:
        return self.source.range

    def with_functions(self, transform: Transform | None, arrow_transform: Transform | None) -> "Arguments":
        """With a program's own functions, unless the job names one."""
        if self.transform or self.arrow_transform:
            return self
        return replace(self, transform=transform, arrow_transform=arrow_transform)

    def making(self, loaded: Range) -> Making:
        """What makes rows of the range's records in Python; none of these may be bad where rows are limited."""
        decoder, bad = self._decoder(loaded), self.job.rows.bad_records
        allowed = bad.most if bad is not None else None if decoder is None else 0
        most = 0 if loaded.rows_left is not None else None if decoder is None else allowed
        return Making(decoder, self.arrow_transform, most, max_bad=allowed)

    def _decoder(self, loaded: Range) -> "RecordDecoder | None":
        """What decodes the records; the registry is asked for their schemas. None if they stay bytes."""
        decode, bad = self.job.rows.decode, self.job.rows.bad_records
        if decode is None:
            return None
        if bad is not None and loaded.rows_left is not None:
            raise SettingError(
                f"{bad.most} bad records and a row limit cannot be used together: which rows are the first ones would "
                "depend on what may be bad; leave one out"
            )
        from airflow_provider_orderedkafka.decoding.payloads import RecordDecoder

        return RecordDecoder.of(decode, sorted(loaded.topics), self.registry, 0 if bad is None else bad.most)

    @property
    def transform_name(self) -> str | None:
        function = self.transform or self.arrow_transform
        if function is None:
            return None
        return f"{getattr(function, '__module__', '?')}:{getattr(function, '__qualname__', function)}"

    @property
    def code(self) -> str:
        """A digest of what makes rows of records: the transform's file, and the formats; empty without either."""
        function, made = self.transform or self.arrow_transform, b""
        with suppress(TypeError, OSError):
            file = None if function is None else inspect.getsourcefile(inspect.unwrap(function))
            made = b"" if file is None else Path(file).read_bytes()
        if self.job.rows.decode is not None:
            made += _as_noted(self.job.rows.decode).encode()
        return sha256(made).hexdigest()[:16] if made else ""


def _as_noted(decode: Decode) -> str:
    """The formats as every release has them in its digests."""
    found = {name: encode(each) for name, each in decode.formats.items()}
    formats = {
        name: {"format" if field == TAG else field: value for field, value in each.items() if value is not None}
        for name, each in found.items()
    }
    return json.dumps(formats, sort_keys=True)
