"""A Kafka broker from its published jars: one node in KRaft mode, or one of three, each a broker and a controller.

Promises: loopback only; every record is synced before it is acknowledged, since all replicas share one machine; of
three nodes two have each record before it is acknowledged; nobody is served without a password, and the user of the URL
has all rights.
"""

import secrets
import shutil
import signal
import socket
import struct
from pathlib import Path

from layout import BROKERS, Layout
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
    """The node `number`, from 0, of a layout; without a layout it is alone."""

    stop_signal = signal.SIGTERM

    def __init__(self, cache: Path, layout: Layout | None = None, number: int = 0) -> None:
        self._jars = cache / "kafka" / VERSION
        self._layout, self._number = layout, number
        self.name = BROKERS[number]

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
        if self._layout is not None:
            brokers, controllers = self._layout.brokers, self._layout.controllers
            return {
                "port": str(brokers[self._number]),
                "controller": str(controllers[self._number]),
                "password": self._layout.broker_password,
                "brokers": ",".join(f"127.0.0.1:{port}" for port in brokers),
                "voters": ",".join(f"{id}@127.0.0.1:{port}" for id, port in enumerate(controllers, 1)),
            }
        password = old.get("password") or secrets.token_hex(24)
        ports = [int(old[name]) for name in ("port", "controller") if name in old]
        if len(ports) == 2 and all(is_free(port) for port in ports):
            return {**old, "password": password}
        return {"port": str(free_port()), "controller": str(free_port()), "password": password}

    def start(self, folder: Path, settings: dict[str, str]) -> Process:
        properties = folder / "server.properties"
        write_secret(properties, self._properties(folder / "data", settings))
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

    def recovers(self, settings: dict[str, str]) -> bool:
        del settings
        return False

    def url(self, settings: dict[str, str]) -> str:
        return f"kafka://{USER}:{settings['password']}@{_brokers(settings)}"

    def wipe(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)

    def _properties(self, data: Path, settings: dict[str, str]) -> str:
        """One node alone has no replicas; of three, all are in sync and two must be."""
        port, controller = settings["port"], settings["controller"]
        voters = settings.get("voters", f"1@127.0.0.1:{controller}")
        replicas, in_sync = (1, 1) if self._layout is None else (3, 2)
        return "\n".join(
            [
                "process.roles=broker,controller",
                f"node.id={self._number + 1}",
                f"controller.quorum.voters={voters}",
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
                f"default.replication.factor={replicas}",
                f"min.insync.replicas={in_sync}",
                f"offsets.topic.replication.factor={replicas}",
                "offsets.topic.num.partitions=8",
                f"transaction.state.log.replication.factor={replicas}",
                f"transaction.state.log.min.isr={in_sync}",
                # A broker on a slow host must not lose its partitions; a killed one is back only after so long.
                "broker.session.timeout.ms=9000",
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


def _brokers(settings: dict[str, str]) -> str:
    """The addresses for clients."""
    return settings.get("brokers", f"127.0.0.1:{settings['port']}")


def _login(settings: dict[str, str], *, plain: bool = False) -> str:
    """The JAAS entry of a listener: who the broker is to itself."""
    module = "plain.PlainLoginModule" if plain else "scram.ScramLoginModule"
    password = settings["password"]
    users = f' user_{USER}="{password}"' if plain else ""
    return f'org.apache.kafka.common.security.{module} required username="{USER}" password="{password}"{users};'
