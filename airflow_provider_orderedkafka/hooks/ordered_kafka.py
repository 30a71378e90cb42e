"""A hook for the `kafka` connection of Airflow's own Kafka provider."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.kafka.hooks.base import KafkaBaseHook

from airflow_provider_orderedkafka.compat.airflow import kafka_config
from airflow_provider_orderedkafka.context import now_ms
from airflow_provider_orderedkafka.core.documents import Ledger, Range
from airflow_provider_orderedkafka.core.notation.starts import Start
from airflow_provider_orderedkafka.core.order.cuts import NO_FLOOR, Place
from airflow_provider_orderedkafka.core.order.positions import Offsets
from airflow_provider_orderedkafka.core.pacing import Verdict
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.load import OrderedLoad
from airflow_provider_orderedkafka.loads.ledger import LedgerStore
from airflow_provider_orderedkafka.loads.waiting import First

if TYPE_CHECKING:
    from airflow_provider_orderedkafka.core.next_range import NothingToLoad
    from airflow_provider_orderedkafka.core.notation.subscriptions import Discovery
    from airflow_provider_orderedkafka.core.outputs import NewOutput
    from airflow_provider_orderedkafka.kafka.clients.config import KafkaConfig
    from airflow_provider_orderedkafka.loads.mirror import GroupMirror
    from airflow_provider_orderedkafka.loads.previews import Preview

OAUTH = "oauth_cb"


class OrderedKafkaHook(KafkaBaseHook):  # type: ignore[misc]
    """Looks up in Kafka what a load needs, such as `high_ends` and `lag`.

    Clients are shared by all hooks of a process with the same connection.

    :param kafka_config_id: ID of the Airflow connection to Kafka.
    """

    @cached_property
    def config(self) -> "KafkaConfig":
        """The connection's configuration, validated. Its secrets are masked in Airflow's logs."""
        from airflow.sdk.log import mask_secret

        from airflow_provider_orderedkafka.kafka.clients.config import RESOLVER, KafkaConfig, is_secret, keep_resolver

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
        """The configuration for driver and executors, where Airflow is not installed."""
        from airflow_provider_orderedkafka.kafka.clients.config import RESOLVER, is_kept
        from airflow_provider_orderedkafka.kafka.clients.oauth import MSK, is_msk_iam

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
        """The configuration from Airflow's own hook, with callbacks for managed clusters."""
        from airflow.providers.common.compat.sdk import AirflowException, AirflowNotFoundException

        try:
            return kafka_config(self)
        except AirflowNotFoundException as error:
            raise SettingError(
                f"there is no Kafka connection {self.kafka_config_id!r}: create it with `airflow connections add "
                f'{self.kafka_config_id} --conn-type kafka --conn-extra \'{{"bootstrap.servers": "broker:9092"}}\'`, '
                "or name another one with kafka_conn_id="
            ) from error
        except (ValueError, AirflowException) as error:
            raise SettingError(f"connection {self.kafka_config_id!r}: {error}") from error

    def first_look(self, load: OrderedLoad, topics: Sequence[str] = ()) -> First:
        """Resolve the load's `start` now, for these of its topics (default: all)."""
        from airflow_provider_orderedkafka.loads import ranges

        return ranges.first_look(self.config, load.terms, now_ms(), topics)

    def verdict(self, load: OrderedLoad, ledger: Ledger, *, known: bool = False) -> Verdict:
        """Whether the load is due, and why; with `known`, without looking for new partitions."""
        from airflow_provider_orderedkafka.loads import ranges

        return ranges.verdict(self.config, load.terms, ledger, now_ms(), known=known)

    def plan(self, load: OrderedLoad, ledger: Ledger, digest: str = "") -> "Range | NothingToLoad":
        from airflow_provider_orderedkafka.loads import ranges

        return ranges.plan(self.config, load.terms, ledger, digest=digest, now=now_ms())

    def plan_interval(
        self,
        load: OrderedLoad,
        store: LedgerStore,
        times: tuple[int, int],
        digest: str = "",
    ) -> "Range | NothingToLoad":
        """The range between two times, in milliseconds since the epoch."""
        from airflow_provider_orderedkafka.loads.own_ranges import plan_interval

        return plan_interval(self.config, load.terms, store, times, digest=digest, now=now_ms)

    def plan_replay(
        self, load: OrderedLoad, asked: tuple[Start, Start], digest: str = "", rows: int | None = None
    ) -> "Range | NothingToLoad":
        """The range from one start to another, or its first rows."""
        from airflow_provider_orderedkafka.loads.own_ranges import plan_replay

        return plan_replay(self.config, load.terms, asked, digest=digest, now=now_ms(), rows=rows)

    def preview_replay(self, load: OrderedLoad, asked: tuple[Start, Start], rows: int | None = None) -> "Preview":
        """What a replay would load now."""
        from airflow_provider_orderedkafka.loads.previews import preview_replay

        return preview_replay(self.config, load.terms, asked, now_ms(), rows)

    def preview(self, load: OrderedLoad, store: LedgerStore | None) -> "Preview":
        """What the next run of an incremental load would load now, and why it would start or wait."""
        from airflow_provider_orderedkafka.loads.previews import preview

        return preview(self.config, load.terms, store, now_ms())

    def make_ready(self, topics: Sequence[str], new: "NewOutput | None" = None) -> list[str]:
        """Check that output topics exist, and create those that do not if it is said how; remarks on it."""
        from airflow_provider_orderedkafka.kafka.write.new_outputs import made_ready

        return made_ready(self.config, topics, new)

    def check_outputs(self, topics: Sequence[str], *, read_back: bool) -> None:
        """Raise what the application would raise for output topics that are not there, or that it may not use."""
        from airflow_provider_orderedkafka.kafka.write.outputs import check_readable, look_up_outputs

        found = look_up_outputs(self.config, topics)
        check_readable(found.values() if read_back else ())

    def mirror(self, load: str, topics: Sequence[str] = ()) -> "GroupMirror":
        """The load's consumer group, read for these topics (default: all topics of the cluster)."""
        from airflow_provider_orderedkafka.loads.mirror import GroupMirror

        return GroupMirror(self.config, load, lambda: self._discover(topics).partitions)

    def topic_ids(self, topics: Sequence[str]) -> Mapping[str, str]:
        return self._discover(topics).ids

    def resolve(self, start: str, topics: Sequence[str]) -> First:
        """Resolve a start now, with the IDs of the topics."""
        from airflow_provider_orderedkafka.core.notation.starts import parse_start
        from airflow_provider_orderedkafka.kafka.lookup.starts import resolve_start

        policy, found = parse_start(start, "to"), self._discover(topics)
        resolved = resolve_start(self.config, policy, found.partitions, now_ms())
        for remark in resolved.remarks:
            self.log.warning("%s", remark)
        return First(Place(resolved.offsets, NO_FLOOR), found.ids)

    def high_ends(self, topics: Sequence[str]) -> Offsets:
        """The offset up to which each partition can be read now."""
        from airflow_provider_orderedkafka.kafka.lookup.offsets import high_ends

        return high_ends(self.config, self._discover(topics).partitions)

    def lag(self, load: str, topics: Sequence[str]) -> Offsets:
        """How many offsets the load's consumer group is behind, for each partition."""
        mirrored = self.mirror(load, topics).read()
        known = Offsets() if mirrored is None else mirrored.place.offsets
        return Offsets({p: max(end - known.get(p, 0), 0) for p, end in self.high_ends(topics).items()})

    def left(self, place: Place) -> Offsets:
        """How many offsets were written to each partition of a place, and lie behind it."""
        from airflow_provider_orderedkafka.kafka.lookup.offsets import high_ends

        ends = high_ends(self.config, place.offsets.partitions, "read_uncommitted")
        return Offsets({p: max(end - place.offsets[p], 0) for p, end in ends.items()})

    def _discover(self, topics: Sequence[str]) -> "Discovery":
        from airflow_provider_orderedkafka.core.notation.subscriptions import Matching, Named
        from airflow_provider_orderedkafka.kafka.lookup.topics import discover

        return discover(self.config, Named(tuple(topics)) if topics else Matching(".*"))
