"""Lineage of a load: which topics were read, and what was written, with the numbers of rows.

Airflow's OpenLineage provider asks for it, where it is installed; nothing else imports it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow_provider_orderedkafka.core.documents import Report
from airflow_provider_orderedkafka.core.outputs import SERVERS, Outputs
from airflow_provider_orderedkafka.outputs import DeltaOutput, IcebergOutput, KafkaOutput, Output

if TYPE_CHECKING:
    from airflow.providers.common.compat.openlineage.facet import InputDataset, OutputDataset

STORES = {"s3a": "s3", "s3n": "s3"}
"""What OpenLineage calls them, where Hadoop has other names."""

DEAD_LETTERS = "deadLetterTopic"


@dataclass(frozen=True, slots=True)
class Flow:
    """What a load has moved, from where to where.

    `spark` is the connection in whose catalogs tables are, `letters` where a `Decode` has its dead letters.
    """

    servers: str
    topics: Sequence[str]
    outputs: Outputs
    spark: str
    report: Report
    letters: str | IcebergOutput | DeltaOutput | None = None


def outputs_of(output: Output, servers: str | None = None) -> Outputs:
    """An output that was given as a value, by its options; `servers` where it is on another cluster."""
    if not isinstance(output, KafkaOutput):
        return Outputs({name: text for name in ("table", "path") if (text := getattr(output, name, None))})
    elsewhere = {} if servers is None else {SERVERS: servers}
    named = {"topic": output.topic, "outputtopics": ",".join(output.topics), "deadlettertopic": output.dead_letters}
    return Outputs({**{name: text for name, text in named.items() if text}, **elsewhere})


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

    names = list(_outputs(flow))
    told = {"outputStatistics": OutputStatisticsOutputDatasetFacet(rowCount=flow.report.rows_emitted)}
    for namespace, name in names:
        yield OutputDataset(namespace=namespace, name=name, outputFacets=told if len(names) == 1 else {})
    yield from (OutputDataset(namespace=space, name=name) for space, name in _dead_letters(flow))


def _outputs(flow: Flow) -> Iterator[tuple[str, str]]:
    """The namespace and name of each output, as OpenLineage names datasets."""
    options = flow.outputs.options
    yield from (topic for topic, option in _topics(flow) if option != DEAD_LETTERS)
    yield from _tables(flow, options)


def _tables(flow: Flow, options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    if table := options.get("table"):
        yield f"spark://{flow.spark}", table
    if path := options.get("path"):
        parts = urlsplit(path.rstrip("/"))
        bucket = f"{STORES.get(parts.scheme, parts.scheme)}://{parts.netloc}"
        yield (bucket, parts.path.lstrip("/")) if parts.netloc else ("file", parts.path)


def _dead_letters(flow: Flow) -> Iterator[tuple[str, str]]:
    if not flow.report.dead_letters:
        return
    yield from (topic for topic, option in _topics(flow) if option == DEAD_LETTERS)
    if isinstance(flow.letters, str):
        yield _cluster(flow.outputs.options.get(SERVERS, flow.servers)), flow.letters
    elif flow.letters is not None:
        yield from _tables(flow, outputs_of(flow.letters).options)


def _topics(flow: Flow) -> Iterator[tuple[tuple[str, str], str]]:
    options = flow.outputs.options
    here = replace(flow.outputs, options={name: value for name, value in options.items() if name != SERVERS})
    for topic, option in here.topics.items():
        yield (_cluster(options.get(SERVERS, flow.servers)), topic), option


def _cluster(servers: str) -> str:
    return f"kafka://{servers.split(',', maxsplit=1)[0].strip()}"
