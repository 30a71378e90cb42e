"""Documents as the release before this one wrote them, made of ours: its goldens say which fields it had."""

import json
from pathlib import Path
from typing import Any

from airflow_provider_orderedkafka.loads.ledger import LedgerStore

GOLDEN = Path(__file__).parents[1] / "golden" / "v2"
NESTED = {"open", "tally", "total", "outcomes"}
"""Fields that have fields themselves; those of all others are names of topics."""

IN_A_LEDGER = {"ledger": "ledger", "range": "range", "claim": "claim", "claims": "claims", "boundary": "boundary"}
BESIDE_A_CHECKPOINT = {
    "range.json": "range",
    "setups": "setup",
    "notes": "note",
    "counts": "counts",
    "allotments": "allotment",
    "lease": "holding",
}
NOT_YET = ("job", "jobs")
"""What that release kept no documents of."""


def begun_by_the_release_before(store: LedgerStore, digest: str) -> None:
    """Rewrite the books of a load, and what lies beside the checkpoint of its open range."""
    opened = store.ledger()
    assert opened is not None
    assert opened.open is not None
    for key in store.kept():
        kind = key.partition("/")[0]
        if kind in NOT_YET:
            store._remove(key)
        elif kind in IN_A_LEDGER:
            more = {"digest": digest} if kind == "range" else {}
            store._write(key, _as_before(store.text(key), IN_A_LEDGER[kind], **more))
    place = Path(str(opened.open.checkpoint))
    for file in sorted(place.rglob("*.json")):
        kind = BESIDE_A_CHECKPOINT.get(file.relative_to(place).parts[0])
        if kind is not None:
            file.write_text(_as_before(file.read_text(), kind, **({"digest": digest} if kind == "range" else {})))
        if kind == "setup":
            file.rename(place / "setup.json")  # the one that it kept
        if kind in ("note", "counts"):
            file.rename(file.parent.with_suffix(".json"))  # one for each batch


def _as_before(text: str | None, name: str, **more: Any) -> str:
    golden = json.loads((GOLDEN / f"{name}.json").read_text("utf-8"))
    document = _trimmed(json.loads(str(text)), golden)
    return json.dumps({**document, **more, "version": 2}, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _trimmed(document: dict[str, Any], golden: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in document.items() if name in golden}
    for name in NESTED & kept.keys():
        if isinstance(kept[name], dict):
            kept[name] = _trimmed(kept[name], golden[name])
    return kept
