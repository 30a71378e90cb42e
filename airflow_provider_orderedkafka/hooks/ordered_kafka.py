"""A hook for the `kafka` connection of Airflow's own Kafka provider, and one for that of a schema registry."""

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

from airflow.providers.apache.kafka.hooks.base import KafkaBaseHook
from airflow.sdk import BaseHook

from ..compat.airflow import connection_errors, connection_of, kafka_config, keep_from_logs
from ..context import now_ms
from ..core.documents import Isolation, Ledger, Range
from ..core.next_range import NO_BOUND, AtMost, Firsts, NothingToLoad
from ..core.notation.spelling import counted
from ..core.notation.starts import Start, parse_start
from ..core.notation.subscriptions import Discovery, Matching, Named, Subscription
from ..core.order.cuts import NO_FLOOR, Place
from ..core.order.positions import Offsets
from ..core.pacing import Verdict
from ..decoding.registry import Registry
from ..errors import OrderedKafkaError, SettingError
from ..kafka.clients.config import RESOLVER, KafkaConfig, is_kept, keep_resolver
from ..kafka.clients.oauth import MSK, is_msk_iam
from ..kafka.lookup.survey import Brokers, StartResolver, marked
from ..kafka.lookup.topics import discover, high_ends
from ..kafka.write import turns
from ..kafka.write.settings import check_exactly_once, check_readable, look_up_outputs, made_ready
from ..load import OrderedLoad
from ..loads.books import First
from ..loads.ledger import LedgerStore
from ..loads.mirror import GroupMirror
from ..loads.previews import Preview, preview, preview_replay
from ..loads.ranges import first_look, plan, plan_interval, plan_replay, verdict
from ..outputs import HAVE_IT_CREATED, KafkaOutput, NewTopics

OAUTH = "oauth_cb"


class OrderedKafkaHook(KafkaBaseHook):  # type: ignore[misc]
    """Looks up in Kafka what a load needs, such as `high_ends` and `lag`.

    Clients are shared by all hooks of a process with the same connection.

    :param kafka_config_id: ID of the Airflow connection to Kafka.
    """

    @cached_property
    def config(self) -> KafkaConfig:
        """The connection's configuration, validated. Its secrets are masked in Airflow's logs."""
        extra = self._built()
        found = KafkaConfig.from_connection(extra)
        keep_from_logs(found)
        calls = {name: value for name, value in extra.items() if name == OAUTH and callable(value)}
        if not calls or RESOLVER in found:
            return found
        resolver = keep_resolver(f"callbacks of connection {self.kafka_config_id!r}", lambda _: calls)
        return KafkaConfig({**found, RESOLVER: resolver})

    @cached_property
    def _firsts(self) -> Firsts:
        """First records that a verdict of this hook has read, so that waiting does not read them at each look."""
        return {}

    @cached_property
    def _brokers(self) -> Brokers:
        return Brokers(self.config)

    def portable_config(self) -> Mapping[str, str]:
        """The configuration for driver and executors, where Airflow is not installed."""
        if not is_kept(self.config.get(RESOLVER)):
            return dict(self.config)
        if is_msk_iam(self.config) and OAUTH not in self.get_connection(self.kafka_config_id).extra_dejson:
            return {**self.config, RESOLVER: MSK}
        raise SettingError(
            f"connection {self.kafka_config_id!r} takes its tokens from a callback of Airflow's, which cannot travel "
            f"to Spark: in its extra, name a function that Spark's Python can import, {{{RESOLVER!r}: "
            f"'package.module:function'}}; it is called with the settings and returns {{{OAUTH!r}: a callback}}"
        )

    def _built(self) -> dict[str, Any]:
        """The configuration from Airflow's own hook, with callbacks for managed clusters."""
        from airflow.providers.common.compat.sdk import AirflowException

        way_out = (
            f"create it with `airflow connections add {self.kafka_config_id} --conn-type kafka --conn-extra "
            '\'{"bootstrap.servers": "broker:9092"}\'`, or name another one with kafka_conn_id='
        )
        try:
            with connection_errors(self.kafka_config_id, "Kafka connection", way_out):
                return kafka_config(self)
        except (ValueError, AirflowException) as error:
            raise SettingError(f"connection {self.kafka_config_id!r}: {error}") from error

    def first_look(self, load: OrderedLoad, wanted: Subscription | None = None) -> First:
        """Resolve the load's `start` now, for some of its topics (default: all)."""
        return first_look(self._brokers, load.terms, now_ms(), wanted)

    def verdict(self, load: OrderedLoad, ledger: Ledger, *, known: bool = False) -> Verdict:
        """Whether the load is due, and why; with `known`, without looking for new partitions."""
        return verdict(self._brokers, load.terms, ledger, now_ms(), known=known, firsts=self._firsts)

    def plan(self, load: OrderedLoad, ledger: Ledger, most: AtMost = NO_BOUND) -> Range | NothingToLoad:
        return plan(self._brokers, load.terms, ledger, now=now_ms(), most=most)

    def plan_interval(self, load: OrderedLoad, store: LedgerStore, times: tuple[int, int]) -> Range | NothingToLoad:
        """The range between two times, in milliseconds since the epoch."""
        return plan_interval(self._brokers, load.terms, store, times, now=now_ms)

    def plan_replay(
        self, load: OrderedLoad, asked: tuple[Start, Start], rows: int | None = None
    ) -> Range | NothingToLoad:
        return plan_replay(self._brokers, load.terms, asked, now=now_ms(), rows=rows)

    def preview_replay(self, load: OrderedLoad, asked: tuple[Start, Start], rows: int | None = None) -> Preview:
        return preview_replay(self.config, load.terms, asked, now_ms(), rows)

    def preview(self, load: OrderedLoad, store: LedgerStore | None, dag: str | None = None) -> Preview:
        """What the next run of an incremental load, in this DAG, would load now, and why it would start or wait."""
        return preview(self.config, load.terms, store, now_ms(), dag=dag)

    def make_ready(
        self, topics: Sequence[str], new: NewTopics | None = None, way_out: str = HAVE_IT_CREATED
    ) -> list[str]:
        """Check that output topics exist, and create missing ones if `new` says how; returns remarks."""
        return made_ready(self.config, topics, new, way_out)

    def check_outputs(self, topics: Sequence[str], *, read_back: bool) -> None:
        """Raise what the application would raise for output topics that are not there, or that it may not use."""
        found = look_up_outputs(self._brokers, topics)
        check_readable(found.values() if read_back else ())

    def check_transactions(self, load: str, to: KafkaOutput, topics: Sequence[str]) -> None:
        """Raise what the application would raise that is to write exactly once."""
        check_exactly_once(look_up_outputs(self._brokers, topics).values())
        turns.check({**self.config, **to.producer}, load, tuple(topics))

    def mirror(self, load: str, topics: Sequence[str] = ()) -> GroupMirror:
        """The load's consumer group, read for these topics (default: all topics of the cluster)."""
        return GroupMirror.of(self.config, load, topics)

    def topic_ids(self, topics: Sequence[str]) -> Mapping[str, str]:
        return self._discover(topics).ids

    def resolve(self, start: str, topics: Sequence[str], isolation: Isolation, future_tolerance: int) -> First:
        policy, found = parse_start(start, "to"), self._discover(topics)
        resolver = StartResolver(
            self._brokers, found.partitions, now_ms(), isolation, future_tolerance, topics=found.topics
        )
        resolved = resolver.resolve(policy)
        for remark in resolved.remarks:
            self.log.warning("%s", remark)
        return First(marked(self._brokers, Place(resolved.offsets, NO_FLOOR)), found.ids)

    def high_ends(self, topics: Sequence[str]) -> Offsets:
        """The offset up to which each partition can be read now."""
        return high_ends(self.config, self._discover(topics).partitions)

    def lag(self, load: str, topics: Sequence[str]) -> Offsets:
        """How many offsets the load's consumer group is behind, for each partition."""
        mirrored = self.mirror(load, topics).read()
        known = Offsets() if mirrored is None else mirrored.place.offsets
        return Offsets({p: max(end - known.get(p, 0), 0) for p, end in self.high_ends(topics).items()})

    def left(self, place: Place) -> Offsets:
        """How many offsets were written to each partition of a place, and lie behind it."""
        ends = high_ends(self.config, place.offsets.partitions, "read_uncommitted")
        return Offsets({p: max(end - place.offsets[p], 0) for p, end in ends.items()})

    def _discover(self, topics: Sequence[str]) -> Discovery:
        return discover(self.config, Named(tuple(topics)) if topics else Matching(".*"))


