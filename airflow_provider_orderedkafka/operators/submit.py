"""Submit: the application runs the range with Spark, and its report comes back."""

import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from ..compat.spark_submit import why_not_started
from ..context import books_of, fails, ledger_asset, rendering, with_assets
from ..core.documents import REPORTED, Range, Report
from ..core.lifecycle import ADVISE_AFTER, way_out
from ..core.notation.secrets import masked
from ..core.notation.spelling import arguments
from ..core.progress import Progress
from ..decoding.formats import has
from ..errors import LifecycleError, SettingError, may_retry
from ..hooks.launching import (
    DRIVERS_PYTHON,
    PYTHON,
    Options,
    elsewhere,
    kafka_options,
    missing_application,
    options_for,
    packaged_for,
    packed,
    private_settings,
    zipped,
)
from ..hooks.submission import SparkSubmit, Submission, rendered, submission, submit_command
from ..job import Application, Job, Rows, Work, job_of
from ..launch import DOC, begun
from ..load import OrderedLoad, check_absolute
from ..loads.books import Books
from ..loads.loading import Loading, place_of, stored_job
from ..locations import for_spark, local_root, read_report, readable
from ..outputs import Output
from ..parsing import ELSEWHERE, check_job, no_checkpoint, topic_assets
from ..reporting import lineage, status

if TYPE_CHECKING:
    from airflow.sdk import Context, XComArg

    from ..hooks.spark_process import SparkProcess

IN_A_LOCATION = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


@dataclass(frozen=True, slots=True)
class Way:
    """How to run the application, as far as it is known before the attempt is counted."""

    submission: Submission
    application: str
    words: tuple[str, ...]
    """The author's own arguments for it."""
    options: Options
    environment: Mapping[str, str]
    private: str | None = field(repr=False)
    """Spark's settings with the secret ones, where there are any."""


LAST_LINES = 20


