"""Runs tests against wrong products, one after the other: what no test catches is a promise that nothing holds.

    python scripts/mutants.py [word ...]        all of tests/mutants, or those whose name has one of the words

Each mutant is a copy of the checkout in a folder of its own with some text replaced; the checkout is never touched. The
tests have to pass without it, and one of them has to fail with it. Ends with 1 where a mutant survives, and where one
does not apply, breaks more than its tests, or takes too long: then nothing is known.
"""

import os
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLES = "tests/mutants"
SECONDS = 180
PYTEST = ("-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--hypothesis-seed=0", "--hypothesis-profile=mutants")
FAILED = re.compile(r"^FAILED (.+?)(?: - |$)", re.MULTILINE)
LEFT_OUT = shutil.ignore_patterns(".*", "dist", "build")


@dataclass(frozen=True, slots=True)
class Mutant:
    """A wrong product: in `file`, each text of `edits`, which must be there exactly once, becomes another.

    `tests` are the node ids of those that should catch it, quick ones first.
    """

    name: str
    file: str
    edits: Mapping[str, str]
    tests: tuple[str, ...]

    def apply(self, checkout: Path) -> None:
        """Make the checkout wrong; `ValueError` where the text to replace is not there, or more than once."""
        path = checkout / self.file
        text = path.read_text(encoding="utf-8")
        for right, wrong in self.edits.items():
            if (times := text.count(right)) != 1:
                raise ValueError(f"this must be in {self.file} exactly once, and is there {times} times: {right!r}")
            text = text.replace(right, wrong)
        path.write_text(text, encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a mutant: caught `by` a test, or what is wrong."""

    name: str
    seconds: float
    by: str = ""
    wrong: str = ""

    def __str__(self) -> str:
        return f"{self.name:50} {self.seconds:5.1f} s  {self.by or self.wrong}"


def read_tables(folder: Path) -> list[Mutant]:
    """The mutants of all tables: in each, `MUTANTS` holds (name, file, edits, tests), quick tests first.

    A text that is replaced is in its file exactly once: a mutant that applies no more is an error, adapt or replace it.
    """
    return [Mutant(*row) for path in sorted(folder.glob("*.py")) for row in runpy.run_path(str(path))["MUTANTS"]]


def judged(checkout: Path, mutants: Iterable[Mutant], seconds: float = SECONDS) -> Iterator[Verdict]:
    """What becomes of each mutant; before all, of none, where that is worth telling."""
    mutants = list(mutants)
    right = Mutant(
        "the product as it is", "", {}, tuple(dict.fromkeys(test for each in mutants for test in each.tests))
    )
    begun = time.monotonic()
    code, said = _tested(checkout, right, SECONDS * len(mutants))
    if code != 0:
        yield Verdict(right.name, time.monotonic() - begun, wrong=f"its own tests do not pass: {_tail(said)}")
        return
    for mutant in mutants:
        begun = time.monotonic()
        by, wrong = _judge(checkout, mutant, seconds)
        yield Verdict(mutant.name, time.monotonic() - begun, by, wrong)


def _judge(checkout: Path, mutant: Mutant, seconds: float) -> tuple[str, str]:
    """Which test caught it, or what is wrong."""
    try:
        code, said = _tested(checkout, mutant, seconds)
    except ValueError as error:
        return "", f"DOES NOT APPLY: {error}"
    except subprocess.TimeoutExpired:
        return "", f"NOT KNOWN: its tests took more than {seconds:.0f} s"
    failed = FAILED.findall(said)
    if code == 1 and failed:
        return failed[0], ""
    return "", "SURVIVED" if code == 0 else f"NOT KNOWN: {_tail(said)}"


def _tested(checkout: Path, mutant: Mutant, seconds: float) -> tuple[int, str]:
    """How pytest ends, and what it says, in a copy of the checkout that has become the mutant."""
    with tempfile.TemporaryDirectory(prefix="orderedkafka-mutant-") as folder:
        copy = Path(folder) / "checkout"
        shutil.copytree(checkout, copy, ignore=LEFT_OUT)
        if (kept := checkout / ".cache").is_dir():  # other Sparks, and what makes ours start quickly
            (copy / ".cache").symlink_to(kept)
        if mutant.file:
            mutant.apply(copy)
        argv = [sys.executable, *PYTEST, *mutant.tests]
        environment = {**os.environ, "PYTHONPATH": str(copy), "COLUMNS": "1000"}
        ended = subprocess.run(  # noqa: S603 - our own tests
            argv, cwd=copy, env=environment, capture_output=True, text=True, timeout=seconds, check=False
        )
    return ended.returncode, ended.stdout + ended.stderr


def _tail(said: str) -> str:
    return " / ".join(said.strip().splitlines()[-5:])


def main(words: list[str]) -> int:
    """Judge the mutants, print what became of each, and end well where all were caught."""
    known = read_tables(ROOT / TABLES)
    mutants = [each for each in known if not words or any(word in each.name for word in words)]
    if unheard_of := [word for word in words if not any(word in each.name for each in known)]:
        print(f"no mutant has {' or '.join(map(repr, unheard_of))} in its name; there are:", file=sys.stderr)
        print("\n".join(each.name for each in known), file=sys.stderr)
        return 2
    verdicts = []
    for verdict in judged(ROOT, mutants):
        print(verdict, flush=True)
        verdicts.append(verdict)
    caught = sum(bool(verdict.by) for verdict in verdicts)
    print(f"{caught} of {len(mutants)} mutants caught")
    return 0 if caught == len(mutants) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
