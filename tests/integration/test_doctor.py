"""The doctor with a real broker."""

import json

from airflow_provider_orderedkafka.tools import doctor


def test_a_connection_that_leads_to_a_broker_is_ok(kafka, tmp_path, monkeypatch):
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    extra = json.dumps({"bootstrap.servers": kafka.bootstrap_servers})
    monkeypatch.setenv("AIRFLOW_CONN_BROKER", json.dumps({"conn_type": "kafka", "extra": extra}))
    (finding,) = [f for f in doctor.examine("broker", "nowhere") if f.name == "connection broker"]
    assert (finding.status, finding.found) == ("ok", f"{kafka.bootstrap_servers} answers")
