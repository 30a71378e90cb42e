"""Secrets from elsewhere: tokens that nobody has signed, as Kafka's own validator takes them, and a password."""

import base64
import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

CLIENT, SECRET = "loader", "sesame"
PASSWORD = 'sesame "7c1f\\'
_LIFE_SECONDS = 600


def unsigned(name: str, life: float = _LIFE_SECONDS) -> str:
    """A token for this name; one whose life is below 0 has expired."""
    now = int(time.time())
    parts = {"alg": "none"}, {"sub": name, "iat": now - 3_600, "exp": now + life, "scope": "kafka"}
    return ".".join([*(_encoded(json.dumps(part).encode()) for part in parts), ""])


def resolver(_settings: Mapping[str, str]) -> dict[str, Any]:
    """What `orderedkafka.resolver` names: a callback that makes the loader's tokens."""
    return {"oauth_cb": lambda _config: (unsigned(CLIENT), time.time() + _LIFE_SECONDS)}


def password(_settings: Mapping[str, str]) -> dict[str, Any]:
    """The same with a password."""
    return {"sasl.password": PASSWORD}


@dataclass
class Given:
    """What an endpoint of tokens goes by: the client's secret, and how many seconds a token lives."""

    secret: str = SECRET
    life: float = _LIFE_SECONDS


@contextmanager
def token_endpoint(given: Given | None = None) -> Iterator[str]:
    """The address of a server that gives tokens to whoever knows the client's secret."""
    endpoint = type("Endpoint", (_Endpoint,), {"given": given or Given()})
    server = ThreadingHTTPServer(("127.0.0.1", 0), endpoint)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/token"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Endpoint(BaseHTTPRequestHandler):
    given: Given

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        login = base64.b64encode(f"{CLIENT}:{self.given.secret}".encode()).decode()
        known = self.headers["Authorization"] == f"Basic {login}"
        answer = {"access_token": unsigned(CLIENT, self.given.life)} if known else {"error": "invalid_client"}
        self.send_response(200 if known else 401)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, *_: object) -> None:
        pass


def _encoded(part: bytes) -> str:
    return base64.urlsafe_b64encode(part).decode().rstrip("=")
