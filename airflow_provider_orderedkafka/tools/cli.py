"""The `orderedkafka` command: a table of commands, each in a module that is imported only when it is asked for."""

import argparse
import importlib
import importlib.util
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from airflow_provider_orderedkafka import __version__
from airflow_provider_orderedkafka.core.notation.spelling import meant
from airflow_provider_orderedkafka.errors import USAGE, OrderedKafkaError, SettingError, exit_code

_PROGRAM = "orderedkafka"


@dataclass(frozen=True, slots=True)
class Tool:
    """A command: its module, its summary for `--help`, and the packages of the extra `tools` that it needs.

    The module has `add_arguments(parser)`, and `run(arguments)`, which returns the exit code.
    """

    module: str
    summary: str
    needs: tuple[str, ...] = ()


_HERE = "airflow_provider_orderedkafka.tools"
COMMANDS = {
    "demo": Tool(
        f"{_HERE}.demo.command", "see it work: load events in time order, and check them", ("matplotlib", "psutil")
    ),
    "broker": Tool(f"{_HERE}.embedded.command", "run a real Kafka on this machine", ("psutil",)),
    "doctor": Tool(f"{_HERE}.doctor", "check the installation and the connections"),
    "ledger": Tool(f"{_HERE}.commands.ledger", "show, abandon, rewind, restore or move a ledger"),
    "dead-letters": Tool(f"{_HERE}.commands.dead_letters", "show what could not be loaded, and why"),
    "plan": Tool(f"{_HERE}.commands.plan", "show what a load's next run would load, and why"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return its exit code. An error of this project is one message, never a traceback."""
    try:
        return _run(list(sys.argv[1:] if argv is None else argv))
    except OrderedKafkaError as error:
        print(f"{_PROGRAM}: {error}", file=sys.stderr)
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
    command = COMMANDS.get(arguments.command)
    if command is None:
        parser.error(_unknown(arguments.command))
    _check_installed(arguments.command, command.needs)
    module = importlib.import_module(command.module)
    own = argparse.ArgumentParser(prog=f"{_PROGRAM} {arguments.command}", description=module.__doc__)
    module.add_arguments(own)
    code: int = module.run(own.parse_args(arguments.rest))
    sys.stdout.flush()
    return code


def _check_installed(name: str, needs: Sequence[str]) -> None:
    missing = [package for package in needs if importlib.util.find_spec(package) is None]
    if missing:
        raise SettingError(
            f"`{_PROGRAM} {name}` needs {' and '.join(missing)}, of the extra 'tools': "
            "pip install 'airflow-provider-orderedkafka[tools]' (from a checkout: pip install '.[tools]')"
        )


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
