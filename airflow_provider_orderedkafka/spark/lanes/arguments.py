"""The arguments of an application."""

import inspect
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_orderedkafka.core.documents import Range
from airflow_provider_orderedkafka.decoding.formats import Decode
from airflow_provider_orderedkafka.decoding.registry import Registry
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.outputs import TableOutput
from airflow_provider_orderedkafka.spark.connector.options import SourceOptions
from airflow_provider_orderedkafka.spark.connector.sink_options import SinkOptions
from airflow_provider_orderedkafka.spark.lanes.making import Making

if TYPE_CHECKING:
    from airflow_provider_orderedkafka.decoding.records import RecordDecoder

Transform = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Arguments:
    """The parsed command line. `sink` is Kafka's; `output` is the table or the files to write to instead of topics."""

    checkpoint: str
    source: SourceOptions
    sink: SinkOptions
    output: TableOutput | None = None
    attempt: int | None = None
    report: str | None = None
    row_limit: int | None = None
    transform: Transform | None = None
    arrow_transform: Transform | None = None
    decode: Decode | None = None
    registry: Registry | None = None

    @property
    def session(self) -> Mapping[str, str]:
        """The settings that a Spark session needs to write there."""
        dead = None if self.decode is None else self.decode.dead_letters
        of_output = {} if self.output is None else self.output.session
        return {**({} if isinstance(dead, str | None) else dead.session), **of_output}

    @property
    def range(self) -> Range | None:
        """The given range; None to load the next one."""
        return self.source.range

    def making(self, loaded: Range) -> Making:
        """What makes rows of the range's records in Python; none of these may be bad where rows are limited."""
        decoder = self._decoder(loaded)
        most = None if decoder is None else decoder.max_bad
        return Making(decoder, self.arrow_transform, 0 if loaded.rows_left is not None else most)

    def _decoder(self, loaded: Range) -> "RecordDecoder | None":
        """What decodes the records; the registry is asked for their schemas. None if they stay bytes."""
        if self.decode is None:
            return None
        if self.decode.max_bad_records and loaded.rows_left is not None:
            raise SettingError(
                f"max_bad_records={self.decode.max_bad_records} and a row limit cannot be used together: which rows "
                "are the first ones would depend on what may be bad; leave one out"
            )
        from airflow_provider_orderedkafka.decoding.records import RecordDecoder

        return RecordDecoder.of(self.decode, sorted(loaded.topics), self.registry)

    @property
    def transform_name(self) -> str | None:
        """The transform as `module:function`, if there is one."""
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
        if self.decode is not None:
            made += (self.decode.shape or "").encode()
        return sha256(made).hexdigest()[:16] if made else ""
