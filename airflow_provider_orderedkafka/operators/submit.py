"""Submit: the application runs the range with Spark, and its report comes back."""

import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

from airflow_provider_orderedkafka.assets import ledger_asset
from airflow_provider_orderedkafka.context import books_of, fail, skip
from airflow_provider_orderedkafka.core.documents import Range, Report
from airflow_provider_orderedkafka.core.lanes import OrderBy
from airflow_provider_orderedkafka.core.lifecycle import Action
from airflow_provider_orderedkafka.core.outputs import Outputs
from airflow_provider_orderedkafka.core.progress import Progress
from airflow_provider_orderedkafka.endings import TOLD, explained, told
from airflow_provider_orderedkafka.errors import LifecycleError, OrderedKafkaError, SettingError
from airflow_provider_orderedkafka.launching import check_keep_order, packaged_application
from airflow_provider_orderedkafka.load import OrderedLoad
from airflow_provider_orderedkafka.parsing import check_output, no_checkpoint
from airflow_provider_orderedkafka.reports import place_of, read_report, readable
from airflow_provider_orderedkafka.steps import Loading
from airflow_provider_orderedkafka.steps import load as what_to_do

if TYPE_CHECKING:
    from airflow.sdk import Context, XComArg

    from airflow_provider_orderedkafka.hooks.spark_process import SparkProcessHook
    from airflow_provider_orderedkafka.launching import Options


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
    :param digest: See `ResolveOffsetRangeOperator`: what is loaded here is compared with it too.
    """

    application_args: list[str] | None
    durable: bool
    files: str | None
    py_files: str | None
    _environment: Mapping[str, str] = MappingProxyType({})
    _on_progress: Callable[[Progress], None] = staticmethod(lambda _: None)
    template_fields: Sequence[str] = (
        *SparkSubmitOperator.template_fields,
        *("range_id", "output_topic", "checkpoint", "digest"),
    )
    ui_color = "#fde9d9"

    def __init__(
        self,
        *,
        load: OrderedLoad,
        range_id: "str | XComArg | None" = None,
        output_topic: str | None = None,
        checkpoint: str | None = None,
        keep_order: OrderBy | None = "key",
        application: str = "",
        digest: str = "",
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
        self.keep_order = check_keep_order(keep_order)
        self.digest = digest
        self._check_output()

    def execute(self, context: "Context") -> dict[str, Any]:
        """Load the range, or say why not."""
        self._require_connection()
        try:
            return self._load(context)
        except OrderedKafkaError as error:
            fail(error)

    def _load(self, context: "Context") -> dict[str, Any]:
        self._check_output()  # what cannot be submitted is no attempt
        self._options()
        self._settle_durable()
        todo = what_to_do(books_of(self.load.name, context), self.range_id or None, self._place, self.digest)
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
            self._prepare(context, todo, Path(folder))
            try:
                super().execute(context)
            except Exception as error:
                code = None if self._hook is None else self._hook.exit_code
                raise explained(error, code, todo, read_report(checkpoint)) from error
        report = read_report(checkpoint)
        if report is None or not report.complete:
            raise LifecycleError(
                f"the application of range {loaded.id!r} ended without a complete report at {checkpoint!r}: "
                "can this worker read that location?"
            )
        return report

    def _prepare(self, context: "Context", todo: Loading, folder: Path) -> None:
        """The submission: files in a private folder, secrets in the environment or not at all."""
        from airflow_provider_orderedkafka.hooks.spark_process import interpreter_environment
        from airflow_provider_orderedkafka.launching import packed

        seen, options = self._get_hook(), self._options()
        clustered = seen.deploy_mode == "cluster"
        path = folder / "range.json"
        path.write_text(todo.range.to_text() if todo.range else "", encoding="utf-8")
        if clustered:
            self.files = ",".join(filter(None, [self.files, str(path)]))
        if not seen.master.startswith("local"):
            self.py_files = ",".join(filter(None, [self.py_files, packed(folder)]))
        arguments = self._arguments(path.name if clustered else str(path), str(todo.checkpoint), todo.attempt)
        self.application_args = [*(self.application_args or []), *arguments, *options.arguments]
        self._environment = {} if clustered else interpreter_environment() | options.environment
        self._on_progress = lambda progress: self._tell(context, progress)
        self._hook = None  # made when Airflow's own operator has put into `conf` what it adds to it

    def _get_hook(self) -> "SparkProcessHook":
        """The submission, as the Spark connection and this operator have it now."""
        from airflow_provider_orderedkafka.hooks.spark_process import SparkProcessHook

        hook = SparkProcessHook.of(super()._get_hook(), self._environment, self._on_progress)
        if hook.deploy_mode != "cluster":
            hook._conf = {"spark.log.level": "WARN", **hook._conf}  # its INFO would bury what the application says
        return hook

    def _settle_durable(self) -> None:
        """Where an application cannot be found again, a retry starts the next attempt.

        It is `durable` by default, which Airflow's own operator refuses there. Nothing is lost or doubled without: the
        older attempt stops when it sees the newer one.
        """
        hook = self._get_hook()
        hook.check()
        if self.durable and not hook.findable:
            self.log.info("a retry will not look for this application on YARN: it starts the next attempt")
            self.durable = False

    def _check_output(self) -> None:
        check_output(self.load, self.output_topic, self.application, self.application_args)

    def _options(self) -> "Options":
        from airflow_provider_orderedkafka.hooks.ordered_kafka import OrderedKafkaHook
        from airflow_provider_orderedkafka.launching import options_for

        config = OrderedKafkaHook(self.load.kafka_conn_id).portable_config()
        options = {f"kafka.{name}": value for name, value in config.items()}
        clustered = self._get_hook().deploy_mode == "cluster"
        return options_for(options, clustered=clustered, conf=self.conf or {}, load=self.load.name)

    def _arguments(self, path: str, checkpoint: str, attempt: int) -> list[str]:
        arguments = ["--range", path, "--checkpoint", checkpoint, "--attempt", str(attempt)]
        if self.output_topic:
            arguments += ["--output-topic", self.output_topic]
        named = Outputs.of(self.output_topic, self.application_args or ())
        if named.names("output_topic", "topic", "outputtopics") and not named.names("keeporder"):
            arguments += ["--sink-option", f"keepOrder={self.keep_order or 'none'}"]
        return arguments

    def _place(self, loaded: Range, times: int) -> str:
        """The range's own folder, once Airflow can read there; one more for each time it is loaded anew."""
        return readable(place_of(self.checkpoint or self._local_root(), loaded.id, times))

    def _local_root(self) -> str:
        from airflow.sdk.configuration import conf

        master = self._get_hook().master
        if not master.startswith("local"):
            raise SettingError(no_checkpoint(self.load.name, self._conn_id, master))
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
