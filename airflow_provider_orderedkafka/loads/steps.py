"""The steps of a run: read the documents, look up the action, do it.

Each step can be killed between any two writes and run again: a range is stored before anything points at it, the ledger
is written atomically, and decisions depend on the stored documents alone. Each step returns what it did, with one
sentence about it.
"""

from airflow_provider_orderedkafka.loads.books import Books, Memory, Mirror
from airflow_provider_orderedkafka.loads.committing import CommitResult, commit
from airflow_provider_orderedkafka.loads.loading import Loading, load
from airflow_provider_orderedkafka.loads.resolving import Resolved, claim_key, resolve, resolve_own
from airflow_provider_orderedkafka.loads.waiting import First, look, wait

__all__ = [
    "Books",
    "CommitResult",
    "First",
    "Loading",
    "Memory",
    "Mirror",
    "Resolved",
    "claim_key",
    "commit",
    "load",
    "look",
    "resolve",
    "resolve_own",
    "wait",
]
