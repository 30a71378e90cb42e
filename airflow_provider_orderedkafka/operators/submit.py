"""Submit: the application runs the range with Spark, and its report comes back."""

import os
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_orderedkafka.context import beside, books_of, fail, ledger_asset, memory_of, skip
from airflow_provider_orderedkafka.core.documents import TOLD, Range, Report
from airflow_provider_orderedkafka.core.lanes import OrderBy
from airflow_provider_orderedkafka.core.lifecycle import ADVISE_AFTER, Action, way_out
from airflow_provider_orderedkafka.core.outputs import OF_THE_SINK, Outputs
from airflow_provider_orderedkafka.core.progress import Progress
from airflow_provider_orderedkafka.decoding.formats import Decode
from airflow_provider_orderedkafka.errors import LifecycleError, OrderedKafkaError, SettingError, may_retry
from airflow_provider_orderedkafka.hooks.launching import (
    check_keep_order,
    decode_arguments,
    elsewhere,
    missing_application,
    output_arguments,
    packaged_for,
)
from airflow_provider_orderedkafka.hooks.spark_parameters import SparkSubmitParameters
from airflow_provider_orderedkafka.hooks.submission import Submission, masked, submit_command
from airflow_provider_orderedkafka.hooks.transforms import zipped
from airflow_provider_orderedkafka.load import OrderedLoad
from airflow_provider_orderedkafka.loads.loading import Loading, place_of
from airflow_provider_orderedkafka.loads.loading import load as what_to_do
from airflow_provider_orderedkafka.outputs import KafkaOutput, Output
from airflow_provider_orderedkafka.parsing import check_output, no_checkpoint, outputs_of, settled, topic_assets
from airflow_provider_orderedkafka.reports import for_spark, read_report, readable
from airflow_provider_orderedkafka.telling import docs, lineage, metrics, status

if TYPE_CHECKING:
    from airflow.sdk import Context, XComArg

    from airflow_provider_orderedkafka.hooks.launching import Options
    from airflow_provider_orderedkafka.hooks.spark_process import SparkProcess
    from airflow_provider_orderedkafka.hooks.yarn import FollowedProcess, ResourceManager

IN_A_LOCATION = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")

FOLLOWED = "followed"
"""The key under which a task remembers the application that the resource manager follows, and its checkpoint."""


@dataclass(frozen=True, slots=True)
class Way:
    """How to run the application, as far as it is known before the attempt is counted."""

    submission: Submission
    options: "Options"
    environment: Mapping[str, str]
    manager: "ResourceManager | None"


LAST_LINES = 20


