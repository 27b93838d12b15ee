"""Tokenizers by the names of their resources: as they are stored, and as resources."""

from tutti.backbone import Blobs
from tutti.backbone.blobs import BlobMissing
from tutti.chassis.tasks import WorkFailed
from tutti.contracts.tokenization.v1 import Tokenizer
from tutti.corpus.tokens.bytepairs import LLAMA3_PATTERN
from tutti.corpus.tokens.dataset import tokenizer_key
from tutti.corpus.tokens.tokenizer import BytePairTokenizer, TokenizerError
from tutti.tokenization.making import TokenizedDataset

TOKENIZERS = "tokenizers/"


def stored(blobs: Blobs, name: str) -> BytePairTokenizer:
    """The tokenizer of an earlier dataset, or of an import. Raises WorkFailed."""
    version = f"blake3:{name.removeprefix(TOKENIZERS)}"
    key = tokenizer_key(version)
    try:
        return BytePairTokenizer.load(blobs.get(key), expected_version=version)
    except BlobMissing as error:
        made = "run the recipe again that trained it, or import the folder again that it came with"
        raise WorkFailed(f"the tokenizer {key} is gone; {made}") from error
    except TokenizerError as error:
        raise WorkFailed(f"{key}: {error}") from error


def came_in(blobs: Blobs, name: str) -> bool:
    """True if others trained this tokenizer, and it is stored: it has no row before a dataset uses it."""
    try:
        return stored(blobs, name).marks is not None
    except WorkFailed:
        return False


def resource_of(made: TokenizedDataset, pattern: str) -> Tokenizer:
    """The resource of the tokenizer of a dataset; `pattern` is the one that was asked for, "" for the default."""
    return Tokenizer(
        name=f"{TOKENIZERS}{made.tokenizer_version.removeprefix('blake3:')}",
        key=tokenizer_key(made.tokenizer_version),
        content_digest=made.tokenizer_version,
        vocabulary=made.vocabulary,
        pattern="" if made.foreign else pattern or LLAMA3_PATTERN,
        foreign=made.foreign,
        lossy=not made.lossless,
    )
