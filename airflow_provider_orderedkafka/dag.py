"""`ordered_load`, `ordered_intervals`, `ordered_replay`: a load's tasks as one group, checked as the DAG is parsed.

Instead of spark-submit an operator of the user's choice may run the application. The attempt is recorded in the ledger
before that operator begins, and the commit relies on the report beside the checkpoint, as with spark-submit. The
application gets all else as one word, which the resolve task has made.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from airflow.sdk import BaseOperator, TaskGroup

from .compat.airflow import goes_on
from .context import books_of, fail, ledger_asset, skip, with_assets
from .core.documents import Kind
from .core.lifecycle import Action
from .core.notation.secrets import masked
from .core.notation.spelling import arguments, parameters
from .errors import LifecycleError, OrderedKafkaError, SettingError
from .forms import fields_of
from .hooks.launching import missing_application, packaged_for, shipped_with
from .hooks.submission import SparkSubmit
from .job import OPTIONS, Rows
from .load import OrderedLoad
from .loads.books import Books
from .loads.loading import load as what_to_do
from .locations import check_no_login, read_report, readable, report_location
from .outputs import TEMPLATED, Output
from .parsing import (
    RENAMED,
    TASKS,
    check_audit,
    check_checkpoint,
    check_dag,
    check_form,
    check_job,
    check_load,
    check_tasks,
    check_wait,
    output_of,
    topic_assets,
)
from .services import Launch, Launcher, Service
from .telling import metrics, status

if TYPE_CHECKING:
    from airflow.sdk import DAG, Asset, Context

    from .operators.resolve import OnClear


def launched(
    resolve: str,
    launcher: Launcher,
    load: OrderedLoad,
    *,
    application: str,
    arguments: tuple[str, ...],
    more: Mapping[str, Any],
) -> "BaseOperator":
    """Make the user's operator and check it; `resolve` is the ID of the task whose range it loads."""
    from .operators.submit import DOC

    if "pre_execute" in more:
        raise SettingError(
            f"load {load.name!r}: pre_execute= of the task 'load' would replace what records the attempt before your "
            "operator begins, and nothing could be committed: leave it out, and put a task before the load"
        )
    xcom = f"{{{{ ti.xcom_pull(task_ids='{resolve}', key='%s') }}}}"
    task = {
        **with_assets({"inlets": [ledger_asset(load.name, load.ledger), *topic_assets(load)]}, {"doc_md": DOC, **more}),
        "task_id": "load",
        "pre_execute": lambda context: begin_attempt(context, load, resolve),
    }
    options = (OPTIONS[0], xcom % "options") if isinstance(launcher, Service) else ()
    launch = Launch(
        load=load.name,
        application=application,
        arguments=(*arguments, "--work", xcom % "work", *options),
        report=report_location(xcom % "checkpoint"),
        task=task,
    )
    made = launcher(launch)
    if made.task_id.rpartition(".")[2] != task["task_id"] or not made.inlets:
        raise SettingError(
            f"load {load.name!r}: the operator that spark= gives must pass all of the launch's `task` on to its base, "
            f"found task id {made.task_id!r}: `lambda launch: SomeOperator(..., **launch.task)`"
        )
    return made


def begin_attempt(context: "Context", load: OrderedLoad, resolve: str) -> None:
    """Record the attempt in the ledger before the operator begins; skip the task if the range is committed.

    An operator that goes on after it was deferred is in the attempt that it began; why one failed is logged.
    """
    ti = context["ti"]
    where, range_id = str(ti.xcom_pull(task_ids=resolve, key="checkpoint")), ti.xcom_pull(task_ids=resolve) or None
    if goes_on(ti):
        _tell_failure(context, where)
        return
    try:
        books = books_of(load.name, context, load.ledger)
        _check_place(books, range_id, where)
        todo = what_to_do(books, range_id, lambda *_: readable(where))
    except OrderedKafkaError as error:
        fail(error)
    if todo.action is Action.SKIP:
        skip(context, todo.reason)
    if todo.action is Action.REFUSE:
        fail(LifecycleError(f"nothing is loaded for {load.name!r}: {todo.reason}"))
    if todo.range is not None and todo.report is None:
        status.begun(context, load, todo.range, todo.attempt)
    metrics.attempted(load.name)


