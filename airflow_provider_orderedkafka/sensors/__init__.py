"""The Airflow sensor."""

from ..compat.airflow import check_installed

check_installed()
