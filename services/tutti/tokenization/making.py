"""Kept documents become a tokenizer and token shards.

Promises: a function of the set of documents and the parameters; the same on any number of threads. Memory holds all
texts at once, so what is too large for that is refused before it is read.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tutti.corpus.dataset import ShardEntry, Split
from tutti.corpus.documentshard import read_document_shard
from tutti.corpus.stages import DocumentShardEntry
from tutti.corpus.tokenizer import BytePairTokenizer, TokenizerError
from tutti.corpus.tokenshard import encode_token_shard
from tutti.tokenization import baselines
from tutti.tokenization.bpe import BPE_VERSION, LLAMA3_PATTERN, train_bpe
from tutti.tokenization.packing import (
    PACKING_VERSION,
    PackingError,
    TokenStream,
    cut,
    pack,
    split_documents,
)

LOGIC_VERSION = f"tokenization-2.{BPE_VERSION}.{PACKING_VERSION}"
SHARD_SEQUENCES = 65_536
MAX_TEXT_BYTES = 8 << 30


@dataclass(frozen=True, slots=True)
class Making:
    """What to make; `shards`: local document shards, each with the digest of its bytes; `dropped`: ids left out."""

    shards: tuple[tuple[Path, str], ...]
    dropped: frozenset[str]
    vocabulary: int
    pattern: str
    context: int
    validation_fraction: float
    seed: int
    shard_sequences: int
    scratch: Path


@dataclass(frozen=True, slots=True)
class ShardFile:
    """A token shard in the scratch folder, and where it is to lie."""

    key: str
    path: Path
    bytes_digest: str


@dataclass(frozen=True, slots=True)
class Made:
    """Token shards lie in the scratch folder under the digest of their bytes; `split.shards[k].blob` is their key."""

    artefact: bytes
    tokenizer_version: str
    vocabulary: int
    eos: int
    train: Split
    validation: Split
    baselines: baselines.Baselines
    files: tuple[ShardFile, ...]


class MakingError(Exception):
    """The documents cannot be tokenized as asked; the message says what to do."""


class CorpusTooLarge(MakingError):
    """More text than is held in memory."""


def check_size(shards: Iterable[DocumentShardEntry]) -> None:
    """Raises CorpusTooLarge when the texts of document shards, duplicates included, are not to be held in memory."""
    size = sum(shard.info.text_bytes for shard in shards)
    if size > MAX_TEXT_BYTES:
        raise CorpusTooLarge(
            f"the documents hold {size} bytes of text, at most {MAX_TEXT_BYTES} are tokenized at once; read fewer "
            f"files (input.limit)"
        )


def _texts(making: Making) -> dict[str, str]:
    texts = {
        document.doc_id: document.text
        for path, digest in making.shards
        for document in read_document_shard(path, expected_bytes_digest=digest)
        if document.doc_id not in making.dropped
    }
    return dict(sorted(texts.items()))


def make(making: Making) -> Made:
    """Train, split, encode, pack, measure. Raises MakingError."""
    texts = _texts(making)
    try:
        tokenizer = train_bpe(texts.values(), vocabulary=making.vocabulary, pattern=making.pattern or LLAMA3_PATTERN)
        split = split_documents(texts, validation_fraction=making.validation_fraction, key=f"seed {making.seed}")
        files = list[ShardFile]()
        train, train_stream = _write(making, tokenizer, texts, split.train, "train", files)
        validation, validation_stream = _write(making, tokenizer, texts, split.validation, "validation", files)
    except (TokenizerError, PackingError) as error:
        raise MakingError(str(error)) from error
    streams = baselines.Streams(
        train=train_stream,
        validation=validation_stream,
        vocabulary=tokenizer.vocabulary,
        validation_bytes=validation.text_bytes,
    )
    measured = baselines.Baselines(
        unigram=baselines.unigram_bits_per_byte(streams),
        kneser_ney_bigram=baselines.kneser_ney_bits_per_byte(streams),
        xz_primed=baselines.xz_bits_per_byte(
            [texts[doc_id] for doc_id in split.train], [texts[doc_id] for doc_id in split.validation]
        ),
    )
    return Made(
        artefact=tokenizer.artefact,
        tokenizer_version=tokenizer.version,
        vocabulary=tokenizer.vocabulary,
        eos=tokenizer.eos,
        train=train,
        validation=validation,
        baselines=measured,
        files=tuple(files),
    )


def _encoded(
    tokenizer: BytePairTokenizer, texts: dict[str, str], order: Sequence[str]
) -> Iterator[tuple[str, npt.NDArray[np.uint32]]]:
    return zip(order, tokenizer.encode_all(texts[doc_id] for doc_id in order), strict=True)


def _write(
    making: Making,
    tokenizer: BytePairTokenizer,
    texts: dict[str, str],
    order: Sequence[str],
    name: str,
    files: list[ShardFile],
) -> tuple[Split, TokenStream]:
    stream = pack(_encoded(tokenizer, texts, order), context=making.context, eos=tokenizer.eos)
    entries = []
    runs = cut(
        stream,
        sequences_per_shard=making.shard_sequences or SHARD_SEQUENCES,
        vocabulary=tokenizer.vocabulary,
        eos=tokenizer.eos,
    )
    for number, run in enumerate(runs):
        data, info = encode_token_shard(run)
        path = making.scratch / f"{name}-{number}.bin"
        path.write_bytes(data)
        key = f"tokenization/token-shards/{info.bytes_digest.removeprefix('blake3:')}.bin"
        files.append(ShardFile(key, path, info.bytes_digest))
        entries.append(ShardEntry.of(info, blob=key))
    split = Split(
        shards=tuple(entries),
        documents=len(order),
        sequences=stream.sequences,
        targets=stream.targets,
        text_bytes=sum(len(texts[doc_id].encode()) for doc_id in order),
    )
    return split, stream
