"""Submit: the application runs the range with Spark, and its report comes back."""

import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

from airflow_provider_orderedkafka.assets import ledger_asset
from airflow_provider_orderedkafka.context import books_of, fail, skip
from airflow_provider_orderedkafka.core.documents import Range, Report
from airflow_provider_orderedkafka.core.lifecycle import WEARY_AFTER, Action
from airflow_provider_orderedkafka.core.progress import Progress
from airflow_provider_orderedkafka.errors import LifecycleError, OrderedKafkaError, SettingError
from airflow_provider_orderedkafka.links import SparkLink
from airflow_provider_orderedkafka.load import OrderedLoad
from airflow_provider_orderedkafka.reports import place_of, read_report
from airflow_provider_orderedkafka.steps import Loading
from airflow_provider_orderedkafka.steps import load as what_to_do

if TYPE_CHECKING:
    from airflow.sdk import Context, XComArg

    from airflow_provider_orderedkafka.hooks.spark_process import SparkProcessHook
    from airflow_provider_orderedkafka.launching import Options

KeepOrder = Literal["key", "partition"] | None
LAST_LINES = 20
NO_RETRY = frozenset({2, 65})


class SubmitOrderedLoadOperator(SparkSubmitOperator):  # type: ignore[misc]
    """Run the application for a range that was written down; a `SparkSubmitOperator` with all its arguments.

    The range goes by a file, Kafka's configuration by the child's environment. A retry goes on where the attempt
    before it was; a range that is loaded already starts nothing and gives its report; one that is committed is skipped.
    Its XCom is the report.

    :param load: The load.
    :param range_id: The range; without one, the open range of this run.
    :param output_topic: Where the packaged application writes.
    :param checkpoint: The folder that holds a folder for each range: under AIRFLOW_HOME for a local master, otherwise a
        location that driver, executors and Airflow's workers reach.
    :param keep_order: What keeps its order in the output: each `"key"`, each `"partition"`, or None.
    :param application: Another application than the packaged one.
    """

    application_args: list[str] | None
    files: str | None
    py_files: str | None
    template_fields: Sequence[str] = (*SparkSubmitOperator.template_fields, "range_id", "output_topic", "checkpoint")
    operator_extra_links = (SparkLink(),)
    ui_color = "#fde9d9"

    def __init__(
        self,
        *,
        load: OrderedLoad,
        range_id: "str | XComArg | None" = None,
        output_topic: str | None = None,
        checkpoint: str | None = None,
        keep_order: KeepOrder = "key",
        application: str = "",
        **kwargs: Any,
    ) -> None:
        super().__init__(
            **{
                "application": application or packaged_application("ordered_replay"),
                "name": f"orderedkafka-{load.name}",
                "inlets": [ledger_asset(load.name)],
                **kwargs,
            }
        )
        self.load = load
        self.range_id: Any = range_id
        self.output_topic = output_topic
        self.checkpoint = checkpoint
        self.keep_order = keep_order

    def execute(self, context: "Context") -> dict[str, Any]:
        """Load the range, or say why not."""
        self._require_connection()
        try:
            return self._load(context)
        except OrderedKafkaError as error:
            fail(error)

    def _load(self, context: "Context") -> dict[str, Any]:
        self._options()  # what cannot be submitted is no attempt
        todo = what_to_do(books_of(self.load.name, context), self.range_id or None, self._place)
        self.log.info("%s: %s", self.load.name, todo.reason)
        if todo.action is Action.SKIP:
            skip(context, todo.reason)
        if todo.range is None or todo.checkpoint is None:
            raise LifecycleError(f"nothing is loaded for {self.load.name!r}: {todo.reason}")
        report = todo.report or self._run(context, todo, todo.range, todo.checkpoint)
        self.log.info("%s", told(report))
        return {name: getattr(report, name) for name in TOLD}

    def _run(self, context: "Context", todo: Loading, loaded: Range, checkpoint: str) -> Report:
        with tempfile.TemporaryDirectory(prefix="orderedkafka-") as folder:
            hook = self._prepared(context, todo, Path(folder))
            try:
                super().execute(context)
            except Exception as error:
                raise _explained(error, hook, todo, read_report(checkpoint)) from error
        report = read_report(checkpoint)
        if report is None or not report.complete:
            raise LifecycleError(
                f"the application of range {loaded.id!r} ended without a complete report at {checkpoint!r}: "
                "can this worker read that location?"
            )
        return report

    def _prepared(self, context: "Context", todo: Loading, folder: Path) -> "SparkProcessHook":
        """The submission: files in a private folder, secrets in the environment or not at all."""
        from airflow_provider_orderedkafka.hooks.spark_process import SparkProcessHook, interpreter_environment
        from airflow_provider_orderedkafka.launching import packed

        seen, options = self._seen(), self._options()
        clustered = seen.deploy_mode == "cluster"
        path = folder / "range.json"
        path.write_text(todo.range.to_text() if todo.range else "", encoding="utf-8")
        if clustered:
            self.files = ",".join(filter(None, [self.files, str(path)]))
        if not seen.master.startswith("local"):
            self.py_files = ",".join(filter(None, [self.py_files, packed(folder)]))
        arguments = self._arguments(path.name if clustered else str(path), str(todo.checkpoint), todo.attempt)
        self.application_args = [*(self.application_args or []), *arguments, *options.arguments]
        environment = {} if clustered else interpreter_environment() | options.environment
        hook = SparkProcessHook.of(self._get_hook(), environment, lambda progress: self._tell(context, progress))
        self._hook = hook
        if not clustered:
            hook._conf.setdefault("spark.log.level", "WARN")  # its INFO would bury what the application says
        return hook

    def _seen(self) -> "SparkProcessHook":
        """The submission as the Spark connection has it."""
        from airflow_provider_orderedkafka.hooks.spark_process import SparkProcessHook

        return SparkProcessHook.of(self._get_hook(), {}, lambda _: None)

    def _options(self) -> "Options":
        from airflow_provider_orderedkafka.hooks.ordered_kafka import OrderedKafkaHook
        from airflow_provider_orderedkafka.launching import options_for

        config = OrderedKafkaHook(self.load.kafka_conn_id).portable_config()
        options = {f"kafka.{name}": value for name, value in config.items()}
        clustered = self._seen().deploy_mode == "cluster"
        return options_for(options, clustered=clustered, conf=self.conf or {}, load=self.load.name)

    def _arguments(self, path: str, checkpoint: str, attempt: int) -> list[str]:
        arguments = ["--range", path, "--checkpoint", checkpoint, "--attempt", str(attempt)]
        if self.output_topic:
            arguments += [
                "--output-topic",
                self.output_topic,
                "--sink-option",
                f"keepOrder={self.keep_order or 'none'}",
            ]
        return arguments

    def _place(self, loaded: Range, times: int) -> str:
        """The range's own folder; one more for each time it is loaded anew."""
        return place_of(self.checkpoint or self._local_root(), loaded.id, times)

    def _local_root(self) -> str:
        from airflow.sdk.configuration import conf

        master = self._seen().master
        if not master.startswith("local"):
            raise SettingError(
                f"load {self.load.name!r}: checkpoint= is missing, and the Spark connection {self._conn_id!r} names "
                f"the cluster {master!r}: name a location that driver, executors and Airflow's workers reach, such as "
                "checkpoint='s3a://bucket/orderedkafka'"
            )
        home = os.environ.get("AIRFLOW_HOME") or str(Path(conf.get("core", "dags_folder")).parent)
        return f"{home}/orderedkafka/{self.load.name}"

    def _tell(self, context: "Context", progress: Progress) -> None:
        context["task_state_store"].set("progress", json.loads(progress.to_text()))

    def _require_connection(self) -> None:
        from airflow.sdk import BaseHook
        from airflow.sdk.exceptions import AirflowFailException, AirflowNotFoundException

        try:
            BaseHook.get_connection(self._conn_id)
        except AirflowNotFoundException as error:
            raise AirflowFailException(
                f"there is no Spark connection {self._conn_id!r}: create it with `airflow connections add "
                f"{self._conn_id} --conn-type spark --conn-host 'local[*]'`, or name another one with spark_conn_id="
            ) from error


