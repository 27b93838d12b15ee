"""What docker-compose.yml starts before anything else: secrets and settings for each container, then who may do what in
Postgres, Kafka and S3.

Promises: secrets are random, made once and kept; each container gets a folder of its own in the volume, which only its
user can read (mode 0700, files 0600); run again, nothing changes but what is missing.

    python provision.py secrets VOLUME NAME=UID ...    the folder VOLUME/NAME for each container, unless the
                                                       volumes belong to a project in another folder
    python provision.py secrets VOLUME moved           the project goes on from this folder
    python provision.py roles VOLUME                   a role in Postgres for each service, and rights to blobs
    python provision.py topics VOLUME BROKER           every topic, and a user in Kafka for each service
    python provision.py topics VOLUME BROKER compared  the same; an empty broker beside a full database is refused
    python provision.py topics VOLUME BROKER adopted   the same; an empty broker gets the id of the database's stack
    python provision.py token VOLUME                   print the operator's token
    python provision.py reader VOLUME KAFKA POSTGRES S3    print the URLs of who reads, with these ports of this machine
    python provision.py authority VOLUME               print the certificate of the stack's authority

Where TLS_HOSTS names hosts by which people call the front door, `secrets` makes an authority, and a certificate for
each container that calls or is called; one that has less than RENEWAL_DAYS left is replaced, which needs no restart.
"""

import json
import os
import re
import secrets
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from tutti.backbone.s3.users import ACCOUNTS, accounts, agent
from tutti.chassis.config.datadir import tokens_at
from tutti.chassis.config.settings import installed_services
from tutti.chassis.identity.auth import Role, Tokens
from tutti.chassis.identity.certificates import (
    BadCertificate,
    Pair,
    hosts_of,
    issue,
    make_authority,
    read_certificates,
    read_pair,
)

if TYPE_CHECKING:
    from tutti.backbone.kafka.brokers import Brokers

PORT = 7000
METRICS_PORT = 9464
SERVERS = ("postgres", "s3")
OWNED = Path("/own")  # volumes that the container of this name writes to
ARCHIVE = "archive"  # takes backups and restores them, so it may do what every service may
DOOR = "door"
TLS_HOSTS = "TLS_HOSTS"
REPAIR = "`docker compose run --rm --no-deps topics adopted`, then `docker compose up -d --wait`"
REPAIR_DATABASE = "restore the one that is foreign from the backup"
# Variables of `secrets`, and what they stand for with one server of each kind.
BROKERS = ("BROKERS", "kafka:9092")
DATABASE = ("DATABASE", "postgres:5432/tutti")
CONNECTIONS = 4  # of each process to Postgres, at most; each costs the server 2 MiB at rest
RENEWAL_DAYS = 60
READER = "reader"  # a person who reads views, topics and blobs
MADE = "made.json"  # every secret, in a folder of its own
# Those of the servers' administrators, which are fixed when the servers first start.
LASTING = ("postgres", "s3_access", "s3_secret")
PROJECT = Path("/project")  # a file of the folder where `docker compose` was called
STARTED_IN = "project.json"  # that folder, at the first start of the volumes
MOVED = "moved"
NODES = "nodes.json"  # those whose agents have a key of the blob store
AGENT = agent("")  # how the names of agents begin
TOPICS, BLOBS = (Path(__file__).with_name(f"{name}.json") for name in ("topics", "blobs"))


