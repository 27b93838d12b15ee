"""What was written is looked for in all that a training read, and what of that cannot be searched is told."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from google.protobuf.message import Message

from tutti.chassis.errors import Refused
from tutti.chassis.identity.auth import Role
from tutti.chassis.rpc.call import Call
from tutti.chassis.work.work import publish, put_file
from tutti.contracts.lineage.v1 import TraceTextRequest, TraceTextResponse
from tutti.contracts.tokenization.v1 import Dataset, Index
from tutti.corpus.spans.building import build as build_index
from tutti.corpus.spans.manifest import IndexBody
from tutti.corpus.tokens.dataset import DatasetBody, ShardEntry, Split
from tutti.corpus.tokens.ledger import Ledger
from tutti.corpus.tokens.sampler import DatasetShare, Span
from tutti.corpus.tokens.tokenizer_test import of_bytes
from tutti.corpus.tokens.tokenshard import TokenRun, encode_token_shard
from tutti.lineage.branches_test import Job
from tutti.lineage.rpc import LineageApi
from tutti.lineage.service import build
from tutti.lineage.service_test import OneThreadHost, Silent, World, page

CALL = Call(role=Role.OPERATOR, request_id="", peer="test", deadline_seconds=10)
TOKENIZER = of_bytes()
OWN, OTHER = "river stone cloud paper, as it stands here only.", "The quick brown fox jumps over the lazy dog once"
CONTEXT = len(OWN) + 1
CHECKPOINT = "checkpoints/j/0/5"


class Rows(Silent):
    """To owners that have these resources."""

    def __init__(self, rows: dict[str, Message]) -> None:
        self._rows = rows

    def unary_unary(
        self, method: str, request_serializer: Any = None, response_deserializer: Any = None, **_: Any
    ) -> Any:
        return lambda request, **_: self._rows[request.name]


@dataclass
class Host(OneThreadHost):
    rows: dict[str, Message] = field(default_factory=dict)

    def channel(self, service: str) -> grpc.Channel:
        return Rows(self.rows)


class Training:
    """A model that was trained for five steps on a mixture of datasets, each of one document that is one sequence."""

    def __init__(self, folder: Path, *texts: str) -> None:
        self.world, self._folder = World(folder), folder
        self.host = Host(**vars(self.world.host))
        self.blobs: list[dict[str, str]] = []
        """of each dataset by folder"""
        self.datasets = [self.packed(source, text) for source, text in zip("abcd", texts, strict=False)]
        shares = tuple(DatasetShare(each.content_digest, 1, 1, 0) for each in self.datasets)
        self.ledger = Ledger((Span(0, shares, seed=1, leaves=2, rows_per_leaf=1),))
        (checkpoint,) = Job(self.world, self.ledger, {}).checkpoints({0: (0, 0, (5,))})
        self.host.rows[CHECKPOINT] = checkpoint
        key = f"tokenization/tokenizers/{TOKENIZER.version.removeprefix('blake3:')}.json"
        self.world.blobs.put_if_absent(key, TOKENIZER.artefact)

    def packed(self, source: str, text: str) -> Dataset:
        tokens = np.array([TOKENIZER.eos, *TOKENIZER.encode(text), TOKENIZER.eos])
        names = [page(source).doc_id]
        run = TokenRun(tokens, len(tokens), np.array([0]), names, CONTEXT, TOKENIZER.vocabulary, TOKENIZER.eos, 0)
        (self._folder / source).write_bytes(encode_token_shard(run)[0])
        info = encode_token_shard(run)[1]
        blob = put_file(self.world.blobs, "tokenization/token-shards", self._folder / source)
        self.blobs.append({"tokenization/token-shards": blob})
        train = Split((ShardEntry.of(info, blob=blob),), 1, 1, len(tokens) - 1, len(text))
        empty = Split((), 0, 0, 0, 0)
        body = DatasetBody(TOKENIZER.version, TOKENIZER.vocabulary, TOKENIZER.eos, CONTEXT, train, empty)
        made = publish(self.world.blobs, "tokenization", body.manifest(parents=(), producer="test"), data_bytes=0)
        name = f"datasets/{made.content_digest.removeprefix('blake3:')}"
        found = Dataset(name=name, manifest_key=made.manifest_key, content_digest=made.content_digest)
        found.tokenizer = TOKENIZER.version.replace("blake3:", "tokenizers/")
        self.host.rows[name] = found
        return found

    def index(self, at: int) -> None:
        """Make the index of a dataset."""
        dataset, target = self.datasets[at], self._folder / f"index-{at}"
        info = build_index([self._folder / "abcd"[at]], target)
        self.blobs[at]["tokenization/indexes"] = blob = put_file(self.world.blobs, "tokenization/indexes", target)
        manifest = IndexBody(blob, info).manifest(dataset=dataset.name, producer="test")
        made = publish(self.world.blobs, "tokenization/indexes", manifest, data_bytes=0)
        dataset.index = f"indexes/{at}"
        self.host.rows[dataset.index] = Index(name=dataset.index, result=made)

    def trace(self, text: str, within: str = CHECKPOINT) -> TraceTextResponse:
        api = build(self.host).serves[0].api
        assert isinstance(api, LineageApi)
        return api.TraceText(TraceTextRequest(text=text, within=within), CALL)

    def steps(self, at: int) -> list[int]:
        """The steps that read a dataset, as the ledger has them."""
        version = self.datasets[at].content_digest
        return sorted({each.step + 1 for each in self.ledger.readings(version, 0, before_step=5)})


@pytest.fixture
def training(tmp_path: Path) -> Iterator[Training]:
    made = Training(tmp_path, OWN, OTHER)
    yield made
    made.world.close()


def names(training: Training, *places: int) -> list[str]:
    return [training.datasets[at].name for at in places]


def test_what_was_read_of_another_dataset_of_a_mixture_is_found(training: Training) -> None:
    training.index(0)
    training.index(1)
    found = training.trace("Look: quick brown fox jumps, river stone cloud.")
    told = [(each.tokens, each.count, each.documents[0]) for each in found.passages]
    assert [(tokens, count, one.document) for tokens, count, one in told] == [
        (len(" quick brown fox jumps"), 1, f"documents/{page('b').doc_id}"),
        (len("river stone cloud"), 1, f"documents/{page('a').doc_id}"),
    ]
    assert [list(one.steps) for _, _, one in told] == [training.steps(1), training.steps(0)]
    assert training.steps(1)
    assert (list(found.datasets), list(found.unindexed)) == (names(training, 0, 1), [])


def test_a_dataset_without_an_index_is_named(training: Training) -> None:
    training.index(0)
    found = training.trace(OTHER)
    assert list(found.passages) == []
    assert (found.dataset, list(found.datasets), list(found.unindexed)) == (
        training.datasets[0].name,
        names(training, 0),
        names(training, 1),
    )


def test_another_dataset_is_searched_though_the_own_has_no_index(training: Training) -> None:
    training.index(1)
    found = training.trace(OTHER)
    assert [each.tokens for each in found.passages] == [len(OTHER)]
    assert (list(found.datasets), list(found.unindexed)) == (names(training, 1), names(training, 0))


def test_where_nothing_has_an_index_the_search_is_refused(training: Training) -> None:
    with pytest.raises(Refused, match="have no index of verbatim spans: run their recipe again") as caught:
        training.trace(OTHER)
    assert caught.value.reason == "NOT_INDEXED"
    assert all(each.name in caught.value.message for each in training.datasets)
    with pytest.raises(Refused, match="has no index of verbatim spans: run its recipe again"):
        training.trace(OTHER, within=training.datasets[1].name)


def test_a_dataset_whose_blobs_are_gone_is_named_and_the_others_are_searched(training: Training) -> None:
    training.index(0)
    training.index(1)
    for folder in ("tokenization/indexes", "tokenization/token-shards"):
        training.world.blobs.delete(training.blobs[1][folder])
    found = training.trace(OWN)
    assert [list(one.steps) for each in found.passages for one in each.documents] == [training.steps(0)]
    assert (list(found.datasets), list(found.unindexed)) == (names(training, 0), names(training, 1))
    training.world.blobs.delete(training.blobs[0]["tokenization/indexes"])
    with pytest.raises(Refused, match="is gone") as caught:
        training.trace(OWN)
    assert caught.value.reason == "BLOB_MISSING"


def test_a_dataset_that_is_named_is_searched_alone(training: Training) -> None:
    training.index(0)
    training.index(1)
    found = training.trace(OTHER, within=training.datasets[0].name)
    assert (list(found.passages), list(found.datasets), list(found.unindexed)) == ([], names(training, 0), [])


def test_what_stands_in_several_datasets_is_counted_in_all_and_told_at_its_longest(tmp_path: Path) -> None:
    training = Training(tmp_path, "with the same words as there: one two three four", f"{'with the same words as':<48}")
    for at in range(2):
        training.index(at)
    both = training.trace("with the same words as")
    assert [(each.tokens, each.count, len(each.documents)) for each in both.passages] == [(22, 2, 2)]
    longer = training.trace("with the same words as there")
    assert [(each.tokens, each.count, len(each.documents)) for each in longer.passages] == [(28, 1, 1)]
    short = training.trace("same")
    assert [(each.tokens, each.count, len(each.documents)) for each in short.passages] == [(4, 2, 2)]
    training.world.close()
