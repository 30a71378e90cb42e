"""YARN and HDFS on loopback: Hadoop's mini cluster, one machine of each, in a Java process that Python steers."""

import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from airflow_provider_orderedkafka.tools.doctor.installed import find_java
from broker.fetching import cache_directory, run_ivy
from support.quick_java import FLAGS

HOME = Path(pyspark.__file__).parent
HADOOP = "3.5.0"
DEPENDENCIES = f"""<ivy-module version="2.0">
  <info organisation="orderedkafka" module="yarn"/>
  <dependencies>
    <dependency org="org.apache.hadoop" name="hadoop-client-minicluster" rev="{HADOOP}" conf="default"/>
    <dependency org="org.junit.jupiter" name="junit-jupiter-api" rev="5.11.4" conf="default"/>
    <dependency org="ch.qos.reload4j" name="reload4j" rev="1.2.25" conf="default"/>
    <dependency org="org.bouncycastle" name="bcpkix-jdk18on" rev="1.82" conf="default"/>
  </dependencies>
</ivy-module>
"""
"""The mini cluster, and what it needs and does not name."""

SETTINGS = {
    "yarn.nodemanager.resource.memory-mb": "4096",
    "yarn.nodemanager.vmem-check-enabled": "false",
    "yarn.nodemanager.pmem-check-enabled": "false",
    "yarn.scheduler.minimum-allocation-mb": "256",
    "yarn.scheduler.capacity.maximum-am-resource-percent": "1.0",
    "yarn.scheduler.capacity.root.queues": "default",
    "yarn.scheduler.capacity.root.default.capacity": "100",
    "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "99",
}
FILES = ("core-site.xml", "hdfs-site.xml", "yarn-site.xml")


@dataclass(frozen=True, slots=True)
class Cluster:
    """The environment in which spark-submit finds it, and its files: by Hadoop's own protocol, and by HTTP."""

    environment: dict[str, str]
    hdfs: str
    webhdfs: str


def jars() -> Path:
    """The folder of its jars, fetched the first time."""
    found = cache_directory() / f"hadoop-minicluster-{HADOOP}"
    if not found.is_dir():
        found.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=found.parent) as folder:
            run_ivy(find_java(), DEPENDENCIES, Path(folder), ("jar", "bundle"))
            Path(folder, "jars").rename(found)
    return found


@contextmanager
def yarn(folder: Path) -> Iterator[Cluster]:
    """A cluster, which is gone at the end."""
    conf = folder / "conf"
    conf.mkdir(parents=True)
    with (folder / "log").open("wb") as log:
        port, process = launch_gateway(
            jarpath=str(next((HOME / "jars").glob("py4j-*.jar"))),
            classpath=f"{conf}:{jars() / '*'}",
            javaopts=["-Xmx512m", *FLAGS, f"-Dtest.build.data={folder}", f"-Djava.io.tmpdir={folder}"],
            java_path=str(find_java().executable),
            cwd=str(folder),
            return_proc=True,
            redirect_stderr=log,
        )
    try:
        with closing(JavaGateway(gateway_parameters=GatewayParameters(port=port))) as gateway:
            hdfs, webhdfs = _start(gateway.jvm, folder, conf)
            environment = {"HADOOP_CONF_DIR": str(conf), "YARN_CONF_DIR": str(conf), "SPARK_HOME": str(HOME)}
            yield Cluster(environment, hdfs, webhdfs)
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            pipe.close()


def _start(jvm: Any, folder: Path, conf: Path) -> tuple[str, str]:
    """Where its files are, by Hadoop's own protocol and by HTTP."""
    settings = jvm.org.apache.hadoop.yarn.conf.YarnConfiguration()
    for name, value in SETTINGS.items():
        settings.set(name, value)
    builder = jvm.org.apache.hadoop.hdfs.MiniDFSCluster.Builder(settings, jvm.java.io.File(str(folder / "hdfs")))
    files = builder.numDataNodes(1).build()
    cluster = jvm.org.apache.hadoop.yarn.server.MiniYARNCluster("orderedkafka", 1, 1, 1)
    cluster.init(settings)
    cluster.start()
    assert cluster.waitForNodeManagersToConnect(60_000)
    configuration = cluster.getConfig()
    configuration.unset("net.topology.node.switch.mapping.impl")  # a class of the mini cluster's own
    for name in FILES:
        out = jvm.java.io.FileOutputStream(str(conf / name))
        configuration.writeXml(out)
        out.close()
    return str(files.getURI().toString()), f"webhdfs://127.0.0.1:{urlsplit(files.getHttpUri(0)).port}"
