"""How a load stands, for people: one small document, which each step updates and the page in Airflow shows.

Nothing is decided by it, so it may be lost or old at any time: the ledger is the truth, and `steps.looked` puts right
what it says. It fits into one value of Airflow's state store, however many partitions and ranges there are.
"""