USER_INFO = "basic.auth.user.info"
REGISTRY_TYPE = "orderedkafka_registry"
"""The type of a registry's connection; others are taken, too, as only the form differs."""


class SchemaRegistryHook(BaseHook):
    """Tests a connection to a schema registry, for Airflow's form, which `provider_info` describes.

    :param registry_conn_id: ID of the connection.
    """

    conn_name_attr = "registry_conn_id"
    default_conn_name = "schema_registry"
    conn_type = REGISTRY_TYPE
    hook_name = "Kafka schema registry"

    def __init__(self, registry_conn_id: str = default_conn_name) -> None:
        super().__init__()
        self.registry_conn_id = registry_conn_id

    def test_connection(self) -> tuple[bool, str]:
        """Whether the registry says which subjects it has; how many, or what is wrong."""
        try:
            registry = registry_of(self.registry_conn_id)
            return True, f"{registry.name} has {counted(len(registry.subjects()), 'subject')}"
        except OrderedKafkaError as error:
            return False, str(error)


def registry_of(conn_id: str) -> Registry:
    """The registry: address, login and password, and the extra, which has the client's own properties.

    Its secrets are masked in Airflow's logs. Raises an `UnreachableError` if Airflow knows no such connection, and a
    `SettingError` if it has no address.
    """
    config = registry_config(conn_id, _connection(conn_id))
    keep_from_logs(config)
    return Registry(config)


def registry_config(conn_id: str, connection: Any) -> dict[str, str]:
    extra = {
        name: each if isinstance(each, str) else json.dumps(each)
        for name, each in connection.extra_dejson.items()
        if each not in (None, "")  # a field of the form that was left empty
    }
    host, login, password = connection.host or "", connection.login, connection.password
    if not host and "url" not in extra:
        raise SettingError(
            f"connection {conn_id!r} has no host: create it with `airflow connections add {conn_id} "
            f"--conn-type {REGISTRY_TYPE} --conn-host https://registry:8081 --conn-login ... --conn-password ...`"
        )
    where = host if "://" in host else f"{connection.schema or 'http'}://{host}"
    if connection.port and urlsplit(where).port is None:
        scheme, _, rest = where.partition("://")
        name, slash, path = rest.partition("/")
        where = f"{scheme}://{name}:{connection.port}{slash}{path}"
    by_login = {USER_INFO: f"{login}:{password or ''}"} if login else {}
    return {"url": where, **by_login, **extra}


def _connection(conn_id: str) -> Any:
    way_out = (
        f"create it with `airflow connections add {conn_id} --conn-type {REGISTRY_TYPE} --conn-host "
        "https://registry:8081`, or name another one with registry="
    )
    return connection_of(conn_id, "connection to a schema registry", way_out)
