"""Google's Dataproc on loopback: it takes the requests of Airflow's operators, over gRPC, and runs what they ask for.

Their client knows Google's address alone, so the way there leads through a proxy, and the certificate for that address
is of the tests' own authority.
"""

import importlib
import json
import os
import shutil
import socket
import socketserver
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import airflow
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from support.certificates import Authority
from support.services import Runs

ROOT = Path(__file__).parents[2]
GOOGLE = "airflow.providers.google"
HOST = "europe-west1-dataproc.googleapis.com"
PROVIDER = (
    "apache-airflow-providers-google==22.8.0",
    "gcloud-aio-auth==5.6.0",
    "gcloud-aio-storage==9.6.5",
    "google-api-core==2.44.0",
    "google-api-python-client==2.202.0",
    "google-auth==2.63.0",
    "google-auth-httplib2==0.4.4",
    "google-cloud-core==2.8.0",
    "google-cloud-dataproc==5.32.0",
    "google-cloud-secret-manager==2.32.0",
    "google-cloud-storage==3.17.1",
    "google-crc32c==1.9.0",
    "google-resumable-media==2.11.0",
    "grpc-google-iam-v1==0.14.6",
    "httplib2==0.32.1",
    "proto-plus==1.29.0",
    "pyasn1==0.6.5",
    "pyasn1-modules==0.4.2",
    "rsa==4.9.1",
    "uritemplate==4.2.0",
)
"""What the operators of Dataproc import of the some hundred packages that the provider asks for."""


def provider() -> Path:
    """A folder with the provider, to be put on Python's path: made the first time, kept in `.cache`."""
    home = ROOT / ".cache" / PROVIDER[0].replace("==", "-")
    if not (home / "complete").exists():
        shutil.rmtree(home, ignore_errors=True)
        install = [ROOT / "scripts" / "uv", "pip", "install", "--quiet", "--no-deps", "--python", sys.executable]
        subprocess.run([*install, "--target", home, *PROVIDER], check=True)
        (home / "complete").touch()
    return home


def find_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process, which has imported Airflow, import the provider, too, until the test ends."""
    monkeypatch.syspath_prepend(provider())
    monkeypatch.setattr(airflow, "__path__", [*airflow.__path__, str(provider() / "airflow")])
    importlib.import_module(f"{GOOGLE}.cloud.operators.dataproc")
    for name in [each for each in sys.modules if each.startswith(GOOGLE)]:
        monkeypatch.setitem(sys.modules, name, sys.modules.pop(name))  # as if it had not been there before


def account() -> str:
    """A service account with a key of its own, as Airflow's connection has it."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    name, tokens = "loads@data.iam.gserviceaccount.com", "https://oauth2.googleapis.com/token"
    known = {"type": "service_account", "project_id": "data", "private_key_id": "1", "client_email": name}
    return json.dumps({**known, "private_key": private, "token_uri": tokens, "client_id": "1"})


