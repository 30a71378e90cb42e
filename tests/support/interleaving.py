"""Several actors of whom one moves at a time, from one touch of the outside to the next, in any order."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Semaphore, Thread, local

_here = local()


class Killed(BaseException):
    """The process is gone: nobody catches it."""


class Actor:
    """Work in a thread of its own, which stands still before each touch of the outside."""

    def __init__(self, work: Callable[[], None]) -> None:
        self.before: str | None = "its beginning"
        """What it is about to touch; None once it has ended."""
        self.error: BaseException | None = None
        self._work = work
        self._killed = False
        self._go, self._stands = Semaphore(0), Semaphore(0)
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def done(self) -> bool:
        return self.before is None

    def move(self) -> None:
        """On to the next touch, or to the end."""
        if not self.done:
            self._go.release()
            self._stands.acquire()
        if self.done:
            self._thread.join()

    def finish(self) -> None:
        while not self.done:
            self.move()

    def kill(self) -> None:
        """It ends where it stands."""
        self._killed = True
        self.move()

    def touch(self, what: str) -> None:
        self.before = what
        self._stands.release()
        self._go.acquire()
        if self._killed:
            raise Killed

    def _run(self) -> None:
        self._go.acquire()
        _here.actor = self
        try:
            if not self._killed:
                self._work()
        except BaseException as error:
            self.error = error
        finally:
            self.before = None
            self._stands.release()


def write_what_was_compared(actor: Actor) -> None:
    """As time does: what compared with a document and is about to replace it has done so."""
    if str(actor.before).startswith("set "):
        actor.move()


def touch(what: str) -> None:
    """Called before each touch of the outside; who is no actor goes on at once."""
    actor = getattr(_here, "actor", None)
    if actor is not None:
        actor.touch(what)


@contextmanager
def at(hook: Callable[[str], None]) -> Iterator[None]:
    """Calls the hook instead, for touches of this thread."""
    _here.actor = _Hook(hook)
    try:
        yield
    finally:
        _here.actor = None


class _Hook:
    def __init__(self, touch: Callable[[str], None]) -> None:
        self.touch = touch