def provide(volume: Path, users: Mapping[str, int]) -> None:
    """Write VOLUME/NAME for each name. Raises ValueError for a name that is nothing we start."""
    services = installed_services()
    made = _made(volume, services, [name for name in users if name.startswith(AGENT)])
    agents = sorted(name.removeprefix("s3_") for name in made if name.startswith(f"s3_{AGENT}"))  # of earlier calls too
    tokens = Tokens.parse(made["tokens"])
    others = {name: f"{name}:{PORT}" for name in services}
    log, database = (os.environ.get(name, default) for name, default in (BROKERS, DATABASE))
    hosts = [host for host in os.environ.get(TLS_HOSTS, "").split(",") if host]
    authority = _authority(volume) if hosts else None
    for name, user in users.items():
        is_agent, folder = name.startswith(AGENT), volume / name
        settings: dict[str, dict[str, str | int]] = {
            "rpc": {"listen": f"0.0.0.0:{PORT}", "tokens": f"/run/tutti/{name}/tokens"},
            "telemetry": {"metrics_listen": f"0.0.0.0:{METRICS_PORT}"},
            "services": {other: address for other, address in others.items() if other != name},
        }
        if name == DOOR:
            settings["rpc"]["door_secret"] = tokens.door_secret
        if authority and (name in services or is_agent or name == DOOR):
            settings["tls"] = {each: f"/run/tutti/{name}/{each}.pem" for each in ("certificate", "key", "ca")}
            settings["tls"]["clients"] = "token" if name == DOOR else "certificate"
        if name in services or is_agent or name == ARCHIVE:
            whole = _bucket(made["s3_access"], made["s3_secret"])
            settings["blobs"] = {"url": whole if name == ARCHIVE else _bucket(name, made[f"s3_{name}"])}
        if name in services or name == ARCHIVE:
            settings["log"] = {"url": f"kafka://{name}:{made[f'kafka_{name}']}@{log}"}
            url = f"postgresql://{name}:{made[name]}@{database}"
            settings["database"] = {"url": url, "connections": CONNECTIONS}
        files = {"tutti.toml": to_toml(settings)}
        if name in services or name == "operator":
            files["tokens"] = (tokens if name == "operator" else tokens.for_service()).text()
        elif is_agent:
            files["tokens"] = f"{Role.AGENT.value} {tokens.for_node(name.removeprefix(AGENT))}\n"
            settings["trainer"] = {"address": name}
            files["tutti.toml"] = to_toml(settings)
        elif name == "postgres":
            files = {"password": made["postgres"]}
        elif name == "s3":
            files = {
                "keys": f"ROOT_ACCESS_KEY={made['s3_access']}\nROOT_SECRET_KEY={made['s3_secret']}\n",
                ACCOUNTS: accounts({each: made[f"s3_{each}"] for each in (*services, READER, *agents)}),
            }
        elif name == "roles":
            files = {
                "roles.json": json.dumps({each: made[each] for each in (*services, ARCHIVE, READER)}),
                "url": f"postgresql://tutti:{made['postgres']}@{database}",
                "s3": _bucket(made["s3_access"], made["s3_secret"]),
                NODES: json.dumps([each.removeprefix(AGENT) for each in agents]),
            }
        elif name == "topics":
            files = {
                "users.json": json.dumps({each: made[f"kafka_{each}"] for each in (*services, ARCHIVE, READER)}),
                "url": f"postgresql://{ARCHIVE}:{made[ARCHIVE]}@{database}",
            }
        elif name == READER:
            files = {
                "passwords.json": json.dumps(
                    {"sql": made[READER], "events": made[f"kafka_{READER}"], "blobs": made[f"s3_{READER}"]}
                )
            }
        elif name not in (DOOR, ARCHIVE):
            others_too = ", ".join((ARCHIVE, READER, *SERVERS))
            raise ValueError(f"{name}: expected a service, agent-…, door, operator, roles, topics, {others_too}")
        folder.mkdir(mode=0o700, exist_ok=True)
        if authority and ("tls" in settings or name == "operator"):
            files["ca.pem"] = authority.certificate.decode()
        if authority and "tls" in settings:
            made_for = [name, *(hosts if name == DOOR else ())]
            pair = _certificate(folder, authority, made_for)
            files |= {"certificate.pem": pair.certificate.decode(), "key.pem": pair.key.decode()}
        for file, text in files.items():
            _write(folder / file, text, user)
        os.chown(folder, user, user)
        if (owned := OWNED / name).is_dir():
            os.chown(owned, user, user)


def _authority(volume: Path) -> Pair:
    """The authority of this stack, made at the first call."""
    certificate, key = (volume / "made" / name for name in ("ca.pem", "ca.key"))
    if not (certificate.exists() and key.exists()):
        made = make_authority(f"tutti {secrets.token_hex(4)}", datetime.now(UTC))
        _write(key, made.key.decode(), os.getuid())
        _write(certificate, made.certificate.decode(), os.getuid())
    return Pair(certificate.read_bytes(), key.read_bytes())


def _certificate(folder: Path, authority: Pair, hosts: Sequence[str]) -> Pair:
    """The certificate of a container: the one that it has, or another where that one does not last or fit."""
    now, authorities = datetime.now(UTC), folder / "ca.pem"
    try:
        pair = read_pair(folder / "certificate.pem", folder / "key.pem", now)
        leaf = read_certificates(folder / "certificate.pem")[0]
        same = authorities.read_bytes() == authority.certificate and set(hosts_of(leaf)) == set(hosts)
        if same and leaf.not_valid_after_utc - now > timedelta(days=RENEWAL_DAYS):
            return pair
    except (BadCertificate, OSError):
        pass  # there is none, or it cannot be used: it is replaced
    return issue(authority, hosts, now)


def _bucket(access: str, secret: str) -> str:
    return f"s3://{access}:{secret}@s3:7070/tutti?secure=false"


