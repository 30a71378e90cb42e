"""What an error tells a program: whether a retry can mend it, where it lies, and what a process ends with."""

import copy
import inspect
import pickle
import re
from pathlib import Path

import pytest

from airflow_provider_orderedkafka import errors
from airflow_provider_orderedkafka.errors import (
    INTERRUPTED,
    PIPE_CLOSED,
    TERMINATED,
    DataLossError,
    FencedError,
    OrderedKafkaError,
    PlacedError,
    RowError,
    SettingError,
    StateError,
    exit_code,
    may_retry,
)
from airflow_provider_orderedkafka.spark.application.command import MORE

KINDS = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, OrderedKafkaError)]
LOADING = Path(__file__).parents[2] / "docs" / "loading.md"


def test_the_class_says_what_a_process_ends_with():
    assert exit_code(SettingError("x")) == 2
    assert exit_code(RowError("x")) == 65
    assert exit_code(StateError("x")) == 75
    assert exit_code(KeyboardInterrupt()) == 130
    assert exit_code(BrokenPipeError()) == 141


def test_what_ended_with_a_code_may_be_run_again_where_its_error_says_so():
    assert all(may_retry(exit_code(kind("x"))) == kind.retryable for kind in KINDS)
    assert all(may_retry(code) for code in (None, 1, INTERRUPTED, TERMINATED))


def test_only_an_error_after_which_the_same_again_can_succeed_is_retryable():
    assert {kind.__name__ for kind in KINDS if kind.retryable} == {
        "CredentialsError",
        "DeliveryError",
        "FencedError",
        "LedgerChangedError",
        "NotYetError",
        "SchemaChangedError",
        "StateError",
        "TaskFailedError",
        "UnreachableError",
    }


def test_each_exit_code_is_explained_where_users_look_for_it():
    codes = {value for value in vars(errors).values() if isinstance(value, int)}
    assert {exit_code(kind("x")) for kind in KINDS} < codes
    rows = re.findall(r"^\| (\d+(?:, \d+)*) \|", LOADING.read_text(), re.MULTILINE)
    assert {int(code) for row in rows for code in row.split(", ")} == {0, *codes}
    explained = MORE.partition("exit codes:")[2]
    assert {int(code) for code in re.findall(r"\b(\d+)\b", explained)} == {0, *codes} - {PIPE_CLOSED}


@pytest.mark.parametrize("kind", [kind for kind in KINDS if issubclass(kind, PlacedError)])
@pytest.mark.parametrize("again", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))], ids=["copy", "pickle"])
def test_an_error_takes_its_place_along_to_other_processes(kind, again):
    error = again(kind("gone", topic="orders", partition=3, offset=17))
    assert type(error) is kind
    assert str(error) == "gone"
    assert (error.topic, error.partition, error.offset) == ("orders", 3, 17)
    assert error.__notes__ == ["at orders[3]@17"]


def test_who_has_taken_over_is_known_in_other_processes_too():
    assert pickle.loads(pickle.dumps(FencedError("end", by="attempt 2"))).by == "attempt 2"


def test_an_error_without_a_place_says_nothing_of_one():
    error = DataLossError("gone")
    assert (error.topic, error.partition, error.offset) == (None, None, None)
    assert not hasattr(error, "__notes__")
