"""What is understood of a failure that comes out of Spark as text."""

import errno
import os
import traceback

import pytest
from pyspark.errors import PySparkException
from support.messages import says

from airflow_provider_orderedkafka.errors import (
    OrderedKafkaError,
    StateError,
    TaskFailedError,
    TopicChangedError,
    TransformError,
    UnreachableError,
)
from airflow_provider_orderedkafka.spark.lanes.making import applied
from airflow_provider_orderedkafka.spark.session.failures import classify_failure, failed

WORKER = """Job aborted due to stage failure: Task 1 in stage 3.0 failed 1 times, most recent failure: Lost task 1.0 \
in stage 3.0 (TID 5) (host executor driver): org.apache.spark.api.python.PythonException: \
Traceback (most recent call last):
  File "/opt/x.py", line 3, in read
    raise error
{error}

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:581)
\tat java.base/java.lang.Thread.run(Thread.java:840)
"""


def in_java(error: Exception) -> str:
    """The end of the error's traceback, as a Python worker of Spark's prints it."""
    return "".join(traceback.format_exception_only(error)).rstrip()


def test_what_is_not_known_of_an_errors_place_stays_unknown() -> None:
    found = classify_failure(
        RuntimeError(WORKER.format(error=in_java(TopicChangedError("made anew", topic="orders.at-3"))))
    )
    assert isinstance(found, TopicChangedError)
    assert (found.topic, found.partition, found.offset) == ("orders.at-3", None, None)
    found = classify_failure(RuntimeError(WORKER.format(error=in_java(UnreachableError("away")))))
    assert type(found) is UnreachableError


@pytest.mark.parametrize("name", ["mylib.StateError", "StateError", "my_orderedkafka.errors.StateError"])
def test_an_error_of_the_users_that_has_the_name_of_one_of_ours_is_the_users(name: str) -> None:
    found = classify_failure(PySparkException(WORKER.format(error=f"{name}: no such customer")))
    assert type(found) is TransformError
    assert str(found).startswith(f"Python code in a task failed: {name}: no such customer")
    assert not found.retryable


def test_an_error_of_ours_is_itself() -> None:
    error = UnreachableError("away")
    assert classify_failure(error) is error


def test_a_worker_that_died_can_be_tried_again() -> None:
    found = classify_failure(RuntimeError("... SparkException: Python worker exited unexpectedly (crashed) ..."))
    assert isinstance(found, TaskFailedError)
    assert found.retryable


def test_an_error_in_the_users_transform_is_not_tried_again_and_says_what_it_was() -> None:
    found = classify_failure(RuntimeError(WORKER.format(error="ZeroDivisionError: division by zero")))
    assert isinstance(found, TransformError)
    assert "ZeroDivisionError: " in str(found)
    assert not found.retryable


def test_anything_else_can_be_tried_again_and_is_not_a_page_long() -> None:
    found = classify_failure(PySparkException("No space left on device\n" * 1000))
    assert found.retryable
    assert len(str(found)) < 500


def test_a_fault_in_the_driver_is_called_one_and_not_tried_again() -> None:
    found = classify_failure(KeyError("x"))
    assert type(found) is OrderedKafkaError
    assert "KeyError" in str(found)
    assert not found.retryable


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_disk_that_is_full_where_spark_writes_is_an_error_that_says_what_is_safe(error: int) -> None:
    said = os.strerror(error)
    found = classify_failure(PySparkException(f"[STREAM_FAILED] Query terminated: java.io.IOException: {said}"))
    assert type(found) is StateError
    assert f"({said})" in str(found)
    assert found.retryable
    assert "checkpoint" in str(found)


def test_what_a_transform_raised_is_told_by_its_last_line_whatever_stands_in_it() -> None:
    raised = "TypeError: f() got an unexpected keyword argument 'x' (see Error: above)"
    found = classify_failure(PySparkException(WORKER.format(error=raised)))
    assert type(found) is TransformError
    assert str(found).startswith(f"Python code in a task failed: {raised}")


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        ('cimpl.KafkaException: KafkaError{code=_TIMED_OUT,val=-185,str="Timed out"}', "Kafka's client failed"),
        ("ConnectionRefusedError: [Errno 111] Connection refused", "the network or a disk failed in a task"),
    ],
)
def test_what_comes_from_outside_a_task_is_no_fault_of_the_transform_and_can_be_tried_again(raised, said):
    found = classify_failure(PySparkException(WORKER.format(error=raised)))
    assert type(found) is TaskFailedError
    assert str(found).startswith(said)
    assert raised in str(found)
    assert found.retryable


UDF = """pyspark.errors.exceptions.captured.PythonException: An exception was thrown from the Python worker.
Traceback (most recent call last):
  File "/opt/spark/python/lib/pyspark.zip/pyspark/worker.py", line 1247, in main
    process()
  File "/tmp/spark-1/userFiles-2/my_transforms.py", line 24, in enrich
    return total(order)
  File "/tmp/spark-1/userFiles-2/my_transforms.py", line 12, in total
    return order["price"] * order["count"]
  File "/opt/venv/lib/python3.12/site-packages/prices/book.py", line 7, in __getitem__
    return self.rows[name]
KeyError: 'price'
"""


def test_what_a_function_raised_in_a_task_is_shown_with_the_users_own_lines_innermost_first():
    found = str(classify_failure(PySparkException(UDF)))
    assert found == (
        "Python code in a task failed: KeyError: 'price' - at my_transforms.py:12, in total: "
        'return order["price"] * order["count"], called at my_transforms.py:24, in enrich: return total(order)'
    )


def test_lines_of_compiled_packages_which_have_no_code_hide_none_of_the_users():
    compiled = '  File "pandas/_libs/lib.pyx", line 2999, in pandas._libs.lib.map_infer\n'
    last = '  File "/tmp/spark-1/userFiles-2/my_transforms.py", line 12, in total\n'
    found = str(classify_failure(PySparkException(UDF.replace(last, compiled + last))))
    assert found == str(classify_failure(PySparkException(UDF)))


def test_what_a_transform_raised_in_the_driver_is_shown_with_the_users_own_lines(tmp_path):
    file = tmp_path / "my_transforms.py"
    file.write_text("import json\n\ndef enrich(df):\n    return json.loads(df)\n")
    names = {}
    exec(compile(file.read_text(), file, "exec"), names)
    try:
        names["enrich"]("nothing")
    except ValueError as error:
        found = failed("the transform", error)
    assert str(found).startswith("the transform failed: JSONDecodeError: ")
    assert " - at my_transforms.py:4, " in str(found)


def test_what_an_arrow_transform_raised_is_shown_with_its_line_and_the_place_of_the_records_that_it_got():
    import pyarrow as pa

    def enrich(batch):
        raise ValueError("price is missing")

    rows = [{"topic": "orders", "partition": 3, "offset": 17 + n, "order_time": 5} for n in range(2)]
    with pytest.raises(TransformError) as refused:
        applied(enrich, pa.RecordBatch.from_pylist(rows))
    found = str(refused.value)
    assert says(found, "2 records ... orders[3]@17 ... ValueError: ... - at test_failures.py:")
    assert 'raise ValueError("price is missing")' in found
