"""The snippets of the documents, and the commands in those of a shell."""

import re
import shlex
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
BLOCK = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def snippets(page: Path, *kinds: str) -> list[tuple[str, str]]:
    """The snippets of a page, each with its language; those of some languages only, if any are named."""
    found = BLOCK.findall(page.read_text("utf-8"))
    return [(kind, text) for kind, text in found if not kinds or kind in kinds]


def commands(text: str) -> list[list[str]]:
    """The commands of a script, without the settings in front of them, each as words."""
    found: list[list[str]] = [[]]
    for line in text.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=";|&")
        lexer.whitespace_split = True
        found.append([])
        for word in lexer:
            if set(word) <= set(";|&"):
                found.append([])
            elif found[-1] or not re.match(r"[A-Z_]+=", word):
                found[-1].append(word)
    return [words for words in found if words]
