"""The `orderedkafka` command: a table of commands, each in a module that is imported only when it is asked for."""

import argparse
import importlib
import os
import re
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass
from io import StringIO
from typing import Any

from .. import __version__
from ..core.notation.secrets import masked
from ..core.notation.spelling import meant
from ..errors import USAGE, OrderedKafkaError, exit_code
from . import RED, painted

_PROGRAM = "orderedkafka"
_AGO = re.compile(r"-\d")
_NAME = re.compile(r"-[a-z]|--[a-z-]+")
_OPTION = re.compile(r"(?<!\S)--[a-z][a-z-]*")


@dataclass(frozen=True, slots=True)
class Tool:
    """A command: its module, and its summary for `--help`.

    The module has `add_arguments(parser)`, and `run(arguments)`, which returns the exit code.
    """

    module: str
    summary: str


_HERE = "airflow_provider_orderedkafka.tools"
_SPARK = "airflow_provider_orderedkafka.spark"
COMMANDS = {
    "doctor": Tool(f"{_HERE}.doctor", "check the installation and the connections"),
    "loads": Tool(f"{_HERE}.commands.loads", "show how each load stands: state, lag, last success, error"),
    "ledger": Tool(
        f"{_HERE}.commands.ledger", "show, abandon, rewind, restore or move a load's ledger, or show its history"
    ),
    "audit": Tool(f"{_HERE}.commands.audit", "compare what a load wrote with what its source has"),
    "read": Tool(f"{_HERE}.commands.read", "read topics in time order, as a table, JSON, Arrow or Parquet"),
    "bundle": Tool(f"{_SPARK}.bundle", "write the code that a cluster needs, and what to install beside it"),
    "plan": Tool(f"{_HERE}.commands.plan", "show what a load's next run would load, and why"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return its exit code. An error of this project is one message, never a traceback."""
    try:
        return _run(list(sys.argv[1:] if argv is None else argv))
    except OrderedKafkaError as error:
        print(f"{painted(_PROGRAM, RED, sys.stderr)}: {masked(str(error))}", file=sys.stderr)
        return exit_code(error)
    except KeyboardInterrupt as error:
        return exit_code(error)
    except BrokenPipeError as error:  # the reader of the output left, such as `head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return exit_code(error)


def _run(argv: list[str]) -> int:
    parser = _parser()
    arguments = parser.parse_args(argv)
    if arguments.command is None:
        parser.print_help()
        return USAGE
    if arguments.command not in COMMANDS:
        parser.error(_unknown(arguments.command))
    module, own = _of(arguments.command)
    code: int = module.run(_parsed(own, _joined(arguments.rest)))
    sys.stdout.flush()
    return code


def parsers() -> dict[str, argparse.ArgumentParser]:
    return {name: _of(name)[1] for name in COMMANDS}


def _of(name: str) -> tuple[Any, argparse.ArgumentParser]:
    module = importlib.import_module(COMMANDS[name].module)
    own = argparse.ArgumentParser(prog=f"{_PROGRAM} {name}", description=module.__doc__)
    module.add_arguments(own)
    return module, own


def _parsed(parser: argparse.ArgumentParser, given: Sequence[str]) -> argparse.Namespace:
    """The arguments; an option that there is not is an error with the nearest one."""
    found, unknown = parser.parse_known_args(given)
    if unknown:
        hint = meant(unknown[0].partition("=")[0], _options(parser, given), f"see {parser.prog} --help")
        parser.error(f"there is no {unknown[0]!r}: {hint}")
    return found


def _options(parser: argparse.ArgumentParser, given: Sequence[str]) -> list[str]:
    """The options that there are beside these arguments, as the help on them lists them: an action has its own."""
    with redirect_stdout(StringIO()) as help_, suppress(SystemExit):
        parser.parse_known_args([*given, "--help"])
    return sorted(set(_OPTION.findall(help_.getvalue())))


def _joined(arguments: Sequence[str]) -> list[str]:
    """The arguments, each time ago joined to its option: argparse takes the `-2h` of `--start -2h` for another one."""
    found: list[str] = []
    for text in arguments:
        if found and _NAME.fullmatch(found[-1]) and _AGO.match(text):
            found[-1] += f"={text}" if found[-1].startswith("--") else text
        else:
            found.append(text)
    return found


def _parser() -> argparse.ArgumentParser:
    width = max(map(len, COMMANDS))
    rows = "\n".join(f"  {name:<{width}}  {command.summary}" for name, command in COMMANDS.items())
    parser = argparse.ArgumentParser(
        prog=_PROGRAM,
        usage=f"{_PROGRAM} [-h] [--version] command ...",
        description="Loads Kafka with Spark from Airflow, in time order.",
        epilog=f"commands:\n{rows}\n\n`{_PROGRAM} command --help` says more.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"{_PROGRAM} {__version__}")
    parser.add_argument("command", nargs="?", help=argparse.SUPPRESS)
    parser.add_argument("rest", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def _unknown(name: str) -> str:
    listed = f"the commands are {', '.join(COMMANDS)}"
    return f"unknown command {name!r}: {meant(name, COMMANDS, listed)}"


if __name__ == "__main__":
    sys.exit(main())
