"""Lineage of a load: which topics were read, and what was written, with the numbers of rows.

Airflow's OpenLineage provider asks for it, where it is installed; nothing else imports it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow_provider_orderedkafka.core.documents import Report
from airflow_provider_orderedkafka.core.outputs import DEAD_LETTERS, SERVERS, TO_TABLES, Outputs
from airflow_provider_orderedkafka.outputs import DeltaOutput, IcebergOutput, KafkaOutput, Output

if TYPE_CHECKING:
    from airflow.providers.common.compat.openlineage.facet import InputDataset, OutputDataset

STORES = {"s3a": "s3", "s3n": "s3"}
"""What OpenLineage calls them, where Hadoop has other names."""

OF_DEAD_LETTERS = (DEAD_LETTERS, "dead_letters")


@dataclass(frozen=True, slots=True)
class Flow:
    """What a load has moved, from where to where.

    `output` is a value, or what a command line says. `spark` is the connection in whose catalogs tables are, `letters`
    where a `Decode` has its dead letters, `elsewhere` the servers of the output's own connection.
    """

    servers: str
    topics: Sequence[str]
    output: Output | Outputs
    spark: str
    report: Report
    letters: str | IcebergOutput | DeltaOutput | None = None
    elsewhere: str | None = None

    @property
    def there(self) -> str:
        """The servers of the output topics."""
        return self.elsewhere or self.output.options.get(SERVERS, self.servers)


def facets(flow: Flow | None) -> Any:
    """What OpenLineage calls the lineage of an operator; empty if nothing was loaded."""
    from airflow.providers.openlineage.extractors import OperatorLineage

    return (
        OperatorLineage() if flow is None else OperatorLineage(inputs=list(_read(flow)), outputs=list(_written(flow)))
    )


def _read(flow: Flow) -> "Iterator[InputDataset]":
    from airflow.providers.common.compat.openlineage.facet import InputDataset
    from openlineage.client.generated.input_statistics_input_dataset import InputStatisticsInputDatasetFacet

    alone = len(flow.topics) == 1  # the report has one number for all topics
    rows = {"inputStatistics": InputStatisticsInputDatasetFacet(rowCount=flow.report.rows_read)} if alone else {}
    for topic in flow.topics:
        yield InputDataset(namespace=_cluster(flow.servers), name=topic, inputFacets=rows)


def _written(flow: Flow) -> "Iterator[OutputDataset]":
    from airflow.providers.common.compat.openlineage.facet import OutputDataset, OutputStatisticsOutputDatasetFacet

    names = [*_topics(flow, dead=False), *_tables(flow, flow.output)]
    told = {"outputStatistics": OutputStatisticsOutputDatasetFacet(rowCount=flow.report.rows_emitted)}
    for namespace, name in names:
        yield OutputDataset(namespace=namespace, name=name, outputFacets=told if len(names) == 1 else {})
    yield from (OutputDataset(namespace=space, name=name) for space, name in _dead_letters(flow))


def _tables(flow: Flow, output: Output | Outputs) -> Iterator[tuple[str, str]]:
    """The namespace and name of a table or folder, as OpenLineage names datasets."""
    said = output.options if isinstance(output, Outputs) else {name: getattr(output, name, None) for name in TO_TABLES}
    if table := said.get("table"):
        yield f"spark://{flow.spark}", table
    if path := said.get("path"):
        parts = urlsplit(path.rstrip("/"))
        bucket = f"{STORES.get(parts.scheme, parts.scheme)}://{parts.netloc}"
        yield (bucket, parts.path.lstrip("/")) if parts.netloc else ("file", parts.path)


def _dead_letters(flow: Flow) -> Iterator[tuple[str, str]]:
    if not flow.report.dead_letters:
        return
    yield from _topics(flow, dead=True)
    if isinstance(flow.letters, str):
        yield _cluster(flow.there), flow.letters
    elif flow.letters is not None:
        yield from _tables(flow, flow.letters)


def _topics(flow: Flow, *, dead: bool) -> Iterator[tuple[str, str]]:
    named = flow.output.named if isinstance(flow.output, KafkaOutput | Outputs) else {}
    yield from ((_cluster(flow.there), topic) for topic, name in named.items() if (name in OF_DEAD_LETTERS) == dead)


def _cluster(servers: str) -> str:
    return f"kafka://{servers.split(',', maxsplit=1)[0].strip()}"
