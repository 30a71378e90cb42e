"""A load's life: ranges, ledger, and the steps of a run, in `books`, `resolving` and `loading`.

A step reads the documents, looks the action up and does it. It can be killed between any two writes and run again: a
range is stored before anything points at it, the ledger is written atomically, and decisions depend on the stored
documents alone. Each step returns what it did, with one sentence about it. Nothing here needs Airflow.
"""
