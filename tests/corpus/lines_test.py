"""Lines that are cut, from document shards to a dataset: the same for any files, and through crashes."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from tutti.backbone import Blobs
from tutti.chassis.work.work import put_named
from tutti.contracts.common.v1 import STATE_DONE, STATE_FAILED, GetRequest
from tutti.contracts.dedup.v1 import CreateDedupRequest, Dedup, DedupSpec, Lines
from tutti.contracts.dedup.v1.stubs import DedupServiceStub
from tutti.contracts.tokenization.v1 import CreateTokenizationRequest, Tokenization, TokenizationSpec
from tutti.contracts.tokenization.v1.stubs import TokenizationServiceStub
from tutti.corpus.documents import decisions
from tutti.corpus.documents.documents import Document, Extraction, MediaType
from tutti.corpus.documents.documentshard import encode_document_shard
from tutti.corpus.documents.stages import DedupBody, DocumentShardEntry, FilterBody
from tutti.corpus.tokens.dataset import DatasetBody
from tutti.dedup.service import build as build_dedup
from tutti.records.manifest import Kind, Manifest
from tutti.simulation import Fault, Simulation
from tutti.tokenization.service import build as build_tokenization

NAVIGATION, NOTICE = "Home | About us | Sign in", "版权所有 翻印必究"
LINES = Lines(unit="line", most=3, least_characters=1, left=20)
BUILDS = {"dedup": build_dedup, "tokenization": build_tokenization}


def document(source: str, text: str) -> Document:
    return Document.make(
        source=source,
        text=text,
        title="",
        media_type=MediaType.PLAIN,
        charset="utf-8",
        replaced_characters=0,
        extraction=Extraction.VERBATIM,
        normalisation_version=1,
    )


def own(number: int) -> str:
    return f"What page {number} tells, with {number * number} words of its own."


PAGES = [document(f"{number}", f"{NAVIGATION}\n\n{own(number)}\n{NOTICE}") for number in range(24)]
EMPTY = document("empty", f"{NOTICE}\n{NAVIGATION}")
REJECTED = document("rejected", f"{own(99)}\n{own(3)}\n{own(4)}")


class Place:
    """The services, and what they leave."""

    def __init__(self, seed: int) -> None:
        self.simulation = Simulation(seed, builds=BUILDS)
        self.blobs: Blobs = self.simulation.world.blobs
        self._dedup = DedupServiceStub(self.simulation.channel("dedup"))
        self._tokenization = TokenizationServiceStub(self.simulation.channel("tokenization"))

    def chosen(self, parts: Sequence[Sequence[Document]]) -> tuple[str, str]:
        """What a filter left of documents, a shard a part, all but REJECTED: the manifest's key and digest."""
        entries = []
        for part in parts:
            data, info = encode_document_shard(part)
            entries.append(DocumentShardEntry(put_named(self.blobs, "ingest/document-shards", data, ".parquet"), info))
        path = Path(self.simulation.world.folder.name, "decisions.parquet")
        decisions.write(decisions.short([(REJECTED.doc_id, 3)], 9).to_batches(), path)
        before = put_named(self.blobs, "ingest/decisions", path.read_bytes(), ".parquet")
        manifest = FilterBody(tuple(entries), before, len(PAGES), (), "").manifest(producer="test")
        return put_named(self.blobs, "ingest/manifests", manifest.encode(), ".json"), manifest.content_digest

    def dedup(self, chosen: tuple[str, str], lines: Lines | None, clean: str = "") -> Dedup:
        spec = DedupSpec(manifest_key=chosen[0], content_digest=chosen[1], lines=lines, clean=clean)
        request = CreateDedupRequest(request_id="a", name="dedups/a", spec=spec)
        self.simulation.insist(lambda: self._dedup.CreateDedup(request))
        self._until(lambda: self._dedup.GetDedup(GetRequest(name="dedups/a")).state)
        return self.simulation.insist(lambda: self._dedup.GetDedup(GetRequest(name="dedups/a")))

    def tokenized(self, dedup: Dedup) -> Tokenization:
        result = dedup.result
        spec = TokenizationSpec(
            manifest_key=result.manifest_key,
            content_digest=result.content_digest,
            vocabulary=300,
            context=16,
            validation_fraction=0.2,
        )
        request, name = CreateTokenizationRequest(request_id="a", name="tokenizations/a", spec=spec), "tokenizations/a"
        self.simulation.insist(lambda: self._tokenization.CreateTokenization(request))
        self._until(lambda: self._tokenization.GetTokenization(GetRequest(name=name)).state)
        return self.simulation.insist(lambda: self._tokenization.GetTokenization(GetRequest(name=name)))

    def _until(self, state: Callable[[], int]) -> None:
        self.simulation.run(until=lambda: self.simulation.insist(state) in (STATE_DONE, STATE_FAILED))


CUTS = [1, 2, 8]


def parts(files: int) -> list[list[Document]]:
    """Cut into so many files; the first document lies in two."""
    every = [*PAGES, EMPTY, REJECTED]
    return [every[place::files][::-1] + ([every[0]] if place == 1 else []) for place in range(files)][::-1]


