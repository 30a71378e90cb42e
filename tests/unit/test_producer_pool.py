"""How producers are lent: one for each configuration, reused, never closed in use."""

import os
import threading
import time
from types import SimpleNamespace

import pytest
from support.messages import naming, says
from support.producers import FakeProducer

from airflow_provider_orderedkafka.errors import DeliveryError, SettingError
from airflow_provider_orderedkafka.kafka.write import producer
from airflow_provider_orderedkafka.kafka.write.producer import (
    PooledProducer,
    ProducerPool,
    deadline_seconds,
    producer_config,
)
from airflow_provider_orderedkafka.spark.state.lease import HEARTBEAT, LEASE

HERE, THERE = {"bootstrap.servers": "here:1"}, {"bootstrap.servers": "there:1"}


def make(config):
    return PooledProducer(FakeProducer(), 1.0, config=config)


def test_the_same_configuration_gets_the_same_producer():
    pool = ProducerPool(make)
    with pool.lend(HERE) as one, pool.lend(dict(HERE)) as same, pool.lend(THERE) as other:
        assert one is same
        assert one is not other
        assert (one.users, other.users) == (2, 1)
    with pool.lend(HERE) as again:
        assert again is one
        assert not again.producer.closed


def test_a_producer_that_cannot_be_closed_does_not_hide_why_it_failed(monkeypatch):
    pool = ProducerPool(make)
    monkeypatch.setattr(FakeProducer, "close", lambda _self: 1 / 0)
    own = RuntimeError("the write's own")
    with pytest.raises(RuntimeError) as error, pool.lend(HERE):
        raise own
    assert error.value is own


def test_a_producer_with_an_error_is_closed_and_not_lent_again():
    pool = ProducerPool(make)
    with pytest.raises(RuntimeError), pool.lend(HERE) as broken:
        raise RuntimeError
    assert broken.producer.closed
    with pool.lend(HERE) as fresh:
        assert fresh is not broken


def test_a_producer_whose_process_stood_still_is_not_lent_again_and_one_that_nobody_uses_is(monkeypatch):
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(producer, "idle_clock", lambda: clock.now)
    pool = ProducerPool(make)
    with pool.lend(HERE) as one:
        pass
    clock.now += 2 * producer.STILL
    with pool.lend(HERE) as same:
        assert same is one
        clock.now += 2 * producer.STILL
        with pytest.raises(DeliveryError):
            same.check_pulse()
        while not same.broken:  # its own thread sees to that
            time.sleep(0.01)
    with pool.lend(HERE) as fresh:
        assert fresh is not one


def test_a_process_that_stands_still_notices_before_another_attempt_may_have_begun():
    assert producer.STILL < LEASE - HEARTBEAT


def test_a_producer_with_an_error_is_closed_when_the_last_user_is_done_with_it():
    pool = ProducerPool(make)
    with pool.lend(HERE) as lent:
        with pytest.raises(RuntimeError), pool.lend(HERE):
            raise RuntimeError
        assert not lent.producer.closed
        with pool.lend(HERE) as fresh:
            assert fresh is not lent
    assert lent.producer.closed
    assert not fresh.producer.closed


def test_what_waits_in_a_producer_with_an_error_is_thrown_away():
    pool = ProducerPool(make)
    with pool.lend(HERE) as broken:
        broken.producer.produce("out", b"v", None, -1, lambda *_: None, None, 0, None)
        broken.producer.speed = 0
        with pytest.raises(RuntimeError), pool.lend(HERE):
            raise RuntimeError
    assert (len(broken.producer), broken.producer.arrived) == (0, [])


def test_a_producer_that_is_idle_for_as_long_as_is_set_is_closed_and_that_is_logged(caplog):
    caplog.set_level("INFO")
    pool, config = ProducerPool(make), {**HERE, "connections.max.idle.ms": "100"}
    with pool.lend(config) as lent:
        time.sleep(0.2)
        assert not lent.producer.closed
    lent.idle.join(10)
    assert lent.producer.closed
    assert says(caplog.text, "here:1 ... 0.1 s")
    with pool.lend(config) as fresh:
        assert fresh is not lent


def test_a_producer_that_is_lent_again_in_time_is_kept():
    pool, config = ProducerPool(make), {**HERE, "connections.max.idle.ms": "60000"}
    with pool.lend(config) as lent:
        pass
    first = lent.idle
    with pool.lend(config) as again:
        assert again is lent
        assert first.finished.is_set()
    assert lent.idle is not first
    lent.idle.cancel()


def test_a_producer_is_kept_where_nothing_is_set():
    with (pool := ProducerPool(make)).lend({**HERE, "connections.max.idle.ms": "0"}) as lent:
        pass
    assert lent.idle is None
    with pool.lend(HERE) as other:
        pass
    assert other.idle is None


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_makes_its_own_and_leaves_its_parent_s_alone():
    pool = ProducerPool(make)
    with pool.lend(HERE) as parents:
        child = os.fork()
        if child == 0:
            with pool.lend(HERE) as own:
                os._exit(0 if own is not parents and not parents.producer.closed else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_threads_share_one_producer():
    pool, made = ProducerPool(make), []

    def use():
        with pool.lend(HERE) as lent:
            made.append(lent)
            time.sleep(0.05)

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(lent) for lent in made}) == 1
    assert made[0].users == 0


def test_the_users_settings_win_over_the_defaults():
    found = producer_config({"linger.ms": "0", "partitioner": "consistent_random"})
    assert (found["linger.ms"], found["partitioner"]) == ("0", "consistent_random")
    assert producer_config({})["partitioner"] == "murmur2_random"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"acks": "1"}, "'kafka.acks' ... '1'"),
        ({"enable.idempotence": "false"}, "'kafka.enable.idempotence' ... 'false'"),
        ({"transactional.id": "x"}, "'kafka.transactional.id'"),
    ],
)
def test_settings_that_break_the_promise_are_refused(wrong, said):
    with pytest.raises(SettingError, match=naming(said)):
        producer_config(wrong)


def test_the_deadline_is_the_delivery_timeout():
    assert deadline_seconds({}) == 120
    assert deadline_seconds({"delivery.timeout.ms": "1500"}) == 1.5
    with pytest.raises(SettingError, match=r"delivery\.timeout\.ms"):
        deadline_seconds({"message.timeout.ms": "soon"})


def test_a_certificate_that_was_renewed_makes_another_producer_and_the_first_one_ends_its_work(tmp_path):
    certificate = tmp_path / "client.pem"
    certificate.write_text("old")
    pool, config = ProducerPool(make), {**HERE, "ssl.certificate.location": str(certificate)}
    with pool.lend(config) as first, pool.lend(config) as same:
        assert first is same
        certificate.write_text("newer")
        with pool.lend(config) as renewed, pool.lend(config) as again:
            assert renewed is not first
            assert again is renewed
        assert not first.producer.closed
    certificate.unlink()
    with pool.lend(config) as without, pool.lend(HERE) as other:
        assert without is not renewed
        assert other is not without
