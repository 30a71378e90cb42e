"""The command line of the applications."""

import json
import re
from pathlib import Path

import pytest
from support.loop import a_range
from support.messages import says

from airflow_provider_orderedkafka.core.codec import packed
from airflow_provider_orderedkafka.core.notation.subscriptions import Named
from airflow_provider_orderedkafka.decoding.formats import Avro, Decode
from airflow_provider_orderedkafka.errors import DocumentError, SettingError
from airflow_provider_orderedkafka.outputs import OPTIONS_VARIABLE
from airflow_provider_orderedkafka.spark.application.command import read_arguments
from airflow_provider_orderedkafka.spark.connector.option_tables import APPLICATION_SINK, APPLICATION_SOURCE
from airflow_provider_orderedkafka.spark.lanes.making import Arguments

CLUSTER = ("--checkpoint", "/c", "--option", "kafka.bootstrap.servers=broker:9092")
ORDERS = (*CLUSTER, "--option", "subscribe=orders")
AVRO = Decode(value=Avro(registry="main")).to_text()


def read(*argv: str) -> Arguments:
    return read_arguments(argv, "app")


def test_a_range_is_taken_as_json_packed_or_from_a_file(tmp_path: Path) -> None:
    text = a_range().to_text()
    (tmp_path / "range.json").write_text(text)
    for given in (text, packed(text), str(tmp_path / "range.json")):
        assert read("--range", given, *CLUSTER).range == a_range()


def test_a_packed_range_has_nothing_that_a_shell_a_template_or_a_launcher_would_change() -> None:
    assert re.fullmatch(r"packed:[\w=-]+", packed(a_range().to_text()))


@pytest.mark.parametrize("left", [8, 30, -1])
def test_a_packed_range_that_was_cut_on_its_way_is_refused(left: int) -> None:
    with pytest.raises(DocumentError, match="packed"):
        read("--range", packed(a_range().to_text())[:left], *CLUSTER)


def test_options_are_pairs_whose_values_may_hold_anything() -> None:
    found = read(
        *ORDERS, "--option", "kafka.sasl.password=a=b c", "--output-topic", "a", "--sink-option", "keepOrder=none"
    )
    assert found.source.kafka["sasl.password"] == "a=b c"
    assert found.job.kafka.keep_order is None


def test_where_the_registry_is_said_in_options_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OPTIONS_VARIABLE, json.dumps({"registry.basic.auth.user.info": "me:secret"}))
    for what in (ORDERS, (*CLUSTER, "--range", a_range().to_text())):
        found = read(*what, "--decode", AVRO, "--option", "registry.url=http://me:secret@registry:8081")
        assert found.registry is not None
        assert found.registry.config == {"url": "http://me:secret@registry:8081", "basic.auth.user.info": "me:secret"}
        assert found.registry.name == "the schema registry at http://registry:8081"
        assert "secret" not in repr(found)


def test_secrets_can_come_by_the_environment_and_arguments_win(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OPTIONS_VARIABLE, json.dumps({"kafka.sasl.password": "secret", "subscribe": "a"}))
    found = read(*CLUSTER, "--option", "subscribe=b")
    assert found.source.kafka["sasl.password"] == "secret"
    assert found.source.terms.subscription == Named(("b",))
    assert "secret" not in repr(found)


def test_what_airflow_says_of_kafka_is_one_word_and_the_environment_goes_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = {"kafka.bootstrap.servers": "public:9092", "kafka.client.id": "loads", "sink.kafka.bootstrap.servers": "b:1"}
    secret = {"kafka.bootstrap.servers": "inner:9092", "kafka.sasl.password": "hidden"}
    monkeypatch.setenv(OPTIONS_VARIABLE, json.dumps(secret))
    found = read("--checkpoint", "/c", "--option", "subscribe=orders", "--option", packed(json.dumps(said)))
    assert found.source.kafka["bootstrap.servers"] == "inner:9092"
    assert (found.source.kafka["client.id"], found.source.kafka["sasl.password"]) == ("loads", "hidden")
    assert found.cluster["bootstrap.servers"] == "b:1"


