"""Lineage of a load: which topics were read, and what was written, with the numbers of rows.

Airflow's OpenLineage provider asks for it, where it is installed; nothing else imports it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ..core.documents import Report
from ..core.status import COUNTED, AuditRow
from ..job import Job
from ..outputs import TableOutput
from ..storage import uri_of

if TYPE_CHECKING:
    from airflow.providers.common.compat.openlineage.facet import InputDataset, OutputDataset


@dataclass(frozen=True, slots=True)
class Flow:
    """What a load has moved, from where to where.

    `spark` is the connection in whose catalogs tables are, `elsewhere` the servers of the output's own connection.
    """

    servers: str
    topics: Sequence[str]
    job: Job
    spark: str
    report: Report
    elsewhere: str | None = None

    @property
    def there(self) -> str:
        return self.elsewhere or self.servers


def facets(flow: Flow | None) -> Any:
    """What OpenLineage calls the lineage of an operator; empty if nothing was loaded."""
    from airflow.providers.openlineage.extractors import OperatorLineage

    return (
        OperatorLineage() if flow is None else OperatorLineage(inputs=list(_read(flow)), outputs=list(_written(flow)))
    )


def checked(flow: Flow | None, audit: AuditRow | None) -> Any:
    """The lineage of an audit: it reads source and output, and asserts of the output that nothing is wrong with it."""
    from airflow.providers.common.compat.openlineage.facet import InputDataset
    from airflow.providers.openlineage.extractors import OperatorLineage

    if flow is None or audit is None:
        return OperatorLineage()
    facets = {"dataQualityAssertions": _assertions(audit)}
    written = (InputDataset(namespace=space, name=name, inputFacets=facets) for space, name in _places(flow))
    return OperatorLineage(inputs=[*_read(flow), *written])


def _assertions(audit: AuditRow) -> Any:
    """What it found and, where nothing is unknown, also what it did not find."""
    from openlineage.client.generated import data_quality_assertions_dataset as quality

    counts = {name: getattr(audit, name) for name in COUNTED}
    asserted = {name: not count for name, count in counts.items() if count or not audit.unknown}
    return quality.DataQualityAssertionsDatasetFacet(
        assertions=[quality.Assertion(assertion=f"no row is {name}", success=holds) for name, holds in asserted.items()]
    )


def _read(flow: Flow) -> "Iterator[InputDataset]":
    from airflow.providers.common.compat.openlineage.facet import InputDataset
    from openlineage.client.generated.input_statistics_input_dataset import InputStatisticsInputDatasetFacet

    alone = len(flow.topics) == 1  # the report has one number for all topics
    rows = {"inputStatistics": InputStatisticsInputDatasetFacet(rowCount=flow.report.rows_read)} if alone else {}
    for topic in flow.topics:
        yield InputDataset(namespace=cluster_uri(flow.servers), name=topic, inputFacets=rows)


def _written(flow: Flow) -> "Iterator[OutputDataset]":
    from airflow.providers.common.compat.openlineage.facet import OutputDataset, OutputStatisticsOutputDatasetFacet

    names = _places(flow)
    report = flow.report
    statistics = OutputStatisticsOutputDatasetFacet(
        rowCount=report.rows_emitted, size=report.bytes_written, fileCount=report.files_written
    )
    facets = {"outputStatistics": statistics}
    for namespace, name in names:
        yield OutputDataset(namespace=namespace, name=name, outputFacets=facets if len(names) == 1 else {})
    yield from (OutputDataset(namespace=space, name=name) for space, name in _dead_letters(flow))


def _places(flow: Flow) -> list[tuple[str, str]]:
    topics = () if flow.job.kafka is None else flow.job.kafka.named
    return [*((cluster_uri(flow.there), topic) for topic in topics), *_table(flow, flow.job.table)]


def _table(flow: Flow, output: TableOutput | None) -> Iterator[tuple[str, str]]:
    """The namespace and name of a table or folder, as OpenLineage names datasets."""
    if table := getattr(output, "table", None):
        yield f"spark://{flow.spark}", table
    if path := getattr(output, "path", None):
        parts = urlsplit(uri_of(path))
        bucket = f"{parts.scheme}://{parts.netloc}"
        yield (bucket, parts.path.lstrip("/")) if parts.netloc else (parts.scheme, parts.path)


def _dead_letters(flow: Flow) -> Iterator[tuple[str, str]]:
    letters = flow.job.rows.dead_letters
    if not flow.report.dead_letters or letters is None:
        return
    if isinstance(letters, str):
        yield cluster_uri(flow.there), letters
    else:
        yield from _table(flow, letters)


def cluster_uri(servers: str) -> str:
    """A cluster by the first of its servers, whatever protocol is before that."""
    return f"kafka://{servers.split(',', maxsplit=1)[0].strip().rpartition('://')[2]}"
