"""What people read with SQL on Postgres: views that decode messages as protobuf does, and a role that reads them."""

import json
from base64 import b64decode
from collections.abc import Iterator
from contextlib import closing
from math import isnan
from pathlib import Path
from typing import Any

import psycopg
import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import MetaData

from tutti.backbone.connect import open_database
from tutti.backbone.database import DatabaseUnavailable, Publishing, Readable
from tutti.backbone.migrations import History
from tutti.backbone.postgres.roles import ensure_reader, ensure_roles
from tutti.chassis.store.resources import Resource
from tutti.chassis.store.views import readable
from tutti.contracts.committer.v1 import Checkpoint
from tutti.contracts.pipeline.v1 import Run
from tutti.contracts.scheduler.v1 import JOB_STATE_RUNNING, Job
from tutti.contracts.trainer.v1 import RankMessage

KINDS = {"jobs": Job, "runs": Run, "checkpoints": Checkpoint}
INTEGERS = {
    FieldDescriptor.CPPTYPE_INT32: (-(1 << 31), (1 << 31) - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(1 << 63), (1 << 63) - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, (1 << 32) - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, (1 << 64) - 1),
}


@pytest.fixture
def url(postgres_url: str, unique: str) -> Iterator[str]:
    """An empty database of its own, with the roles of a service and of the reader."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {unique}".encode())
    made = f"{postgres_url.rpartition('/')[0]}/{unique}"
    ensure_roles(made, {"scheduler": "secret"})
    ensure_reader(made, "secret")
    yield made
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {unique} WITH (FORCE)".encode())


def published(url: str, **kinds: type[Message]) -> None:
    """Tables and views of a service with these kinds of resources."""
    metadata = MetaData()
    resources = [Resource(metadata, kind, message) for kind, message in kinds.items()]
    own = as_role(url, "scheduler")
    with closing(open_database(own, "scheduler")) as database:
        from tutti.chassis.store.tables import tables_of

        tables_of(metadata)
        database.create(metadata)
        assert isinstance(database, Publishing)
        database.publish(readable(resources, [RankMessage]))


def as_role(url: str, role: str) -> str:
    return f"postgresql://{role}:secret@{url.rpartition('@')[2]}"


def query(url: str, words: str, *values: Any) -> list[Any]:
    with psycopg.connect(as_role(url, "reader")) as connection:
        return connection.execute(words.encode(), values or None).fetchall()


def put(url: str, kind: str, message: Any) -> None:
    with psycopg.connect(as_role(url, "scheduler")) as connection:
        connection.execute(
            f"INSERT INTO scheduler.{kind} (name, revision, body, digest, request_digest) VALUES (%s, 1, %s, '', '') "  # noqa: S608
            "ON CONFLICT (name) DO UPDATE SET body = EXCLUDED.body".encode(),
            [message.name, message.SerializeToString()],
        )


def test_a_resource_is_a_row_with_a_column_for_each_field(url: str) -> None:
    published(url, **KINDS)
    job = Job(name="jobs/a", state=JOB_STATE_RUNNING, step=7, loss=1.25)
    job.spec.steps = 20
    job.started_at.FromJsonString("2026-11-24T06:00:00.123456Z")
    put(url, "jobs", job)
    found = query(
        url,
        "SELECT state, step, loss, spec ->> 'steps', started_at AT TIME ZONE 'UTC', pg_typeof(started_at)::text "
        "FROM scheduler_views.jobs WHERE name = 'jobs/a'",
    )
    (row,) = found
    assert (*row[:4], row[4].isoformat(), row[5]) == (
        "JOB_STATE_RUNNING", 7, 1.25, "20", "2026-11-24T06:00:00.123456", "timestamp with time zone",
    )  # fmt: skip
    names = query(
        url,
        "SELECT column_name FROM information_schema.columns WHERE table_schema = 'scheduler_views' "
        "AND table_name = 'jobs' ORDER BY ordinal_position",
    )
    assert [name for (name,) in names] == [field.name for field in Job.DESCRIPTOR.fields]


def test_events_and_tasks_are_read_with_times_and_decoded_payloads(url: str) -> None:
    published(url, **KINDS)
    with psycopg.connect(as_role(url, "scheduler")) as connection:
        payload = Job(name="jobs/a", step=3).SerializeToString()
        connection.execute(
            "INSERT INTO scheduler.outbox (id, type, topic, kind, subject, revision, made_at, headers, payload) "
            "VALUES ('e', 'tutti.scheduler.v1.Job', 't', 'state', 'jobs/a', 1, 1700000000000000, '{}', %s)",
            [payload],
        )
    found = query(url, "SELECT payload ->> 'step', extract(epoch FROM made_at), sent_at FROM scheduler_views.events")
    assert found == [("3", 1700000000, None)]
    assert query(url, "SELECT count(*) FROM scheduler_views.tasks") == [(0,)]


@pytest.mark.parametrize(
    "words",
    [
        "SELECT * FROM scheduler.jobs",
        "SELECT * FROM scheduler.audit",
        "CREATE TABLE scheduler_views.x (a int)",
        "CREATE SCHEMA own",
        "DELETE FROM scheduler_views.messages",
        "SET default_transaction_read_only = off; DELETE FROM scheduler_views.messages",
    ],
)
def test_the_reader_reads_views_alone_and_writes_nothing(url: str, words: str) -> None:
    published(url, **KINDS)
    with pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.errors.ReadOnlySqlTransaction)):
        query(url, words)


def test_views_are_made_anew_when_they_change_and_give_way_to_a_migration(url: str, tmp_path: Path) -> None:
    published(url, **KINDS)
    before = query(url, "SELECT to_regclass('scheduler_views.messages')::oid::bigint")
    published(url, **KINDS)
    assert query(url, "SELECT to_regclass('scheduler_views.messages')::oid::bigint") == before
    published(url, jobs=Job)
    assert query(url, "SELECT to_regclass('scheduler_views.messages')::oid::bigint") != before
    assert query(url, "SELECT to_regclass('scheduler_views.runs')") == [(None,)]
    (history := tmp_path / "service" / "migrations").mkdir(parents=True)
    (history / "0001_x.py").write_text(
        "def upgrade(op):\n    op.alter_column('jobs', 'body', new_column_name='content')\n"
    )
    with closing(open_database(as_role(url, "scheduler"), "scheduler")) as database:
        database.create(MetaData(), [History(history, "the tables")])
        assert isinstance(database, Publishing)
        database.publish(Readable({}, {"names": "SELECT name FROM {schema}.jobs"}))
    assert query(url, "SELECT * FROM scheduler_views.names") == []


def test_a_role_that_makes_no_schema_uses_those_that_were_made_for_it(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as administrator:
        administrator.execute(f"REVOKE CREATE ON DATABASE {url.rpartition('/')[2]} FROM scheduler".encode())
        with pytest.raises(DatabaseUnavailable, match="administrator") as refused:
            published(url, **KINDS)
        administrator.execute(str(refused.value).partition("there: ")[2].encode())
    published(url, **KINDS)
    published(url, jobs=Job)  # made anew in the same schema
    assert query(url, "SELECT count(*) FROM scheduler_views.jobs") == [(0,)]
    assert query(url, "SELECT to_regclass('scheduler_views.runs')") == [(None,)]


def test_a_schema_of_another_role_is_refused(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as administrator:
        administrator.execute("CREATE SCHEMA scheduler")
    with pytest.raises(DatabaseUnavailable, match="ALTER SCHEMA scheduler OWNER TO"):
        published(url, **KINDS)


def messages_of(descriptor: Any, depth: int = 3) -> st.SearchStrategy[Message]:
    return st.builds(
        lambda parts: made(descriptor, parts),
        st.fixed_dictionaries(
            {}, optional={field.name: value_of(field, depth) for field in descriptor.fields if depth or leaf(field)}
        ),
    )


def leaf(field: FieldDescriptor) -> bool:
    return field.message_type is None


def value_of(field: FieldDescriptor, depth: int) -> st.SearchStrategy[Any]:
    inner = field.message_type
    if inner is not None and inner.GetOptions().map_entry:
        key, value = inner.fields_by_name["key"], inner.fields_by_name["value"]
        return st.dictionaries(one_of(key, depth), one_of(value, depth), max_size=3)
    return st.lists(one_of(field, depth), max_size=3) if field.is_repeated else one_of(field, depth)


def one_of(field: FieldDescriptor, depth: int) -> st.SearchStrategy[Any]:
    inner = field.message_type
    if inner is not None:
        if inner.full_name == "google.protobuf.Timestamp":
            micros = st.integers(-62135596800 * 10**6, 253402300799 * 10**6)
            return micros.map(lambda at: made(inner, {"seconds": at // 10**6, "nanos": at % 10**6 * 1000}))
        return messages_of(inner, depth - 1)
    if field.cpp_type in INTEGERS:
        return st.integers(*INTEGERS[field.cpp_type])
    if field.enum_type is not None:
        return st.sampled_from([value.number for value in field.enum_type.values])
    if field.type == FieldDescriptor.TYPE_BYTES:
        return st.binary(max_size=20)
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
    if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        return st.booleans()
    return st.floats(width=64 if field.cpp_type == FieldDescriptor.CPPTYPE_DOUBLE else 32)


def made(descriptor: Any, parts: dict[str, Any]) -> Message:
    return GetMessageClass(descriptor)(**parts)


def require(seen: Any, message: Message) -> None:
    """AssertionError unless JSON says of each field what protobuf does; times have microseconds, NaN is a string."""
    assert set(seen) == {field.name for field in message.DESCRIPTOR.fields}
    for field in message.DESCRIPTOR.fields:
        value, kind = getattr(message, field.name), field.message_type
        if field.has_presence and not message.HasField(field.name):
            assert seen[field.name] is None
        elif kind is not None and kind.GetOptions().map_entry:
            assert set(seen[field.name]) == {str(key) for key in value}
            for key, each in value.items():
                require_one(seen[field.name][str(key)], kind.fields_by_name["value"], each)
        elif field.is_repeated:
            assert len(seen[field.name]) == len(value)
            for one, each in zip(seen[field.name], value, strict=True):
                require_one(one, field, each)
        else:
            require_one(seen[field.name], field, value)


def require_one(seen: Any, field: Any, value: Any) -> None:
    if isinstance(value, Timestamp):
        assert seen == f"{value.ToJsonString()[:19]}.{value.nanos // 1000:06d}Z"
    elif isinstance(value, Message):
        require(seen, value)
    elif field.enum_type is not None:
        assert seen == field.enum_type.values_by_number[value].name
    elif isinstance(value, float):
        assert float(seen) == value or (isnan(value) and seen == "NaN")
    elif isinstance(value, bytes):
        assert b64decode(seen) == value
    else:
        assert seen == value


@pytest.mark.parametrize("message", [Job, Run, Checkpoint, RankMessage], ids=lambda message: message.__name__)
def test_a_message_is_decoded_as_protobuf_says(url: str, message: type[Message]) -> None:
    published(url, **KINDS)
    with psycopg.connect(as_role(url, "reader"), autocommit=True) as connection:

        @settings(max_examples=60, suppress_health_check=list(HealthCheck))
        @given(messages_of(message.DESCRIPTOR))
        def same(made: Message) -> None:
            row = connection.execute(
                "SELECT scheduler_views.decode(%s, %s)::text", [made.SerializeToString(), message.DESCRIPTOR.full_name]
            ).fetchone()
            assert row is not None
            require(json.loads(row[0]), made)

        same()
