"""The sensor's timeout and soft failure: those of every sensor of Airflow's, waiting here or in the triggerer."""

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, AirflowSkipException
from support.bench import steps_of

from airflow_provider_orderedkafka import OrderedLoad
from airflow_provider_orderedkafka.errors import CredentialsError
from airflow_provider_orderedkafka.sensors.offsets import OffsetRangeSensor

WAIT = '{{"deferrable": False, "poke_interval": 0.2, "timeout": 1, "soft_fail": {soft_fail}}}'


@pytest.mark.parametrize(("soft_fail", "state"), [(False, "failed"), (True, "skipped")])
def test_a_wait_that_lasts_too_long_fails_or_is_skipped_and_says_once_what_is_there(
    bench, states, capsys, soft_fail, state
):
    bench.write(3)
    wait = WAIT.format(soft_fail=soft_fail)
    run = bench.dag("min_offsets=10", f'wait="always", tasks={{"wait": {wait}}}').test()
    assert steps_of(bench, states(run))["wait"] == state
    assert bench.diary == []
    assert capsys.readouterr().out.count("3 of 10 offsets are there") == 1


def resumed(sensor, **event):
    return sensor.resume_execution("resume", {"event": event}, {})


def test_what_the_triggerer_found_ends_the_wait_well_or_as_soft_fail_says():
    load = OrderedLoad("orders", ["orders"])
    assert resumed(OffsetRangeSensor(task_id="wait", load=load), reason="enough") == "enough"
    with pytest.raises(AirflowFailException, match="gone"):
        resumed(OffsetRangeSensor(task_id="wait", load=load), error="gone")
    message = "no such user"
    with pytest.raises(CredentialsError, match=message):  # which a retry may mend
        resumed(OffsetRangeSensor(task_id="wait", load=load), error=message, kind="CredentialsError")
    with pytest.raises(AirflowSkipException, match="soft_fail"):
        resumed(OffsetRangeSensor(task_id="wait", load=load, soft_fail=True), error="gone")


def test_a_wait_in_the_triggerer_that_lasts_too_long_is_a_sensor_s_timeout(monkeypatch):
    from airflow.sdk.bases import sensor as of_airflow

    message = "too long"
    sensor = OffsetRangeSensor(task_id="wait", load=OrderedLoad("orders", ["orders"]))

    def timed_out(context, event):
        raise of_airflow.TaskDeferralTimeout(message)

    monkeypatch.setattr(sensor, "resume", timed_out)
    with pytest.raises(of_airflow.AirflowSensorTimeout, match=message):
        resumed(sensor)
