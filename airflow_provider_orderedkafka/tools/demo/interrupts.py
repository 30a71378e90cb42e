"""Never lose a Ctrl-C: if a callback from C code swallows it, the next step raises it again."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def remembered() -> Iterator[Callable[[], None]]:
    """Give a check that raises KeyboardInterrupt if there was one, even if it was swallowed."""
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
