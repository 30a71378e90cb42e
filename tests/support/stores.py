"""What every store of documents promises, whatever it is on: a module of tests has it as a class, with a `state`."""

from concurrent.futures import ThreadPoolExecutor

from airflow_provider_orderedkafka.storage import State


class Documents:
    def test_a_document_that_was_put_is_read_listed_replaced_and_deleted(self, state: State) -> None:
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


class DocumentsCreatedOnce(Documents):
    def test_a_document_is_created_once_and_stays_as_it_was_created(self, state: State) -> None:
        assert [state.create("ledger/1.json", text) for text in ("one", "two")] == [True, False]
        assert state.get("ledger/1.json") == "one"
        assert (state.names(), state.names("ledger")) == (["ledger"], ["1.json"])
        state.delete("ledger/1.json")
        assert state.create("ledger/1.json", "three")

    def test_of_writers_at_the_same_moment_one_creates_the_document_and_nobody_sees_half_of_it(
        self, state: State
    ) -> None:
        text = "x" * 100_000
        with ThreadPoolExecutor(5) as pool:
            for number in range(20):
                created = pool.map(lambda writer, name=f"{number}": state.create(name, text + writer), "abcd")
                seen = pool.submit(lambda name=f"{number}": state.get(name) or "")
                winners = [writer for writer, won in zip("abcd", created, strict=True) if won]
                assert len(winners) == 1
                assert state.get(f"{number}") == text + winners[0]
                assert seen.result() in {"", text + winners[0]}
