"""Airflow operators: resolve, submit, commit, and operations on the ledger."""
