"""The next range of a load, or whether to run at all, from its settings, its ledger and Kafka.

Kafka is surveyed once for each answer, so that everything in a range is from one moment.
"""

import logging
import secrets
from collections.abc import Sequence

from airflow_provider_orderedkafka.core.documents import Kind, Ledger, Range
from airflow_provider_orderedkafka.core.limits import limit_spent, rows_left
from airflow_provider_orderedkafka.core.next_range import NothingToLoad, Survey, new_range, next_place
from airflow_provider_orderedkafka.core.next_range import verdict as decided
from airflow_provider_orderedkafka.core.notation.starts import without
from airflow_provider_orderedkafka.core.notation.subscriptions import Discovery, names, only
from airflow_provider_orderedkafka.core.order.cuts import Floor, Place, Span
from airflow_provider_orderedkafka.core.order.positions import Offsets
from airflow_provider_orderedkafka.core.pacing import Verdict
from airflow_provider_orderedkafka.core.terms import Terms
from airflow_provider_orderedkafka.kafka.clients.config import KafkaConfig
from airflow_provider_orderedkafka.kafka.lookup.log import KafkaLog
from airflow_provider_orderedkafka.kafka.lookup.survey import resolve, survey
from airflow_provider_orderedkafka.kafka.lookup.topics import discover
from airflow_provider_orderedkafka.loads.waiting import First

_log = logging.getLogger(__name__)


def first_look(config: KafkaConfig, terms: Terms, now: int, topics: Sequence[str] = ()) -> First:
    """Resolve the start policy for these topics; by default for all topics of the load."""
    named = names(terms.subscription)
    wanted = topics or named
    found = discover(config, only(terms.subscription, wanted))
    start = resolve(config, terms, without(terms.start, set(named) - set(wanted)), found.partitions, now)
    for remark in start.remarks:
        _log.warning("%s: %s", terms.load, remark)
    return First(Place(start.offsets, Floor()), found.ids)


def look_at(config: KafkaConfig, terms: Terms, ledger: Ledger, now: int) -> Survey:
    """Survey Kafka from the ledger's place; raises if that place means something else now."""
    seen = survey(config, terms, now, ledger.place)
    check(terms, ledger, seen)
    return seen


def check(terms: Terms, ledger: Ledger, seen: Survey) -> None:
    """Raise if the ledger's place means something else now; topics that the load dropped do not count."""
    named = names(terms.subscription)
    topics = {topic: was for topic, was in ledger.topics.items() if not named or topic in named}
    seen.check(ledger.place, topics, terms.way_out)


def _glance(config: KafkaConfig, terms: Terms, ledger: Ledger, now: int) -> Survey:
    """A survey of only the partitions that the ledger knows."""
    named = names(terms.subscription)
    known = tuple(partition for partition in ledger.place.offsets if partition.topic in named)
    return survey(config, terms, now, ledger.place, Discovery("", (), known))


def verdict(config: KafkaConfig, terms: Terms, ledger: Ledger, now: int, *, known: bool = False) -> Verdict:
    """Whether to run now.

    With `known` only partitions in the ledger are surveyed, with a third of the requests.
    """
    seen = _glance(config, terms, ledger, now) if known else look_at(config, terms, ledger, now)
    return verdict_on(config, terms, ledger, seen)


def verdict_on(config: KafkaConfig, terms: Terms, ledger: Ledger, seen: Survey) -> Verdict:
    """Whether to run at the moment of a survey."""
    since = ledger.first_looked_at if ledger.last_run_at is None else ledger.last_run_at
    return decided(KafkaLog(config, terms.isolation), ledger.place, seen, terms, since)


def plan(
    config: KafkaConfig, terms: Terms, ledger: Ledger, *, digest: str, now: int, name: str = ""
) -> Range | NothingToLoad:
    """The next incremental range. `name` is the prefix of its id, by default the load's name."""
    if spent := limit_spent(ledger, terms.row_limit):
        return NothingToLoad(spent)
    return plan_of(config, terms, ledger, look_at(config, terms, ledger, now), digest=digest, name=name)


def plan_of(
    config: KafkaConfig, terms: Terms, ledger: Ledger, seen: Survey, *, digest: str = "", name: str = ""
) -> Range | NothingToLoad:
    """The next incremental range at the moment of a survey."""
    end = next_place(KafkaLog(config, terms.isolation), ledger.place, seen, terms)
    if isinstance(end, NothingToLoad):
        return end
    span, rows = seen.span(ledger.place), rows_left(terms.row_limit, ledger.rows)
    return new_range(
        new_id(terms, "incremental", name),
        terms,
        "incremental",
        seen.found,
        (Place(span.start, span.floor), end),
        now=seen.now,
        digest=digest,
        reason=_reason(terms, span, end.offsets, rows),
        revision=ledger.revision,
        rows_left=rows,
    )


def new_id(terms: Terms, kind: Kind, name: str = "") -> str:
    """A globally unique id: rows carry it wherever they are written."""
    return f"{name or f'{terms.load}-{kind}'}-{secrets.token_hex(6)}"


def _reason(terms: Terms, span: Span, end: Offsets, rows: int | None) -> str:
    offsets, rest = end.since(span.start), span.end.since(end)
    full = terms.max_offsets is not None and offsets >= terms.max_offsets
    why = f"the most that max_offsets={terms.max_offsets:,} allows" if full else "up to the cut"
    limit = "" if rows is None else f"; the row limit lets {rows:,} more rows pass"
    return f"{offsets:,} offsets in {len(end):,} partitions, {why}; {rest:,} wait for the next run{limit}"