@contextmanager
def serving(runs: Runs, authority: Authority) -> Iterator[str]:
    """The service, and the proxy that leads to it; the proxy's URL."""
    import grpc

    made = authority.issue_for(HOST)
    credentials = grpc.ssl_server_credentials([(made.key.encode(), made.certificate.encode())])
    server = grpc.server(ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers(_handlers(runs))
    port = server.add_secure_port("127.0.0.1:0", credentials)
    server.start()
    try:
        with _proxy(port) as url:
            yield url
    finally:
        server.stop(None).wait()


def _handlers(runs: Runs) -> tuple[Any, ...]:
    import grpc

    def services(name: str, methods: Mapping[str, tuple[Any, Callable[[Any], Any]]]) -> Any:
        handlers = {
            each: grpc.unary_unary_rpc_method_handler(
                lambda request, _, answer=answer: answer(request),
                request_deserializer=getattr(kind, "deserialize", None) or kind.FromString,
                response_serializer=_bytes,
            )
            for each, (kind, answer) in methods.items()
        }
        return grpc.method_handlers_generic_handler(name, handlers)

    of_dataproc = "google.cloud.dataproc.v1"
    return (
        services(f"{of_dataproc}.BatchController", _batches(runs)),
        services(f"{of_dataproc}.JobController", _jobs(runs)),
    )


def _bytes(message: Any) -> bytes:
    """A message of Google's own library, or a plain one."""
    plain = message if hasattr(message, "SerializeToString") else type(message).pb(message)
    serialized: bytes = plain.SerializeToString()
    return serialized


def _submit(runs: Runs, program: Any, properties: Mapping[str, str]) -> str:
    conf = [part for name, value in properties.items() for part in ("--conf", f"{name}={value}")]
    files = ",".join(program.python_file_uris)
    return runs.start(["--py-files", files, *conf, program.main_python_file_uri, *program.args], {})


def _batches(runs: Runs) -> dict[str, tuple[Any, Callable[[Any], Any]]]:
    """Batches, each on machines of its own."""
    from google.cloud import dataproc_v1 as api
    from google.longrunning import operations_pb2
    from google.protobuf import any_pb2

    kind = api.Batch.State
    states = {"running": kind.RUNNING, "failed": kind.FAILED, "success": kind.SUCCEEDED, "cancelled": kind.CANCELLED}

    def create(request: Any) -> Any:
        assert not request.batch_id
        runs.requests.append(api.Batch.to_dict(request.batch))
        run = _submit(runs, request.batch.pyspark_batch, request.batch.runtime_config.properties)
        started = api.BatchOperationMetadata(batch=f"{request.parent}/batches/{run}")
        metadata = any_pb2.Any()
        metadata.Pack(api.BatchOperationMetadata.pb(started))
        return operations_pb2.Operation(name=f"{request.parent}/operations/{run}", metadata=metadata)

    def look(request: Any) -> Any:
        run = request.name.rpartition("/")[2]
        return api.Batch(name=request.name, state=states[runs.state(run)], state_message=runs.why(run))

    return {"CreateBatch": (api.CreateBatchRequest, create), "GetBatch": (api.GetBatchRequest, look)}


def _jobs(runs: Runs) -> dict[str, tuple[Any, Callable[[Any], Any]]]:
    """Jobs of a cluster."""
    from google.cloud import dataproc_v1 as api

    kind = api.JobStatus.State
    states = {"running": kind.RUNNING, "failed": kind.ERROR, "success": kind.DONE, "cancelled": kind.CANCELLED}

    def submit(request: Any) -> Any:
        runs.requests.append(api.Job.to_dict(request.job))
        assert request.job.placement.cluster_name == "loads"
        return described(_submit(runs, request.job.pyspark_job, request.job.pyspark_job.properties))

    def described(run: str) -> Any:
        status = {"state": states[runs.state(run)], "details": runs.why(run)}
        return api.Job(reference={"project_id": "data", "job_id": run}, status=status)

    def cancel(request: Any) -> Any:
        runs.cancel(request.job_id)
        return described(request.job_id)

    return {
        "SubmitJob": (api.SubmitJobRequest, submit),
        "GetJob": (api.GetJobRequest, lambda request: described(request.job_id)),
        "CancelJob": (api.CancelJobRequest, cancel),
    }


@contextmanager
def _proxy(port: int) -> Iterator[str]:
    """A proxy that leads whoever asks for the service's address, and nobody else, to this port."""

    class Tunnel(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            asked = self.rfile.readline().decode().split()
            while self.rfile.readline().strip():
                pass
            if asked[:2] != ["CONNECT", f"{HOST}:443"]:
                self.wfile.write(b"HTTP/1.1 403 Forbidden\r\n\r\n")
                return
            with socket.create_connection(("127.0.0.1", port)) as there:
                self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
                back = threading.Thread(target=_poured, args=(there, self.connection))
                back.start()
                _poured(self.connection, there)
                back.join()

    class Proxy(socketserver.ThreadingTCPServer):
        daemon_threads = True

    with Proxy(("127.0.0.1", 0), Tunnel) as proxy:
        thread = threading.Thread(target=proxy.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{proxy.server_address[1]}"
        finally:
            proxy.shutdown()
            thread.join()


def _poured(one: socket.socket, other: socket.socket) -> None:
    """Hand on what one says until it ends."""
    try:
        while said := one.recv(65_536):
            other.sendall(said)
        other.shutdown(socket.SHUT_WR)
    except OSError:  # whoever went needs no more
        pass


def environment(url: str, authority: Path) -> dict[str, str]:
    """What leads the provider's clients there."""
    path = os.pathsep.join([str(provider()), *filter(None, [os.environ.get("PYTHONPATH")])])
    connection = {"conn_type": "google_cloud_platform", "extra": {"project": "data", "keyfile_dict": account()}}
    return {
        "grpc_proxy": url,
        "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": str(authority),
        "AIRFLOW_CONN_GOOGLE_CLOUD_DEFAULT": json.dumps(connection),
        "PYTHONPATH": path,
    }
