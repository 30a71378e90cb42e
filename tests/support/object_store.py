"""An S3 server on loopback, in this process, that can be slow, and tells what it was asked."""

import re
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import boto3
import s3fs
from airflow.sdk.io import store as airflow_stores
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

KEY, SECRET, REGION = "tests", "tests-secret", "us-east-1"
BUCKET = "loads"
Asked = Callable[[str, str], None]
When = Literal["before", "after"]
"""The connection of a request ends before it is carried out, or after it, without an answer."""


class _Quiet(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def log(self, *_: Any) -> None:
        """Say nothing: each request is in `requests`."""


@dataclass
class ObjectStore:
    """`with` starts it. Each request takes `latency` more, is kept in `requests`, and is first shown to `before`.

    `cut` says of a request, as it is in `requests`, whether and when its connection ends. Requests are carried out one
    by one: the server looks whether there is such an object and puts it in two steps, where S3 has one.
    """

    latency: float = 0.0
    requests: list[str] = field(default_factory=list)
    before: Asked = lambda method, path: None
    heeds_conditions: bool = True
    cut: Callable[[str], When | None] = lambda _request: None

    _one: threading.Lock = field(default_factory=threading.Lock)

    def __enter__(self) -> "ObjectStore":
        self._answer = DomainDispatcherApplication(create_backend_app)
        self._server = make_server("127.0.0.1", 0, self._asked, threaded=True, request_handler=_Quiet)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.client.create_bucket(Bucket=BUCKET)
        self._forget_earlier_ones()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @staticmethod
    def _forget_earlier_ones() -> None:
        """Airflow and fsspec keep their clients for a whole process, by names that lead to a server that is gone."""
        airflow_stores._STORE_CACHE.clear()
        s3fs.S3FileSystem.clear_instance_cache()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def client(self) -> Any:
        named = {"aws_access_key_id": KEY, "aws_secret_access_key": SECRET, "region_name": REGION}
        return boto3.client("s3", endpoint_url=self.endpoint, **named)

    @property
    def settings(self) -> dict[str, str]:
        """What S3A has to be told."""
        return {
            "fs.s3a.endpoint": self.endpoint,
            "fs.s3a.endpoint.region": REGION,
            "fs.s3a.path.style.access": "true",
            "fs.s3a.access.key": KEY,
            "fs.s3a.secret.key": SECRET,
        }

    @property
    def environment(self) -> dict[str, str]:
        """What leads other clients here."""
        return {
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_ENDPOINT_URL": self.endpoint,
        }

    def keys(self, prefix: str = "") -> list[str]:
        found = self.client.list_objects_v2(Bucket=BUCKET, Prefix=prefix)
        return [each["Key"] for each in found.get("Contents", ())]

    @contextmanager
    def slow(self, seconds: float) -> Iterator[None]:
        self.latency, before = seconds, self.latency
        yield
        self.latency = before

    def _asked(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        listed = re.search(r"list-type=2.*prefix=([^&]*)", environ.get("QUERY_STRING", ""))
        request = f"LIST {path}/{listed[1]}" if listed else f"{method} {path}"
        self.requests.append(request)
        time.sleep(self.latency)
        self.before(method, path)
        if not self.heeds_conditions:
            environ.pop("HTTP_IF_NONE_MATCH", None)
        when = self.cut(request)
        if when != "before":
            with self._one:
                answer = self._answer(environ, start)
        if when is None:
            return answer
        environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
        raise ConnectionAbortedError(f"{request} was cut {when} it was carried out")
