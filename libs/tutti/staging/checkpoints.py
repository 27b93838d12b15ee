"""A checkpoint and the tokenizer of its training, fetched to a scratch folder or loaded by the resident process."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from tutti.backbone.blobs import BlobMissing
from tutti.chassis.config.freememory import available_bytes
from tutti.chassis.errors import NotFound
from tutti.chassis.service import Host
from tutti.chassis.tasks import TaskContext, WorkFailed
from tutti.checkpoints.bodies import Body, decode_body, identity_of
from tutti.checkpoints.errors import CheckpointError
from tutti.checkpoints.imported import ImportBody
from tutti.checkpoints.reader import stage
from tutti.contracts.committer.v1 import CHECKPOINT_STATE_COMMITTED, CheckpointState
from tutti.contracts.committer.v1.stubs import CommitterServiceStub
from tutti.contracts.common.v1 import GetRequest
from tutti.contracts.tokenization.v1.stubs import TokenizationServiceStub
from tutti.corpus.tokens.dataset import tokenizer_key
from tutti.corpus.tokens.tokenizer import BytePairTokenizer, TokenizerError
from tutti.inference.models import NotLoaded, Wanted
from tutti.records.errors import CorpusError

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class Found:
    """A committed checkpoint: the bytes of its manifest, the digest of its content and that of its parameters, and its
    tokenizer."""

    name: str
    manifest_key: str
    manifest: bytes
    identity: str
    model_digest: str
    tokenizer: BytePairTokenizer


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

    def find(self, name: str) -> Found:
        """Return a committed checkpoint, without its parameters. Raises WorkFailed when it cannot be used."""
        try:
            found = self._committer.GetCheckpoint(GetRequest(name=name))
            if found.state != CHECKPOINT_STATE_COMMITTED:
                state = CheckpointState.Name(found.state).removeprefix("CHECKPOINT_STATE_").lower()
                raise WorkFailed(f"{name} is {state}; choose one of `tutti checkpoints ls` that is committed")
            manifest = self._blobs.get(found.manifest_key)
            tokenizer = self._tokenizer(decode_body(manifest))
        except BlobMissing as error:
            raise WorkFailed(f"{name}: its manifest {found.manifest_key} is gone; choose another checkpoint") from error
        except NotFound as error:
            raise WorkFailed(error.message) from error
        except (CheckpointError, CorpusError) as error:
            raise WorkFailed(f"{name}: {error}") from error
        return Found(name, found.manifest_key, manifest, identity_of(found), found.model_digest, tokenizer)

    def fetch(self, name: str, folder: Path) -> Fetched:
        """Fetch a committed checkpoint into `folder`. Raises WorkFailed when it cannot be used."""
        found = self.find(name)
        self._stage(found, folder)
        return Fetched(name, folder, found.model_digest, found.tokenizer)

    def resident(
        self,
        context: TaskContext,
        found: Found,
        most_bytes: int,
        memory_bytes: int,
        fn: Callable[Concatenate[Wanted, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Call `fn` with the model in the resident process; its bytes are fetched only if it is not in memory there.

        The process keeps at most `most_bytes` of parameters; it may take `memory_bytes`, 0 for all that is available.
        Raises WorkFailed when the checkpoint cannot be used.
        """
        wanted = Wanted(found.manifest, None, most_bytes, memory_bytes or available_bytes())
        try:
            return context.resident(fn, wanted, *args, **kwargs)
        except NotLoaded:
            with tempfile.TemporaryDirectory(prefix="tutti-model-") as scratch:
                self._stage(found, Path(scratch))
                context.check()
                return context.resident(fn, replace(wanted, folder=Path(scratch)), *args, **kwargs)

    def _stage(self, found: Found, folder: Path) -> None:
        try:
            stage(self._blobs, found.manifest_key, folder, identity=found.identity)
        except CheckpointError as error:
            raise WorkFailed(str(error)) from error

    def _tokenizer(self, body: Body) -> BytePairTokenizer:
        """The tokenizer that a checkpoint names, or else that of its dataset.

        It is named by its content: no service knows one that was imported, or that `sft` has extended.
        """
        if isinstance(body, ImportBody) or body.tokenizer:
            version = body.tokenizer
        else:
            version = self._tokenizer_of(body.training.dataset)
        key = tokenizer_key(version)
        try:
            return BytePairTokenizer.load(self._blobs.get(key), expected_version=version)
        except BlobMissing as error:
            raise WorkFailed(f"the tokenizer {key} is gone; run the recipe again, it will be made again") from error
        except TokenizerError as error:
            raise WorkFailed(f"the tokenizer {key}: {error}") from error

    def _tokenizer_of(self, dataset: str) -> str:
        """The version of the tokenizer of a dataset. Raises NotFound."""
        name = f"datasets/{dataset.removeprefix('blake3:')}"
        tokenizer = self._tokenization.GetDataset(GetRequest(name=name)).tokenizer
        return f"blake3:{tokenizer.removeprefix('tokenizers/')}"
