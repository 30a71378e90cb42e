"""The cache directory for what is made or downloaded once for each machine."""

import os
from pathlib import Path


def cache_directory() -> Path:
    """Return ORDEREDKAFKA_CACHE, else a folder of the user's cache directory."""
    if own := os.environ.get("ORDEREDKAFKA_CACHE"):
        return Path(own).expanduser().absolute()
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache") / "orderedkafka"
