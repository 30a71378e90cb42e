"""Batches as commits of a table."""

PACKAGE = "airflow_provider_orderedkafka"
COMMITS = f"{PACKAGE}/core/commits.py"
WRITER = f"{PACKAGE}/spark/tables/writer.py"
MODEL = ("tests/property/test_table_attempts.py",)

MUTANTS = [
    (
        "a table is not asked whether a batch landed",
        COMMITS,
        {"    if found.found:\n        return Standing.LANDED\n": ""},
        MODEL,
    ),
    (
        "a commit does not say which batch it is",
        COMMITS,
        {'return f"{range_id}/{batch}/{attempt}"': 'return f"{range_id}/1/{attempt}"'},
        MODEL,
    ),
    (
        "what has expired counts as not landed",
        COMMITS,
        {"whole=commit.version == seen.version": "whole=True"},
        MODEL,
    ),
    (
        "a second commit of a batch is not told",
        WRITER,
        {"doubled = sum(commit.rows or 0 for commit in found if commit.name != name)": "doubled = 0"},
        MODEL,
    ),
    (
        "a batch without rows whose commit has expired stops its load",
        WRITER,
        {"if not (there.landed or there.asked):": "if not there.landed:"},
        MODEL,
    ),
]
