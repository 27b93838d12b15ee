"""A checkpoint and the tokenizer of its training, fetched to a scratch folder."""

from dataclasses import dataclass
from pathlib import Path

from tutti.backbone.blobs import BlobMissing
from tutti.chassis.errors import NotFound
from tutti.chassis.service import Host
from tutti.chassis.tasks import WorkFailed
from tutti.checkpoints.errors import CheckpointError
from tutti.checkpoints.reader import stage
from tutti.contracts.committer.v1 import CHECKPOINT_STATE_COMMITTED, CheckpointState
from tutti.contracts.committer.v1.stubs import CommitterServiceStub
from tutti.contracts.common.v1 import GetRequest
from tutti.contracts.tokenization.v1.stubs import TokenizationServiceStub
from tutti.corpus.tokenizer import BytePairTokenizer, TokenizerError
from tutti.model.training import Training


@dataclass(frozen=True)
class Fetched:
    """`folder` holds the staged checkpoint; `model_digest` names its parameters."""

    name: str
    folder: Path
    model_digest: str
    tokenizer: BytePairTokenizer


class Checkpoints:
    """Finds checkpoints by asking who owns them."""

    def __init__(self, host: Host) -> None:
        self._blobs = host.blobs
        self._committer = CommitterServiceStub(host.channel("committer"))
        self._tokenization = TokenizationServiceStub(host.channel("tokenization"))

    def fetch(self, name: str, folder: Path) -> Fetched:
        """Fetch a committed checkpoint into `folder`. Raises WorkFailed when it cannot be used."""
        try:
            found = self._committer.GetCheckpoint(GetRequest(name=name))
            if found.state != CHECKPOINT_STATE_COMMITTED:
                state = CheckpointState.Name(found.state).removeprefix("CHECKPOINT_STATE_").lower()
                raise WorkFailed(f"{name} is {state}; choose one of `tutti checkpoints ls` that is committed")
            staged = stage(self._blobs, found.manifest_key, folder, state_digest=found.state_digest)
            tokenizer = self._tokenizer(staged.body.training)
        except NotFound as error:
            raise WorkFailed(error.message) from error
        except CheckpointError as error:
            raise WorkFailed(str(error)) from error
        return Fetched(name, folder, found.model_digest, tokenizer)

    def _tokenizer(self, training: Training) -> BytePairTokenizer:
        """The tokenizer that a training names, or else that of its dataset."""
        if training.tokenizer:
            name = f"tokenizers/{training.tokenizer.removeprefix('blake3:')}"
        else:
            dataset = f"datasets/{training.dataset.removeprefix('blake3:')}"
            name = self._tokenization.GetDataset(GetRequest(name=dataset)).tokenizer
        found = self._tokenization.GetTokenizer(GetRequest(name=name))
        try:
            return BytePairTokenizer.load(self._blobs.get(found.key), expected_version=found.content_digest)
        except BlobMissing as error:
            raise WorkFailed(
                f"the tokenizer {found.key} is gone; run the recipe again, it will be made again"
            ) from error
        except TokenizerError as error:
            raise WorkFailed(f"the tokenizer {found.key}: {error}") from error
