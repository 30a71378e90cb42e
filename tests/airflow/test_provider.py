"""What Airflow knows about the provider."""

import json
from importlib import import_module
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest
from support.registry import registry

from airflow_provider_orderedkafka.provider_info import get_provider_info

pytestmark = pytest.mark.filterwarnings("ignore:ProvidersManager.hooks is deprecated")  # by Airflow's own get_hook

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


@pytest.fixture
def airflows_manager(airflow_home):
    from airflow.providers_manager import ProvidersManager

    return ProvidersManager()


def test_airflow_knows_the_form_of_a_schema_registry_s_connection(airflows_manager, caplog):
    (described,) = get_provider_info()["connection-types"]
    kind = described["connection-type"]
    hook = airflows_manager.hooks[kind]
    assert (hook.hook_class_name, hook.hook_name) == (described["hook-class-name"], described["hook-name"])
    assert NAME not in caplog.text


def asked(**connection):
    from airflow.models.connection import Connection

    (described,) = get_provider_info()["connection-types"]
    made = Connection(conn_id="a_registry", conn_type=described["connection-type"], **connection)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW_CONN_A_REGISTRY", made.as_json())  # as Airflow's API does
        return made.test_connection()


@pytest.mark.fault
def test_a_connection_to_a_registry_is_tested_with_fields_of_the_form_left_empty(airflows_manager, tmp_path):
    empty = dict.fromkeys(get_provider_info()["connection-types"][0]["conn-fields"])
    with registry(tmp_path) as url:
        works, said = asked(host=url, extra=json.dumps(empty))
        assert (works, url in said) == (True, True), said
        works, said = asked(host=url.removesuffix("v7"))
        assert (works, url.removesuffix("v7") in said) == (False, True)
    works, said = asked(host=url)
    assert (works, url in said) == (False, True)
    assert asked(extra=json.dumps(empty))[0] is False


def test_the_description_names_every_operator_sensor_trigger_hook_and_link():
    info = get_provider_info()
    for kind in ("operators", "sensors", "triggers"):
        modules = {path.stem for path in (PACKAGE / kind).glob("[a-z]*.py")}
        assert {name for entry in info[kind] for name in entry["python-modules"]} == {
            f"{PACKAGE.name}.{kind}.{module}" for module in modules
        }
    for path in (*info["extra-links"], "airflow_provider_orderedkafka.hooks.ordered_kafka.OrderedKafkaHook"):
        module, _, name = path.rpartition(".")
        assert isinstance(getattr(import_module(module), name), type)
    for entry in info["asset-uris"]:
        assert entry["schemes"] == ["orderedkafka"]
