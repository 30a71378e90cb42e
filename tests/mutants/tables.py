"""Batches as commits of a table."""

PACKAGE = "airflow_provider_orderedkafka"
COMMITS = f"{PACKAGE}/core/commits.py"
WRITER = f"{PACKAGE}/spark/tables/writer.py"
HISTORY = ("tests/property/test_commits.py",)
FILES = f"{PACKAGE}/spark/tables/table_formats.py"
OF_FILES = ("tests/unit/test_files.py",)
MODEL = ("tests/property/test_table_attempts.py",)
IN_FILES = "tests/fault/test_lakes.py::test_a_large_batch_is_several_files_in_order_whatever_the_table_asks"
NEW_COLUMNS = (
    "tests/fault/test_lake_columns.py::"
    "test_new_columns_are_refused_left_out_or_added_as_is_said_and_told_by_report_and_audit[iceberg]",
)

MUTANTS = [
    (
        "maintenance expires what an open range needs",
        f"{PACKAGE}/operators/maintenance.py",
        {"found[each.planned_at - DAY] =": "found[now_ms()] ="},
        ("tests/airflow/test_maintenance.py",),
    ),
    (
        "maintenance expires the version that a range was planned at",
        f"{PACKAGE}/spark/maintenance.py",
        {'Moment(min(at, row["at"] or at))': "Moment(at)"},
        (
            "tests/fault/test_lakes.py::"
            "test_a_killed_range_finds_what_landed_where_maintenance_has_kept_what_was_there_when_it_was_planned",
        ),
    ),
    (
        "a table is not asked whether a batch landed",
        WRITER,
        {"        if not found.found:\n            return cls()\n": "        return cls()\n"},
        MODEL,
    ),
    (
        "a commit does not say which batch it is",
        COMMITS,
        {'return f"{range_id}/{batch}/{attempt}"': 'return f"{range_id}/1/{attempt}"'},
        MODEL,
    ),
    (
        "an expired history is taken for a whole one",
        COMMITS,
        {"whole=same and version is None and _begins(following, range_id)": "whole=True"},
        (*HISTORY, *MODEL),
    ),
    (
        "a commit of another batch is taken for this one's",
        COMMITS,
        {'rpartition("/")[0] == f"{range_id}/{batch}"': 'startswith(f"{range_id}/")'},
        (*HISTORY, *MODEL),
    ),
    (
        "the rows are not asked where their commit has expired",
        WRITER,
        {"rows, different = self.table.rows_of(self.range_name, note.batch)": "rows, different = 0, 0"},
        MODEL,
    ),
    (
        "a second commit of a batch is not told",
        WRITER,
        {"doubled = sum(each.rows or 0 for each in doubtful)": "doubled = 0"},
        MODEL,
    ),
    (
        "a commit of a batch that is found is taken for the only one where others may have expired",
        WRITER,
        {"by_place or found.whole:": "by_place or found.found or found.whole:"},
        MODEL,
    ),
    (
        "where others may have expired and rows say nothing, a batch is not doubtful",
        WRITER,
        {"found.found[:-1] if found.whole else found.found": "found.found[:-1]"},
        MODEL,
    ),
    (
        "a table that somebody else began, or began again, is taken for one that was always empty",
        COMMITS,
        {"version is None and _begins(following, range_id))": "version is None)"},
        (*HISTORY, *MODEL),
    ),
    (
        "another table of the same name is taken for the one that was noted",
        COMMITS,
        {"same = noted is not None and noted.table == history.table": "same = noted is not None"},
        (*HISTORY, *MODEL),
    ),
    (
        "rows that say nothing are taken for those of others",
        WRITER,
        {"if not rows and (silent := self.table.owned([self.range_name])[1]):": "if False and (silent := 0):"},
        MODEL,
    ),
    (
        "a manifest is replaced",
        FILES,
        {"self.state.create(_name(self.range_name, write.batch)": "self.state.put(_name(self.range_name, write.batch)"},
        OF_FILES,
    ),
    ("two writes of a batch share a folder", FILES, {"/{write.name.rpartition('/')[2]}\"": '"'}, OF_FILES),
    (
        "files of another checkpoint's load are taken for those of this one",
        FILES,
        {"if found is None or (noted is not None and noted.version == batch):": "if found is None:"},
        OF_FILES,
    ),
    (
        "manifests of a range that is loaded again are deleted, so that one that comes late creates them again",
        FILES,
        {'self.state.put(_name(name, batch), _document("", [], 0))': "self.state.delete(_name(name, batch))"},
        OF_FILES,
    ),
    (
        "Iceberg shuffles a batch before it writes it",
        f"{PACKAGE}/spark/tables/table_formats.py",
        {'AS_IT_COMES = {"distribution-mode": "none", "fanout-enabled": "true"}': "AS_IT_COMES: dict[str, str] = {}"},
        (f"{IN_FILES}[iceberg]",),
    ),
    (
        "Delta shuffles a batch before it writes it",
        f"{PACKAGE}/spark/tables/table_formats.py",
        {'            "optimizeWrite": "false",  # it shuffles\n': ""},
        (f"{IN_FILES}[delta]",),
    ),
    (
        "a batch without rows whose commit has expired stops its load",
        WRITER,
        {"if not (there.landed or there.asked):": "if not there.landed:"},
        MODEL,
    ),
    (
        "what compaction took stands for what retention took",
        WRITER,
        {" and not frames.cluster.compacted(frames.loaded.topics):": ":"},
        MODEL,
    ),
    (
        "several rows of a record stand for as many records",
        WRITER,
        {"if gone and frames.engine.facts(frames.rows).at_most_one and not": "if gone and not"},
        MODEL,
    ),
    (
        "that old rows may be deleted is not noted before they are",
        WRITER,
        {"            keep(note)\n": ""},
        ("tests/unit/test_tables.py",),
    ),
    (
        "a table gets columns that nobody asked for",
        f"{PACKAGE}/spark/tables/table.py",
        {'if lacking and (new == "fail" or (': "if lacking and (("},
        NEW_COLUMNS,
    ),
    (
        "what a killed attempt has added to a table nobody tells of",
        f"{PACKAGE}/spark/tables/table.py",
        {"for member in members if member.comment == comment]": "for member in members if False]"},
        NEW_COLUMNS,
    ),
    (
        "a number is cut off to fit a column",
        f"{PACKAGE}/spark/tables/columns.py",
        {"digits[1] <= there.scale and ": ""},
        ("tests/integration/test_tables.py::test_a_column_holds_what_it_keeps_as_it_is",),
    ),
    (
        "what was left out of a copy is altered, says its audit",
        f"{PACKAGE}/audit/comparing.py",
        {"if name.lower() not in apart}": "}"},
        ("tests/unit/test_audit.py",),
    ),
]
