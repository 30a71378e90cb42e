"""When a batch is settled: what counts as stillness, what ends the wait, and what has to be proven at last."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from airflow_provider_orderedkafka.kafka.replay.replays import Settle, until_still

SETTLE = Settle(still=2.0, deadline=60.0, longest=600.0)


@dataclass
class Clock:
    """A clock that goes on only when somebody sleeps or works."""

    now: float = 1_000.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


@dataclass
class World:
    """An output that rows of the batch land in over time.

    A look at it may take long, and until a moment the rows that landed are hidden above the high watermark.
    """

    landed: Callable[[float], int] = lambda seconds: 0
    others: Callable[[float], int] = lambda seconds: 0
    row_seconds: float = 0.0
    asking_seconds: Callable[[float], float] = lambda seconds: 0.0
    hidden_until: float = 0.0
    clock: Clock = field(default_factory=Clock)
    seen: int = 0
    read: int = 0

    def __post_init__(self):
        self.begun = self.clock.now

    @property
    def seconds(self):
        return self.clock.now - self.begun

    def look(self):
        self.clock.now += self.asking_seconds(self.seconds)
        ours = self.landed(self.seconds) if self.seconds >= self.hidden_until else 0
        all_rows = ours + self.others(self.seconds)
        self.clock.now += (all_rows - self.read) * self.row_seconds
        came, self.seen, self.read = ours > self.seen, ours, all_rows
        return came

    def nothing_hidden(self):
        return self.seen == self.landed(self.seconds)

    def settles(self, settle=SETTLE):
        return until_still(self, settle, self.clock)


def test_a_batch_of_which_nothing_comes_settles_after_the_settle_time():
    world = World()
    assert world.settles()
    assert world.seconds == pytest.approx(2.0, abs=0.2)


def test_rows_that_land_start_the_settle_time_anew():
    world = World(landed=lambda seconds: 5 if seconds >= 1.9 else 0)
    assert world.settles()
    assert world.seen == 5
    assert world.seconds == pytest.approx(3.9, abs=0.3)


@pytest.mark.parametrize("lands", [0.5, 1.5, 2.9, 4.5])
def test_rows_that_land_while_others_rows_are_read_are_seen(lands):
    world = World(
        landed=lambda seconds: 500 if seconds >= lands else 0, others=lambda seconds: 3_000_000, row_seconds=1e-6
    )
    assert world.settles()
    assert world.seen == 500


def test_thirty_million_rows_settle_however_long_they_are_read():
    world = World(landed=lambda seconds: 30_000_000, row_seconds=3e-6)
    assert world.settles()
    assert world.seen == 30_000_000
    assert world.seconds == pytest.approx(92.0, abs=0.3)


def test_time_for_which_the_broker_answered_nothing_is_no_stillness():
    away = 20.0
    world = World(
        landed=lambda seconds: 7 if seconds >= away + 1.0 else 0,
        asking_seconds=lambda seconds: away if 0.5 <= seconds < away else 0.0,
    )
    assert world.settles()
    assert world.seen == 7


def test_rows_that_keep_coming_extend_the_deadline():
    world = World(landed=lambda seconds: int(min(seconds, 200.0)))
    assert world.settles(Settle(still=2.0, deadline=60.0))
    assert world.seen == 200


def test_rows_that_come_for_ever_are_given_up_at_last():
    world = World(landed=lambda seconds: int(seconds * 10))
    assert not world.settles()
    assert world.seconds == pytest.approx(600.0, abs=1.0)


def test_others_who_write_faster_than_it_is_read_do_not_hold_it_for_ever():
    world = World(others=lambda seconds: int((seconds + 30) * 2_000), row_seconds=1e-3)
    assert not world.settles()
    assert world.seconds < 5_000


def test_what_a_lagging_replica_hides_is_waited_for():
    world = World(landed=lambda seconds: 9, hidden_until=40.0)
    assert world.settles()
    assert world.seen == 9
    assert world.seconds == pytest.approx(42.0, abs=0.3)


def test_a_batch_is_not_settled_where_rows_stay_hidden():
    world = World(landed=lambda seconds: 9, hidden_until=1e9)
    assert not world.settles()
    assert world.seconds == pytest.approx(60.0, abs=0.3)


def test_without_a_settle_time_one_look_is_enough():
    world = World(landed=lambda seconds: 3)
    assert world.settles(Settle(still=0.0))
    assert (world.seen, world.seconds) == (3, 0.0)
