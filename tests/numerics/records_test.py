"""A checkpoint of version 0.1 loads, resumes and trains to the same state, also where every record has a field more.

Bits depend on the kernel signature. On the one that the checkpoint was made with, its next checkpoint is met; on any
other the control in the same run is.
"""

import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.corpus.records_test import grow
from tests.numerics.gang import Tensors, on_ranks, snapshot
from tutti.backbone.embedded.blobs import EmbeddedBlobs
from tutti.backbone.files import RealFiles
from tutti.checkpoints.digests import leaf_digest, state_digest
from tutti.checkpoints.manifest import CheckpointBody
from tutti.checkpoints.scalars import StateScalars
from tutti.checkpoints.staged import open_staged
from tutti.corpus.tokens.ledger import Ledger
from tutti.corpus.tokens.sampler import DatasetShare, Span
from tutti.model.chunks import Kind
from tutti.model.plan import Plan, Shape
from tutti.model.results import Scalars
from tutti.model.spec import ModelSpec, OptimizerSpec, StepSpec
from tutti.model.step import RankStep
from tutti.model.training import Training
from tutti.trainer.batches.data import TrainingData
from tutti.trainer.io.staging import Cache

RELEASE = Path(__file__).parents[1] / "e2e" / "releases" / "0.1.0.tar.xz"
HASHED = (Training, ModelSpec, OptimizerSpec, StepSpec, Scalars, Ledger, Span, DatasetShare, StateScalars, Shape)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("release")
    with tarfile.open(RELEASE) as archive:
        archive.extractall(folder, filter="data")
    return folder


def resumed(kept: Path, cache: Path, dp: int) -> tuple[str, dict[str, Any], CheckpointBody]:
    """The digest after training from the checkpoint of step 3 to the end, its kernel, and the checkpoint of then."""
    blobs = EmbeddedBlobs(kept / "blobs")
    first, last = sorted(found.key for found in blobs.list("committer/manifests/"))
    known = CheckpointBody.decode(blobs.get(last))
    staging = Cache(cache, blobs, RealFiles())
    dataset = next(found.key for found in blobs.list("tokenization/manifests/"))
    (data_folder,) = staging.datasets({known.training.dataset: dataset})
    (state,) = staging.checkpoints({CheckpointBody.decode(blobs.get(first)).state_digest: first})
    blobs.close()

    def work(rank: int, group: Any) -> tuple[Tensors, dict[str, Any], dict[str, Any]]:
        staged = open_staged(state)
        training = staged.state.training
        plan = Plan(staged.body.layout, Shape(dp), training.step.leaves)
        me = RankStep(
            training.model, training.optimizer, training.step, plan, rank=rank, epoch=2, group=group, audit_every=2
        )
        me.load(lambda chunk, kind: staged.read(chunk, kind).data, staged.state.scalars.model)
        data, ledger = TrainingData([data_folder], training), staged.state.scalars.ledger
        for step in range(4, training.steps + 1):
            me.run(step, data.leaves(ledger, step, me.leaves_needed(step)))
        position = training.steps * training.step.leaves * training.step.rows
        return snapshot(me), StateScalars(me.scalars(), position, ledger).to_dict(), me.kernel.to_dict()

    parts = on_ranks(dp, work)
    tensors = {key: data for part, _, _ in parts for key, data in part.items()}
    layout, scalars, kernel = known.layout, parts[0][1], parts[0][2]
    leaves = [
        leaf_digest(layout, chunk, kind, tensors[chunk.index, kind.value]) for chunk in layout.chunks for kind in Kind
    ]
    return state_digest(layout, leaves, scalars), kernel, known


def test_a_checkpoint_of_version_0_1_resumes_to_the_same_state_with_records_that_grew(
    kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    control, kernel, known = resumed(kept, tmp_path / "control", 1)
    if dict(known.kernel) == kernel:
        assert control == known.state_digest
    for record in HASHED:
        grow(monkeypatch, record)
    again, _, _ = resumed(kept, tmp_path / "grown", 2)
    assert again == control
