"""An attempt at a range, recorded in the ledger before the application begins, whichever operator runs that.

Instead of spark-submit an operator of the user's choice may run the application. The commit relies on the report beside
the checkpoint, as with spark-submit. The application gets all else as one word, which the resolve task has made.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from .compat.airflow import goes_on
from .context import books_of, fails, ledger_asset, skip, with_assets
from .core.documents import Range
from .core.lifecycle import Action
from .core.notation.secrets import masked
from .errors import LifecycleError, OrderedKafkaError, SettingError
from .hooks.launching import packaged_for
from .job import OPTIONS, Job, Rows
from .load import OrderedLoad
from .loads.books import Books
from .loads.loading import Loading
from .loads.loading import load as what_to_do
from .locations import read_report, readable, report_location
from .outputs import TEMPLATED, Output
from .parsing import topic_assets
from .reporting import metrics, status
from .services import Launch, Service

if TYPE_CHECKING:
    from airflow.sdk import Context

DOC = """\
Runs Spark on the range: in time order, batch by batch. The log says how far it is, after each batch and, in a long one,
every 10 seconds; so does `progress` in the task's state.

**Cleared or retried**, it goes on where the last attempt stopped, and leaves out rows that are in the output already.
Once the range is loaded, it starts nothing; once it is committed, it is skipped.
"""


def begun(
    context: "Context", books: Books, range_id: str | None, place: Callable[[Range, int], str], job: Job | None = None
) -> tuple[Loading, Range, str]:
    """Record an attempt, or find the report of an earlier one; the task is skipped if the range is committed.

    `place` is as for `loads.loading.load`. What is to be done comes with the range and with its checkpoint.
    """
    todo = what_to_do(books, range_id, place, job)
    context["task"].log.info("%s: %s", books.store.load, todo.reason)
    if todo.action is Action.SKIP:
        skip(context, todo.reason)
    if todo.range is None or todo.checkpoint is None:
        raise LifecycleError(f"nothing is loaded for {books.store.load!r}: {todo.reason}")
    if todo.report is None:
        metrics.attempted(books.store.load)
    return todo, todo.range, todo.checkpoint


def launched(
    load: OrderedLoad,
    launcher: Any,
    resolve: str,
    *,
    own: str,
    to: Output | str | None,
    rows: Rows,
    checkpoint: str | None,
    more: Mapping[str, Any],
) -> BaseOperator:
    """Make the operator of a service or of a function, and check it.

    `resolve` is the ID of the task whose range it loads, `own` the path of a program of the user's own.
    """
    _check(load, launcher, to, checkpoint, more)
    xcom = f"{{{{ ti.xcom_pull(task_ids='{resolve}', key='%s') }}}}"
    ours = {"inlets": [ledger_asset(load.name, load.ledger), *topic_assets(load)]}
    task = dict(
        **with_assets(ours, {"doc_md": DOC, **more}),
        task_id="load",
        pre_execute=lambda context: begin_attempt(context, load, resolve),
    )
    application, words = own or packaged_for(to), ["--work", xcom % "work"]
    if isinstance(launcher, Service):
        application = launcher.application(own, packaged_for(to))
        words += [OPTIONS[0], xcom % "options"]
    launch = Launch(
        load=load.name,
        application=application,
        arguments=(*(() if rows.application is None else rows.application.arguments), *words),
        report=report_location(xcom % "checkpoint"),
        task=task,
    )
    made: BaseOperator = launcher(launch)
    if made.task_id.rpartition(".")[2] != task["task_id"] or not made.inlets:
        raise SettingError(
            f"load {load.name!r}: the operator that spark= gives must pass all of the launch's `task` on to its base, "
            f"found task id {made.task_id!r}: `lambda launch: SomeOperator(..., **launch.task)`"
        )
    for name in ("on_failure_callback", "on_retry_callback"):  # beside those that the DAG may have for all tasks
        setattr(made, name, [lambda context: failed_attempt(context, load, resolve), *getattr(made, name)])
    return made


def _check(
    load: OrderedLoad, launcher: Any, to: Output | str | None, checkpoint: str | None, more: Mapping[str, Any]
) -> None:
    if not callable(launcher):
        raise SettingError(
            f"load {load.name!r}: spark= must be SparkSubmit(...), the value of a service such as "
            f"SparkKubernetes(...), or a function from a Launch to an operator, found {launcher!r}; a connection is "
            f"named SparkSubmit({launcher!r})"
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
            f"load {load.name!r}: to={to!r} is a template as a whole, but its format has to be known when the DAG is "
            "parsed: use a template for its place only, such as KafkaOutput('{{ params.topic }}')"
        )
    if "pre_execute" in more:
        raise SettingError(
            f"load {load.name!r}: pre_execute= of the task 'load' would replace the hook that records the attempt, and "
            "nothing could be committed: leave it out, and put a task before the load"
        )


@fails
def begin_attempt(context: "Context", load: OrderedLoad, resolve: str) -> None:
    """Record the attempt in the ledger before the operator begins; skip the task if the range is committed.

    An operator that goes on after it was deferred is in the attempt that it began; why one failed is logged.
    """
    ti = context["ti"]
    said, range_id = ti.xcom_pull(task_ids=resolve, key="checkpoint"), ti.xcom_pull(task_ids=resolve) or None
    if goes_on(ti):
        if why := _failure(str(said)):  # what a service says may be no more than that it failed
            context["task"].log.error(why)
        return
    books = books_of(load.name, context, load.ledger)
    where = checked_place(books, range_id, said)
    todo, loaded, _ = begun(context, books, range_id, lambda *_: readable(where))
    if todo.report is None:
        status.begun(context, load, loaded, todo.attempt)


def checked_place(books: Books, range_id: str | None, where: str | None) -> str:
    """Where the application keeps its state; `LifecycleError` where that is not said, or elsewhere than before."""
    if where is None:
        raise LifecycleError(
            f"the resolve task of load {books.store.load!r} has not said where the range's state belongs: clear it; "
            "one that is marked success by hand says nothing"
        )
    named, book = books.book(range_id)
    before = None if book.open is None or book.open.range_id != named else book.open.checkpoint
    if before not in {None, where}:
        raise LifecycleError(
            f"range {named!r} of load {books.store.load!r} was started at {before!r}, but its resolve task says "
            f"{where!r}: clear the resolve task, too, and the range continues where it was started"
        )
    return where


def failed_attempt(context: "Context", load: OrderedLoad, resolve: str) -> None:
    """Show that the attempt failed, and why: whichever operator runs the application, it tells nothing of it."""
    ti = context["ti"]
    said, text = (ti.xcom_pull(task_ids=resolve, key=key) for key in ("checkpoint", "range"))
    if said is not None and text is not None:
        why = _failure(str(said)) or masked(str(context.get("exception") or ""))
        status.failed(context, load, Range.from_text(text), why)


def _failure(where: str) -> str:
    """What the application's report says of its failure; empty if it says nothing."""
    try:
        report = read_report(where)
    except OrderedKafkaError:
        return ""
    if report is None or report.error is None:
        return ""
    return f"attempt {report.attempt} of range {report.range_id!r} ended with: {masked(report.error)}"