class SubmitOrderedLoadOperator(SparkSubmitParameters):
    """Load a resolved range with spark-submit.

    The range is passed in a file, Kafka's configuration in the environment of spark-submit. A retry continues where the
    last attempt stopped. If the range is already loaded, nothing starts and its report is returned; if it is committed,
    the task is skipped. The XCom is the report.

    :param load: The load.
    :param range_id: ID of the range. Default: the open range of this run.
    :param output_topic: The topic that the packaged application writes to.
    :param output: Where to write, as a value or as a template of `<format>:<name>`, instead.
    :param checkpoint: The folder for checkpoints; each range gets a folder in it. Default for a local master: under
        AIRFLOW_HOME. For a cluster, a location that the driver, the executors and Airflow's workers can all reach.
    :param keep_order: Which order to keep in the output: of each `"key"`, of each `"partition"`, or None.
    :param application: Path of your own application, instead of the packaged one.
    :param decode: How keys and values are decoded before the transform.
    :param digest: What shapes the output, as for `ResolveOffsetRangeOperator`; an open range is only continued with the
        same.

    The other parameters are those of spark-submit: see `SparkSubmitParameters`.
    """

    template_fields: Sequence[str] = (
        *SparkSubmitParameters.template_fields,
        *("range_id", "output_topic", "output_value", "checkpoint", "digest"),
    )
    ui_color = "#fde9d9"
    _process: "SparkProcess | FollowedProcess | None" = None
    _flow: lineage.Flow | None = None

    def __init__(
        self,
        *,
        load: OrderedLoad,
        range_id: "str | XComArg | None" = None,
        output_topic: str | None = None,
        output: Output | str | None = None,
        checkpoint: str | None = None,
        keep_order: OrderBy | None = "key",
        application: str = "",
        digest: str = "",
        decode: Decode | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            application=application or packaged_for(None if isinstance(output, str) else output),
            **beside(
                {"inlets": [ledger_asset(load.name, load.ledger), *topic_assets(load)]},
                {"name": f"orderedkafka-{load.name}", "doc_md": docs.LOAD, **kwargs},
            ),
        )
        self.load = load
        self.range_id: Any = range_id
        self.output_topic = output_topic
        self.output_value = output
        self._packaged = not application
        self.checkpoint = checkpoint
        self.keep_order = check_keep_order(keep_order)
        self.digest = digest
        self.decode = decode
        self._check_output()

    def execute(self, context: "Context") -> dict[str, Any]:
        """Load the range; skip if it is committed."""
        try:
            return self._load(context)
        except OrderedKafkaError as error:
            fail(error)

    def on_kill(self) -> None:
        if self._process is not None:
            self._process.end()

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:  # noqa: ARG002 - OpenLineage's signature
        """The topics and tables that were read and written."""
        return lineage.facets(self._flow)

    def _moved(self, report: Report) -> lineage.Flow:
        from airflow_provider_orderedkafka.hooks.ordered_kafka import OrderedKafkaHook

        servers = OrderedKafkaHook(self.load.kafka_conn_id).config.servers
        output = settled(self.output_value) or Outputs.of(self.output_topic, self.application_args or ())
        letters, own = None if self.decode is None else self.decode.dead_letters, getattr(output, "kafka_conn_id", None)
        elsewhere = own and OrderedKafkaHook(own).config.servers
        return lineage.Flow(servers, self.load.topics, output, self.conn_id, report, letters, elsewhere)

    def _load(self, context: "Context") -> dict[str, Any]:
        self._settle_output()  # raises before an attempt is counted
        self._check_application()
        way = self._way(context)
        self._check_schemas()
        self._check_outputs(way.submission)
        place = partial(self._place, way.submission)
        books = books_of(self.load.name, context, self.load.ledger)
        todo = what_to_do(books, self.range_id or None, place, self.digest)
        self.log.info("%s: %s", self.load.name, todo.reason)
        if todo.action is Action.SKIP:
            skip(context, todo.reason)
        if todo.range is None or todo.checkpoint is None:
            raise LifecycleError(f"nothing is loaded for {self.load.name!r}: {todo.reason}")
        report = todo.report or self._run(context, way, todo, todo.range, todo.checkpoint)
        status.loaded(context, self.load, todo.range, report)
        self._flow = self._moved(report)
        self.log.info("%s", report.sentence)
        return {name: getattr(report, name) for name in TOLD}

    def _way(self, context: "Context") -> Way:
        from airflow_provider_orderedkafka.hooks.spark_process import check_found
        from airflow_provider_orderedkafka.hooks.yarn import manager_of

        submission = replace(self.submission(), conf=self.lineage(context))
        options = self._options(submission)
        environment = {} if submission.clustered else _environment(submission) | options.environment
        check_found(submission.spark_binary, environment)
        return Way(submission, options, environment, manager_of(submission, self.yarn_rm_auth))

    def _run(self, context: "Context", way: Way, todo: Loading, loaded: Range, checkpoint: str) -> Report:
        self.log.info("%s: Spark is starting; its first line may take a minute", self.load.name)
        metrics.attempted(self.load.name)
        attempt = status.Attempt(context, self.load, loaded, todo.attempt)
        with attempt, tempfile.TemporaryDirectory(prefix="orderedkafka-") as folder:
            process = self._process = self._made(context, way, todo, Path(folder), attempt.progress)
            try:
                code, output = process.run(), process.output
            except Exception as error:
                raise explained(str(error), None, todo, read_report(checkpoint)) from error
            finally:
                process.tidy()
            report = read_report(checkpoint)
            if code:
                raise explained(masked(output), code, todo, report)
            if report is None or not report.complete:
                raise LifecycleError(
                    f"the application of range {loaded.id!r} ended without a complete report at {checkpoint!r}: "
                    "can this worker read that location?"
                )
            return report

    def _made(
        self, context: "Context", way: Way, todo: Loading, folder: Path, on_progress: Callable[[Progress], None]
    ) -> "SparkProcess | FollowedProcess":
        """The process that submits it, with files in a private folder, and secrets in the environment only."""
        from airflow_provider_orderedkafka.hooks.spark_process import SparkProcess
        from airflow_provider_orderedkafka.hooks.yarn import FollowedProcess

        path = folder / "range.json"
        path.write_text(todo.range.to_text() if todo.range else "", encoding="utf-8")
        submission = _with_files(way.submission, path, shipped=elsewhere(way.submission, way.environment))
        named = path.name if submission.clustered else str(path)
        arguments = [
            *(self.application_args or []),
            *self._arguments(named, for_spark(str(todo.checkpoint)), todo.attempt),
            *way.options.arguments,
        ]
        command = submit_command(submission, self.application, arguments, way.environment)
        process = SparkProcess(command, submission, on_progress, self.post_submit_commands or ())
        if way.manager is None:
            return process
        memory = memory_of(books_of(self.load.name, context, self.load.ledger), context)
        before = memory.get(FOLLOWED) or {}
        known = before.get("application") if self.durable and before.get("checkpoint") == todo.checkpoint else None
        return FollowedProcess(
            process,
            way.manager,
            self.status_poll_interval,
            known,
            lambda application: memory.set(FOLLOWED, {"application": application, "checkpoint": todo.checkpoint}),
        )

    def _settle_output(self) -> None:
        """Know a templated output, and the packaged application for it."""
        if isinstance(self.output_value, str):
            self.output_value = settled(self.output_value)
            self.application = packaged_for(self.output_value) if self._packaged else self.application
        self._check_output()

    def _check_output(self) -> None:
        check_output(self.load, self.output_topic, self.application, self.application_args, self.output_value)

    def _check_application(self) -> None:
        if not IN_A_LOCATION.match(self.application) and not Path(self.application).is_file():
            raise missing_application(self.load.name, self.application, Path(self.application).absolute())

    def _options(self, submission: Submission) -> "Options":
        from airflow_provider_orderedkafka.hooks.launching import options_for
        from airflow_provider_orderedkafka.hooks.ordered_kafka import OrderedKafkaHook
        from airflow_provider_orderedkafka.hooks.registry import registry_of

        config = OrderedKafkaHook(self.load.kafka_conn_id).portable_config()
        options = {f"kafka.{name}": value for name, value in config.items()}
        for conn_id in [] if self.decode is None else self.decode.registries:
            options |= registry_of(conn_id).options
        if isinstance(self.output_value, KafkaOutput) and self.output_value.kafka_conn_id is not None:
            config = OrderedKafkaHook(self.output_value.kafka_conn_id).portable_config()
            options |= {f"{OF_THE_SINK}kafka.{name}": value for name, value in config.items()}
        return options_for(options, clustered=submission.clustered, conf=submission.conf, load=self.load.name)

    def _check_schemas(self) -> None:
        """Ask the registry, so that an error of it counts no attempt."""
        from airflow_provider_orderedkafka.hooks.registry import check_schemas, registry_of

        if self.decode is not None and self.decode.registries:
            check_schemas(self.decode, self.load.topics, registry_of(self.decode.registries[0]))

    def _check_outputs(self, submission: Submission) -> None:
        """Ask Kafka about the outputs, so that a permission that is missing counts no attempt."""
        from airflow_provider_orderedkafka.hooks.ordered_kafka import OrderedKafkaHook

        if submission.clustered:
            return  # the driver may be somebody else there, and reach what cannot be reached from here
        output = settled(self.output_value)
        conn_id = getattr(output, "kafka_conn_id", None) or self.load.kafka_conn_id
        there = replace(self.load, kafka_conn_id=conn_id)
        topics = outputs_of(there, self.output_topic, self.application_args, output, self.decode, create=False)
        own = {name.lower(): value for name, value in getattr(output, "options", {}).items()}
        options = {**Outputs.of(None, self.application_args or ()).options, **own}
        read_back = options.get("provenance", "true").strip().lower() == "true"
        OrderedKafkaHook(conn_id).check_outputs(topics, read_back=read_back)

    def _arguments(self, path: str, checkpoint: str, attempt: int) -> list[str]:
        output = output_arguments(
            self.output_topic, self.keep_order, self.application_args or (), settled(self.output_value)
        )
        decode = decode_arguments(self.decode)
        return ["--range", path, "--checkpoint", checkpoint, "--attempt", str(attempt), *output, *decode]

    def _place(self, submission: Submission, loaded: Range, times: int) -> str:
        """The range's own folder, checked to be readable; another one each time that it is loaded anew."""
        return readable(place_of(self.checkpoint or self._local_root(submission), loaded.id, times))

    def _local_root(self, submission: Submission) -> str:
        from airflow.providers.common.compat.sdk import conf

        if not submission.local:
            raise SettingError(no_checkpoint(self.load.name, self.conn_id, submission.master))
        home = os.environ.get("AIRFLOW_HOME") or str(Path(conf.get("core", "dags_folder")).parent)
        return f"{home}/orderedkafka/{self.load.name}"


