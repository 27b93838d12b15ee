"""The identity of a stack on Kafka, Postgres and S3: what was emptied by mistake is refused until it is adopted."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
import pytest

from tutti.backbone import SystemRandomness
from tutti.backbone.connect import open_blobs
from tutti.chassis.config.datadir import DataDir
from tutti.chassis.config.settings import BlobSettings, DatabaseSettings, LogSettings, Settings
from tutti.chassis.store import stack
from tutti.chassis.store.stack import ForeignStore, Stores


@pytest.fixture
def settings(kafka_url: str, postgres_url: str, s3_url: str) -> Iterator[Settings]:
    """Of a new stack; the broker is shared, so the topic of the id is this module's alone."""
    remove_topic(kafka_url)
    yield Settings(
        log=LogSettings(url=kafka_url), database=DatabaseSettings(url=postgres_url), blobs=BlobSettings(url=s3_url)
    )
    remove_topic(kafka_url)


def remove_topic(url: str) -> None:
    import kafka

    from tutti.backbone.kafka.brokers import Brokers

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
    empty(settings, unique)
    with opened() as stores:
        with pytest.raises(ForeignStore, match=rf"^{store}.*expected {identity}.*`tutti stack adopt`") as refused:
            stack.join(stores, SystemRandomness())
        assert "secret" not in str(refused.value)
        assert stack.adopt(stores) == identity
    with opened() as stores:
        assert stack.join(stores, SystemRandomness()) == identity
