"""Ranges and reports in which all is plain, but for what a test says."""

import json
from typing import Any

from airflow_provider_orderedkafka.core.codec import encode
from airflow_provider_orderedkafka.core.documents import Range, Report
from airflow_provider_orderedkafka.core.order.cuts import Floor, Place
from airflow_provider_orderedkafka.core.order.positions import Offsets
from airflow_provider_orderedkafka.outputs import Output

NOWHERE = Place(Offsets(), Floor())


def plain_range(**fields: Any) -> Range:
    plain: dict[str, Any] = {
        "id": "r1",
        "load": "orders",
        "kind": "incremental",
        "reason": "",
        "ledger_revision": 0,
        "topics": {},
        "start": NOWHERE,
        "end": NOWHERE,
        "planned_at": 0,
        "future_tolerance": 0,
        "on_data_loss": "fail",
        "include_headers": False,
        "isolation": "read_committed",
        "cluster_id": "",
        "batch_offsets": None,
        "rows_left": None,
    }
    return Range(**{**plain, **fields})


def plain_report(**fields: Any) -> Report:
    counts = ("batches", "rows_read", "rows_emitted", "late", "replayed", "lost", "dead_letters", "may_be_doubled")
    loaded = fields.setdefault("range", plain_range())
    plain: dict[str, Any] = {
        "range_id": loaded.id,
        "attempt": 1,
        "complete": True,
        "limit_reached": False,
        "stop": NOWHERE,
        **dict.fromkeys((*counts, "bytes_read", "started_at", "ended_at"), 0),
        "error": None,
    }
    return Report(**{**plain, **fields})


def as_argument(output: Output) -> str:
    """An output as `--output` takes it."""
    return json.dumps(encode(output))
