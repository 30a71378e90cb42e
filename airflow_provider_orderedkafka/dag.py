"""`ordered_load`, `ordered_intervals`, `ordered_replay`: a load's tasks as one group, checked as the DAG is parsed."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from airflow.sdk import BaseOperator, TaskGroup

from .core.documents import Kind
from .core.notation.spelling import arguments, parameters
from .errors import SettingError
from .forms import fields_of
from .hooks.launching import missing_application, shipped_with
from .hooks.submission import SparkSubmit
from .job import Rows
from .launch import launched
from .load import OrderedLoad, check_absolute
from .locations import check_no_login
from .operators.audit import AuditOffsetRangeOperator
from .operators.commit import CommitOffsetRangeOperator
from .operators.resolve import OnClear, ResolveOffsetRangeOperator
from .operators.submit import SubmitOrderedLoadOperator
from .outputs import TEMPLATED, Output
from .parsing import (
    ASKED,
    ELSEWHERE,
    FORMS,
    check_alone,
    check_asked,
    check_audit,
    check_checkpoint,
    check_dag,
    check_form,
    check_forms,
    check_job,
    check_load,
    check_tasks,
    check_wait,
    output_of,
)
from .sensors.offsets import OffsetRangeSensor
from .services import Launch, Launcher, Service

if TYPE_CHECKING:
    from airflow.sdk import DAG, Asset

__all__ = ["Launch", "Launcher", "OrderedLoadGroup", "ordered_intervals", "ordered_load", "ordered_replay"]

OF_A_TASK = {
    **dict.fromkeys(parameters(BaseOperator), "it is an argument of a task: tasks={'load': {...}}"),
    **ELSEWHERE,
}

OF_A_REPLAY = {
    **dict.fromkeys(("start", "end", "row_limit", "dry_run"), "it is for ordered_replay(), or a setting of the load"),
    "on_clear": "a committed range is loaded again by `orderedkafka ledger rewind`; it is for ordered_intervals()",
}

Wait = Literal["scheduled", "always", "never"]


class OrderedLoadGroup(TaskGroup):
    """The task group of a load.

    `tasks` holds its tasks by name (`wait`, `resolve`, `load`, `commit`, `audit`). `output` is the XCom of `commit`:
    the range, the ledger's revision, and how many rows were written and how many of them were late.
    """

    output: Any = None
    tasks: Mapping[str, Any] = {}


_watched: ContextVar[list[OrderedLoadGroup] | None] = ContextVar("groups that are being made", default=None)


@contextmanager
def groups_made() -> Iterator[list[OrderedLoadGroup]]:
    """The groups that are made meanwhile, such as by a DAG file that is run, whose DAGs need no variable there."""
    made: list[OrderedLoadGroup] = []
    token = _watched.set(made)
    try:
        yield made
    finally:
        _watched.reset(token)


@arguments(**OF_A_TASK | OF_A_REPLAY)
def ordered_load(
    load: OrderedLoad,
    *,
    to: "Output | str | None" = None,
    rows: Rows = Rows(),
    spark: SparkSubmit | Launcher = SparkSubmit(),
    checkpoint: str | None = None,
    asset: "Asset | None" = None,
    audit: bool = False,
    wait: Wait = "scheduled",
    tasks: Mapping[str, Mapping[str, Any]] | None = None,
) -> OrderedLoadGroup:
    """Load what is new since the last run, by four tasks in the DAG that is being defined, as a group.

    :param load: The load.
    :param to: Where to write: a `KafkaOutput`, `IcebergOutput`, `DeltaOutput` or `FilesOutput`; or
        `"<format>:<name>"`, such as `"delta:s3a://lake/orders"`, for one with defaults, which may be a template as a
        whole. Formats are `topic`, `iceberg`, `delta` and those of `FilesOutput`.
    :param rows: How records become rows. Default: they are copied.
    :param spark: How the application is run. Default: by spark-submit and the connection `spark_default`. Or by a
        service, such as `EmrServerless(...)`, or a function from a `Launch` to an operator, which need `checkpoint`.
    :param checkpoint: Folder for checkpoints. Required for a cluster; with a local master, a folder under AIRFLOW_HOME
        by default. Driver, executors and Airflow's workers must be able to read and write there. (may be a template)
    :param asset: The asset to emit when a load is committed. Default: the asset of the output.
    :param audit: Whether to add a task `audit`, which reads the output again after the commit, and fails if it is wrong
    :param wait: Which runs wait for enough: `"scheduled"` (also by assets; not a person's), `"always"`, or `"never"`.
    :param tasks: Further arguments of single tasks, such as `{"load": {"retries": 3, "pool": "spark"}}`.
    """
    return _Group("incremental", load, to, rows, spark, checkpoint, asset, audit, tasks, wait=wait).made()


@arguments(**OF_A_TASK | OF_A_REPLAY)
def ordered_intervals(
    load: OrderedLoad,
    *,
    to: "Output | str | None" = None,
    rows: Rows = Rows(),
    spark: SparkSubmit | Launcher = SparkSubmit(),
    checkpoint: str | None = None,
    asset: "Asset | None" = None,
    audit: bool = False,
    on_clear: "OnClear" = "skip",
    wait: Literal["always", "never"] = "always",
    tasks: Mapping[str, Mapping[str, Any]] | None = None,
) -> OrderedLoadGroup:
    """Load each run's data interval, once, whoever asks for it: a schedule, a backfill or a person.

    :param on_clear: What clearing a loaded interval does: `"skip"` it, or `"reload"` it as a whole.
    :param wait: Whether runs wait until their interval is over by `grace`: `"always"`; or `"never"`, without a `wait`
        task.

    All else is as for `ordered_load`.
    """
    return _Group("interval", load, to, rows, spark, checkpoint, asset, audit, tasks, on_clear, wait=wait).made()


@arguments(**OF_A_TASK)
def ordered_replay(
    load: OrderedLoad,
    *,
    to: "Output | str | None" = None,
    start: Any,
    end: Any,
    row_limit: int | str | None = None,
    dry_run: bool | str = False,
    rows: Rows = Rows(),
    spark: SparkSubmit | Launcher = SparkSubmit(),
    checkpoint: str | None = None,
    asset: "Asset | None" = None,
    audit: bool = False,
    on_clear: "OnClear" = "skip",
    tasks: Mapping[str, Mapping[str, Any]] | None = None,
) -> OrderedLoadGroup:
    """Load from `start` to `end`, leaving the ledger alone.

    :param start: Where it starts; takes the same values as `OrderedLoad.start`. (may be a template)
    :param end: Where it ends, exclusive; the same values.
    :param row_limit: The most rows that it writes: the first ones in order. (may be a template)
    :param dry_run: Whether it only logs what it would load: `True`, or a template that gives `"True"`.
    :param on_clear: What clearing a loaded replay does: `"skip"` it, or `"reload"` it as a whole.

    All else is as for `ordered_load`.
    """
    return _Group(
        "replay", load, to, rows, spark, checkpoint, asset, audit, tasks, on_clear, start, end, row_limit, dry_run
    ).made()


@dataclass(frozen=True, slots=True)
class _Group:
    """What the tasks of a load are made of; what is left at its default means nothing in that mode."""

    mode: Kind
    load: OrderedLoad
    to: Output | str | None
    rows: Rows
    spark: SparkSubmit | Launcher
    checkpoint: str | None
    asset: "Asset | None"
    audit: bool
    tasks: Mapping[str, Mapping[str, Any]] | None
    on_clear: OnClear = "skip"
    start: Any = None
    end: Any = None
    row_limit: int | str | None = None
    dry_run: bool | str = False
    wait: Wait = "never"

    def made(self) -> OrderedLoadGroup:
        """The group, in the DAG that is being defined; `SettingError` where something does not go together."""
        check_load(self.load)
        group = _in_the_dag(self.load)
        checked = self._checked(group)
        with group:
            group.tasks = checked._tasks(group.dag)
        if self.mode == "incremental":
            check_alone(self.load, group.tasks)
        group.output = group.tasks["commit"].output
        watched = _watched.get()
        if watched is not None:
            watched.append(group)
        return group

    def _checked(self, group: OrderedLoadGroup) -> "_Group":
        """The same, with its output as a value."""
        load = self.load
        forms = {form: fields for form in FORMS if (fields := fields_of(group.dag, form))}
        check_forms(load, self.mode, forms)
        check_wait(load, self.mode, self.wait, by_form="load" in forms)
        check_dag(load, self.mode, group)
        for location in filter(None, (self.checkpoint, load.ledger)):
            check_no_login(location)
        if self.checkpoint is not None and not TEMPLATED.search(self.checkpoint):
            check_absolute(self.checkpoint, "checkpoint")
        there = {"wait": self.wait != "never", "resolve": True, "load": True, "commit": True, "audit": self.audit}
        check_tasks(load, self.tasks or {}, [name for name, is_there in there.items() if is_there])
        check_job(load, None, self.rows)  # before where rows go: a wrong `rows` is said first
        to = output_of(load, self.to, self.rows)
        check_job(load, to, self.rows, self.mode)
        for form, fields in forms.items():
            check_form(load, self.rows, fields)
            if form == "replay":
                check_asked(load, fields, {name: getattr(self, name) for name in ASKED if name != "to" or to})
        if self.audit:
            check_audit(load, to, self.rows)
        return replace(self, to=to)

    def _more(self, task: str) -> Mapping[str, Any]:
        """Further arguments of a task, by its author."""
        return (self.tasks or {}).get(task, {})

    def _tasks(self, dag: "DAG") -> dict[str, Any]:
        load, resolve = self.load, self._resolve()
        loading = self._loading(dag, resolve)
        commit = CommitOffsetRangeOperator(
            task_id="commit", load=load, range_id=resolve.output, to=self.to, asset=self.asset, **self._more("commit")
        )
        tasks: dict[str, Any] = {"resolve": resolve, "load": loading, "commit": commit}
        if self.wait != "never":
            waiting = OffsetRangeSensor(task_id="wait", load=load, kind=self.mode, wait=self.wait, **self._more("wait"))
            tasks["wait"] = waiting
            waiting >> resolve
        resolve >> loading >> commit
        if self.audit:
            tasks["audit"] = AuditOffsetRangeOperator(
                task_id="audit",
                load=load,
                range_id=resolve.output,
                checkpoint=self.checkpoint,
                spark=self.spark if isinstance(self.spark, SparkSubmit) else SparkSubmit(),
                **self._more("audit"),
            )
            commit >> tasks["audit"]
        return tasks

    def _resolve(self) -> ResolveOffsetRangeOperator:
        return ResolveOffsetRangeOperator(
            task_id="resolve",
            load=self.load,
            mode=self.mode,
            start=self.start,
            end=self.end,
            on_clear=self.on_clear,
            to=self.to,
            rows=self.rows,
            checkpoint=self.checkpoint,
            hands_over=self.spark if isinstance(self.spark, Service) else not isinstance(self.spark, SparkSubmit),
            row_limit=self.row_limit,
            plan_only=self.dry_run,
            **self._more("resolve"),
        )

    def _loading(self, dag: "DAG", resolve: ResolveOffsetRangeOperator) -> BaseOperator:
        load, spark, rows, folder = self.load, self.spark, self.rows, Path(dag.fileloc).parent
        shipped = shipped_with(load.name, folder, rows)
        if isinstance(spark, SparkSubmit):
            check_checkpoint(load, spark.conn_id, self.checkpoint)
            if shipped is not None:
                spark = replace(spark, py_files=",".join(filter(None, [spark.py_files, str(shipped)])))
            return SubmitOrderedLoadOperator(
                task_id="load",
                load=load,
                range_id=resolve.output,
                to=self.to,
                rows=rows,
                spark=spark,
                checkpoint=self.checkpoint,
                application=_application(load, rows, folder),
                **self._more("load"),
            )
        if isinstance(spark, Service):
            spark.check_shipped(load.name, shipped)
        return launched(
            load,
            spark,
            resolve.task_id,
            own=_application_file(rows) if isinstance(spark, Service) else _application(load, rows, folder),
            to=self.to,
            rows=rows,
            checkpoint=self.checkpoint,
            more=self._more("load"),
        )


def _in_the_dag(load: OrderedLoad) -> OrderedLoadGroup:
    from airflow.providers.common.compat.sdk import AirflowException

    try:
        return OrderedLoadGroup(load.name, tooltip=f"Load {load.subscription} in time order")
    except RuntimeError as error:  # what Airflow says there
        raise SettingError(f"load {load.name!r}: it must be inside a DAG: `with DAG(...):`") from error
    except AirflowException as error:
        raise SettingError(
            f"load {load.name!r}: {error}: a name is one ledger, so give each load of a DAG a name of its own"
        ) from error


def _application_file(rows: Rows) -> str:
    return "" if rows.application is None else rows.application.file


def _application(load: OrderedLoad, rows: Rows, folder: Path) -> str:
    """The path of a program of one's own: a relative one begins at the folder of the DAG file."""
    file = _application_file(rows)
    if not file or "://" in file or Path(file).is_absolute():
        return file
    path = folder / file
    if not path.is_file():
        raise missing_application(load.name, file, path)
    return str(path)
