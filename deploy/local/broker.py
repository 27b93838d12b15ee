"""A Kafka broker from its published jars: one node in KRaft mode.

Promises: loopback only; every record is synced before it is acknowledged, since one node has no replicas; nobody is
served without a password, and the user of the URL has all rights.
"""

import secrets
import shutil
import signal
import socket
import struct
from pathlib import Path

from processes import Process, ServerError, free_port, is_free, run, start, tell, write_secret

VERSION = "4.1.0"
USER = "tutti"
_LOG4J = "2.25.1"
_POM = f"""<?xml version="1.0"?>
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>tutti</groupId><artifactId>broker</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{VERSION}</version></dependency>
    <dependency><groupId>org.apache.logging.log4j</groupId><artifactId>log4j-core</artifactId><version>{_LOG4J}</version></dependency>
    <dependency><groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId><version>{_LOG4J}</version></dependency>
  </dependencies>
</project>
"""
_JAVA = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]


class Broker:
    name = "kafka"
    stop_signal = signal.SIGTERM

    def __init__(self, cache: Path) -> None:
        self._jars = cache / "kafka" / VERSION

    def obtain(self, *, install: bool) -> None:
        del install
        if shutil.which("java") is None:
            raise ServerError("Kafka needs Java 17 or newer: apt-get install openjdk-17-jre-headless maven")
        if (self._jars / ".complete").exists():
            return
        if shutil.which("mvn") is None:
            raise ServerError("Kafka's jars are fetched by Maven: apt-get install maven")
        tell(f"kafka: fetches the jars of {VERSION}; once")
        self._jars.mkdir(parents=True, exist_ok=True)
        (self._jars / "pom.xml").write_text(_POM)
        run(["mvn", "-q", "-B", "-f", self._jars / "pom.xml", "dependency:copy-dependencies",
             f"-DoutputDirectory={self._jars}"])  # fmt: skip
        (self._jars / ".complete").touch()

    def settings(self, old: dict[str, str]) -> dict[str, str]:
        password = old.get("password") or secrets.token_hex(24)
        ports = [int(old[name]) for name in ("port", "controller") if name in old]
        if len(ports) == 2 and all(is_free(port) for port in ports):
            return {**old, "password": password}
        return {"port": str(free_port()), "controller": str(free_port()), "password": password}

    def start(self, folder: Path, settings: dict[str, str]) -> Process:
        properties = folder / "server.properties"
        write_secret(properties, _properties(folder / "data", settings))
        java = ["java", *_JAVA, "-cp", f"{self._jars}/*"]
        made = folder / "user"
        if not (folder / "data" / "meta.properties").exists():
            credential = f"SCRAM-SHA-512=[name={USER},password={settings['password']}]"
            words = ["kafka.tools.StorageTool", "format", "--cluster-id", "tutti-local-stack-0001",
                     "--config", properties, "--add-scram", credential, "--ignore-formatted"]  # fmt: skip
            arguments = folder / "format"  # in a file: others can read a command line
            write_secret(arguments, "\n".join(f'"{word}"' for word in [*java[1:], *map(str, words)]))
            run(["java", f"@{arguments}"])
            arguments.unlink()
            made.touch()
        elif not made.exists():
            raise ServerError(f"{folder} was made before Kafka had users: remove it with `servers.py wipe kafka`")
        return start([*java, "kafka.Kafka", properties], log=folder / "log", environment={})

    def is_ready(self, settings: dict[str, str]) -> bool:
        """Whether the broker answers an ApiVersions request: it does so only when it is ready for clients."""
        request = struct.pack(">hhih", 18, 0, 1, -1)
        try:
            with socket.create_connection(("127.0.0.1", int(settings["port"])), timeout=1) as connection:
                connection.sendall(struct.pack(">i", len(request)) + request)
                return len(connection.recv(8)) == 8
        except OSError:
            return False

    def url(self, settings: dict[str, str]) -> str:
        return f"kafka://{USER}:{settings['password']}@127.0.0.1:{settings['port']}"

    def wipe(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)


def _login(settings: dict[str, str], *, plain: bool = False) -> str:
    """The JAAS entry of a listener: who the broker is to itself."""
    module = "plain.PlainLoginModule" if plain else "scram.ScramLoginModule"
    password = settings["password"]
    users = f' user_{USER}="{password}"' if plain else ""
    return f'org.apache.kafka.common.security.{module} required username="{USER}" password="{password}"{users};'


def _properties(data: Path, settings: dict[str, str]) -> str:
    port, controller = settings["port"], settings["controller"]
    return "\n".join(
        [
            "process.roles=broker,controller",
            "node.id=1",
            f"controller.quorum.voters=1@127.0.0.1:{controller}",
            f"listeners=CLIENTS://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
            f"advertised.listeners=CLIENTS://127.0.0.1:{port}",
            "listener.security.protocol.map=CLIENTS:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
            "controller.listener.names=CONTROLLER",
            "inter.broker.listener.name=CLIENTS",
            "sasl.enabled.mechanisms=SCRAM-SHA-512",
            "sasl.mechanism.inter.broker.protocol=SCRAM-SHA-512",
            f"listener.name.clients.scram-sha-512.sasl.jaas.config={_login(settings)}",
            # SCRAM passwords are in the log that controllers share, so controllers use PLAIN among themselves.
            "sasl.mechanism.controller.protocol=PLAIN",
            "listener.name.controller.sasl.enabled.mechanisms=PLAIN",
            f"listener.name.controller.plain.sasl.jaas.config={_login(settings, plain=True)}",
            "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            f"super.users=User:{USER}",
            f"log.dirs={data}",
            "auto.create.topics.enable=false",
            "offsets.topic.replication.factor=1",
            "offsets.topic.num.partitions=8",
            "transaction.state.log.replication.factor=1",
            "transaction.state.log.min.isr=1",
            # A killed broker may register again only when the controller has given up its last session.
            "broker.session.timeout.ms=1500",
            "broker.heartbeat.interval.ms=300",
            "group.initial.rebalance.delay.ms=0",
            "group.min.session.timeout.ms=500",
            "log.flush.interval.messages=1",
            "log.cleaner.backoff.ms=500",
            "log.cleaner.dedupe.buffer.size=8388608",
            "log.retention.check.interval.ms=1000",
            "log.initial.task.delay.ms=1000",
            "num.network.threads=2",
            "num.io.threads=4",
            "",
        ]
    )
