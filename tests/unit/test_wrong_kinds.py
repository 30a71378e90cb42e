"""Whatever is given to a public value in a DAG file: it is taken, or refused in a sentence."""

import inspect
from contextlib import suppress

import pytest
from support.messages import says

import airflow_provider_orderedkafka as public
from airflow_provider_orderedkafka.errors import SettingError

LEAST = {
    "OrderedLoad": {"name": "orders", "topics": ["orders"]},
    "Json": {"schema": "a int"},
    "Avro": {"registry": "main"},
    "JsonSchema": {"registry": "main"},
    "Protobuf": {"registry": "main"},
    "Decode": {"value": public.Json("a int")},
    "Allow": {"most": 1, "to": "dead"},
    "KafkaOutput": {"topic": "out"},
    "IcebergOutput": {"table": "lake.shop.orders"},
    "DeltaOutput": {"path": "/lake"},
    "FilesOutput": {"path": "/lake"},
    "EmrServerless": {"code": "s3://b/code", "application_id": "a", "role": "r"},
    "EmrSteps": {"code": "s3://b/code", "cluster": "j-1"},
    "Glue": {"code": "s3://b/code", "role": "r"},
    "Dataproc": {"code": "gs://b/code", "project": "p", "region": "r", "image": "i"},
    "Databricks": {"code": "s3://b/code", "cluster": "0612-1"},
    "Livy": {"code": "/code"},
    "SparkKubernetes": {"code": "local:///code", "image": "i"},
}
VALUES = [name for name in public.__all__ if inspect.isclass(getattr(public, name))]
WRONG = (3, 1.5, True, None, b"x", "", "no such", [], [1], {}, {"a": 1}, object(), int)


@pytest.mark.parametrize("name", VALUES)
def test_a_value_refuses_an_argument_of_another_kind_in_a_sentence(name):
    made, least = getattr(public, name), LEAST.get(name, {})
    made(**least)
    for argument in inspect.signature(made).parameters:
        for wrong in WRONG:
            with suppress(SettingError):
                made(**{**least, argument: wrong})


@pytest.mark.parametrize("name", [name for name in VALUES if name in LEAST])
def test_a_value_without_an_argument_that_it_needs_names_it(name):
    made = getattr(public, name)
    needed = [each.name for each in inspect.signature(made).parameters.values() if each.default is each.empty]
    for argument in needed:
        some = {other: value for other, value in LEAST[name].items() if other != argument}
        with pytest.raises(SettingError) as refused:
            made(**some)
        assert says(str(refused.value), f"{name}() needs {argument}=. {argument}: ")


@pytest.mark.parametrize(
    "argument", [name for name in inspect.signature(public.ordered_load).parameters if name != "load"]
)
def test_what_is_said_of_an_argument_is_said_of_no_other(argument):
    load = public.OrderedLoad("orders", topics=["orders"])
    with pytest.raises(SettingError) as refused:
        public.ordered_load(load, **{argument: object()})
    assert ":param" not in str(refused.value)