def roles(volume: Path) -> None:
    """Raises psycopg.Error, BlobError."""
    from tutti.backbone.postgres.roles import ensure_member, ensure_reader, ensure_roles

    folder = volume / "roles"
    url, passwords = (folder / "url").read_text(), json.loads((folder / "roles.json").read_text())
    archive, reader = passwords.pop(ARCHIVE), passwords.pop(READER)
    ensure_roles(url, passwords)
    ensure_reader(url, reader)
    ensure_member(url, ARCHIVE, archive, list(passwords))
    if (folder / "s3").exists():  # with a server outside, its owner decides
        from tutti.backbone.s3.users import declared, ensure_bucket

        nodes = json.loads((folder / NODES).read_text())
        ensure_bucket((folder / "s3").read_text(), declared(BLOBS.read_text(), nodes), [READER])


def topics(volume: Path, broker: "Brokers", *, compared: bool = False, adopted: bool = False) -> None:
    """`broker` is as its administrator reaches it.

    `compared`: refuse an empty broker beside a full database, or, `adopted`, give it the id of the database's stack.
    Raises EventLogError, psycopg.Error, ForeignStore.
    """
    from tutti.backbone.kafka.eventlog import KafkaEventLog
    from tutti.backbone.kafka.users import Rights, declared, ensure_users
    from tutti.chassis.store.stack import TOPIC, ForeignStore, into_log

    identity = lost_identity(volume, broker) if compared else ""
    if identity and not adopted:
        raise ForeignStore(
            f"the event log ({broker}) has no id of a stack, expected {identity} as in the database: it was emptied, "
            f"or another volume is mounted. Restore it from the backup, or mount its volume; to go on with it as it "
            f"is: {REPAIR}"
        )
    passwords = json.loads((volume / "topics" / "users.json").read_text())
    every, rights = declared(TOPICS)
    rights |= {ARCHIVE: Rights(shares=[TOPIC.name]), READER: Rights(reads=[topic.name for topic in every])}
    ensure_users(broker, passwords, rights, every)
    if identity:
        with closing(KafkaEventLog(broker)) as log:
            into_log(log, identity)
        print(f"the event log belongs to stack {identity} now")


def lost_identity(volume: Path, broker: "Brokers") -> str:
    """Return the id of the stack that the databases have and the broker lacks; empty where it lacks none."""
    from tutti.backbone.kafka.eventlog import KafkaEventLog
    from tutti.chassis.store.stack import ForeignStore, in_log

    ids = _database_ids((volume / "topics" / "url").read_text())
    if not ids:
        return ""
    with closing(KafkaEventLog(broker)) as log:
        if in_log(log):
            return ""
    if len(ids) > 1:
        raise ForeignStore(f"the databases of the services have different ids: {', '.join(ids)}; {REPAIR_DATABASE}")
    return ids[0]


def _database_ids(url: str) -> list[str]:
    """Return the different ids in the databases of the services, one schema each."""
    import psycopg
    from psycopg.sql import SQL, Identifier

    from tutti.chassis.store.stack import TABLE

    with psycopg.connect(url, connect_timeout=10) as connection:
        found = connection.execute("SELECT table_schema FROM information_schema.tables WHERE table_name = %s", [TABLE])
        tables = [SQL("SELECT id FROM {}").format(Identifier(schema, TABLE)) for (schema,) in found.fetchall()]
        return sorted({str(row[0]) for table in tables for row in connection.execute(table)})


def reader(volume: Path, kafka: str, postgres: str, s3: str) -> str:
    """The URLs of the reader as assignments for a shell, by the ports of this machine that lead to the servers."""
    own = json.loads((volume / READER / "passwords.json").read_text())
    return (
        f"export TUTTI_SQL=postgresql://{READER}:{own['sql']}@127.0.0.1:{postgres}/tutti\n"
        f"export TUTTI_EVENTS=kafka://{READER}:{own['events']}@127.0.0.1:{kafka}\n"
        f"export TUTTI_BLOBS='s3://{READER}:{own['blobs']}@127.0.0.1:{s3}/tutti?secure=false'\n"
    )


class ForeignProject(Exception):
    """The volumes are those of a project that was started in another folder."""


def source_of(mounts: str, target: Path) -> str | None:
    """Return the path of what is mounted on `target`, within its file system; None where nothing is.

    `mounts` has the lines of /proc/self/mountinfo: proc_pid_mountinfo(5).
    """
    found = None
    for line in mounts.splitlines():
        root, mounted = (re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), each) for each in line.split()[3:5])
        if mounted == str(target):
            found = root.removesuffix("//deleted")  # of a file that was replaced, as `git pull` does
    return found


