"""The command line is plain about what went wrong."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from airflow_provider_orderedkafka import __version__
from airflow_provider_orderedkafka.errors import SettingError, UnreachableError
from airflow_provider_orderedkafka.tools import cli

SCRIPT = Path(sysconfig.get_path("scripts")) / "orderedkafka"
FAKE = """
import signal, os
from airflow_provider_orderedkafka import errors

def add_arguments(parser):
    parser.add_argument("how")

def run(arguments):
    if arguments.how == "interrupted":
        os.kill(os.getpid(), signal.SIGINT)
    if arguments.how == "talkative":
        for _ in range(100_000):
            print("x" * 100)
    if arguments.how.endswith("Error"):
        raise getattr(errors, arguments.how)("no can do: try the other way")
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


def test_the_version_is_the_packages(capsys):
    with pytest.raises(SystemExit) as left:
        cli.main(["--version"])
    assert left.value.code == 0
    assert capsys.readouterr().out == f"orderedkafka {__version__}\n"


def test_no_command_prints_the_help_and_fails(capsys):
    assert cli.main([]) == 2
    assert "commands:" in capsys.readouterr().out


def test_a_typo_is_answered_with_the_nearest_command(capsys):
    with pytest.raises(SystemExit) as left:
        cli.main(["brokre", "start"])
    assert left.value.code == 2
    assert "unknown command 'brokre': did you mean 'broker'?" in capsys.readouterr().err


def test_a_command_that_resembles_none_is_answered_with_all(capsys):
    with pytest.raises(SystemExit) as left:
        cli.main(["xyzzy"])
    assert left.value.code == 2
    assert f"the commands are {', '.join(cli.COMMANDS)}" in capsys.readouterr().err


def test_bad_arguments_are_a_usage_error():
    done = orderedkafka("broker", "start", "--port", "many")
    assert done.returncode == 2
    assert "--port" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_commands_exit_code_is_the_programs(fake):
    assert cli.main(["fake", "0"]) == 0
    assert cli.main(["fake", "7"]) == 7


@pytest.mark.parametrize(("kind", "code"), [(SettingError, 2), (UnreachableError, 75)])
def test_an_error_of_the_project_is_one_message_and_its_exit_code(fake, capsys, kind, code):
    assert cli.main(["fake", kind.__name__]) == code
    assert capsys.readouterr() == ("", "orderedkafka: no can do: try the other way\n")


def test_ctrl_c_exits_with_130(fake):
    assert cli.main(["fake", "interrupted"]) == 130


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


@pytest.mark.parametrize(("command", "missing"), [("demo", ["matplotlib", "psutil"]), ("broker", ["psutil"])])
def test_a_tool_whose_packages_are_missing_says_how_to_install_them(command, missing, monkeypatch, capsys):
    for package in missing:
        monkeypatch.setitem(sys.modules, package, None)
    assert cli.main([command, "--help"]) == 2
    said = capsys.readouterr().err
    assert f"needs {' and '.join(missing)}, of the extra" in said
    assert "pip install 'airflow-provider-orderedkafka[tools]'" in said


def test_the_other_commands_do_without_these_packages():
    look = """
import importlib, sys
from airflow_provider_orderedkafka.tools.cli import COMMANDS
sys.modules.update(matplotlib=None, psutil=None)
for command in COMMANDS.values():
    if not command.needs:
        importlib.import_module(command.module)
"""
    subprocess.run([sys.executable, "-c", look], timeout=120, check=True)