def begin_attempt(context: "Context", load: OrderedLoad, resolve: str) -> None:
    """Before another operator runs the application: write the attempt down, or skip what is committed."""
    ti = context["ti"]
    where = ti.xcom_pull(task_ids=resolve, key="checkpoint")
    try:
        todo = what_to_do(books_of(load.name, context), ti.xcom_pull(task_ids=resolve) or None, lambda *_: str(where))
    except OrderedKafkaError as error:
        fail(error)
    if todo.action is Action.SKIP:
        skip(context, todo.reason)
    if todo.action is Action.REFUSE:
        fail(LifecycleError(f"nothing is loaded for {load.name!r}: {todo.reason}"))


TOLD = ("range_id", "attempt", "limit_spent", "batches", "rows_read", "rows_emitted", "late", "replayed", "lost")


def told(report: Report) -> str:
    """The report in one sentence."""
    extra = [f"{getattr(report, name):,} {name.replace('_', ' ')}" for name in ("late", "replayed", "lost")]
    return (
        f"range {report.range_id} is loaded: {report.rows_read:,} rows read, {report.rows_emitted:,} written in "
        f"{report.batches:,} batches, " + ", ".join(extra)
    )


def packaged_application(name: str) -> str:
    """An application that comes with this package: inside it when installed, beside it in a checkout."""
    package = Path(__file__).parent.parent
    places = [package / "spark_apps", package.parent / "spark_apps"]
    found = next((place for place in places if place.is_dir()), places[0])
    return str(found / f"{name}.py")


def _explained(error: Exception, hook: "SparkProcessHook", todo: Loading, report: Report | None) -> Exception:
    """Why the application ended: what its report says, what a retry does, and a person's ways out after some."""
    from airflow.sdk.exceptions import AirflowException, AirflowFailException

    code = hook.exit_code
    why = report.error if report is not None and report.error else _last_words(str(error))
    text = f"attempt {todo.attempt} of range {todo.range.id if todo.range else ''!r} ended with exit code {code}: {why}"
    if todo.attempt >= WEARY_AFTER and todo.range is not None:
        text += (
            f"\nAfter {todo.attempt} attempts: mend the cause and clear this task, it goes on where it was; or give "
            f"the range up with `orderedkafka ledger abandon {todo.range.load}`; the next run then plans anew"
        )
    return AirflowFailException(text) if code in NO_RETRY else AirflowException(text)


def _last_words(text: str) -> str:
    """What the application said for itself, or else the end of its output."""
    lines = text.splitlines()
    own = [line for line in lines if line.partition(":")[0].endswith(".py")]
    return own[-1] if own else "\n".join(lines[-LAST_LINES:])


def check_keep_order(value: Any) -> KeepOrder:
    """`keep_order`, or a `SettingError`."""
    allowed = (*get_args(get_args(KeepOrder)[0]), None)
    if value not in allowed:
        raise SettingError(f"keep_order must be one of {', '.join(map(repr, allowed))}, found {value!r}")
    return value  # type: ignore[no-any-return]