def claim(volume: Path, folder: str | None, *, moved: bool = False) -> None:
    """Record that the volumes belong to the project in `folder`. Raises ForeignProject if they belong to another.

    Docker Compose tells projects apart by their name alone, and the file gives every clone the same name: the second
    would work on the data of the first, and `down --volumes` would delete them.
    """
    if folder is None:  # no Docker Compose, or an older file
        return
    path = volume / STARTED_IN
    owner = json.loads(path.read_text())["folder"] if path.exists() else folder
    if owner != folder and not moved:
        raise ForeignProject(
            f"the volumes of this compose project belong to the one in {owner}, and this is {folder}. For another "
            "platform, set COMPOSE_PROJECT_NAME and the ports (TUTTI_PORT, TUTTI_PAGES_PORT, TUTTI_ANNOTATION_PORT) in "
            "the file .env of this folder. If the folder was moved, run `docker compose run --rm --no-deps secrets "
            f"{MOVED}`, then `docker compose up -d --wait`"
        )
    if owner != folder or not path.exists():
        volume.mkdir(parents=True, exist_ok=True)
        _write(path, json.dumps({"folder": folder}), os.getuid())


def _said(work: Callable[[], None]) -> int:
    """Return the exit code of `work`; what an operator must repair is one line on stderr."""
    from tutti.chassis.config.exits import MISUSE, say
    from tutti.chassis.store.stack import ForeignStore

    try:
        work()
    except (ForeignStore, ForeignProject) as error:
        return say(str(error), MISUSE)
    return 0


def _started(volume: Path, users: Sequence[str]) -> None:
    """Claim the volumes, then write what each of `users` (NAME=UID) needs."""
    source = source_of(Path("/proc/self/mountinfo").read_text(), PROJECT)
    claim(volume, str(Path(source).parent) if source else None, moved=users == [MOVED])
    if users != [MOVED]:
        provide(volume, {name: int(user) for name, _, user in (each.partition("=") for each in users)})


def _made(volume: Path, services: Sequence[str], agents: Sequence[str]) -> dict[str, str]:
    """Every secret; those that are missing are made."""
    folder = volume / "made"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / MADE
    old: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}
    new = old | {
        "tokens": old.get("tokens") or Tokens.random().text(),
        "s3_access": old.get("s3_access") or f"tutti{secrets.token_hex(6)}",
        "s3_secret": old.get("s3_secret") or secrets.token_hex(24),
    }
    users = (*services, ARCHIVE, READER)
    keys = (f"s3_{user}" for user in (*services, READER, *agents))
    names = ("postgres", *users, *(f"kafka_{user}" for user in users), *keys)
    new |= {name: old.get(name) or secrets.token_hex(24) for name in names}
    if new != old:
        _write(path, json.dumps(new), os.getuid())
    return new


def rotate(volume: Path) -> int:
    """Forget every token, password and key but `LASTING`, so that `provide` makes others; their number."""
    path = volume / "made" / MADE
    old: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}
    kept = {name: old[name] for name in LASTING if name in old}
    _write(path, json.dumps(kept), os.getuid())
    return len(old) - len(kept)


def to_toml(settings: Mapping[str, Mapping[str, str | int]]) -> str:
    """Settings as TOML."""
    lines = ["# Written at every start by provision.py; settings of yours go into the environment (TUTTI_...)."]
    for table, values in settings.items():
        lines += [f"[{table}]", *(f"{key} = {json.dumps(value)}" for key, value in values.items())]
    return "\n".join(lines) + "\n"


def _write(path: Path, text: str, user: int) -> None:
    beside = path.with_name(f".{path.name}.new")
    beside.unlink(missing_ok=True)
    with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
        os.fchown(file.fileno(), user, user)
        os.fsync(file.fileno())
    beside.replace(path)


def main(arguments: Sequence[str]) -> int:
    match arguments:
        case ["secrets", volume, *users]:
            return _said(lambda: _started(Path(volume), users))
        case ["rotate", volume]:
            print(f"{rotate(Path(volume))} secrets will be made anew: docker compose up -d --wait --force-recreate")
        case ["roles", volume]:
            roles(Path(volume))
        case ["topics", volume, broker, *empty] if empty in ([], ["compared"], ["adopted"]):
            from tutti.backbone.kafka.brokers import Brokers

            # The listener takes anybody as its administrator, so it is one that nobody else can reach.
            admin = Brokers([broker])
            return _said(lambda: topics(Path(volume), admin, compared=bool(empty), adopted=empty == ["adopted"]))
        case ["token", volume]:
            print(tokens_at(Path(volume, "operator", "tokens")).of(Role.OPERATOR))
        case ["reader", volume, kafka, postgres, s3]:
            print(reader(Path(volume), kafka, postgres, s3), end="")
        case ["authority", volume]:
            print(Path(volume, "operator", "ca.pem").read_text(), end="")
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
