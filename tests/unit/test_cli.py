"""The command line is plain about what went wrong."""

import argparse
import io
import os
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from support.messages import says

from airflow_provider_orderedkafka.errors import SettingError, UnreachableError
from airflow_provider_orderedkafka.tools import RED, cli, painted

SCRIPT = Path(sysconfig.get_path("scripts")) / "orderedkafka"
FAKE = """
import signal, os
from airflow_provider_orderedkafka import errors

def add_arguments(parser):
    parser.add_argument("how")
    parser.add_argument("--start")
    parser.add_argument("--yes", action="store_true")

def run(arguments):
    print(arguments.start or "", end="")
    if arguments.how == "interrupted":
        os.kill(os.getpid(), signal.SIGINT)
    if arguments.how == "talkative":
        for _ in range(100_000):
            print("x" * 100)
    if arguments.how.endswith("Error"):
        raise getattr(errors, arguments.how)("no can do with password=hush here: try the other way")
    return int(arguments.how)
"""


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """A command that does what it is told."""
    (tmp_path / "fake_command.py").write_text(FAKE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(cli.COMMANDS, "fake", cli.Tool("fake_command", "does what it is told"))
    yield
    sys.modules.pop("fake_command", None)


def orderedkafka(*arguments, **options):
    return subprocess.run([SCRIPT, *arguments], capture_output=True, text=True, timeout=60, check=False, **options)


def test_help_lists_every_command():
    done = orderedkafka("--help")
    assert done.returncode == 0
    for name, command in cli.COMMANDS.items():
        assert f"{name} " in done.stdout
        assert command.summary in done.stdout


def test_every_command_can_say_what_it_does(capsys):
    for name in cli.COMMANDS:
        with pytest.raises(SystemExit) as left:
            cli.main([name, "--help"])
        assert left.value.code == 0
        assert f"usage: orderedkafka {name}" in capsys.readouterr().out


@pytest.mark.parametrize(("given", "meant"), [("docotr", "'docotr' ... 'doctor'"), ("xyzzy", ", ".join(cli.COMMANDS))])
def test_a_command_that_there_is_not_is_answered_with_the_nearest_or_with_all(given, meant, capsys):
    with pytest.raises(SystemExit) as left:
        cli.main([given, "--json"])
    assert left.value.code == 2
    assert says(capsys.readouterr().err, meant)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (["plan", "a.py", "--strat", "-2h"], "'--start'"),
        (["ledger", "rewind", "a", "--to", "current", "--reason", "r", "--topci", "b"], "'--topic'"),
        (["loads", "--xyzzy"], "see orderedkafka loads --help"),
    ],
)
def test_an_option_that_there_is_not_is_answered_with_the_nearest_of_its_command(given, meant, capsys):
    with pytest.raises(SystemExit) as left:
        cli.main(given)
    assert left.value.code == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert says(said.err, f"error: ... {given[-2] if len(given) > 2 else given[-1]} ... {meant}")


def test_a_commands_exit_code_is_the_programs(fake):
    assert cli.main(["fake", "0"]) == 0
    assert cli.main(["fake", "7"]) == 7


@pytest.mark.parametrize(("kind", "code"), [(SettingError, 2), (UnreachableError, 75)])
def test_an_error_of_the_project_is_one_message_without_secrets_and_its_exit_code(fake, capsys, kind, code):
    assert cli.main(["fake", kind.__name__]) == code
    assert capsys.readouterr() == ("", "orderedkafka: no can do with password=*** here: try the other way\n")


@pytest.mark.parametrize("given", [["--start", "-2h"], ["--start=-2h"], ["--yes", "--start", "-2h", "--yes"]])
def test_a_time_ago_is_a_value_and_no_option(fake, capsys, given):
    assert cli.main(["fake", "0", *given]) == 0
    assert capsys.readouterr().out == "-2h"


def test_ctrl_c_exits_with_130(fake):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored by what a shell runs in the background
    try:
        assert cli.main(["fake", "interrupted"]) == 130
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_reader_that_leaves_early_sees_no_traceback(fake, tmp_path):
    program = (
        "import sys; from airflow_provider_orderedkafka.tools import cli; "
        "cli.COMMANDS['fake'] = cli.Tool('fake_command', ''); sys.exit(cli.main(['fake', 'talkative']))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    ) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(30) == 141
        assert process.stderr.read() == b""


def test_no_command_needs_more_than_the_package_asks_for():
    look = """
import importlib, sys
from airflow_provider_orderedkafka.tools.cli import COMMANDS
sys.modules.update(matplotlib=None, psutil=None)
for command in COMMANDS.values():
    importlib.import_module(command.module)
"""
    subprocess.run([sys.executable, "-c", look], timeout=120, check=True)


def actions(parser):
    """A command's own parser, or those of its actions."""
    found = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
    return [action for each in found for action in each.choices.values()] or [parser]


def test_an_option_is_spelled_and_asked_for_in_one_way_by_all_commands():
    asked = {}
    for parser in cli.parsers().values():
        for action in actions(parser):
            for option in action._actions:
                for text in option.option_strings:
                    asked.setdefault((text, action.prog if text in OF_A_COMMAND else ""), set()).add(option.metavar)
    assert {option: metavars for option, metavars in asked.items() if len(metavars) > 1} == {}
    assert not {option for option, _ in asked} & {"--conn-id", "--servers"}


OF_A_COMMAND = {"--to", "--limit", "--load", "--topic", "--checkpoint", "--registry", "--output"}
"""Options that mean another thing in each command."""


def test_read_has_short_options():
    parser = cli.parsers()["read"]
    long = ["orders", "--bootstrap-servers", "b:1", "--start", "latest", "--limit", "5", "--format", "json"]
    for limit in ("-n", "-c"):
        short = ["orders", "-b", "b:1", "-o", "latest", limit, "5", "-f", "json"]
        assert parser.parse_args(short) == parser.parse_args(long)


def test_a_file_that_cannot_be_written_is_said_before_kafka_is_asked(tmp_path, capsys):
    output = str(tmp_path / "nowhere" / "orders.parquet")
    assert cli.main(["read", "orders", "-b", "127.0.0.1:1", "--output", output]) == 2
    assert output in capsys.readouterr().err


def test_every_command_answers_programs_too():
    options = {name: [set(action._option_string_actions) for action in actions(p)] for name, p in cli.parsers().items()}
    assert {name for name, found in options.items() for each in found if "--json" not in each} == set()


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_colours_are_for_terminals_and_for_people_who_want_them(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert painted("failed", RED, io.StringIO()) == "failed"
    assert painted("failed", RED, Terminal()) == "\x1b[31mfailed\x1b[0m"
    monkeypatch.setenv("NO_COLOR", "1")
    assert painted("failed", RED, Terminal()) == "failed"