def test_what_glue_puts_among_the_arguments_is_no_mistake_there_and_one_elsewhere() -> None:
    glue = ["--job-bookmark-option", "job-bookmark-disable", "--JOB_ID", "j", "true", "--JOB_RUN_ID", "r"]
    own = [*ORDERS, "--output-topic", "o"]
    assert read(*glue, *own) == read(*own)
    with pytest.raises(SettingError, match="JOB_ID"):
        read(*glue[:-2], *own)


def test_beside_a_range_only_what_it_does_not_say_itself_is_taken() -> None:
    found = read(*CLUSTER, "--range", a_range().to_text(), "--option", "sliceOffsets=7")
    assert (found.source.slice_offsets, found.source.terms.batch_offsets) == (7, a_range().batch_offsets)


@pytest.mark.parametrize("text", ["secret", '["secret"]', '{"kafka.sasl.password": 7}'])
def test_a_broken_environment_is_refused_without_showing_what_it_holds(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv(OPTIONS_VARIABLE, text)
    with pytest.raises(SettingError, match=OPTIONS_VARIABLE) as caught:
        read("--checkpoint", "/c")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ((), "--checkpoint"),
        (("--checkpoint", "/c", "--row-limit", "0"), "--row-limit ... '0'"),
        (("--checkpoint", "/c", "--rows", "1"), ": --rows"),
        (("--checkpoint", "/c", "--option", "secret"), "--option ... NAME=VALUE"),
        (("--checkpoint", "/c", "--option", "a=1", "--option", "A=2"), "--option A "),
        ((*ORDERS, "--decode", AVRO), "registry.url="),
        ((*ORDERS, "--sink-option", "topic=b"), "'topic' ... --output-topic"),
        ((*ORDERS, "--output-topic", "a", "--sink-option", "outputTopics=b"), "--output-topic ... 'outputTopics'"),
        ((*ORDERS, "--sink-option", "writer=2"), "'writer' ... 'writers'"),
        (("--checkpoint", "/c", "--option", "subscribe=a"), "'kafka.bootstrap.servers'"),
        (CLUSTER, "'subscribe'"),
        ((*ORDERS, "--option", "startingOffset=latest"), "'startingOffset' ... 'startingOffsets'"),
        ((*CLUSTER, "--range", a_range().to_text(), "--option", "subscribe=a"), "'subscribe' ... 'range'"),
        ((*CLUSTER, "--option", "Range={}"), "--range"),
        ((*CLUSTER, "--range", "/not/there"), "'/not/there'"),
        ((*ORDERS, "--option", "registy.url=http://r"), "'registy.url' ... 'registry.*'"),
        ((*ORDERS, "--transform", "enrich"), "transform ... 'module:function'"),
        ((*ORDERS, "--transform", "not_there:f"), "'not_there' ... --py-files"),
        ((*ORDERS, "--transform", "json:f"), "'json' ... 'f'"),
        ((*ORDERS, "--transform", "support.broken:f"), "support.broken' ... ZeroDivisionError: "),
        ((*ORDERS, "--transform", "json:__name__"), "'json:__name__'"),
        (("--checkpoint", "/c", "--range", a_range().to_text(), "--row-limit", "5"), "--row-limit 5 ... --range"),
        (
            ("--checkpoint", "/c", "--transform", "json:loads", "--arrow-transform", "json:loads"),
            "--transform and --arrow-transform",
        ),
    ],
)
def test_wrong_usage_is_one_message_with_the_way_out(argv: tuple[str, ...], message: str) -> None:
    with pytest.raises(SettingError) as caught:
        read(*argv)
    assert says(str(caught.value), message)
    assert "secret" not in str(caught.value)


def test_a_damaged_range_names_what_is_wrong_with_it() -> None:
    with pytest.raises(DocumentError, match="'version'"):
        read("--checkpoint", "/c", "--range", "{}")


def test_help_explains_the_exit_codes_and_names_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        read("--help")
    assert caught.value.code == 0
    text = capsys.readouterr().out
    assert "\n  75 " in text
    assert "--row-limit ROWS" in text
    assert max(map(len, text.splitlines())) <= 80
    options = [*APPLICATION_SINK.options, *(each for each in APPLICATION_SOURCE.options if not each.elsewhere)]
    assert [each.name for each in options if f"\n  {each.name} " not in text] == []