def _environment(submission: Submission) -> dict[str, str]:
    """Where Spark and its Python are; the load's own `env_vars` may name others."""
    from airflow_provider_orderedkafka.hooks.spark_process import interpreter_environment

    found = interpreter_environment(submission.spark_binary)
    return found | {name: str(value) for name, value in submission.env_vars.items() if name in found}


def _with_files(submission: Submission, path: Path, *, shipped: bool) -> Submission:
    """The submission with its files: the range, the package for another Python, the keytab."""
    from airflow_provider_orderedkafka.hooks.launching import packed

    more: dict[str, Any] = {}
    if submission.clustered:
        more["files"] = ",".join(filter(None, [submission.files, str(path)]))
    py_files = zipped(submission.py_files, path.parent)
    if py_files or shipped:
        more["py_files"] = ",".join(filter(None, [py_files, packed(path.parent) if shipped else None]))
    if submission.keytab_content is not None:
        keytab = path.with_name("keytab")
        keytab.write_bytes(submission.keytab_content)
        more["keytab"] = str(keytab)
    return replace(submission, **more)


def explained(output: str, code: int | None, todo: Loading, report: Report | None) -> Exception:
    """The exception for a failed application: why it failed and, after some attempts, the ways out."""
    from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException

    why = report.error if report is not None and report.error else _last_words(output)
    text = f"attempt {todo.attempt} of range {todo.range.id if todo.range else ''!r} ended with exit code {code}: {why}"
    if todo.attempt >= ADVISE_AFTER and todo.range is not None:
        text += (
            f"\nAfter {todo.attempt} attempts: fix the cause and clear this task, which continues where it stopped; or "
            f"{way_out(todo.range)}"
        )
    kind: type[Exception] = AirflowException if may_retry(code) else AirflowFailException
    return kind(text)


def _last_words(text: str) -> str:
    """The application's own last message, or else the end of its output."""
    lines = text.splitlines()
    own = [line for line in lines if line.partition(":")[0].endswith(".py")]
    return own[-1] if own else "\n".join(lines[-LAST_LINES:])
