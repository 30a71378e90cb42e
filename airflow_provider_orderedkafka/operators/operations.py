"""A person's work on a ledger, for those without a shell: the same code as `orderedkafka ledger`."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_provider_orderedkafka import operations
from airflow_provider_orderedkafka.assets import ledger_asset
from airflow_provider_orderedkafka.context import books_of, fail, is_active, now_ms, run_of
from airflow_provider_orderedkafka.core.documents import Ledger
from airflow_provider_orderedkafka.errors import OrderedKafkaError, SettingError
from airflow_provider_orderedkafka.ledger import LedgerStore
from airflow_provider_orderedkafka.steps import First

if TYPE_CHECKING:
    from airflow.sdk import Context

ACTIONS = ("show", "abandon", "rewind")


class LedgerOperationsOperator(BaseOperator):
    """Show a load's ledger, give its open range up, or move it; without a confirmation it only says what it would do.

    Its XCom is what it said.

    :param load: The load's name.
    :param action: `"show"`, `"abandon"` or `"rewind"`.
    :param to: Where a rewind leads: all that `OrderedLoad.start` takes.
    :param topics: The topics that a rewind moves, as a list or separated by commas; all of them unless said.
    :param reason: Why; kept with the ledger.
    :param confirmed: Whether to do it: `True`, or the text `"True"` that a template gives.
    :param kafka_conn_id: The `kafka` connection.
    """

    template_fields: Sequence[str] = ("action", "to", "topics", "reason", "confirmed")
    ui_color = "#f2dcdb"

    def __init__(
        self,
        *,
        load: str,
        action: str = "show",
        to: str = "",
        topics: Sequence[str] | str = "",
        reason: str = "",
        confirmed: bool | str = False,
        kafka_conn_id: str = "kafka_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(**{"inlets": [ledger_asset(load)], **kwargs})
        self.load = load
        self.action = action
        self.to = to
        self.topics = topics
        self.reason = reason
        self.confirmed = confirmed
        self.kafka_conn_id = kafka_conn_id

    def execute(self, context: "Context") -> str:
        """Do it, or say what it would be."""
        try:
            told = self._operate(context)
        except OrderedKafkaError as error:
            fail(error)
        self.log.info("%s", told)
        return told

    def _operate(self, context: "Context") -> str:
        if self.action not in ACTIONS:
            raise SettingError(f"action must be one of {', '.join(map(repr, ACTIONS))}, found {self.action!r}")
        store = books_of(self.load, context).store
        ledger = operations.ledger_of(store)
        if self.action == "show":
            return operations.shown(ledger)
        found = self._found(ledger) if self.action == "rewind" else None
        preview = operations.shown(ledger) if found is None else operations.preview(ledger, found.place, found.topics)
        if str(self.confirmed) != "True":
            return f"{preview}\nNothing was changed: confirm it to do it."
        after = self._do(context, store, found)
        return f"{preview}\ndone: the ledger is at revision {after.revision}"

    def _do(self, context: "Context", store: LedgerStore, found: First | None) -> Ledger:
        person = operations.Person(_who(context), self.reason, now_ms(), is_active)
        if found is None:
            return operations.abandon(store, person)
        return operations.rewind(store, self._hook().mirror(self.load), person, found.place, found.topics)

    def _found(self, ledger: Ledger) -> First:
        if not self.to.strip():
            raise SettingError(
                "a rewind needs a place to go to: 'earliest', 'latest', a moment, a time ago, or offsets"
            )
        names = self.topics.split(",") if isinstance(self.topics, str) else self.topics
        topics = operations.named(ledger, [name.strip() for name in names if name.strip()])
        found: First = self._hook().resolve(self.to, topics)
        return replace(found, place=operations.rewound_place(ledger, found.place.offsets, found.topics))

    def _hook(self) -> Any:
        from airflow_provider_orderedkafka.hooks.ordered_kafka import OrderedKafkaHook

        return OrderedKafkaHook(self.kafka_conn_id)


def _who(context: "Context") -> str:
    """Who triggered the run, where Airflow says so."""
    return str(getattr(context.get("dag_run"), "triggering_user_name", None) or run_of(context))
