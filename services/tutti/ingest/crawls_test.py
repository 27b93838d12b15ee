"""Crawls as work: what is asked is checked before anything is visited."""

from pathlib import Path

import pytest

from tutti.backbone.embedded.blobs import EmbeddedBlobs
from tutti.chassis.auth import Role
from tutti.chassis.call import Call
from tutti.chassis.errors import InvalidField
from tutti.chassis.tasks_test import Bench
from tutti.contracts.ingest.v1 import CrawlSpec, CreateCrawlRequest
from tutti.ingest.rpc import IngestApi
from tutti.ingest.service import build

CALL = Call(role=Role.OPERATOR, request_id="", peer="test", deadline_seconds=10)


def test_what_a_crawl_begins_with_is_a_crawl_that_is_done(tmp_path: Path) -> None:
    bench = Bench(EmbeddedBlobs(tmp_path / "blobs"), service="ingest")
    service = build(bench)
    bench.database.create(bench.metadata)
    api = service.serves[0].api
    assert isinstance(api, IngestApi)

    def create(name: str, since: str) -> None:
        spec = CrawlSpec(seeds=["http://a.example/"], contact="me@a.example", since=since)
        api.CreateCrawl(CreateCrawlRequest(request_id=name, name=name, spec=spec), CALL)

    create("crawls/a", "")
    for since, said in (
        ("crawls/a", "a crawl that is done, got .crawls/a, which is pending"),
        ("crawls/nobody", "crawls/nobody"),
        ("runs/a", "runs/a"),
    ):
        with pytest.raises(InvalidField, match=r"spec\.since.*" + said):
            create("crawls/b", since)
