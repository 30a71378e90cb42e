"""Commands that work on a load's ledger, where Airflow's metadata database can be reached."""
