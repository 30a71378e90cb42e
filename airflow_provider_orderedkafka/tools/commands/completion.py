"""Print a script that completes commands, actions and options with the Tab key.

source <(orderedkafka completion)                                              bash
autoload -U bashcompinit && bashcompinit && source <(orderedkafka completion)  zsh
"""

import argparse
import json
import re
from collections.abc import Iterator
from contextlib import redirect_stdout, suppress
from io import StringIO
from typing import Final

_ACTIONS: Final = re.compile(r"(?<= )[a-z]+(?:\|[a-z]+)+(?= )")
_OPTION: Final = re.compile(r"--[a-z][a-z-]*")

_SCRIPT: Final = """\
_orderedkafka() {{
  local words
  case "${{COMP_WORDS[1]}} ${{COMP_WORDS[2]}}" in
{cases}
  esac
  [ "$COMP_CWORD" -eq 1 ] && words="{commands}"
  COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _orderedkafka orderedkafka"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--json", action="store_true", help="print what can be completed, as JSON")


def run(arguments: argparse.Namespace) -> int:
    known = {name: dict(words(parser)) for name, parser in arguments.parsers().items()}
    print(json.dumps(known) if arguments.json else _script(known))
    return 0


def _script(known: dict[str, dict[str, list[str]]]) -> str:
    """The script: an action's own pattern stands before that of its command."""
    cases = [
        f'    "{name} {action or ""}"{"" if action else "*"}) words="{" ".join(words)}" ;;'
        for name, actions in known.items()
        for action, words in sorted(actions.items(), reverse=True)
    ]
    return _SCRIPT.format(cases="\n".join(cases), commands=" ".join(known))


def words(parser: argparse.ArgumentParser) -> Iterator[tuple[str, list[str]]]:
    """The options of a command, under its name's empty action, and of each of its actions."""
    usage = _usage(parser)
    listed = _ACTIONS.search(usage)
    actions = [] if listed is None else listed[0].split("|")
    yield "", [*actions, *_options(usage)]
    for action in actions:
        yield action, _options(_usage(parser, action))


def _usage(parser: argparse.ArgumentParser, *action: str) -> str:
    """The line of the help that names all options; argparse tells them in no other way."""
    with redirect_stdout(StringIO()) as out, suppress(SystemExit):
        parser.parse_args([*action, "--help"])
    return out.getvalue().partition("\n\n")[0]


def _options(usage: str) -> list[str]:
    return ["--help", *dict.fromkeys(_OPTION.findall(usage))]
