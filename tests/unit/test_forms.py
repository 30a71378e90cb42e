"""The forms of loads and replays: what their fields take, and what a run makes of them."""

from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest
from airflow.sdk import Param
from airflow.sdk.definitions.param import ParamsDict
from airflow.sdk.exceptions import ParamValidationError
from support.messages import naming, says
from support.runs import a_range

from airflow_provider_orderedkafka import DeltaOutput, KafkaOutput, NewTopics, load_params, replay_params
from airflow_provider_orderedkafka.core.next_range import NO_BOUND, AtMost
from airflow_provider_orderedkafka.core.notation.starts import parse_start
from airflow_provider_orderedkafka.errors import LifecycleError, SettingError
from airflow_provider_orderedkafka.forms import TIMES, Asked, asked, check_replay, with_new_topic
from airflow_provider_orderedkafka.job import Job

GOOD_TIMES = [
    "earliest",
    "latest",
    "committed:billing",
    "2026-01-31T12:00:00Z",
    "2026-01-31 12:00+02:00",
    "2026-01-31T12:00:00.123-05:30",
    "1769860800000",
    "-2h",
    "-1h30m",
    "-250ms",
    "-2d 3h",
    " -2h ",
    '{"orders": [0, 0, -2], "refunds": {"0": 5}}',
    '{\n  "orders": "earliest",\n  "refunds": "-1h"\n}',
]
BAD_TIMES = [
    "2h",
    "-2 hours",
    "2026-01-31",
    "2026-01-31T12:00:00",
    "1769860800",
    *(NO_TIMES := ["yesterday", "-", "", "erliest", "now"]),
]


@pytest.mark.parametrize("text", GOOD_TIMES)
def test_a_form_takes_every_way_to_say_a_time(text):
    parse_start(text, "start")
    assert replay_params("out", start=text)["start"].resolve() == text


@pytest.mark.parametrize("text", BAD_TIMES)
def test_a_form_has_no_default_that_a_run_would_refuse(text):
    with pytest.raises(SettingError):
        parse_start(text, "start")
    with pytest.raises(SettingError):
        replay_params("out", end=text)


@pytest.mark.parametrize("text", NO_TIMES)
@pytest.mark.parametrize("name", ["start", "end"])
def test_what_is_no_time_is_refused_by_the_form_in_a_few_lines_that_begin_with_a_sentence_of_what_it_takes(name, text):
    with pytest.raises(ParamValidationError) as refused:
        replay_params("out")[name].resolve(text)
    first, *others = [line for line in str(refused.value).splitlines() if line]
    assert says(first, f"{text!r} ... 'earliest', 'latest', '-2h', '2026-01-31T12:00:00Z'")
    assert len(others) <= 4, others
    assert TIMES not in str(refused.value)


def test_what_has_to_be_filled_in_stands_in_the_section_that_is_open_and_the_rest_behind_it():
    sections = {name: field.schema.get("section") for name, field in replay_params("out").items()}
    shown = ["start", "end", "format", "target", "partitions"]
    assert [name for name, section in sections.items() if section is None] == shown
    assert list(sections)[: len(shown)] == shown
    assert {field.schema.get("section") for field in load_params().values()} == {None}


def a_run(form, conf=None, **more):
    """A run of a DAG with this form, as it was filled in."""
    params = ParamsDict({**form, **more})
    params.update(conf or {})
    return {
        "dag": SimpleNamespace(params=ParamsDict({**form, **more})),
        "dag_run": SimpleNamespace(conf=conf),
        "params": params.validate(),
    }


@pytest.mark.parametrize(
    ("form", "conf", "found"),
    [
        (load_params(), None, Asked(now=True)),
        (load_params(now=False), {}, Asked(now=False)),
        (load_params(), {"now": False, "max_offsets": 5}, Asked(now=False, most=AtMost(5))),
        (load_params(), {"row_limit": 7}, Asked(now=True, most=AtMost(None, 7))),
        ({"now": Param(5), "max_offsets": Param(3)}, {"row_limit": 7}, Asked()),
        ({**load_params(row_limit=False), "row_limit": Param(7)}, {"row_limit": 8}, Asked(now=True)),
    ],
    ids=["nothing filled in", "waits unless", "offsets", "rows", "no form of ours", "a field of the DAG's own"],
)
def test_a_run_is_asked_for_what_was_filled_in(form, conf, found):
    assert asked(a_run(form, conf)) == found


