"""Texts: the verbatim spans of a text in what a model was trained on, and the steps that saw them.

Promises: which datasets, indexes and checkpoint are meant is asked of their owners, so that an answer waits for no
event; of what a training read, and nobody can search, the answer says so.
"""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

from tutti.chassis.errors import InvalidField, Refused, declare
from tutti.chassis.service import Host
from tutti.checkpoints.manifest import CheckpointBody
from tutti.contracts.committer.v1 import CHECKPOINT_STATE_COMMITTED, CheckpointState
from tutti.contracts.committer.v1.stubs import CommitterServiceStub
from tutti.contracts.common.v1 import GetRequest
from tutti.contracts.tokenization.v1 import Dataset
from tutti.contracts.tokenization.v1.stubs import TokenizationServiceStub
from tutti.corpus.spans.index import LEAST, Index
from tutti.corpus.spans.passages import Passages, passages, whole
from tutti.lineage import sightings
from tutti.lineage.graph import dataset_name
from tutti.lineage.library import BlobGone, Library

MAX_BYTES = 64 << 10

declare(
    {
        "NOT_COMMITTED": "the checkpoint is not committed, so its bytes are not guaranteed to exist",
        "NOT_INDEXED": "the dataset has no index of verbatim spans; run its recipe again with `index: true`",
    }
)


@dataclass(frozen=True)
class Traced:
    """The passages of a text; by document that holds one, the steps of the checkpoint that saw it, in order.

    `datasets` were searched; `unindexed` ones, which the training read too, have no index, or lost it.
    """

    datasets: tuple[str, ...]
    unindexed: tuple[str, ...]
    passages: Passages
    steps: dict[str, list[int]]


class Texts:
    def __init__(self, host: Host, library: Library) -> None:
        self._library = library
        self._tokenization = TokenizationServiceStub(host.channel("tokenization"))
        self._committer = CommitterServiceStub(host.channel("committer"))

    def trace(self, text: str, within: str, *, least: int, limit: int, documents: int) -> Traced:
        """The passages of a text in the training split of a dataset, or in those of all that a checkpoint's job reads.

        `least` 0: LEAST tokens; a text that has fewer is looked for whole.

        Raises InvalidField for what names neither and for a text that is too long, NotFound, and Refused for a
        checkpoint that is not committed, where no dataset has an index, and for blobs that are gone or damaged.
        """
        if (size := len(text.encode())) > MAX_BYTES:
            raise InvalidField("text", seen=f"{size} bytes", expected=f"at most {MAX_BYTES} bytes of UTF-8")
        body = self._checkpoint(within) if within.startswith("checkpoints/") else None
        if body and body.training.tokenizer:
            began = body.training.initial.checkpoint if body.training.initial else "none"
            expected = f"it was trained on conversations or preferences; ask of {began}, with which it began"
            raise Refused("NOT_INDEXED", f"{within} has no index of verbatim spans: {expected}")
        names = [dataset_name(each) for each in body.training.datasets] if body else [within]
        datasets = [self._dataset(name) for name in names]
        searched, others, opened = self._opened(datasets)
        tokenizer = self._library.tokenizer(searched[0].tokenizer)
        if not least and len(tokenizer.encode(text)) < LEAST:
            found = whole(opened, tokenizer, text, documents=documents)
        else:
            found = passages(opened, tokenizer, text, least=least or LEAST, limit=limit, documents=documents)
        held = {document for passage in found.found for document in passage.documents}
        return Traced(
            tuple(each.name for each in searched),
            tuple(each.name for each in others),
            found,
            self._steps(searched, others, body, held) if body and held else {},
        )

    def _checkpoint(self, name: str) -> CheckpointBody:
        found = self._committer.GetCheckpoint(GetRequest(name=name))
        if found.state != CHECKPOINT_STATE_COMMITTED:
            state = CheckpointState.Name(found.state).removeprefix("CHECKPOINT_STATE_").lower()
            raise Refused("NOT_COMMITTED", f"{name} is {state}; choose one of `tutti checkpoints ls` that is committed")
        if found.folder_digest:
            raise Refused("NOT_INDEXED", f"{name} was imported, so its training data is unknown")
        return self._library.checkpoint(found.manifest_key)

    def _dataset(self, name: str) -> Dataset:
        if not name.startswith("datasets/"):
            raise InvalidField("within", seen=name, expected="checkpoints/JOB/LINE/STEP or datasets/VERSION")
        return self._tokenization.GetDataset(GetRequest(name=name))

    def _index(self, dataset: Dataset) -> str:
        """The key of the manifest of its index."""
        return self._tokenization.GetIndex(GetRequest(name=dataset.index)).result.manifest_key

    def _opened(self, datasets: Sequence[Dataset]) -> tuple[list[Dataset], list[Dataset], list[Index]]:
        """Those of which there is an index, the others, and the indexes. Raises Refused where there is none."""
        searched, others, opened, gone = list[Dataset](), list[Dataset](), list[Index](), list[BlobGone]()
        for each in datasets:
            if each.index:
                try:
                    opened.append(self._library.index(self._index(each), each.name))
                    searched.append(each)
                    continue
                except BlobGone as lost:
                    gone.append(lost)
            others.append(each)
        if not opened:
            raise next(iter(gone), None) or _unsearchable([each.name for each in datasets])
        return searched, others, opened

    def _steps(
        self, searched: Sequence[Dataset], others: Sequence[Dataset], body: CheckpointBody, documents: set[str]
    ) -> dict[str, list[int]]:
        """The steps up to a checkpoint that saw each document, of whichever dataset that is there it was read."""
        shelves, ledger = [self._library.dataset(each.manifest_key).train for each in searched], body.scalars.ledger
        for each in others:
            with contextlib.suppress(BlobGone):
                shelves.append(self._library.dataset(each.manifest_key).train)
        return {
            document: sorted(
                {
                    each.step
                    for shelf in shelves
                    for each in sightings.of_document(shelf, ledger, document, until_step=body.step)
                }
            )
            for document in documents
        }


def _unsearchable(names: Sequence[str]) -> Refused:
    one = len(names) == 1
    return Refused(
        "NOT_INDEXED",
        f"{', '.join(names)} {'has' if one else 'have'} no index of verbatim spans: run {'its' if one else 'their'} "
        f"recipe again with `index: true` (`tutti run RECIPE --set index=true`); what was done before is reused",
    )
