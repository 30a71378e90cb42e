"""OAuth tokens without Airflow: functions that `orderedkafka.resolver` may name for managed clusters."""

import re
import sys
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from typing import Any, Final

from ...errors import SettingError

MSK: Final = "airflow_provider_orderedkafka.kafka.clients.oauth:msk_iam"
_REGION: Final = re.compile(r"\.kafka(?:-serverless)?\.(?P<region>[a-z0-9-]+)\.amazonaws\.com", re.IGNORECASE)


def msk_iam(settings: Mapping[str, str]) -> dict[str, Any]:
    """The `oauth_cb` for Amazon MSK, with the machine's own AWS credentials."""
    servers = settings.get("bootstrap.servers", "")
    found = _REGION.search(servers)
    if found is None:
        raise SettingError(f"{servers!r} is no Amazon MSK cluster (its address has no region): name another resolver")
    return {"oauth_cb": partial(_msk_token, found["region"].lower())}


def is_msk_iam(settings: Mapping[str, Any]) -> bool:
    mechanism = settings.get("sasl.mechanism") or settings.get("sasl.mechanisms")
    return mechanism == "OAUTHBEARER" and _REGION.search(str(settings.get("bootstrap.servers"))) is not None


def _msk_token(region: str, _config: str) -> tuple[str, float]:
    try:
        signer = import_module("aws_msk_iam_sasl_signer").MSKAuthTokenProvider
    except ImportError as error:
        raise SettingError(
            f"Amazon MSK with IAM needs aws-msk-iam-sasl-signer-python, which this Python ({sys.executable}) does not "
            "have: in Airflow, pip install 'airflow-provider-orderedkafka[msk]'; where Spark runs, that package alone"
        ) from error
    token, expiry = signer.generate_auth_token(region)
    return token, expiry / 1000
