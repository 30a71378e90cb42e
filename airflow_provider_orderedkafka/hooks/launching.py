"""What an application needs at its start: its file, the Kafka configuration, this package's code.

In client mode secrets travel in the environment, never in arguments, files or Spark settings. In cluster mode the
driver does not see this environment: a secret needs another way there, or nothing is submitted.
"""

import importlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import distributions
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypedDict, get_args

from airflow_provider_orderedkafka.core.codec import packed as as_a_word
from airflow_provider_orderedkafka.core.lanes import OrderBy
from airflow_provider_orderedkafka.core.notation.spelling import nearest
from airflow_provider_orderedkafka.core.outputs import OF_THE_SINK, OPTIONS_VARIABLE, TO_TOPICS, Outputs
from airflow_provider_orderedkafka.decoding.formats import Decode
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.hooks.submission import Submission
from airflow_provider_orderedkafka.outputs import KafkaOutput, Output, to_text

SECRET_REFERENCE = f"spark.kubernetes.driver.secretKeyRef.{OPTIONS_VARIABLE}"
PAIR = ("pyspark", "pyspark-client")
BUNDLE = "airflow_provider_orderedkafka.spark.bundle"
PYTHON, DRIVERS_PYTHON = "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"


@dataclass(frozen=True, slots=True)
class Options:
    """The Kafka configuration for the application: public options as arguments, secrets in the environment."""

    arguments: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)


def options_for(options: Mapping[str, str], *, clustered: bool, conf: Mapping[str, str], load: str) -> Options:
    """Split the options into arguments and environment; `SettingError` if a secret cannot travel safely."""
    from airflow_provider_orderedkafka.kafka.clients.config import is_secret

    if not clustered:
        return Options(environment={OPTIONS_VARIABLE: json.dumps(dict(options))})
    secret = sorted(name for name in options if is_secret(name))
    if secret and SECRET_REFERENCE not in conf:
        raise SettingError(
            f"load {load!r}: the driver runs in the cluster, where {secret[0]!r} of the Kafka connection could only go "
            "as an argument for all to see. Use deploy_mode='client'; or leave the secrets out of the connection and "
            "name a function that makes them there ('orderedkafka.resolver': 'package.module:function'); or, on "
            f"Kubernetes, name a secret with conf={{{SECRET_REFERENCE!r}: 'name:key'}}, a JSON object of options"
        )
    plain = sorted(set(options) - set(secret))
    return Options([part for name in plain for part in _argument(name, options[name])])


def _argument(name: str, value: str) -> tuple[str, str]:
    if name.startswith(OF_THE_SINK):
        return "--sink-option", f"{name.removeprefix(OF_THE_SINK)}={value}"
    return "--option", f"{name}={value}"


def interpreter(python: str) -> dict[str, str]:
    """The Python of driver and executors: this one, unless the environment names another."""
    return {name: os.environ.get(name, python) for name in (PYTHON, DRIVERS_PYTHON)}


def own_spark() -> Path | None:
    """Spark's folder: SPARK_HOME, or else pyspark's own, which must be complete."""
    if home := os.environ.get("SPARK_HOME"):
        return Path(home)
    _check_same_spark()
    spec = find_spec("pyspark")  # finds it without importing it
    return Path(spec.origin).parent if spec and spec.origin else None


def _check_same_spark() -> None:
    """`SettingError` where pyspark-client has unpacked over a pyspark of another version."""
    full, client = (next((each.version for each in distributions(name=name)), None) for name in PAIR)
    if full and client and full != client:
        raise SettingError(
            f"pyspark is {full} and pyspark-client, which Airflow's Spark provider brings, is {client}: both unpack "
            f"into one directory, so they must be the same version. Run: pip install --force-reinstall --no-deps "
            f"pyspark-client=={client} pyspark=={client}; or name the spark-submit of another Spark with spark_binary="
        )


def elsewhere(submission: Submission, environment: Mapping[str, str]) -> bool:
    """Whether the application runs in another Python than this one, to which this package has to be shipped."""
    return not submission.local or environment[PYTHON] != sys.executable


def packed(folder: Path) -> str:
    """Zip the part of this package that a cluster needs, for `--py-files`."""
    bundle = importlib.import_module(BUNDLE)  # by name: nothing of Spark is imported on Airflow's side
    return str(bundle.build_bundle(folder / "orderedkafka.zip"))


def packaged_application(name: str) -> str:
    """Path of an application that comes with this package: inside it if installed, beside it in a checkout."""
    package = Path(__file__).parents[1]
    places = [package / "spark_apps", package.parent / "spark_apps"]
    found = next((place for place in places if place.is_dir()), places[0])
    return str(found / f"{name}.py")


def missing_application(load: str, application: str, path: Path) -> SettingError:
    """The error for an application that is not where it is said to be."""
    near = nearest(path.name, (each.name for each in path.parent.glob("*.py")))
    hint = f"did you mean {near!r}?" if near else "a relative path begins at the folder of the DAG file"
    return SettingError(f"load {load!r}: there is no application {application!r} at {str(path)!r}; {hint}")


def check_keep_order(value: Any) -> OrderBy | None:
    allowed = (*get_args(OrderBy), None)
    if value not in allowed:
        raise SettingError(f"keep_order must be one of {', '.join(map(repr, allowed))}, found {value!r}")
    return value  # type: ignore[no-any-return]


def packaged_for(output: Output | None) -> str:
    """Path of the packaged application for this output."""
    return packaged_application("ordered_replay" if isinstance(output, KafkaOutput | None) else "ordered_table")


def output_arguments(
    output_topic: str | None, keep_order: OrderBy | None, more: Sequence[Any] = (), output: Output | None = None
) -> list[str]:
    """The output and its order on the application's command line; `more` is what else stands there."""
    named = Outputs.of(output_topic, more)
    arguments = ["--output-topic", output_topic] if output_topic else []
    if output is not None:
        arguments = ["--output", as_a_word(to_text(output))]
    to_topics = isinstance(output, KafkaOutput) or named.names(*TO_TOPICS)
    if to_topics and not named.names("keeporder"):
        arguments += ["--sink-option", f"keepOrder={keep_order or 'none'}"]
    return arguments


def decode_arguments(decode: Decode | None) -> list[str]:
    """How records are decoded, on the application's command line."""
    return [] if decode is None else ["--decode", decode.to_text()]


class SubmitArguments(TypedDict, total=False):
    """What `ordered_load` takes beyond its own arguments, and passes to `SubmitOrderedLoadOperator`.

    They are those of Airflow's `SparkSubmitOperator`. Arguments that every task has, such as `retries` or `pool`, go
    by `steps={"load": {...}}`.
    """

    application_args: list[Any] | None
    archives: str | None
    conf: dict[Any, Any] | None
    deploy_mode: str | None
    driver_class_path: str | None
    driver_memory: str | None
    durable: bool | None
    env_vars: dict[str, Any] | None
    exclude_packages: str | None
    executor_cores: int | None
    executor_memory: str | None
    files: str | None
    jars: str | None
    keytab: str | None
    name: str
    num_executors: int | None
    openlineage_inject_parent_job_info: bool
    openlineage_inject_transport_info: bool
    packages: str | None
    post_submit_commands: list[str] | None
    principal: str | None
    properties_file: str | None
    proxy_user: str | None
    py_files: str | None
    repositories: str | None
    spark_binary: str | None
    status_poll_interval: int
    total_executor_cores: int | None
    use_krb5ccache: bool
    verbose: bool
    yarn_queue: str | None
    yarn_rm_auth: Any
    yarn_track_via_rm_api: bool