class SubmitOrderedLoadOperator(BaseOperator):
    """Load a resolved range with spark-submit.

    Range and job are passed in a file, Kafka's configuration in the environment of spark-submit. A retry continues
    where the last attempt stopped. If the range is already loaded, nothing starts and its report is returned; if it is
    committed, the task is skipped. The XCom is the report.

    :param load: The load.
    :param range_id: ID of the range. Default: the open range of this run.
    :param to: Where to write, as for `ordered_load`. Default: what the range was resolved with.
    :param rows: How its records become rows.
    :param spark: The arguments of spark-submit.
    :param checkpoint: The folder for checkpoints; each range gets a folder in it. Default for a local master: under
        AIRFLOW_HOME. For a cluster, a location that the driver, the executors and Airflow's workers can all reach.
    :param application: Path of your own application, instead of the packaged one.
    """

    template_fields: Sequence[str] = ("range_id", "checkpoint")
    ui_color = "#fde9d9"
    _process: "SparkProcess | None" = None
    _flow: lineage.Flow | None = None

    @arguments(**ELSEWHERE)
    def __init__(
        self,
        *,
        load: OrderedLoad,
        range_id: "str | XComArg | None" = None,
        to: Output | str | None = None,
        rows: Rows = Rows(),
        spark: SparkSubmit = SparkSubmit(),
        checkpoint: str | None = None,
        application: str = "",
        **kwargs: Any,
    ) -> None:
        inlets = {"inlets": [ledger_asset(load.name, load.ledger), *topic_assets(load)]}
        super().__init__(**with_assets(inlets, {"doc_md": DOC, **kwargs}))
        self.load = load
        self.range_id: Any = range_id
        self.to = to
        self.rows = rows
        self.spark = spark
        self.checkpoint = checkpoint
        self.application = application

    @fails
    def execute(self, context: "Context") -> dict[str, Any]:
        books = books_of(self.load.name, context, self.load.ledger)
        job = self._job(context, books)
        way = self._way(context, job)  # this and what follows raises before an attempt is counted
        self._check_schemas(books, job)
        self._check_outputs(way.submission, job)
        todo, loaded, place = begun(context, books, self.range_id or None, partial(self._place, way.submission), job)
        job = todo.job or job
        work = Work(loaded, job, for_spark(place))
        report = todo.report or self._run(context, way, todo, work)
        status.loaded(context, self.load, loaded, report)
        self._flow = flow_of(self.load, loaded, job, self.spark.conn_id, report)
        self.log.info("%s", report.sentence)
        return {name: getattr(report, name) for name in REPORTED}

    def on_kill(self) -> None:
        if self._process is not None:
            self._process.end()

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:  # noqa: ARG002 - OpenLineage's signature
        return lineage.facets(self._flow)

    def _job(self, context: "Context", books: Books) -> Job:
        """What is asked for now or, where nothing is, what the range was resolved with."""
        found = stored_job(books, self.range_id or None)
        if found is not None and self.to is None and self.rows == Rows():
            return found
        job = job_of(self.to, self.rows, rendering(self, context))
        check_job(self.load, job.to, job.rows)
        return job if found is None or found.changes(job) else job.at(found)

    def _way(self, context: "Context", job: Job) -> Way:
        own = job.rows.application or Application()
        application = self.application or own.file or packaged_for(job.to)
        if not IN_A_LOCATION.match(application) and not Path(application).is_file():
            raise missing_application(self.load.name, application, Path(application).absolute())
        found = submission_of(self, context, self.spark, f"orderedkafka-{self.load.name}")
        check_absolute(self.checkpoint or self._local_root(found), "checkpoint")
        words = tuple(map(rendering(self, context), own.arguments))
        return way_of(found, application, words, job, self._options(found, job))

    def _run(self, context: "Context", way: Way, todo: Loading, work: Work) -> Report:
        self.log.info("%s: Spark is starting; its first line may take a minute", self.load.name)
        checkpoint = str(todo.checkpoint)
        attempt = status.Attempt(context, self.load, work.range, todo.attempt)
        with attempt, tempfile.TemporaryDirectory(prefix="orderedkafka-") as folder:
            process = self._process = _made(way, todo.attempt, work, Path(folder), attempt.progress)
            try:
                code, output = process.run(), process.output
            except Exception as error:
                raise explained(str(error), None, todo, read_report(checkpoint)) from error
            report = read_report(checkpoint)
            if code:
                raise explained(output, code, todo, report)
            if report is None or not report.complete:
                raise LifecycleError(
                    f"the application of range {work.range.id!r} ended without a complete report at {checkpoint!r}: "
                    "check that this worker can read that location"
                )
            return report

    def _options(self, found: Submission, job: Job) -> Options:
        options = kafka_options(self.load, job)
        return options_for(options, clustered=found.clustered, conf=found.conf, load=self.load.name)

    def _check_schemas(self, books: Books, job: Job) -> None:
        """Ask the registry, so that its errors count no attempt; Spark's driver does where it cannot be asked here."""
        from ..decoding.payloads import RecordDecoder
        from ..hooks.ordered_kafka import registry_of

        decode = job.rows.decode
        if decode is not None and decode.registries and all(map(has, decode.needed)):
            loaded = books.store.range(self.range_id) if self.range_id else None
            topics = self.load.named if loaded is None else tuple(loaded.topics)
            RecordDecoder.of(decode, topics, registry_of(decode.registries[0]))

    def _check_outputs(self, found: Submission, job: Job) -> None:
        """Ask Kafka about the outputs, so that a permission that is missing counts no attempt."""
        from ..hooks.ordered_kafka import OrderedKafkaHook

        if found.clustered:
            return  # the driver may be somebody else there, and reach what cannot be reached from here
        conn_id = (job.kafka and job.kafka.kafka_conn_id) or self.load.kafka_conn_id
        read_back = job.kafka is None or job.kafka.provenance
        hook = OrderedKafkaHook(conn_id)
        hook.check_outputs(job.topics, read_back=read_back)
        if job.kafka is not None and job.kafka.exactly_once:
            hook.check_transactions(self.load.name, job.kafka, job.topics)

    def _place(self, found: Submission, loaded: Range, times: int) -> str:
        """The range's own folder, checked to be readable; another one each time that it is loaded anew."""
        return readable(place_of(self.checkpoint or self._local_root(found), loaded.id, times))

    def _local_root(self, found: Submission) -> str:
        if not found.local:
            raise SettingError(no_checkpoint(self.load.name, found.conn_id, found.master))
        return local_root(self.load.name)


def flow_of(load: OrderedLoad, loaded: Range, job: Job, spark: str, report: Report) -> lineage.Flow:
    """What a range has moved, for lineage; `spark` is the connection that names tables."""
    from ..hooks.ordered_kafka import OrderedKafkaHook

    servers = OrderedKafkaHook(load.kafka_conn_id).config.servers
    own = None if job.kafka is None else job.kafka.kafka_conn_id
    elsewhere = own and OrderedKafkaHook(own).config.servers
    return lineage.Flow(servers, tuple(loaded.topics), job, spark, report, elsewhere)


