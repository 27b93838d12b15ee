"""Secrets and settings of each pod as manifests: `python deploy/kubernetes/credentials.py FOLDER | kubectl apply -f -`.

Promises: secrets are random, made once and kept in FOLDER (mode 0700), which you keep; run again, nothing changes but
what is missing. Options name stores outside of the cluster; those with passwords name files, because every user of the
machine can read the arguments of a process.
"""

import argparse
import os
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

import yaml

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "deploy" / "docker"))

from provision import ARCHIVE, provide, to_toml  # noqa: E402

from tutti.chassis.config.settings import installed_services  # noqa: E402

AGENTS = 4  # so many can be kept apart by a server whose data are on ext4, see `s3.users.SMALL`
BESIDES = (ARCHIVE, "door", "operator", "postgres", "roles", "s3", "topics")


def secrets(
    folder: Path, *, log: str | None, database: str | None, blobs: str | None, agents: int = AGENTS
) -> list[dict[str, object]]:
    """A Secret for each pod, and one for the agents, of which each pod is given its own part.

    `log`: HOST:PORT; `database`: the URL of its administrator; `blobs`: URL with keys.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    nodes = [f"agent-{number}" for number in range(agents)]
    names = [*installed_services(), *BESIDES]
    provide(folder, dict.fromkeys([*names, *nodes], os.getuid()))
    found: list[dict[str, object]] = []
    for name in ("agent", *names):
        files = _of_agents(folder, nodes) if name == "agent" else _files(folder / name)
        for file in [each for each in files if each.endswith(".toml")]:
            files[file] = _moved(files[file], log=log, database=database, blobs=blobs)
        if name == "roles" and database:
            files["url"] = database
        if name == "roles" and blobs:
            del files["s3"]  # services and agents have the one key
        found.append(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": f"tutti-{name}", "namespace": "tutti"},
                "stringData": files,
            }
        )
    return found


def _files(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(folder.iterdir()) if path.is_file()}


def _of_agents(folder: Path, nodes: Sequence[str]) -> dict[str, str]:
    """For the node N its settings with its key to blobs as N.toml, and its token as N.tokens: good for it alone."""
    found: dict[str, str] = {}
    for name in nodes:
        files, node = _files(folder / name), name.removeprefix("agent-")
        settings = tomllib.loads(files["tutti.toml"])
        settings["rpc"]["tokens"] = "/run/tutti/agent/tokens"
        del settings["trainer"]  # the address of a pod is in its environment
        found |= {f"{node}.toml": to_toml(settings), f"{node}.tokens": files["tokens"]}
    return found


def _moved(text: str, *, log: str | None, database: str | None, blobs: str | None) -> str:
    """The same settings with other stores; each service keeps its own password."""
    settings = tomllib.loads(text)
    for table, outside in (("log", log), ("database", database and urlsplit(database).netloc.rpartition("@")[2])):
        if outside and table in settings:
            url = urlsplit(settings[table]["url"])
            settings[table]["url"] = url._replace(netloc=f"{url.netloc.rpartition('@')[0]}@{outside}").geturl()
    if database and "database" in settings:
        settings["database"]["url"] = (
            urlsplit(settings["database"]["url"])._replace(path=urlsplit(database).path).geturl()
        )
    if blobs and "blobs" in settings:
        settings["blobs"]["url"] = blobs
    return to_toml(settings)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the secrets are kept")
    parser.add_argument("--log", metavar="HOST:PORT", help="a Kafka outside, with the users of FOLDER/topics")
    parser.add_argument(
        "--database", metavar="FILE", help="of a Postgres outside: a file with postgresql://ADMIN:PASSWORD@HOST:PORT/DB"
    )
    parser.add_argument("--blobs", metavar="FILE", help="of an S3 outside: a file with s3://KEY:SECRET@HOST/BUCKET")
    parser.add_argument("--agents", type=int, default=AGENTS, help="how many agents there can be; %(default)s")
    given = parser.parse_args(arguments)
    if given.agents < 1:
        parser.error(f"--agents {given.agents}: expected at least 1")
    urls: dict[str, str | None] = {"database": None, "blobs": None}
    for name, scheme in (("database", "postgresql"), ("blobs", "s3")):
        if path := getattr(given, name):
            try:
                url = "" if "://" in path else Path(path).read_text().strip()
            except OSError as error:
                parser.error(f"--{name}: {error}")
            if urlsplit(url).scheme != scheme or "@" not in url:
                parser.error(f"--{name}: expected a file (mode 0600) with {scheme}://USER:PASSWORD@HOST/NAME")
            urls[name] = url
    if given.log and not urlsplit(f"//{given.log}").port:
        parser.error(f"--log {given.log}: expected HOST:PORT")
    every = secrets(given.folder, log=given.log, agents=given.agents, **urls)
    sys.stdout.write(yaml.safe_dump_all(every, sort_keys=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
