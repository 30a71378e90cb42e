"""Airflow operators: resolve, submit, commit, and operations on the ledger."""

from ..compat.airflow import check_installed

check_installed()