def submission_of(task: BaseOperator, context: "Context", spark: SparkSubmit, name: str) -> Submission:
    """The arguments of spark-submit with their templates rendered, completed from the connection."""
    asked = rendered(spark, rendering(task, context))
    return submission(replace(asked, name=asked.name or name), context)


def way_of(found: Submission, application: str, words: Sequence[str], job: Job, options: Options) -> Way:
    """How to run an application; `SettingError` for what Spark would fail with."""
    from ..hooks.fitting import check_fits
    from ..hooks.spark_process import check_found

    environment = _environment(found) | options.environment
    check_found(str(found.spark_binary), environment)
    check_fits(found, job, environment)
    private = private_settings(found, environment)
    return Way(found, application, tuple(words), options, environment, private)


def _made(way: Way, attempt: int, work: Work, folder: Path, on_progress: Callable[[Progress], None]) -> "SparkProcess":
    """The process that submits it, with the work in a file."""
    path = folder / "work.json"
    path.write_text(work.to_text(), encoding="utf-8")
    named = path.name if way.submission.clustered else str(path)
    words = (*way.words, "--work", named, "--attempt", str(attempt), *way.options.arguments)
    return process_of(replace(way, words=words), folder, path, on_progress)


def process_of(
    way: Way, folder: Path, file: Path | None = None, on_progress: Callable[[Progress], None] = lambda _: None
) -> "SparkProcess":
    """The process that submits it, with files in a private folder, and secrets in the environment only."""
    from ..hooks.spark_process import SparkProcess

    found = _with_files(way.submission, folder, file, shipped=elsewhere(way.submission, way.environment))
    if way.private is not None:
        settings = folder / "spark.conf"
        settings.write_text(way.private, encoding="utf-8")
        found = replace(found, properties_file=str(settings))
    return SparkProcess(submit_command(found, way.application, way.words, way.environment), found, on_progress)


def _environment(submission: Submission) -> dict[str, str]:
    """Where Spark and its Python are; the load's own `env_vars` may name others."""
    from ..hooks.spark_process import interpreter_environment

    found = interpreter_environment(str(submission.spark_binary))
    found |= {name: str(value) for name, value in submission.env_vars.items() if name in found}
    of_the_driver = (PYTHON, DRIVERS_PYTHON) if submission.clustered else ()  # on YARN it would get this worker's
    return {name: value for name, value in found.items() if name not in of_the_driver}


def _with_files(submission: Submission, folder: Path, file: Path | None, *, shipped: bool) -> Submission:
    """The submission with its files: the work, the package for another Python, the keytab."""
    more: dict[str, Any] = {}
    if submission.clustered and file is not None:
        more["files"] = ",".join(filter(None, [submission.files, str(file)]))
    py_files = zipped(submission.py_files, folder)
    if py_files or shipped:
        more["py_files"] = ",".join(filter(None, [py_files, packed(folder) if shipped else None]))
    if submission.keytab_content is not None:
        keytab = folder / "keytab"
        keytab.write_bytes(submission.keytab_content)
        more["keytab"] = str(keytab)
    return replace(submission, **more)


def explained(output: str, code: int | None, todo: Loading, report: Report | None) -> Exception:
    """The exception for a failed application: why it failed and, after some attempts, the ways out."""
    error = error_line(output) if report is None or report.attempt != todo.attempt else report.error
    more = ""
    if todo.attempt >= ADVISE_AFTER and todo.range is not None:
        more = (
            f"\nAfter {todo.attempt} attempts: fix the cause and clear this task, which continues where it stopped; or "
            f"{way_out(todo.range)}"
        )
    return failed(f"attempt {todo.attempt} of range {todo.range.id if todo.range else ''!r}", output, code, error, more)


def failed(what: str, output: str, code: int | None, error: str | None, more: str = "") -> Exception:
    """The exception for what ended with this code; without a retry if that would fail again."""
    from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException

    spark = None if error else why_not_started(output)
    why = masked(error or str(spark or "\n".join(output.splitlines()[-LAST_LINES:])))
    again = may_retry(code) if spark is None else spark.retryable
    kind: type[Exception] = AirflowException if again else AirflowFailException
    return kind(f"{what} ended with exit code {code}: {why}{more}")


def error_line(text: str) -> str | None:
    return next((line for line in reversed(text.splitlines()) if line.partition(":")[0].endswith(".py")), None)
