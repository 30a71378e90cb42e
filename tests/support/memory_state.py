"""Documents in memory, in place of a checkpoint's folder."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass
class MemoryState:
    """Documents in memory; `touch` is called before they are touched, and before an answer is used."""

    documents: dict[str, str]
    location: str
    touch: Callable[[str], None] = lambda _: None

    def _name(self, name: str) -> str:
        return f"{self.location}/{name}"

    def get(self, name: str) -> str | None:
        self.touch("store")
        found = self.documents.get(self._name(name))
        self.touch("answer")
        return found

    def put(self, name: str, text: str) -> None:
        self.touch("store")
        self.documents[self._name(name)] = text
        self.touch("store")

    def create(self, name: str, text: str) -> bool:
        self.touch("store")
        if self._name(name) in self.documents:
            return False
        self.documents[self._name(name)] = text
        self.touch("store")
        return True

    def check_creates(self) -> None:
        """It can."""

    def names(self, folder: str = "") -> list[str]:
        start = self._name(folder and f"{folder}/")
        return sorted({name[len(start) :].split("/")[0] for name in self.documents if name.startswith(start)})

    def size(self, folder: str) -> int:
        return len(self.names(folder))

    def delete(self, name: str) -> None:
        self.touch("store")
        for each in list(self.documents):
            if each == self._name(name) or each.startswith(f"{self._name(name)}/"):
                del self.documents[each]
