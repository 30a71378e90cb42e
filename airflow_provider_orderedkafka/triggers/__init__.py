"""The Airflow trigger."""

from ..compat.airflow import check_installed

check_installed()
