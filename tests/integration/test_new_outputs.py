"""Output topics that do not exist: told, or created as the load says."""

from threading import Thread

import pytest

from airflow_provider_orderedkafka.errors import SettingError, UnknownTopicError
from airflow_provider_orderedkafka.kafka.lookup.survey import Brokers
from airflow_provider_orderedkafka.kafka.write.settings import look_up_outputs, made_ready
from airflow_provider_orderedkafka.outputs import NewTopics


@pytest.fixture
def missing(topics):
    """The name of a topic that does not exist."""
    return topics.name("missing")


def new(**given):
    return NewTopics(**given)


def test_an_output_that_does_not_exist_is_told_with_the_nearest_name_and_how_to_have_it_created(config, topics):
    there = topics.create("there")
    with pytest.raises(UnknownTopicError, match=f"'{there}'.*create"):
        made_ready(config, [f"{there}x"], None)


def test_an_output_is_created_once_as_the_load_says(config, missing):
    wanted = new(partitions=3, config={"max.message.bytes": 123_456, "cleanup.policy": "compact"})
    assert made_ready(config, [missing], wanted) == [f"output topic {missing!r} was created, with 3 partitions"]
    assert made_ready(config, [missing], wanted) == []
    found = look_up_outputs(Brokers(config), [missing])[missing]
    assert (found.partitions, found.max_bytes, found.compacted) == (3, 123_456, True)


def test_what_is_left_out_is_as_the_broker_has_it(config, missing):
    made_ready(config, [missing], new())
    assert look_up_outputs(Brokers(config), [missing])[missing].partitions == 1


def test_an_output_that_exists_stays_as_it_is(config, topics):
    there = topics.create("there", 2)
    assert made_ready(config, [there], new(partitions=2)) == []
    said = f"output topic {there!r} exists, with 2 partitions, not 5: it stays as it is"
    assert made_ready(config, [there], new(partitions=5)) == [said]
    assert look_up_outputs(Brokers(config), [there])[there].partitions == 2


def test_tasks_that_create_it_at_the_same_moment_all_go_on(config, missing):
    failed = []

    def make():
        try:
            made_ready(config, [missing], new(partitions=2))
        except Exception as error:
            failed.append(error)

    threads = [Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert look_up_outputs(Brokers(config), [missing])[missing].partitions == 2


@pytest.mark.parametrize("given", [{"replication": 7}, {"config": {"no.such.setting": 1}}])
def test_what_kafka_does_not_create_is_a_setting_to_mend(config, missing, given):
    with pytest.raises(SettingError, match=f"'{missing}' as create= says"):
        made_ready(config, [missing], new(**given))
