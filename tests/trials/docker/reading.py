"""Foreign clients on this machine read what the layer `readers` offers, and may write nothing."""

import json
import shlex
from contextlib import closing
from urllib.parse import urlsplit

from tests.trials.docker.engine import TrialError
from tests.trials.docker.project import Project

SECONDS = 30


def read(project: Project) -> None:
    """Jobs by SQL, their events from Kafka, and a manifest from S3. Raises TrialError."""
    lines = project.compose("run", "--rm", "-T", "--no-deps", "reader").splitlines()
    urls = dict(shlex.split(line)[1].split("=", 1) for line in lines)
    jobs = _jobs(urls["TUTTI_SQL"])
    keys = _events(urls["TUTTI_EVENTS"])
    manifest = _manifest(urls["TUTTI_BLOBS"])
    if not jobs or not jobs <= keys or manifest != "checkpoint":
        raise TrialError(f"SQL has the jobs {jobs}, Kafka {keys}, and a manifest of S3 the kind {manifest!r}")
    print(f"clients on this machine read {len(jobs)} jobs by SQL and from Kafka, and a manifest from S3", flush=True)


def _jobs(url: str) -> set[str]:
    import psycopg

    with psycopg.connect(url, connect_timeout=SECONDS, autocommit=True) as connection:
        found = {str(name) for (name,) in connection.execute("SELECT name FROM scheduler_views.jobs")}
        try:
            connection.execute("DELETE FROM scheduler.jobs")
        except psycopg.errors.InsufficientPrivilege:
            return found
    raise TrialError("the reader may delete rows")


def _events(url: str) -> set[str]:
    import kafka
    from kafka.errors import TopicAuthorizationFailedError

    parts = urlsplit(url)
    login = {
        "bootstrap_servers": f"{parts.hostname}:{parts.port}",
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": parts.username,
        "sasl_plain_password": parts.password,
    }
    settings = {"group_id": "reader", "auto_offset_reset": "earliest", "consumer_timeout_ms": 5000}
    with closing(kafka.KafkaConsumer("scheduler.jobs", **login, **settings)) as consumer:
        found = {record.key.decode() for record in consumer}
    with closing(kafka.KafkaProducer(**login, enable_idempotence=False)) as producer:
        try:
            producer.send("scheduler.jobs", b"forged", b"jobs/forged").get(timeout=SECONDS)
        except TopicAuthorizationFailedError:
            return found
    raise TrialError("the reader may write events")


def _manifest(url: str) -> str:
    """The kind of the first manifest of a checkpoint."""
    from tutti.backbone.blobs import BlobsRefused
    from tutti.backbone.connect import open_blobs

    with closing(open_blobs(url)) as blobs:
        first = next(iter(blobs.list("committer/manifests/")), None)
        try:
            blobs.put_if_absent("committer/manifests/forged", b"forged")
        except BlobsRefused:
            return str(json.loads(blobs.get(first.key))["kind"]) if first else ""
    raise TrialError("the reader may write blobs")
