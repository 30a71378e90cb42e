"""A real schema registry, Apicurio's, by its Confluent-compatible API; Maven fetches it once for each machine."""

import os
import signal
import ssl
import subprocess
import tarfile
import threading
import time
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from broker import free_port
from broker.fetching import cache_directory
from support.certificates import Authority

VERSION = "2.6.13.Final"
"""The newest that runs with Java 17."""

ARTIFACT = f"io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"
START_SECONDS = 240
LOOK_SECONDS = 0.5


@contextmanager
def registry(folder: Path) -> Iterator[str]:
    """Run a registry that keeps its schemas in memory, and give the address of its API."""
    port = free_port()
    log = folder / "registry.log"
    settings = (f"quarkus.http.port={port}", "quarkus.http.host=127.0.0.1")
    command = ["java", "-Xmx400m", *(f"-D{each}" for each in settings), "-jar", str(next(_app().glob("*-runner.jar")))]
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, cwd=folder, start_new_session=True)
    try:
        url = f"http://127.0.0.1:{port}/apis/ccompat/v7"
        _wait(f"{url}/subjects", process, log)
        yield url
    finally:
        process.send_signal(signal.SIGKILL)  # what it keeps is in memory
        process.wait()


class Gate(ThreadingHTTPServer):
    """Passes to the registry what comes by TLS and with this login."""

    daemon_threads = True

    def __init__(self, url: str, login: str, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Passing)
        self.target, _, path = url.partition("/apis")
        self.wanted = f"Basic {b64encode(login.encode()).decode()}"
        self.url = f"https://127.0.0.1:{self.server_port}/apis{path}"
        self.authority = folder / "authority.pem"
        authority, own = Authority.make(), folder / "registry.pem"
        issued = authority.issue("registry")
        self.authority.write_text(authority.certificate)
        own.write_text(issued.certificate + issued.key)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(own)
        self.socket = context.wrap_socket(self.socket, server_side=True)


class _Passing(BaseHTTPRequestHandler):
    server: Gate

    def do_GET(self) -> None:
        if self.headers["Authorization"] != self.server.wanted:
            return self._answer(401, b'{"error_code": 40101, "message": "who are you?"}')
        body = self.rfile.read(int(self.headers["Content-Length"] or 0)) or None
        names = ("Content-Type", "Accept")
        headers = {name: self.headers[name] for name in names if name in self.headers}
        asked = urllib.request.Request(self.server.target + self.path, body, headers, method=self.command)
        try:
            with urllib.request.urlopen(asked, timeout=30) as found:
                self._answer(found.status, found.read())
        except urllib.error.HTTPError as error:
            self._answer(error.code, error.read())

    do_POST = do_GET  # noqa: N815 - named so by Python

    def log_message(self, *_: object) -> None:
        """Nothing."""

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def gate(url: str, login: str, folder: Path) -> Iterator[Gate]:
    """Stand in front of a registry for as long as this lasts."""
    with Gate(url, login, folder) as found:
        threading.Thread(target=found.serve_forever, daemon=True).start()
        try:
            yield found
        finally:
            found.shutdown()


def _app() -> Path:
    """The unpacked application; fetched the first time."""
    folder = cache_directory() / f"apicurio-registry-{VERSION}"
    if not folder.is_dir():
        partial = folder.with_name(f"{folder.name}.{os.getpid()}")
        partial.mkdir(parents=True)
        copy = ["mvn", "-q", "-B", "org.apache.maven.plugins:maven-dependency-plugin:3.6.0:copy"]
        subprocess.run([*copy, f"-Dartifact={ARTIFACT}", f"-DoutputDirectory={partial}"], check=True, timeout=600)
        [archive] = partial.glob("*.tar.gz")
        with tarfile.open(archive) as opened:
            opened.extractall(partial, filter="data")
        archive.unlink()
        partial.rename(folder)
    return folder


def _wait(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(LOOK_SECONDS)
    raise AssertionError(f"the registry did not start: {log.read_text(errors='replace')[-2_000:]}")
