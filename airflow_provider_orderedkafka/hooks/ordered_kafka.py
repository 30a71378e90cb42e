"""The hook: Kafka as a load sees it, on the `kafka` connection of Airflow's own provider."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.kafka.hooks.base import KafkaBaseHook

from airflow_provider_orderedkafka.context import now_ms
from airflow_provider_orderedkafka.core.cuts import NO_FLOOR, Place
from airflow_provider_orderedkafka.core.documents import Ledger, Range
from airflow_provider_orderedkafka.core.pacing import Verdict
from airflow_provider_orderedkafka.core.positions import Offsets
from airflow_provider_orderedkafka.core.starts import Start
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.ledger import LedgerStore
from airflow_provider_orderedkafka.load import OrderedLoad
from airflow_provider_orderedkafka.steps import First

if TYPE_CHECKING:
    from airflow_provider_orderedkafka.kafka.config import KafkaConfig
    from airflow_provider_orderedkafka.kafka.topics import Discovery
    from airflow_provider_orderedkafka.mirror import GroupMirror

OAUTH = "oauth_cb"


class OrderedKafkaHook(KafkaBaseHook):  # type: ignore[misc]
    """High ends, cuts and lag of topics; first looks, verdicts and ranges of loads.

    Clients are made once for each process and connection, and shared by all that ask.

    :param kafka_config_id: The connection.
    """

    @cached_property
    def config(self) -> "KafkaConfig":
        """The connection's configuration, checked; its secrets are masked wherever Airflow writes."""
        from airflow.sdk.log import mask_secret

        from airflow_provider_orderedkafka.kafka.config import RESOLVER, KafkaConfig, is_secret, keep_resolver

        extra = self._built()
        found = KafkaConfig.from_connection(extra)
        for name, value in found.items():
            if is_secret(name):
                mask_secret(value)
        calls = {name: value for name, value in extra.items() if name == OAUTH and callable(value)}
        if not calls or RESOLVER in found:
            return found
        resolver = keep_resolver(f"callbacks of connection {self.kafka_config_id!r}", lambda _: calls)
        return KafkaConfig({**found, RESOLVER: resolver})

    def portable_config(self) -> Mapping[str, str]:
        """The configuration as it can travel to driver and executors, where Airflow is not."""
        from airflow_provider_orderedkafka.kafka.config import RESOLVER, is_kept
        from airflow_provider_orderedkafka.kafka.oauth import MSK, is_msk_iam

        if not is_kept(self.config.get(RESOLVER)):
            return dict(self.config)
        if is_msk_iam(self.config) and OAUTH not in self.get_connection(self.kafka_config_id).extra_dejson:
            return {**self.config, RESOLVER: MSK}
        raise SettingError(
            f"connection {self.kafka_config_id!r} takes its tokens from a callback of Airflow's, which cannot travel "
            f"to Spark: name a function that Spark's Python can import in its extra, {{{RESOLVER!r}: "
            f"'package.module:function'}}; it is called with the settings and returns {{{OAUTH!r}: a callback}}"
        )

    def _built(self) -> dict[str, Any]:
        """The configuration as Airflow's own hook builds it, callbacks for managed clusters included."""
        from airflow.sdk.exceptions import AirflowException, AirflowNotFoundException

        try:
            built: dict[str, Any] = self._build_config()
        except AirflowNotFoundException as error:
            raise SettingError(
                f"there is no Kafka connection {self.kafka_config_id!r}: create it with `airflow connections add "
                f'{self.kafka_config_id} --conn-type kafka --conn-extra \'{{"bootstrap.servers": "broker:9092"}}\'`, '
                "or name another one with kafka_conn_id="
            ) from error
        except (ValueError, AirflowException) as error:
            raise SettingError(f"connection {self.kafka_config_id!r}: {error}") from error
        return built

    def first_look(self, load: OrderedLoad, topics: Sequence[str] = ()) -> First:
        """Where the load's start policy leads now, in these of its topics; in all of them unless said."""
        from airflow_provider_orderedkafka import ranges

        first = ranges.first_look(self.config, load, now_ms(), topics or load.topics)
        for remark in first.remarks:
            self.log.warning("%s: %s", load.name, remark)
        return first

    def verdict(self, load: OrderedLoad, ledger: Ledger, *, known: bool = False) -> Verdict:
        """Whether the load is to run now, and why; with `known` new partitions are not looked for."""
        from airflow_provider_orderedkafka import ranges

        return ranges.verdict(self.config, load, ledger, now_ms(), known=known)

    def plan(self, load: OrderedLoad, ledger: Ledger, digest: str = "") -> Range:
        """The next incremental range."""
        from airflow_provider_orderedkafka import ranges

        return ranges.plan(self.config, load, ledger, digest=digest, now=now_ms())

    def plan_interval(
        self,
        load: OrderedLoad,
        store: LedgerStore,
        times: tuple[int, int],
        digest: str = "",
    ) -> Range:
        """What lies between two moments, given as milliseconds."""
        from airflow_provider_orderedkafka.intervals import plan_interval

        return plan_interval(self.config, load, store, times, digest=digest, now=now_ms)

    def plan_replay(self, load: OrderedLoad, asked: tuple[Start, Start], digest: str = "") -> Range:
        """What lies between two starts."""
        from airflow_provider_orderedkafka.replays import plan_replay

        return plan_replay(self.config, load, asked, digest=digest, now=now_ms())

    def mirror(self, load: str, topics: Sequence[str] = ()) -> "GroupMirror":
        """The load's mirror in its consumer group; without topics, it is looked for in all that there are."""
        from airflow_provider_orderedkafka.mirror import GroupMirror

        return GroupMirror(self.config, load, lambda: self._discover(topics).partitions)

    def topic_ids(self, topics: Sequence[str]) -> Mapping[str, str]:
        """The broker's id of each topic."""
        return self._discover(topics).ids

    def resolve(self, start: str, topics: Sequence[str]) -> First:
        """Where a start policy leads now, and the ids of the topics there."""
        from airflow_provider_orderedkafka.core.starts import parse_start
        from airflow_provider_orderedkafka.kafka.starts import resolve_start

        policy, found = parse_start(start, "to"), self._discover(topics)
        resolved = resolve_start(self.config, policy, found.partitions, now_ms())
        return First(Place(resolved.offsets, NO_FLOOR), found.ids, resolved.remarks)

    def high_ends(self, topics: Sequence[str]) -> Offsets:
        """How far the topics can be read now."""
        from airflow_provider_orderedkafka.kafka.offsets import high_ends

        return high_ends(self.config, self._discover(topics).partitions)

    def lag(self, load: str, topics: Sequence[str]) -> Offsets:
        """How many offsets of each partition lie between the load's mirror and the high ends."""
        mirrored = self.mirror(load, topics).read()
        known = Offsets() if mirrored is None else mirrored.place.offsets
        return Offsets({p: max(end - known.get(p, 0), 0) for p, end in self.high_ends(topics).items()})

    def _discover(self, topics: Sequence[str]) -> "Discovery":
        from airflow_provider_orderedkafka.core.subscriptions import Matching, Named
        from airflow_provider_orderedkafka.kafka.topics import discover

        return discover(self.config, Named(tuple(topics)) if topics else Matching(".*"))
