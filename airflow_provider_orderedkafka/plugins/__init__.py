"""The plugin that Airflow loads at every start: the operators' link, and the page with its places in Airflow's own.

The page is static files, which read Airflow's public API in the browser, where Airflow checks what a user may see.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from functools import cache
from pathlib import Path
from typing import Any

from airflow.plugins_manager import AirflowPlugin

from ..links import RangeLink

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
        """Answer a request; by its headers the page loads nothing from elsewhere, and no other site can frame it."""

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *HEADERS.items()]
            await send(message)

        await _files()(scope, receive, sent)


@cache
def _files() -> Any:
    from fastapi.staticfiles import StaticFiles

    return StaticFiles(directory=FOLDER, html=True)


class OrderedKafkaPlugin(AirflowPlugin):
    """Makes the link known to the API server, which shows it without importing the operators, and adds the page.

    The page's addresses are relative, for an Airflow behind a prefix.
    """

    name = "orderedkafka"
    operator_extra_links = [RangeLink()]  # noqa: RUF012 - Airflow reads it so
    fastapi_apps = [{"name": "orderedkafka", "app": Page(), "url_prefix": f"/{PREFIX}"}]  # noqa: RUF012
    external_views = [  # noqa: RUF012
        {"name": "Kafka loads", "destination": "nav", "category": "browse", "url_route": PREFIX, "href": f"{PREFIX}/"},
        {
            "name": "Kafka loads",
            "destination": "dag",
            "url_route": f"{PREFIX}-dag",
            "href": f"{PREFIX}/?dag={{DAG_ID}}",
        },
        {
            "name": "Kafka loads",
            "destination": "dag_run",
            "url_route": f"{PREFIX}-run",
            "href": f"{PREFIX}/?dag={{DAG_ID}}&run={{RUN_ID}}",
        },
    ]
