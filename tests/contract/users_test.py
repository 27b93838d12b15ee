"""Users of Kafka: what a service may do, what it may not, and how it learns that its password is wrong."""

from collections.abc import Iterator
from contextlib import closing
from urllib.parse import urlsplit

import pytest

from tutti.backbone import EventLog, Kind, NewRecord, Topic
from tutti.backbone.connect import open_log
from tutti.backbone.eventlog import LogRefused, TopicPartition
from tutti.backbone.kafka.brokers import Brokers
from tutti.backbone.kafka.users import Rights, ensure_users


@pytest.fixture
def topics(unique: str) -> dict[str, Topic]:
    return {name: Topic(f"{unique}.{name}", Kind.FACT, 2) for name in ("mine", "theirs", "secret", "shared")}


def as_user(url: str, user: str, password: str) -> EventLog:
    parts = urlsplit(url)
    return open_log(parts._replace(netloc=f"{user}:{password}@{parts.hostname}:{parts.port}").geturl())


@pytest.fixture
def service(kafka_url: str, unique: str, topics: dict[str, Topic]) -> Iterator[EventLog]:
    """The log as a service sees it that owns `mine`, reads `theirs`, shares `shared`, and has no part in `secret`."""
    rights = Rights(owns=[topics["mine"].name], reads=[topics["theirs"].name], shares=[topics["shared"].name])
    for _ in range(2):
        ensure_users(Brokers.parse(kafka_url), {unique: "p/w:1"}, {unique: rights}, list(topics.values()))
    with closing(as_user(kafka_url, unique, "p%2Fw%3A1")) as log:
        yield log


def test_a_service_writes_its_own_topics_and_reads_what_it_consumes(
    service: EventLog, kafka_url: str, unique: str, topics: dict[str, Topic]
) -> None:
    service.ensure([topics["mine"], topics["theirs"], topics["shared"]])
    service.append([NewRecord(topics[name].name, "k", b"v") for name in ("mine", "shared")])
    with closing(open_log(kafka_url)) as owner:
        owner.append([NewRecord(topics["theirs"].name, "k", b"theirs")])
    with closing(service.subscribe(unique, [topics["theirs"].name])) as member:
        while not (records := member.poll(1)):
            pass
        assert [record.value for record in records] == [b"theirs"]
        member.commit({records[0].at: records[0].offset + 1}, member.generation)
    assert service.committed(unique, topics["theirs"].name) == {records[0].at: records[0].offset + 1}


def test_a_service_is_refused_the_topics_and_groups_of_others(
    service: EventLog, unique: str, topics: dict[str, Topic]
) -> None:
    service.ensure([topics["theirs"]])
    with pytest.raises(LogRefused, match=rf"the user {unique} may not append"):
        service.append([NewRecord(topics["theirs"].name, "k", b"forged")])
    assert set(service.end_offsets(topics["theirs"].name).values()) == {0}
    with pytest.raises(LogRefused, match="may not look up"):
        service.read(TopicPartition(topics["secret"].name, 0), 0)
    with pytest.raises(LogRefused, match="may not ensure"):
        service.ensure([Topic(f"{unique}.new", Kind.FACT, 1)])
    with pytest.raises(LogRefused), closing(service.subscribe("another", [topics["theirs"].name])) as member:
        member.poll(5)


def test_a_right_that_is_taken_away_is_gone(
    service: EventLog, kafka_url: str, unique: str, topics: dict[str, Topic]
) -> None:
    service.append([NewRecord(topics["mine"].name, "k", b"v")])
    ensure_users(Brokers.parse(kafka_url), {unique: "p/w:1"}, {unique: Rights(reads=[topics["mine"].name])}, [])
    with pytest.raises(LogRefused):
        service.append([NewRecord(topics["mine"].name, "k", b"v")])


def test_a_wrong_password_is_named_at_once(service: EventLog, kafka_url: str, unique: str) -> None:
    for user, password in ((unique, "wrong"), ("stranger", "p")):
        with closing(as_user(kafka_url, user, password)) as log:
            with pytest.raises(LogRefused, match=rf"refused the user {user}: .*check user and password in log\.url"):
                log.ensure([])
            with pytest.raises(LogRefused):
                log.end_offsets("any")
