"""What every store of documents promises, whatever it is on."""

from airflow_provider_orderedkafka.storage import State


def check_puts_reads_lists_replaces_and_deletes(state: State) -> None:
    assert state.get("notes/1.json") is None
    assert state.names("notes") == []
    state.put("notes/1.json", "one")
    assert state.names("notes") == ["1.json"]
    state.put("notes/1.json", "zwölf")
    state.put("report.json", "r")
    assert state.get("notes/1.json") == "zwölf"
    assert state.names() == ["notes", "report.json"]
    state.delete("notes")
    state.delete("notes")
    assert state.names() == ["report.json"]
