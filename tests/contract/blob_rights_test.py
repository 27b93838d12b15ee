"""Users of S3: what a key may do, and what the server refuses it."""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tutti.backbone import Blobs
from tutti.backbone.blobs import BlobMissing, BlobsRefused
from tutti.backbone.connect import open_blobs
from tutti.backbone.owned import agent_rights, service_rights
from tutti.backbone.s3.users import ACCOUNTS, accounts, declared, ensure_bucket, policy

SECRETS = {"dedup": "of-dedup", "ingest": "of-ingest", "trainer": "of-trainer"}
RIGHTS = {
    "dedup": service_rights("dedup", reads=["ingest"]),
    "ingest": service_rights("ingest"),
    "trainer": agent_rights("trainer", ["ingest"]),
}


@pytest.fixture
def opened(tmp_path: Path, own_server: Callable[[str], Any]) -> Iterator[Callable[[str], Blobs]]:
    """The store as each user sees it. The server knows the users before the bucket has a policy."""
    server = own_server("s3")
    url = server.up()
    (tmp_path / "own" / "s3" / "iam" / ACCOUNTS).write_text(accounts(SECRETS))
    for _ in range(2):
        ensure_bucket(url, RIGHTS)
    parts, every = urlsplit(url), list[Blobs]()

    def of(user: str) -> Blobs:
        netloc = f"{user}:{SECRETS.get(user, 'guessed')}@{parts.hostname}:{parts.port}"
        every.append(open_blobs(parts._replace(netloc=netloc).geturl()))
        return every[-1]

    yield of
    for each in every:
        each.close()


def test_a_key_writes_its_own_prefix_and_reads_what_it_declares(opened: Callable[[str], Blobs], tmp_path: Path) -> None:
    ingest, dedup = opened("ingest"), opened("dedup")
    ingest.put_if_absent("ingest/kind/name", b"text")
    large = tmp_path / "large"
    large.write_bytes(b"x" * (70 << 20))
    dedup.put_if_absent("dedup/kind/large", large)
    assert dedup.get("ingest/kind/name") == b"text"
    assert [stat.key for stat in dedup.list("dedup/")] == ["dedup/kind/large"]
    dedup.delete("dedup/kind/large")
    with pytest.raises(BlobMissing):
        dedup.get("dedup/kind/large")
    dedup.put_if_absent("audit/dedup/000000000001", b"seal")
    for key in ("audit/dedup/000000000001", "stack/members/dedup"):
        with pytest.raises(BlobsRefused):
            dedup.delete(key)


@pytest.mark.parametrize("user", ["dedup", "trainer"])
def test_a_key_is_refused_the_blobs_of_others(opened: Callable[[str], Blobs], user: str) -> None:
    ingest, other = opened("ingest"), opened(user)
    ingest.put_if_absent("ingest/kind/name", b"text")
    with pytest.raises(BlobsRefused, match=r"check the access key in blobs\.url, and its rights"):
        other.put_if_absent("ingest/kind/forged", b"forged")
    with pytest.raises(BlobsRefused):
        other.delete("ingest/kind/name")
    assert [stat.key for stat in ingest.list("ingest/")] == ["ingest/kind/name"]
    assert ingest.get("ingest/kind/name") == b"text"


def test_an_agent_deletes_nothing_and_reads_what_it_declares(opened: Callable[[str], Blobs]) -> None:
    agent = opened("trainer")
    opened("ingest").put_if_absent("ingest/kind/name", b"text")
    opened("dedup").put_if_absent("dedup/kind/name", b"theirs")
    assert agent.get("ingest/kind/name") == b"text"
    with pytest.raises(BlobsRefused):
        agent.get("dedup/kind/name")
    agent.put_if_absent("trainer/shards/name", b"state")
    with pytest.raises(BlobsRefused):
        agent.delete("trainer/shards/name")
    assert agent.get("trainer/shards/name") == b"state"


def test_a_right_that_is_taken_away_is_gone(opened: Callable[[str], Blobs], own_server: Callable[[str], Any]) -> None:
    dedup = opened("dedup")
    dedup.put_if_absent("dedup/kind/name", b"mine")
    ensure_bucket(own_server("s3").up(), {"ingest": RIGHTS["ingest"]})
    with pytest.raises(BlobsRefused):
        dedup.put_if_absent("dedup/kind/more", b"mine")


def test_the_policy_of_all_services_fits_into_an_attribute_of_a_folder(
    tmp_path: Path, own_server: Callable[[str], Any]
) -> None:
    rights = declared((Path(__file__).parents[2] / "deploy" / "docker" / "blobs.json").read_text())
    assert len(policy("tutti", rights)) < 3_600
    url = own_server("s3").up()
    (tmp_path / "own" / "s3" / "iam" / ACCOUNTS).write_text(accounts(dict.fromkeys(rights, "secret")))
    ensure_bucket(url, rights)


def test_a_key_that_nobody_has_is_refused(opened: Callable[[str], Blobs]) -> None:
    with pytest.raises(BlobsRefused, match=r"in blobs\.url"), closing(opened("stranger")) as found:
        found.get("ingest/kind/name")
