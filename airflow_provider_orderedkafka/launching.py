"""What an application is started with: its own file, Kafka's configuration, this package's code.

Secrets go by the environment, in client mode; no argument, file or Spark setting has them. In cluster mode the driver
is elsewhere, where this environment is not: there a secret needs a way of its own, or nothing is submitted.
"""

import importlib
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, get_args

from airflow_provider_orderedkafka.errors import SettingError

OPTIONS = "ORDEREDKAFKA_OPTIONS"
SECRET_REFERENCE = f"spark.kubernetes.driver.secretKeyRef.{OPTIONS}"
BUNDLE = "airflow_provider_orderedkafka.spark.bundle"

KeepOrder = Literal["key", "partition"] | None


@dataclass(frozen=True, slots=True)
class Options:
    """Kafka's configuration for the application: what anyone may see as arguments, the rest as environment."""

    arguments: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)


def options_for(options: Mapping[str, str], *, clustered: bool, conf: Mapping[str, str], load: str) -> Options:
    """How these options travel; `SettingError` where a secret cannot."""
    from airflow_provider_orderedkafka.kafka.config import is_secret

    if not clustered:
        return Options(environment={OPTIONS: json.dumps(dict(options))})
    secret = sorted(name for name in options if is_secret(name))
    if secret and SECRET_REFERENCE not in conf:
        raise SettingError(
            f"load {load!r}: the driver runs in the cluster, where {secret[0]!r} of the Kafka connection could only go "
            "as an argument for all to see. Use deploy_mode='client'; or leave the secrets out of the connection and "
            "name a function that makes them there ('orderedkafka.resolver': 'package.module:function'); or, on "
            f"Kubernetes, name a secret with conf={{{SECRET_REFERENCE!r}: 'name:key'}}, a JSON object of options"
        )
    plain = [f"{name}={options[name]}" for name in sorted(set(options) - set(secret))]
    return Options([part for option in plain for part in ("--option", option)])


def interpreter() -> dict[str, str]:
    """The Python of driver and executors: this one, unless the environment names another."""
    return {name: os.environ.get(name, sys.executable) for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")}


def own_spark() -> Path | None:
    """Where SPARK_HOME says that Spark is, else where pyspark has its own."""
    if home := os.environ.get("SPARK_HOME"):
        return Path(home)
    spec = find_spec("pyspark")  # finds it without importing it
    return Path(spec.origin).parent if spec and spec.origin else None


def packed(folder: Path) -> str:
    """The part of this package that a cluster needs, as a zip for `--py-files`."""
    bundle = importlib.import_module(BUNDLE)  # by name: nothing of Spark is imported on Airflow's side
    return str(bundle.build_bundle(folder / "orderedkafka.zip"))


def packaged_application(name: str) -> str:
    """An application that comes with this package: inside it when installed, beside it in a checkout."""
    package = Path(__file__).parent
    places = [package / "spark_apps", package.parent / "spark_apps"]
    found = next((place for place in places if place.is_dir()), places[0])
    return str(found / f"{name}.py")


def check_keep_order(value: Any) -> KeepOrder:
    """`keep_order`, or a `SettingError`."""
    allowed = (*get_args(get_args(KeepOrder)[0]), None)
    if value not in allowed:
        raise SettingError(f"keep_order must be one of {', '.join(map(repr, allowed))}, found {value!r}")
    return value  # type: ignore[no-any-return]
