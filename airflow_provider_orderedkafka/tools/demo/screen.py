"""The demo's progress: a line for each step, updated in place on a terminal; and no Ctrl-C is lost."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

WIDTH = 96
_NAME_WIDTH = 14
_ROOM = WIDTH - _NAME_WIDTH - 11
_REPAINT_SECONDS = 0.1
_LINE_SECONDS = 5.0


@contextmanager
def remembered() -> Iterator[Callable[[], None]]:
    """Give a check that raises KeyboardInterrupt if there was one, even if a callback from C code swallowed it."""
    heard = False

    def hear(*_: object) -> None:
        nonlocal heard
        heard = True
        raise KeyboardInterrupt

    def check() -> None:
        if heard:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, hear)
    try:
        yield check
    finally:
        signal.signal(signal.SIGINT, before)


class Screen:
    def __init__(self, stream: TextIO, check: Callable[[], None] = lambda: None) -> None:
        self.stream = stream
        self._check = check
        self.live = stream.isatty()

    def say(self, text: str = "") -> None:
        self.stream.write(f"{text}\n")
        self.stream.flush()

    @contextmanager
    def step(self, name: str, text: str) -> Iterator["Step"]:
        """Begin a step; its line stays, with its last text and the time it took.

        An exception of `check`, at the beginning or the end, aborts the step.
        """
        self._check()
        step = Step(self, name, text)
        try:
            yield step
            self._check()
        except BaseException:
            step.end("aborted")
            raise
        step.end(None)


class Step:
    def __init__(self, screen: Screen, name: str, text: str) -> None:
        self._screen = screen
        self._name = name
        self._text = text
        self._began = time.monotonic()
        self._shown = self._began
        if screen.live:
            self._paint(self._line())

    def tell(self, text: str) -> None:
        """Show what the step is doing: at once on a terminal, every few seconds elsewhere."""
        changed, self._text = text != self._text, text
        now = time.monotonic()
        if self._screen.live and now - self._shown >= _REPAINT_SECONDS:
            self._shown = now
            self._paint(self._line())
        elif changed and not self._screen.live and now - self._shown >= _LINE_SECONDS:
            self._shown = now
            self._say_between(self._fitting())

    def announce(self, text: str) -> None:
        """Show a text that must not be missed, on a terminal or not."""
        self._text = text.strip()
        if self._screen.live:
            self._paint(self._line())
        else:
            self._say_between(self._text)

    def conclude(self, text: str) -> None:
        self._text = text

    def end(self, why: str | None) -> None:
        """End the step, and print its final line."""
        if self._screen.live:
            self._paint("")
        self._text = f"{why}: {self._text}" if why else self._text
        self._screen.say(self._line())

    def _say_between(self, text: str) -> None:
        self._screen.say(f"{'':<{_NAME_WIDTH + 2}}{text}")

    def _paint(self, line: str) -> None:
        self._screen.stream.write(f"\r\x1b[2K{line}")
        self._screen.stream.flush()

    def _line(self) -> str:
        return f"  {self._name:<{_NAME_WIDTH}}{self._fitting():<{_ROOM}} {time.monotonic() - self._began:>6.1f} s"

    def _fitting(self) -> str:
        return self._text if len(self._text) <= _ROOM else f"{self._text[: _ROOM - 3]}..."
