"""The images of the trial: ours, built here, and the public ones, pulled or replaced by stand-ins.

Promises: a stand-in has the public image's name, user, paths and variables, and is made from Debian's packages and the
servers' own releases; whoever runs a trial on stand-ins is told so.
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path

from tests.trials.docker.engine import Engine, TrialError, command, tell

ROOT = Path(__file__).resolve().parents[3]
DOCKERFILE = ROOT / "deploy" / "docker" / "Dockerfile"
STANDINS = Path(__file__).with_name("standins")
BASE = "tutti-standin/debian:bookworm"
PYTHON = "python:3.11-slim-bookworm"
SERVERS = {
    "kafka": "apache/kafka:4.1.0",
    "postgres": "postgres:17-bookworm",
    "s3": "versity/versitygw:v1.8.0",
    "prometheus": "prom/prometheus:v3.5.0",
}
# No stand-in is made of them, so no trial has run the images; tests/trials/traces.py runs the first two programs.
UNTRIED = ("otel/opentelemetry-collector:0.138.0", "jaegertracing/jaeger:2.11.0", "grafana/grafana:11.6.0")
DEBIAN = "http://deb.debian.org/debian"
# Of the base image, so that builds inside trust what this machine trusts.
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
PULL_SECONDS = 300.0


def prepare(engine: Engine, cache: Path) -> list[str]:
    """Make every image available; the public ones that are stand-ins. Raises TrialError."""
    standins = [] if _pulled(engine) else _made(engine, cache)
    # The dependencies get a name, or the prune below would drop them from the cache.
    targets = ["control-dependencies", "compute-dependencies", "control", "compute"]
    for target in targets:
        tell(f"builds tutti/{target}")
        engine.run("build", *(("--network", "host") if engine.own else ()), "-f", DOCKERFILE, "--target", target,
                   "-t", f"tutti/{target}:latest", ROOT, seconds=1200)  # fmt: skip
    engine.run("image", "prune", "-f", seconds=300, check=False)
    return standins


def sizes(engine: Engine) -> dict[str, float]:
    """MB of each image of the compose file, and of the base of ours."""
    names = [PYTHON, "tutti/control:latest", "tutti/compute:latest", *SERVERS.values()]
    return {name: int(engine.run("image", "inspect", "-f", "{{.Size}}", name)) / 1e6 for name in names}


def _pulled(engine: Engine) -> bool:
    """Whether the public images are here or can be pulled; one failure decides, so that it is tried once."""
    if engine.own and BASE.split(":")[0] in engine.run("images", "--format", "{{.Repository}}"):
        return False
    try:
        for name in (*SERVERS.values(), PYTHON):
            if not _here(engine, name):
                engine.run("pull", "-q", name, seconds=PULL_SECONDS)
    except TrialError as error:
        if not engine.own:  # stand-ins must not replace public images in somebody's engine
            raise
        tell(f"public images cannot be pulled here: {str(error).strip().splitlines()[-1][:200]}")
        return False
    return True


def _made(engine: Engine, cache: Path) -> list[str]:
    if not _here(engine, BASE):
        tell("makes the base of the stand-ins from Debian's packages; once")
        _bootstrap(engine, cache)
    engine.run("tag", BASE, PYTHON)
    for name, image in SERVERS.items():
        if not _here(engine, image):
            tell(f"makes a stand-in of {image}; once")
        with tempfile.TemporaryDirectory(dir=cache) as context:
            _contents(name, Path(context))
            engine.run("build", "--network", "host", "-f", STANDINS / f"{name}.Dockerfile", "-t", image, context,
                       seconds=600)  # fmt: skip
    return [PYTHON, *SERVERS.values()]


def _bootstrap(engine: Engine, cache: Path) -> None:
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        root, archive = Path(scratch) / "root", Path(scratch) / "root.tar"
        command(["debootstrap", "--variant=minbase", "--include=python3,python3-venv,ca-certificates", "bookworm", root,
                 DEBIAN], seconds=600)  # fmt: skip
        for own in Path("/usr/local/share/ca-certificates").glob("*.crt"):
            shutil.copy(own, root / "usr/local/share/ca-certificates")
        shutil.copy(CERTIFICATES, root / CERTIFICATES.lstrip("/"))
        for name in ("python", "python3"):
            os.symlink("/usr/bin/python3", root / "usr/local/bin" / name)
        for old in (root / "var/cache/apt/archives").glob("*.deb"):
            old.unlink()
        command(["tar", "-C", root, "-cf", archive, "."], seconds=120)
        variables = " ".join(f"{name}={CERTIFICATES}" for name in ("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE"))
        engine.run("import", "-c", f"ENV {variables}", "-c", 'CMD ["python3"]', archive, BASE, seconds=300)


def _contents(name: str, context: Path) -> None:
    """What a stand-in copies: its entry point, and the server where it is no package of Debian's."""
    for script in STANDINS.glob(f"{name}-*"):
        shutil.copy(script, context)
    if name in ("postgres", "prometheus"):
        return
    server = {"kafka": "kafka", "s3": "s3"}[name]
    command([sys.executable, ROOT / "deploy/local/servers.py", "obtain", server], seconds=1200)
    servers = ROOT / "build" / "servers"
    if name == "kafka":
        (jars,) = (servers / "kafka").glob("*/")
        shutil.copytree(jars, context / "jars", ignore=shutil.ignore_patterns("pom.xml", ".complete"))
    else:
        (program,) = (servers / "versitygw").glob("*/versitygw")
        shutil.copy(program, context)


def _here(engine: Engine, image: str) -> bool:
    return bool(engine.run("image", "inspect", "-f", "{{.Id}}", image, check=False).strip())
