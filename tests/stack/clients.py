"""Programs of others that read what a stack keeps; a test is skipped where the one that it needs cannot be had."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.e2e.command import ROOT
from tests.lacking import lacking

sys.path.insert(0, str(ROOT / "deploy" / "local"))

from broker import VERSION

GRPCURL = "github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.3"
FOLDER = ROOT / "build" / "servers"


def psql() -> str:
    found = shutil.which("psql")
    if found is None:
        lacking("psql reads the views, and there is none: apt-get install postgresql-client")
    return found


def grpcurl() -> str:
    """Built once, where there is Go."""
    if found := shutil.which("grpcurl"):
        return found
    program = FOLDER / "grpcurl"
    if not program.exists():
        go = shutil.which("go")
        if go is None:
            lacking("grpcurl calls the services, and there is neither it nor Go to build it")
        environment = {**os.environ, "GOBIN": str(FOLDER), "GOFLAGS": "-mod=mod"}
        done = subprocess.run([go, "install", GRPCURL], env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            lacking(f"grpcurl cannot be built here: {done.stderr.strip()[-300:]}")
    return str(program)


def console_consumer() -> list[str]:
    """The console consumer of Kafka's own distribution; its jar is fetched once, where there is Maven."""
    jars, jar = FOLDER / "kafka" / VERSION, FOLDER / "kafka-tools"
    if not list(jar.glob("*.jar")):
        maven = shutil.which("mvn")
        if maven is None:
            lacking("the console consumer of Kafka is fetched by Maven: apt-get install maven")
        artifact = f"-Dartifact=org.apache.kafka:kafka-tools:{VERSION}"
        fetch = [maven, "-q", "-B", "dependency:copy", artifact, f"-DoutputDirectory={jar}"]
        done = subprocess.run(fetch, capture_output=True, text=True, check=False)
        if done.returncode:
            lacking(f"the console consumer of Kafka cannot be fetched here: {done.stdout.strip()[-300:]}")
    return ["java", "-cp", f"{jars}/*:{jar}/*", "org.apache.kafka.tools.consumer.ConsoleConsumer"]


def said(*command: str | Path, words: str = "") -> str:
    done = subprocess.run(
        list(map(str, command)), input=words, capture_output=True, text=True, timeout=400, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
