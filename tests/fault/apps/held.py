"""Copies records, and the first time stands still in the middle of writing them, until the file `go on` is there."""

import time
from pathlib import Path

from airflow_provider_orderedkafka.spark.app import run_available_now

MARK, GO_ON = Path(__file__).with_name("held"), Path(__file__).with_name("go on")


def held(batch):
    if not MARK.exists() and any(b'"number": 3000,' in value for value in batch.column("value").to_pylist()):
        MARK.touch()
        while not GO_ON.exists():
            time.sleep(0.1)
    return batch


if __name__ == "__main__":
    run_available_now(arrow_transform=held)
