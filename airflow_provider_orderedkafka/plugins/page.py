"""The page: static files, which read Airflow's public API in the browser, where Airflow checks what a user may see."""

from collections.abc import Awaitable, Callable, MutableMapping
from functools import cache
from pathlib import Path
from typing import Any

PREFIX = "orderedkafka"
FOLDER = Path(__file__).parent.with_name("page")

HEADERS = {
    b"content-security-policy": b"default-src 'self'; frame-ancestors 'self'",
    b"cache-control": b"no-cache",  # asked for each time, and mostly answered by "not modified"
    b"referrer-policy": b"same-origin",
    b"x-content-type-options": b"nosniff",
}

Message = MutableMapping[str, Any]


class Page:
    """Serves the files. Every process of Airflow makes one, so the server's part is imported at the first request."""

    async def __call__(
        self, scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
    ) -> None:
        """Answer a request; by its headers the page loads nothing from elsewhere, and nobody else frames it."""

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *HEADERS.items()]
            await send(message)

        await _files()(scope, receive, sent)


@cache
def _files() -> Any:
    from fastapi.staticfiles import StaticFiles

    return StaticFiles(directory=FOLDER, html=True)
