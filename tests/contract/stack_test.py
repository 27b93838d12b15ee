"""The identity of a stack on Kafka, Postgres and S3: what was emptied by mistake is refused until it is adopted."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import kafka
import psycopg
import pytest

from tutti.backbone import SystemRandomness
from tutti.backbone.connect import open_blobs
from tutti.backbone.kafka.brokers import Brokers
from tutti.chassis.config.datadir import DataDir
from tutti.chassis.config.sections import BlobSettings, DatabaseSettings, LogSettings
from tutti.chassis.config.settings import Settings
from tutti.chassis.store import stack
from tutti.chassis.store.stack import ForeignStore, Stores

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def settings(kafka_url: str, postgres_url: str, s3_url: str) -> Iterator[Settings]:
    """Of a new stack; the broker is shared, so the topic of the id is this module's alone."""
    remove_topic(kafka_url)
    yield Settings(
        log=LogSettings(url=kafka_url), database=DatabaseSettings(url=postgres_url), blobs=BlobSettings(url=s3_url)
    )
    remove_topic(kafka_url)


def remove_topic(url: str) -> None:
    with closing(kafka.KafkaAdminClient(**Brokers.parse(url).settings())) as admin:
        if stack.TOPIC.name in admin.list_topics():
            admin.delete_topics([stack.TOPIC.name])


def remove_schema(settings: Settings, service: str) -> None:
    with psycopg.connect(settings.database.url, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA {service} CASCADE".encode())


def remove_blobs(settings: Settings) -> None:
    with closing(open_blobs(settings.blobs.url)) as blobs:
        for stat in list(blobs.list("")):
            blobs.delete(stat.key)


@pytest.mark.parametrize(
    ("store", "empty"),
    [
        ("the event log", lambda settings, _: remove_topic(settings.log.url)),
        ("the database of", remove_schema),
        ("the blob store", lambda settings, _: remove_blobs(settings)),
    ],
    ids=["log", "database", "bucket"],
)
def test_an_emptied_store_is_refused_until_it_is_adopted(
    settings: Settings, unique: str, tmp_path: Path, store: str, empty: Callable[[Settings, str], None]
) -> None:
    @contextmanager
    def opened() -> Iterator[Stores]:
        with stack.opened(settings, DataDir(tmp_path), [unique]) as stores:
            yield stores

    with opened() as stores:
        identity = stack.join(stores, SystemRandomness())
    with opened() as stores:
        assert stack.join(stores, SystemRandomness()) == identity
        stack.compare(stores, identity)
        empty(settings, unique)
        with pytest.raises(ForeignStore, match=rf"^{store}.*no id.*expected {identity}"):  # while it runs
            stack.compare(stores, identity)
    with opened() as stores:
        with pytest.raises(ForeignStore, match=rf"^{store}.*expected {identity}.*`tutti stack adopt`") as refused:
            stack.join(stores, SystemRandomness())
        assert "secret" not in str(refused.value)
        assert stack.adopt(stores) == identity
    with opened() as stores:
        assert stack.join(stores, SystemRandomness()) == identity


def test_an_empty_broker_beside_a_full_database_gets_no_topics_until_it_is_adopted(
    settings: Settings, unique: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the container `topics` does it, which runs before any service: `docker volume rm tutti_kafka`, and `up`."""
    monkeypatch.syspath_prepend(str(ROOT / "deploy" / "docker"))
    import provision

    with psycopg.connect(settings.database.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {unique}".encode())  # without the stacks of other tests
    url = urlsplit(settings.database.url)._replace(path=f"/{unique}").geturl()
    own = settings.model_copy(update={"database": DatabaseSettings(url=url)})
    volume, broker = tmp_path / "volume", Brokers.parse(settings.log.url)
    (volume / "topics").mkdir(parents=True)
    (volume / "topics" / "users.json").write_text("{}")
    (volume / "topics" / "url").write_text(url)
    declared = volume / "topics.json"
    declared.write_text(json.dumps({"topics": {unique: ["state", 1]}, "services": {}}))
    monkeypatch.setattr(provision, "TOPICS", declared)

    def has_topics() -> bool:
        with closing(kafka.KafkaAdminClient(**broker.settings())) as admin:
            return unique in admin.list_topics()

    with stack.opened(own, DataDir(tmp_path / "data"), [unique]) as stores:
        identity = stack.join(stores, SystemRandomness())
    remove_topic(settings.log.url)
    with pytest.raises(ForeignStore, match=rf"expected {identity}.*topics adopted"):
        provision.topics(volume, broker, compared=True)
    assert not has_topics()
    provision.topics(volume, broker, compared=True, adopted=True)
    assert has_topics()
    provision.topics(volume, broker, compared=True)
    with stack.opened(own, DataDir(tmp_path / "data"), [unique]) as stores:
        assert stack.join(stores, SystemRandomness()) == identity