@pytest.mark.parametrize("conf", [{"max_offsets": 0}, {"max_offsets": "5"}, {"row_limit": -1}, {"now": "yes"}])
def test_a_form_refuses_what_is_no_bound(conf):
    with pytest.raises(ParamValidationError):
        a_run(load_params(), conf)


def test_a_field_that_a_form_does_not_have_is_refused_and_the_nearest_one_named():
    with pytest.raises(SettingError, match=naming("'max_ofsets' ... 'max_offsets'")):
        asked(a_run(load_params(), {"max_ofsets": 5}))
    assert asked(a_run(load_params(), {"mine": 5}, mine=Param(1))) == Asked(now=True)
    with pytest.raises(SettingError, match=naming("'targt' ... 'target'")):
        check_replay(a_run(replay_params("out"), {"targt": "elsewhere"}), Job(KafkaOutput("out")))


def test_a_form_takes_one_text_for_several_and_no_format_that_there_is_not():
    form = replay_params("out", formats="topic", taken="taken")
    assert (form["format"].resolve(), form["format"].schema["enum"]) == ("topic", ["topic"])
    with pytest.raises(SettingError, match="'taken'"):
        check_replay(a_run(form), Job(KafkaOutput("taken")))
    with pytest.raises(SettingError, match=naming("'topics' ... 'topic'")):
        replay_params("out", formats=["topics"])
    with pytest.raises(SettingError, match="parquet"):
        replay_params("out", formats=[])


@pytest.mark.parametrize("output", [KafkaOutput("taken"), DeltaOutput("/lake/taken/")], ids=["topic", "table"])
def test_what_another_load_writes_to_is_refused_unless_duplicates_are_fine(output):
    form = replay_params("out", taken=["taken", "/lake/taken"])
    with pytest.raises(SettingError, match="taken"):
        check_replay(a_run(form), Job(output))
    check_replay(a_run(form, {"duplicates_are_fine": True}), Job(output))
    check_replay(a_run(form), Job(KafkaOutput("out")))
    check_replay(a_run({}), Job(output))


@pytest.mark.parametrize(
    ("taken", "place"),
    [
        ("file:///lake/taken", "/lake/taken"),
        ("/lake/taken/", "file:/lake//taken"),
        ("s3://lake/taken/", "s3a://lake/taken"),
        ("s3a://lake/taken", "s3n://lake/taken"),
    ],
)
def test_what_another_load_writes_to_is_refused_however_it_is_spelled(taken, place):
    with pytest.raises(SettingError, match=naming(repr(place))):
        check_replay(a_run(replay_params("out", taken=taken)), Job(DeltaOutput(place)))


@pytest.mark.parametrize(
    ("create", "filled_in", "found"),
    [
        (None, None, None),
        (None, 6, NewTopics(6)),
        (NewTopics(2, 3), None, NewTopics(2, 3)),
        (NewTopics(2, 3), 6, NewTopics(6, 3)),
    ],
)
def test_a_topic_is_created_with_the_partitions_that_the_form_says(create, filled_in, found):
    run = a_run(replay_params("out"), {"partitions": filled_in})
    job = with_new_topic(run, Job(KafkaOutput("out", create=create)))
    assert job.kafka.create == found
    table = Job(DeltaOutput("/lake/out"))
    assert with_new_topic(run, table) is table


def test_a_form_that_writes_to_tables_alone_asks_for_no_partitions_and_takes_none():
    form = replay_params("/lake/out", formats=["delta"])
    assert "partitions" not in form
    job = Job(KafkaOutput("out"))
    assert with_new_topic(a_run({**form, "partitions": Param(5)}), job) is job


OPEN = a_range("r", 0, 0, 5)


@pytest.mark.parametrize(
    ("most", "rows", "fits"),
    [
        (NO_BOUND, None, True),
        (AtMost(5), None, True),
        (AtMost(4), None, False),
        (AtMost(None, 5), None, False),
        (AtMost(None, 5), 5, True),
        (AtMost(5, 5), 6, False),
    ],
)
def test_a_run_that_is_asked_for_less_takes_over_no_range_that_may_load_more(most, rows, fits):
    opened = replace(OPEN, rows_left=rows)
    said = r"range 'r' is open, with 5 offsets.*this run was asked for at most"
    with nullcontext() if fits else pytest.raises(LifecycleError, match=said):
        most.check_taken_over(opened)