@pytest.fixture(scope="module")
def made() -> Iterator[dict[int, tuple[Place, Dedup, Tokenization]]]:
    """By number of files: what was made of them, each under other faults."""
    with ExitStack() as stack:
        places = {files: Place(files) for files in CUTS}
        found = {}
        for files, place in places.items():
            stack.enter_context(place.simulation)
            dedup = place.dedup(place.chosen(parts(files)), LINES)
            assert dedup.state == STATE_DONE, dedup.reason
            found[files] = (place, dedup, place.tokenized(dedup))
        yield found


def test_files_order_and_crashes_change_nothing(made: dict[int, tuple[Place, Dedup, Tokenization]]) -> None:
    told = set()
    for place, dedup, tokenization in made.values():
        body = body_of(place, dedup)
        told.add((body.cuts, body.decisions, body.clusters, dedup.cut_bytes, tokenization.dataset))
    assert len(told) == 1
    crashes = Counter[Fault]()
    for place, _, _ in made.values():
        crashes += place.simulation.faults
    assert crashes[Fault.CRASHED] > 0


def test_what_is_repeated_is_cut_and_counted(made: dict[int, tuple[Place, Dedup, Tokenization]]) -> None:
    place, dedup, tokenization = made[2]
    assert (dedup.documents, dedup.cut_documents, dedup.cut_units, dedup.short) == (24, 24, 48, 1)
    assert {(each.text, each.documents) for each in dedup.repeated} == {(NAVIGATION, 25), (NOTICE, 25)}
    body = body_of(place, dedup)
    rows = {row["doc_id"]: row for row in decisions.decode(place.blobs.get(body.decisions)).to_pylist()}
    assert rows.keys() == {REJECTED.doc_id, EMPTY.doc_id}
    assert (rows[EMPTY.doc_id]["rule"], rows[EMPTY.doc_id]["value"]) == (decisions.REPEATED_RULE, 0)
    assert [(each.reason, each.count) for each in body.rejected] == [(decisions.REPEATED_RULE, 1)]
    dataset = DatasetBody.read(
        Manifest.decode(place.blobs.get(tokenization.result.manifest_key), expected=Kind.DATASET)
    )
    left = sum(len(own(number).encode()) for number in range(24))
    assert dataset.train.text_bytes + dataset.validation.text_bytes == left
    assert dedup.cut_bytes == sum(len(each.text.encode()) for each in PAGES) - left


def test_where_no_lines_are_asked_for_nothing_is_another() -> None:
    with (place := Place(0)).simulation:
        dedup = place.dedup(place.chosen(parts(1)), None)
        manifest = Manifest.decode(place.blobs.get(dedup.result.manifest_key), expected=Kind.DEDUP)
        assert not [key for key in manifest.body if key.startswith(("cut", "clean"))]
        assert dedup.documents == 25


@pytest.mark.parametrize("lines", [None, LINES])
def test_what_c4_removes_is_cut_and_counted(
    lines: Lines | None, made: dict[int, tuple[Place, Dedup, Tokenization]]
) -> None:
    with (place := Place(0)).simulation:
        dedup = place.dedup(place.chosen(parts(2)), lines, "c4")
        assert dedup.state == STATE_DONE, dedup.reason
        body, repeated = body_of(place, dedup), made[2]
        assert (body.cuts, dedup.cut_bytes) == (body_of(*repeated[:2]).cuts, repeated[1].cut_bytes)
        assert (dedup.documents, dedup.cut_documents, dedup.cleaned_lines, dedup.short) == (24, 24, 48, 1)
        assert dedup.cut_units == (48 if lines else 0)
        rows = {row["doc_id"]: row for row in decisions.decode(place.blobs.get(body.decisions)).to_pylist()}
        assert rows.keys() == {REJECTED.doc_id, EMPTY.doc_id}
        found = rows[EMPTY.doc_id]
        assert (found["rule"], found["value"], found["threshold"]) == (decisions.CLEANED_RULE, 0, 1)
        assert [(each.reason, each.count) for each in body.rejected] == [(decisions.CLEANED_RULE, 1)]
        assert place.tokenized(dedup).dataset == repeated[2].dataset


def test_that_nothing_is_left_is_said() -> None:
    with (place := Place(0)).simulation:
        dedup = place.dedup(place.chosen([[EMPTY]]), None, "c4")
        assert (dedup.state, "change quality.clean of the recipe" in dedup.reason) == (STATE_FAILED, True)
    with (place := Place(0)).simulation:
        dedup = place.dedup(place.chosen([PAGES]), Lines(unit="line", most=1, least_characters=1, left=1000))
        assert (dedup.state, "change dedup.lines of the recipe" in dedup.reason) == (STATE_FAILED, True)


def body_of(place: Place, dedup: Dedup) -> DedupBody:
    return DedupBody.read(Manifest.decode(place.blobs.get(dedup.result.manifest_key), expected=Kind.DEDUP))
