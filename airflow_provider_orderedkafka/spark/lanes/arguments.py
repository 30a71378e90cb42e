"""The arguments of an application."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from airflow_provider_orderedkafka.core.documents import Range
from airflow_provider_orderedkafka.outputs import CatalogOutput, Output
from airflow_provider_orderedkafka.spark.connector.options import SourceOptions

Transform = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Arguments:
    """The parsed command line.

    `output` is where to write, if that is said as a value, or names a table or files; `sink_options` are for Kafka.
    """

    checkpoint: str
    source: SourceOptions
    attempt: int | None = None
    report: str | None = None
    row_limit: int | None = None
    output_topic: str | None = None
    transform: Transform | None = None
    arrow_transform: Transform | None = None
    sink_options: Mapping[str, str] = field(default_factory=dict)
    output: Output | CatalogOutput | None = None

    @property
    def range(self) -> Range | None:
        """The given range; None to load the next one."""
        return self.source.range

    @property
    def transform_name(self) -> str | None:
        """The transform as `module:function`, if there is one."""
        function = self.transform or self.arrow_transform
        if function is None:
            return None
        return f"{getattr(function, '__module__', '?')}:{getattr(function, '__qualname__', function)}"

    @property
    def code(self) -> str:
        """A digest of the transform's file; empty if there is none, or it cannot be read."""
        function = self.transform or self.arrow_transform
        try:
            file = None if function is None else inspect.getsourcefile(function)
            return "" if file is None else sha256(Path(file).read_bytes()).hexdigest()[:16]
        except (TypeError, OSError):
            return ""
