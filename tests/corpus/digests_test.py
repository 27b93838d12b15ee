"""The same pages make the same documents, the same of these stay and make the same dataset: in 1, 2 and 8 files, by 1,
2 and 4 workers, by kernels and by their twins, embedded and on two nodes of Ray.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import product
from pathlib import Path

import pytest
from tests.raynodes import two_nodes
from tests.scale import scale

from tutti.corpus.documents import duplicates
from tutti.corpus.documents.documents import Document
from tutti.corpus.documents.stages import DocumentShardEntry
from tutti.corpus.tokens import bytepairs
from tutti.corpus.tokens.dataset import DatasetBody
from tutti.dedup import kernel as dedup
from tutti.dedup import onray
from tutti.dedup.clusters import ClusterResult
from tutti.dedup.clusters_test import document
from tutti.dedup.onray_test import NEAR, NONE, Asked, Store, corpus, cut, shared
from tutti.dedup.reading import Unreadable
from tutti.dedup.service_test import World, of
from tutti.dedup.settings import DedupSettings
from tutti.ingest.quality.learning import learn
from tutti.ingest.quality.learning_test import examples
from tutti.ingest.reading import onray as ingest
from tutti.ingest.reading.batches_test import filled, written
from tutti.ingest.reading.onray import UnfitNode
from tutti.native import native
from tutti.platform.pool import ProcessPool
from tutti.tokenization.making import Making, make

FILES, WORKERS = (1, 2, 8), (1, 2, 4)
ROOT = Path(__file__).resolve().parents[2]
Made = tuple[bytes, str]
"""The file of who stands for whom, and the digest of the dataset of what stays."""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


@pytest.fixture(scope="module")
def documents() -> list[Document]:
    return corpus(scale(test=120, soak=10_000))


def made(store: Store, entries: Sequence[DocumentShardEntry], found: ClusterResult, workers: int = 1) -> Made:
    """What tokenization makes of the documents that stay."""
    table = duplicates.decode(found.path.read_bytes())
    tokens = make(
        Making(
            shards=tuple(map(store.file, entries)),
            dropped=frozenset(table["doc_id"].to_pylist()),
            vocabulary=400,
            pattern="",
            context=32,
            validation_fraction=0.1,
            seed=3,
            shard_sequences=200,
            scratch=store.scratch(),
            workers=workers,
        )
    )
    body = DatasetBody(tokens.tokenizer_version, tokens.vocabulary, tokens.eos, 32, tokens.train, tokens.validation)
    assert min(len(body.train.shards), body.train.documents, body.validation.documents) > 1
    return found.path.read_bytes(), body.manifest(parents=(), producer="test").content_digest


def embedded(store: Store, documents: Sequence[Document], files: int, workers: int) -> Made:
    entries = store.put(cut(documents, files))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "sched_getaffinity", lambda _: set(range(workers)))
        return made(store, entries, store.here(entries), workers)


@pytest.fixture(scope="module")
def expected(documents: list[Document], tmp_path_factory: pytest.TempPathFactory) -> Made:
    """What one file and one worker make."""
    return embedded(Store(tmp_path_factory.mktemp("once")), documents, 1, 1)


@pytest.fixture
def without_a_compiler(expected: Made, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """From here on kernels are looked for anew, and none is found."""
    monkeypatch.setenv("CC", "no-such-compiler")
    native.kernel.cache_clear()
    assert dedup.native().library is bytepairs.native().library is None
    yield
    native.kernel.cache_clear()


@pytest.mark.parametrize(("files", "workers"), [*product(FILES, WORKERS)])
def test_neither_files_nor_workers_change_what_stays_or_its_dataset(
    store: Store, documents: list[Document], expected: Made, files: int, workers: int
) -> None:
    assert embedded(store, documents, files, workers) == expected


@pytest.mark.parametrize(("files", "workers"), [*product(FILES, WORKERS)])
def test_neither_do_they_where_twins_stand_for_kernels(
    store: Store, documents: list[Document], expected: Made, without_a_compiler: None, files: int, workers: int
) -> None:
    assert embedded(store, documents, files, workers) == expected


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with two_nodes() as found:
        yield found.address


def test_two_nodes_of_ray_find_the_same_in_1_2_and_8_files_and_it_makes_the_same_dataset(
    store: Store, documents: list[Document], expected: Made, address: str
) -> None:
    settings = DedupSettings(ray=address, ray_blobs=store.url)
    with closing(ProcessPool(1)) as pool:
        for files in FILES:
            entries = store.put(cut(documents, files))
            own, _ = Asked((entries, NONE)).there()
            found, _ = pool.run(onray.find, settings, own, NEAR, store.scratch())
            assert made(store, entries, found) == expected
        store.file(entries[0]).unlink()
        with pytest.raises(Unreadable, match=entries[0].blob):
            pool.run(onray.find, settings, own, NEAR, store.scratch())


def test_two_nodes_of_ray_leave_out_and_cut_all_that_a_recipe_asks_for(tmp_path: Path, address: str) -> None:
    every = shared(1, 90)
    like = [document(f"like/{each.source}", each.text) for each in every[30::19]]
    with closing(ProcessPool(1)) as pool:
        world = World(tmp_path, DedupSettings(ray=address, ray_blobs=f"file://{tmp_path}/blobs"), pool)
        earlier = world.dedup("earlier", world.filtered(world.shards(every[:40], every[20:60])))
        chosen = world.filtered(world.shards(*cut(every[30:], 3), every[30::7]), *every[30::9])
        everything = {
            "evaluation": world.ingested(*like),
            "evaluation_share": 0.7,
            "lines": {"unit": "line", "most": 2, "keep": 1, "least_characters": 1, "left": 100},
            "clean": "c4",
        }
        against = of(earlier, world.retracted(every[32]))
        here, there = (world.dedup(engine, chosen, against, engine=engine, **everything) for engine in ("local", "ray"))
    assert min(here.contaminated, here.earlier, here.near_duplicates, here.cut_units, here.cleaned_lines) > 0
    assert there.result.content_digest == here.result.content_digest
    assert list(there.repeated) == list(here.repeated)
    assert len(here.repeated) > 1


def test_two_nodes_of_ray_make_the_documents_and_measures_that_one_process_makes(
    tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # a worker imports nothing from its folder, and `refused` is in tests
    pages, model = tmp_path / "pages", tmp_path / "model"
    pages.mkdir()
    filled(pages)
    model.write_bytes(learn(examples(), "good", 0.02).classifier.encode())
    models = (("quality", model),)
    with closing(ProcessPool(1)) as pool:
        there = pool.run(written, pages, tmp_path / "there", 1, address, models)
        assert there == written(pages, tmp_path / "here", 1, "", models)
        with pytest.raises(UnfitNode, match="expected an earlier one: install on it"):
            pool.run(refused, address)


JOINS = """
import json, sys
from tutti.platform import cluster
cluster.join(sys.argv[1], "dedup.ray")
import ray
@ray.remote
def imported():
    import colorsys
    return [colorsys.__file__, *sys.path]
print(json.dumps(ray.get(imported.remote())))
"""


def test_workers_of_ray_import_nothing_from_the_folder_where_a_service_was_started(
    tmp_path: Path, address: str
) -> None:
    (tmp_path / "colorsys.py").write_text("")
    command = [sys.executable, "-P", "-c", JOINS, address]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=300)
    places = json.loads(done.stdout)
    assert not [each for each in places if Path(each).is_relative_to(tmp_path)]


def refused(address: str) -> None:
    """A cluster is asked for documents of another version."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ingest, "LOGIC_VERSION", "an earlier one")
        list(ingest.made(iter([[]]), (), address))
