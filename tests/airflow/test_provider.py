"""What Airflow knows about the provider."""

import json
from importlib import import_module
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

import jsonschema

from airflow_provider_orderedkafka.provider_info import get_provider_info

NAME = "airflow-provider-orderedkafka"
PACKAGE = Path(import_module("airflow_provider_orderedkafka").__file__).parent


def test_airflow_finds_the_provider_without_a_complaint(airflow_home, caplog):
    from airflow.providers_manager import ProvidersManager

    found = ProvidersManager().providers[NAME]
    assert found.version == version(NAME)
    assert get_provider_info().items() <= found.data.items()
    assert NAME not in caplog.text


def test_the_description_fits_airflow_s_schema():
    schema = json.loads(files("airflow").joinpath("provider_info.schema.json").read_text())
    jsonschema.validate(get_provider_info(), schema)


def test_the_description_names_every_operator_sensor_trigger_hook_and_link():
    told = get_provider_info()
    for kind in ("operators", "sensors", "triggers"):
        modules = {path.stem for path in (PACKAGE / kind).glob("[a-z]*.py")}
        assert {name for entry in told[kind] for name in entry["python-modules"]} == {
            f"{PACKAGE.name}.{kind}.{module}" for module in modules
        }
    for path in (*told["extra-links"], "airflow_provider_orderedkafka.hooks.ordered_kafka.OrderedKafkaHook"):
        module, _, name = path.rpartition(".")
        assert isinstance(getattr(import_module(module), name), type)
    for entry in told["asset-uris"]:
        assert entry["schemes"] == ["orderedkafka"]
