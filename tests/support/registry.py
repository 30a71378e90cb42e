"""A real schema registry, Apicurio's, by its Confluent-compatible API; Maven fetches it once for each machine."""

import os
import signal
import socket
import subprocess
import tarfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from airflow_provider_orderedkafka.tools.embedded.jars import cache_directory

VERSION = "2.6.13.Final"
"""The newest that runs with Java 17."""

ARTIFACT = f"io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"
START_SECONDS = 240
LOOK_SECONDS = 0.5


@contextmanager
def registry(folder: Path) -> Iterator[str]:
    """Run a registry that keeps its schemas in memory, and give the address of its API."""
    port = _free_port()
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


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])
