"""The stages from a folder to a dataset, by the real services in this process, each with a database of its own.

Promises: a step is what a worker of a platform does; only the processes, the calls and the event log are left out.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tutti.backbone.embedded.blobs import EmbeddedBlobs
from tutti.chassis.identity.auth import Role
from tutti.chassis.rpc.call import Call
from tutti.chassis.service import Build, Service
from tutti.chassis.tasks import TaskWorker
from tutti.chassis.tasks_test import Bench
from tutti.contracts.common.v1 import STATE_DONE, STATE_FAILED, GetRequest
from tutti.contracts.dedup.v1 import CreateDedupRequest, DedupSpec, Lines
from tutti.contracts.ingest.v1 import CreateFilterRequest, CreateIngestRequest, FilterSpec, IngestSpec
from tutti.contracts.tokenization.v1 import (
    CreateIndexRequest,
    CreateTokenizationRequest,
    IndexSpec,
    TokenizationSpec,
)
from tutti.corpus.tokens.dataset import DatasetBody
from tutti.corpus.tokens.tokenizer import BytePairTokenizer
from tutti.corpus.tokens.tokenshard import TokenShard
from tutti.dedup.service import build as build_dedup
from tutti.ingest.service import build as build_ingest
from tutti.records.manifest import Kind
from tutti.staging import fetching
from tutti.tokenization.service import build as build_tokenization

CALL = Call(role=Role.OPERATOR, request_id="", peer="test", deadline_seconds=600)
BUILDS: Mapping[str, Build] = {
    "ingest": build_ingest,
    "dedup": build_dedup,
    "tokenization": build_tokenization,
}


class StageFailed(Exception):
    """A stage failed for good; the reason that people are shown."""


@dataclass(frozen=True)
class Stage:
    """One that was asked for: its service works on it, its resource says what became of it."""

    bench: Bench
    service: Service
    get: Callable[[], Any]

    def step(self) -> Any:
        """Work on it once; the resource."""
        TaskWorker(self.bench, {kind.name: kind for kind in self.service.tasks}, holder="a").step()
        return self.get()

    def done(self) -> Any:
        """Work on it to its end. Raises StageFailed."""
        found = self.step()
        if found.state == STATE_FAILED:
            raise StageFailed(found.reason)
        assert found.state == STATE_DONE, found
        return found

    def waits(self) -> str:
        """Why its task waits, and for which it has spent no attempt; "" where it does not."""
        tasks = self.bench.units.tables.tasks
        row = self.bench.units.run(lambda unit: unit.tx.execute(tasks.select()).all())[-1]
        return str(row.reason) if row.state == "waiting" and not row.failures else ""


class Stages:
    """What a run asks for, one stage after the other."""

    def __init__(self, blobs: EmbeddedBlobs, pool: Any = None) -> None:
        self.blobs = blobs
        self.benches = {name: Bench(blobs, service=name) for name in BUILDS}
        self.benches["ingest"].values["private_ranges"] = ["127.0.0.0/8"]
        self.services = {name: build(self.benches[name]) for name, build in BUILDS.items()}
        for bench in self.benches.values():
            bench.database.create(bench.metadata)
            if pool is not None:
                bench.pool = pool
        self._asked = 0

    def close(self) -> None:
        for bench in self.benches.values():
            bench.database.close()

    def ask(self, service: str, resource: str, request: type[Any], spec: Any) -> Stage:
        api: Any = self.services[service].serves[0].api
        self._asked += 1
        name = f"{'indexes' if resource == 'Index' else resource.lower() + 's'}/{self._asked}"
        getattr(api, f"Create{resource}")(request(name=name, request_id=name, spec=spec), CALL)
        get = getattr(api, f"Get{resource}")
        return Stage(self.benches[service], self.services[service], lambda: get(GetRequest(name=name), CALL))

    def ingest(self, folder: Path, **spec: Any) -> Stage:
        return self.ask("ingest", "Ingest", CreateIngestRequest, IngestSpec(input_path=str(folder), **spec))

    def filter(self, ingest: Any, *rules: str) -> Stage:
        return self.ask("ingest", "Filter", CreateFilterRequest, FilterSpec(**of(ingest), rule_sets=rules))

    def dedup(self, chosen: Any, near: float = 0.8, lines: Lines | None = None) -> Stage:
        return self.ask("dedup", "Dedup", CreateDedupRequest, DedupSpec(**of(chosen), near=near, lines=lines))

    def tokenization(self, kept: Any, **spec: Any) -> Stage:
        asked = {"vocabulary": 300, "context": 32, "validation_fraction": 0.1, **spec}
        return self.ask(
            "tokenization", "Tokenization", CreateTokenizationRequest, TokenizationSpec(**of(kept), **asked)
        )

    def index(self, tokenization: Any) -> Stage:
        return self.ask("tokenization", "Index", CreateIndexRequest, IndexSpec(**of(tokenization)))

    def dataset(
        self, folder: Path, *rules: str, near: float = 0.8, max_file_bytes: int = 0, context: int = 32
    ) -> "Tokens":
        """All stages over a folder. Raises StageFailed."""
        ingest = self.ingest(folder, max_file_bytes=max_file_bytes).done()
        dedup = self.dedup(self.filter(ingest, *rules).done(), near).done()
        return Tokens(self.blobs, ingest, dedup, self.tokenization(dedup, context=context).done())


def of(stage: Any) -> dict[str, Any]:
    """What a stage made, as the next one asks for it."""
    return {"manifest_key": stage.result.manifest_key, "content_digest": stage.result.content_digest}


@dataclass(frozen=True)
class Tokens:
    """A dataset, and what it was made of."""

    blobs: EmbeddedBlobs
    ingest: Any
    dedup: Any
    tokenization: Any

    def texts(self, scratch: Path) -> dict[str, str]:
        """Source to text, decoded from the token shards of both splits."""
        sources = {
            row["doc_id"]: row["source"]
            for each in self.blobs.list("ingest/document-shards/")
            for row in pq.read_table(Path(self.blobs._path(each.key)), columns=["doc_id", "source"]).to_pylist()  # type: ignore[no-untyped-call]
        }
        key = self.tokenization.result.manifest_key
        body = DatasetBody.read(fetching.manifest(self.blobs, key, "", Kind.DATASET))
        tokenizer = BytePairTokenizer(self.blobs.get(f"tokenization/{self.tokenization.tokenizer}.json"))
        found = {}
        for number, entry in enumerate((*body.train.shards, *body.validation.shards)):
            self.blobs.fetch(entry.blob, scratch / f"{number}.tokens")
            for doc_id, text in documents(TokenShard(scratch / f"{number}.tokens"), tokenizer):
                assert doc_id not in found
                found[doc_id] = text
        return {sources[doc_id]: text for doc_id, text in found.items()}


def documents(shard: TokenShard, tokenizer: BytePairTokenizer) -> Iterator[tuple[str, str]]:
    """The id and the text of each document of a shard that holds a whole split: an end before all, one behind each."""
    ends = [*shard.starts[1:].tolist(), shard.header.tokens_used]
    for number, (start, end) in enumerate(zip([1, *ends[:-1]], ends, strict=True)):
        tokens = shard.tokens[start:end].tolist()
        assert tokens[-1] == tokenizer.eos
        yield shard.doc_id(number), tokenizer.decode(tokens[:-1])


@contextmanager
def stages(folder: Path, pool: Any = None) -> Iterator[Stages]:
    with closing(Stages(EmbeddedBlobs(folder / "blobs"), pool)) as made:
        yield made
