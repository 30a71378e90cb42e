"""`orderedkafka ledger` as an operator, for people without a shell."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from ..context import books_of, fails, is_active, ledger_asset, now_ms, run_of, with_assets
from ..core.documents import Ledger
from ..core.notation.spelling import arguments
from ..errors import SettingError
from ..loads import ledger_operations
from ..loads.books import First
from ..loads.ledger import LedgerStore

if TYPE_CHECKING:
    from airflow.sdk import Context

ACTIONS = ("show", "abandon", "rewind")

DOC = """\
Shows the ledger of a load, abandons its open range, or rewinds it. Unless confirmed, it only says what would change.

**Cleared**, it does the same again, from where the ledger stands by then.
"""


class LedgerOperationsOperator(BaseOperator):
    """Show a load's ledger, abandon its open range, or rewind it. Unless confirmed, it only describes the change.

    Its XCom is the text that it logs.

    :param load: Name of the load.
    :param action: `"show"`, `"abandon"` or `"rewind"`.
    :param to: Where to rewind to; takes the same values as `OrderedLoad.start`, as text. `"current"` stays where the
        ledger is, and lets another DAG take the load over.
    :param topics: Which topics to rewind, as a list or separated by commas. Default: all.
    :param reason: Why; kept in the ledger.
    :param confirmed: Whether to make the change: `True`, or `"True"` from a template.
    :param kafka_conn_id: ID of the Airflow connection to Kafka.
    :param ledger: Where the load keeps its ledger: its `ledger`.
    """

    template_fields: Sequence[str] = ("action", "to", "topics", "reason", "confirmed")
    ui_color = "#f2dcdb"

    @arguments()
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
        ledger: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**with_assets({"inlets": [ledger_asset(load, ledger)]}, {"doc_md": DOC, **kwargs}))
        self.load = load
        self.action = action
        self.to = to
        self.topics = topics
        self.reason = reason
        self.confirmed = confirmed
        self.kafka_conn_id = kafka_conn_id
        self.ledger = ledger

    @fails
    def execute(self, context: "Context") -> str:
        summary = self._operate(context)
        self.log.info("%s", summary)
        return summary

    def _operate(self, context: "Context") -> str:
        if self.action not in ACTIONS:
            raise SettingError(f"action must be one of {', '.join(map(repr, ACTIONS))}, found {self.action!r}")
        store = books_of(self.load, context, self.ledger).store
        ledger = ledger_operations.ledger_of(store)
        if self.action == "show":
            return ledger_operations.shown(ledger, ledger_operations.opened_range(store, ledger))
        found = self._found(store, ledger) if self.action == "rewind" else None
        preview = (
            ledger_operations.preview_of_abandon(ledger)
            if found is None
            else ledger_operations.preview(ledger, found.place, found.topics)
        )
        if str(self.confirmed) == "True":
            return f"{preview}\ndone: the ledger is at revision {self._do(context, store, ledger, found).revision}"
        objection = ledger_operations.objection(ledger, self.action, is_active)
        outlook = "confirm to do it" if objection is None else f"it would be refused: {objection}"
        return f"{preview}\nNothing was changed: {outlook}."

    def _do(self, context: "Context", store: LedgerStore, ledger: Ledger, found: First | None) -> Ledger:
        person = ledger_operations.Person(_who(context), _text(self.reason), now_ms(), is_active)
        if found is None:
            return ledger_operations.abandon(store, person, ledger)
        mirror = self._hook().mirror(self.load)
        return ledger_operations.rewind(store, mirror, person, ledger, found.place, topics=found.topics)

    def _found(self, store: LedgerStore, ledger: Ledger) -> First:
        names = self.topics.split(",") if isinstance(self.topics, str) else self.topics or ()
        topics = [name.strip() for name in names if name.strip()]
        return ledger_operations.place_to_go(store, ledger, _text(self.to), topics, self._hook().resolve)

    def _hook(self) -> Any:
        from ..hooks.ordered_kafka import OrderedKafkaHook

        return OrderedKafkaHook(self.kafka_conn_id)


def _text(rendered: Any) -> str:
    """What a template says, where the DAG renders it to one of Python's values."""
    return rendered if isinstance(rendered, str) else json.dumps(rendered)


def _who(context: "Context") -> str:
    return str(getattr(context.get("dag_run"), "triggering_user_name", None) or run_of(context))