def _tell_failure(context: "Context", where: str) -> None:
    """Log what the application's report says of its failure: what a service says may be no more than that it failed."""
    try:
        report = read_report(where)
    except OrderedKafkaError:
        return  # the operator itself says how it ended
    if report is not None and report.error is not None:
        said = f"attempt {report.attempt} of range {report.range_id!r} ended with: {masked(report.error)}"
        context["task"].log.error(said)


def _check_place(books: Books, range_id: str | None, where: str) -> None:
    """`LifecycleError` where the application would keep its state elsewhere than the attempts before it."""
    named, book = books.book(range_id)
    begun = None if book.open is None or book.open.range_id != named else book.open.checkpoint
    if begun not in {None, where}:
        raise LifecycleError(
            f"range {named!r} of load {books.store.load!r} was begun at {begun!r}, and its resolve task says "
            f"{where!r}: clear that task, too, and the range goes on where it was begun"
        )


__all__ = [
    "Launch",
    "Launcher",
    "OrderedLoadGroup",
    "ordered_intervals",
    "ordered_load",
    "ordered_replay",
]

OF_A_TASK = {
    **dict.fromkeys(parameters(BaseOperator), "it is an argument of a task: tasks={'load': {...}}"),
    **RENAMED,
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
    return _group("incremental", **locals())


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
    return _group("interval", **locals())


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
    return _group("replay", **locals())


def _group(
    mode: Kind,
    *,
    load: OrderedLoad,
    to: "Output | str | None",
    rows: Rows,
    spark: SparkSubmit | Launcher,
    checkpoint: str | None,
    asset: "Asset | None",
    audit: bool,
    tasks: Mapping[str, Mapping[str, Any]] | None,
    wait: Wait = "never",
    dry_run: bool | str = False,
    **of_the_mode: Any,
) -> OrderedLoadGroup:
    from .operators.audit import AuditOffsetRangeOperator
    from .operators.commit import CommitOffsetRangeOperator
    from .operators.resolve import ResolveOffsetRangeOperator
    from .operators.submit import SubmitOrderedLoadOperator
    from .sensors.offsets import OffsetRangeSensor

    operators = {
        "wait": OffsetRangeSensor,
        "resolve": ResolveOffsetRangeOperator,
        "load": SubmitOrderedLoadOperator,
        "commit": CommitOffsetRangeOperator,
        "audit": AuditOffsetRangeOperator,
    }
    check_load(load)
    group = _made(load)
    check_wait(load, mode, wait, by_form=bool(fields_of(group.dag, "load")))
    check_dag(load, mode, group)
    for location in filter(None, (checkpoint, load.ledger)):
        check_no_login(location)
    tasks = {} if tasks is None else tasks
    known = operators if isinstance(spark, SparkSubmit) else {n: each for n, each in operators.items() if n != "load"}
    check_tasks(load, mode, tasks, known)
    for name, there, why in (
        ("wait", wait != "never", "wait='never', or a replay"),
        ("audit", audit, "audit=True adds it"),
    ):
        if not there and name in tasks:
            raise SettingError(
                f"load {load.name!r}: tasks has arguments for {name!r}, and there is no such task ({why}): leave them "
                "out"
            )
    more: dict[str, Any] = {name: tasks.get(name, {}) for name in TASKS}
    check_job(load, None, rows)  # before where rows go: a wrong `rows` is said first
    to = output_of(load, to, rows)
    check_job(load, to, rows)
    check_form(load, rows, fields_of(group.dag, "replay" if mode == "replay" else "load"))
    if audit:
        check_audit(load, to, rows, audit=audit)
    shipped = shipped_with(load.name, Path(group.dag.fileloc).parent, rows)
    if isinstance(spark, Service):
        spark.check_shipped(load.name, shipped)
    job: dict[str, Any] = {"to": to, "rows": rows}
    with group:
        resolve = ResolveOffsetRangeOperator(
            task_id="resolve",
            load=load,
            mode=mode,
            checkpoint=checkpoint,
            hands_over=spark if isinstance(spark, Service) else not isinstance(spark, SparkSubmit),
            plan_only=dry_run,
            **job,
            **of_the_mode,
            **more["resolve"],
        )
        if isinstance(spark, SparkSubmit):
            check_checkpoint(load, spark.conn_id, checkpoint)
            loading: BaseOperator = SubmitOrderedLoadOperator(
                task_id="load",
                load=load,
                range_id=resolve.output,
                spark=spark if shipped is None else _shipping(spark, shipped),
                checkpoint=checkpoint,
                application=_application(load, rows, group.dag),
                **job,
                **more["load"],
            )
        else:
            application = _at_the_service(spark, to, rows) if isinstance(spark, Service) else None
            application = application or _application(load, rows, group.dag)
            own: dict[str, Any] = {"checkpoint": checkpoint, "application": application}
            loading = _launched(load, spark, resolve.task_id, more=more["load"], **own, **job)
        commit = CommitOffsetRangeOperator(
            task_id="commit", load=load, range_id=resolve.output, to=to, asset=asset, **more["commit"]
        )
        made: dict[str, Any] = {"resolve": resolve, "load": loading, "commit": commit}
        if wait != "never":
            made["wait"] = OffsetRangeSensor(task_id="wait", load=load, kind=mode, wait=wait, **more["wait"])
            made["wait"] >> resolve
        resolve >> loading >> commit
        if audit:
            made["audit"] = AuditOffsetRangeOperator(
                task_id="audit",
                load=load,
                range_id=resolve.output,
                checkpoint=checkpoint,
                spark=spark if isinstance(spark, SparkSubmit) else SparkSubmit(),
                **more["audit"],
            )
            commit >> made["audit"]
    group.output, group.tasks = commit.output, made
    watched = _watched.get()
    if watched is not None:
        watched.append(group)
    return group


def _launched(
    load: OrderedLoad,
    launcher: Any,
    resolve: str,
    *,
    checkpoint: str | None,
    application: str,
    to: "Output | str | None",
    rows: Rows,
    more: Mapping[str, Any],
) -> BaseOperator:
    if not callable(launcher):
        raise SettingError(
            f"load {load.name!r}: spark= is SparkSubmit(...), the value of a service such as SparkKubernetes(...), or "
            f"a function from a Launch to an operator, found {launcher!r}; a connection is named "
            f"SparkSubmit({launcher!r})"
        )
    said = type(launcher).__name__ if isinstance(launcher, Service) else "a function"
    if checkpoint is None:
        raise SettingError(
            f"load {load.name!r}: spark= is {said} and checkpoint= is missing: name a location that the "
            "application and Airflow's workers reach, such as checkpoint='s3://bucket/orderedkafka'"
        )
    if isinstance(launcher, Service) and not (":" in checkpoint or TEMPLATED.search(checkpoint)):
        raise SettingError(
            f"load {load.name!r}: checkpoint={checkpoint!r} is a folder of this machine, and {said} runs elsewhere: "
            "name a location that both reach, such as 's3://bucket/orderedkafka', or 'file:///shared' for a volume"
        )
    if isinstance(to, str):
        raise SettingError(
            f"load {load.name!r}: to={to!r} is a template as a whole, and which application writes it has to be "
            "known when the DAG is parsed: let only its place be one, such as KafkaOutput('{{ params.topic }}')"
        )
    words = () if rows.application is None else rows.application.arguments
    return launched(resolve, launcher, load, application=application or packaged_for(to), arguments=words, more=more)


def _at_the_service(spark: Service, to: "Output | str | None", rows: Rows) -> str:
    own = "" if rows.application is None else rows.application.file
    return spark.application(own, packaged_for(to))


def _shipping(spark: SparkSubmit, shipped: Path) -> SparkSubmit:
    return replace(spark, py_files=",".join(filter(None, [spark.py_files, str(shipped)])))


def _made(load: OrderedLoad) -> OrderedLoadGroup:
    from airflow.providers.common.compat.sdk import AirflowException

    try:
        return OrderedLoadGroup(load.name, tooltip=f"Load {load.subscription} in time order")
    except RuntimeError as error:  # what Airflow says there
        raise SettingError(f"load {load.name!r}: it has to be inside a DAG: `with DAG(...):`") from error
    except AirflowException as error:
        raise SettingError(
            f"load {load.name!r}: {error}: a name is one ledger, so give each load of a DAG a name of its own"
        ) from error


def _application(load: OrderedLoad, rows: Rows, dag: "DAG") -> str:
    """The path of a program of one's own: a relative one begins at the folder of the DAG file."""
    file = "" if rows.application is None else rows.application.file
    if not file or "://" in file or Path(file).is_absolute():
        return file
    path = Path(dag.fileloc).parent / file
    if not path.is_file():
        raise missing_application(load.name, file, path)
    return str(path)
