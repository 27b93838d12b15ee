"""Kept documents become a tokenizer and token shards.

Promises: a function of the set of documents and the parameters, whatever their files, order and the number of threads.
A tokenizer of others begins each document with the ids that it puts before every text, such as that of `<s>`.
Documents are read three times: their ids and lengths, texts to train on, texts to encode. Memory is about 150 bytes a
document, the distinct words of the text that is trained on, and what a few documents take.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tutti.chassis import progress
from tutti.corpus.documents.cuts import Cuts
from tutti.corpus.threads import in_threads
from tutti.corpus.tokens.bytepairs import LLAMA3_PATTERN
from tutti.corpus.tokens.dataset import Packing, ShardEntry, Split
from tutti.corpus.tokens.tokenizer import BytePairTokenizer, TokenizerError
from tutti.corpus.tokens.tokenshard import token_dtype
from tutti.native.arrays import np, npt
from tutti.records.errors import UnsupportedFormat
from tutti.tokenization import baselines
from tutti.tokenization.bpe import BPE_VERSION, trained
from tutti.tokenization.documents import Documents, Numbers, Texts
from tutti.tokenization.languages import Language, by_language
from tutti.tokenization.packing import (
    PACKING_VERSION,
    DocumentSplit,
    PackingError,
    concatenated,
    draws,
    split_documents,
)
from tutti.tokenization.spool import Spool, Tokens, buckets
from tutti.tokenization.writing import Target, write_rows, write_shards

LOGIC_VERSION = f"tokenization-2.{BPE_VERSION}.{PACKING_VERSION}"
SHARD_SEQUENCES = 65_536
TRAINING_BYTES = 256 << 20
"""A tokenizer is trained on documents of so many bytes of text, drawn by their ids; of less text, on all of it."""


@dataclass(frozen=True, slots=True)
class Making:
    """The work to do; `shards`: local document shards, whose bytes match their digests; `dropped`: ids left out;
    `cuts`: parts of texts to leave out (tutti.corpus.documents.cuts); `workers`: threads that encode; `measures`: local
    files with languages, also of other documents.
    """

    shards: tuple[Path, ...]
    dropped: frozenset[str]
    vocabulary: int
    pattern: str
    context: int
    validation_fraction: float
    seed: int
    shard_sequences: int
    scratch: Path
    workers: int = 1
    measures: tuple[Path, ...] = ()
    training_bytes: int = TRAINING_BYTES
    packing: Packing = Packing.STREAM
    tokenizer: BytePairTokenizer | None = None
    """that encodes; without one it is trained, of this vocabulary and pattern"""
    cuts: Path | None = None
    reserved: tuple[str, ...] = ()
    """special tokens of a tokenizer that is trained"""


@dataclass(frozen=True, slots=True)
class ShardFile:
    """A token shard in the scratch folder, and where it is to lie."""

    key: str
    path: Path
    bytes_digest: str


@dataclass(frozen=True, slots=True)
class TokenizedDataset:
    """Token shards lie in the scratch folder under the digest of their bytes; `split.shards[k].blob` is their key.

    The tokenizer is `foreign` if others trained it, and `lossless` if decoding gives every text back.
    """

    artefact: bytes
    tokenizer_version: str
    vocabulary: int
    eos: int
    foreign: bool
    lossless: bool
    train: Split
    validation: Split
    baselines: baselines.Baselines
    languages: tuple[Language, ...]
    files: tuple[ShardFile, ...]


class MakingError(Exception):
    """The documents cannot be tokenized as asked; the message says what to do."""


def make(making: Making) -> TokenizedDataset:
    """Train unless there is a tokenizer, split, encode, pack, measure. Raises MakingError."""
    try:
        cuts = Cuts(making.cuts, making.scratch) if making.cuts else None
        documents = Documents(making.shards, making.dropped, cuts)
        key = f"seed {making.seed}"
        split = split_documents(documents.ids, validation_fraction=making.validation_fraction, key=key)
        tokenizer = making.tokenizer or _trained(making, documents, key)
        spool, texts = _spooled(making, tokenizer, documents, split)
        files = list[ShardFile]()
        train = _write(making, tokenizer, documents, spool, split.train, "train", files)
        validation = _write(making, tokenizer, documents, spool, split.validation, "validation", files)
    except (TokenizerError, PackingError, UnsupportedFormat) as error:
        raise MakingError(str(error)) from error
    return TokenizedDataset(
        artefact=tokenizer.artefact,
        tokenizer_version=tokenizer.version,
        vocabulary=tokenizer.vocabulary,
        eos=tokenizer.eos,
        foreign=tokenizer.marks is not None,
        lossless=tokenizer.lossless,
        train=train,
        validation=validation,
        baselines=_measured(making, tokenizer, documents, spool, split, texts),
        languages=by_language(documents, spool.lengths - len(tokenizer.opening), making.measures),
        files=tuple(files),
    )


def _trained(making: Making, documents: Documents, key: str) -> BytePairTokenizer:
    wanted = sample(documents, key, making.training_bytes)
    return trained(
        (each.texts for each in documents.read(wanted)),
        vocabulary=making.vocabulary,
        pattern=making.pattern or LLAMA3_PATTERN,
        reserved=making.reserved,
    )


def sample(documents: Documents, key: str, size: int) -> npt.NDArray[np.bool_] | None:
    """The documents to train on: those that are drawn first, until they have `size` bytes; None for all."""
    if int(documents.sizes.sum()) <= size:
        return None
    order = np.argsort(draws("tokenizer training", key, documents.ids), kind="stable")
    before = np.cumsum(documents.sizes[order]) - documents.sizes[order]
    wanted = np.zeros(len(documents), np.bool_)
    wanted[order[before < size]] = True
    return wanted


@dataclass(frozen=True, slots=True)
class _Beginnings:
    """Texts that xz is asked for: the last of the training split, the first of the validation split."""

    train: tuple[bytes, ...]
    validation: tuple[bytes, ...]


def _spooled(
    making: Making, tokenizer: BytePairTokenizer, documents: Documents, split: DocumentSplit
) -> tuple[Spool, _Beginnings]:
    """Encode every document."""
    order = np.concatenate([split.train, split.validation])
    dtype = token_dtype(tokenizer.vocabulary)
    spool = Spool(making.scratch / "spool", buckets(order, documents.sizes), dtype)
    last = _within(split.train[::-1], documents.sizes, baselines.MAX_PRIMING_BYTES)[::-1]
    first = _within(split.validation, documents.sizes, baselines.MAX_ASKED_BYTES)
    kept = np.zeros(len(documents), np.bool_)
    kept[last] = kept[first] = True
    texts: dict[int, bytes] = {}
    done = 0

    opening = np.array(tokenizer.opening, np.uint32)

    def encoded(some: Texts) -> tuple[Texts, Tokens, Numbers]:
        ids, counts = tokenizer.encode_texts(some.texts)
        if len(opening):
            begins = np.cumsum(counts) - counts
            ids = np.insert(ids, np.repeat(begins, len(opening)), np.tile(opening, len(counts)))
        return some, ids, counts + len(opening)

    for some, ids, counts in in_threads(encoded, documents.read(), making.workers):
        spool.put(some.documents, ids, counts)
        done += len(some.documents)
        progress.say(done, len(documents), unit="documents")
        for place in np.flatnonzero(kept[some.documents]).tolist():
            texts[int(some.documents[place])] = some.texts[place].as_buffer().to_pybytes()
    spool.flush()
    return spool, _Beginnings(*(tuple(texts[each] for each in part.tolist()) for part in (last, first)))


def _within(order: Numbers, sizes: Numbers, limit: int) -> Numbers:
    """The documents of an order until they have `limit` bytes."""
    return order[: int(np.searchsorted(np.cumsum(sizes[order]), limit)) + 1]


def _write(
    making: Making,
    tokenizer: BytePairTokenizer,
    documents: Documents,
    spool: Spool,
    order: Numbers,
    name: str,
    files: list[ShardFile],
) -> Split:
    target = Target(
        making.scratch, name, tokenizer.vocabulary, tokenizer.eos, making.shard_sequences or SHARD_SEQUENCES
    )
    lengths, tokens, entries = spool.lengths[order], spool.read(order), []
    if making.packing is Packing.BEST_FIT:
        written = write_rows(order, lengths, documents.ids, tokens, target, context=making.context)
    else:
        layout = concatenated(order, lengths, context=making.context)
        written = write_shards(layout, documents.ids, tokens, target)
    for path, info in written:
        key = f"tokenization/token-shards/{info.bytes_digest.removeprefix('blake3:')}.bin"
        files.append(ShardFile(key, path, info.bytes_digest))
        entries.append(ShardEntry.of(info, blob=key))
    return Split(
        shards=tuple(entries),
        documents=len(order),
        sequences=sum(entry.sequences for entry in entries),
        targets=int(lengths.sum()) + len(order),
        text_bytes=int(documents.sizes[order].sum()),
    )


def _measured(
    making: Making,
    tokenizer: BytePairTokenizer,
    documents: Documents,
    spool: Spool,
    split: DocumentSplit,
    texts: _Beginnings,
) -> baselines.Baselines:
    asked = _beginning(spool, split.validation, tokenizer.eos, baselines.ASKED_TOKENS)
    streams = baselines.Streams(
        seen=_beginning(spool, split.train, tokenizer.eos, baselines.SEEN_TOKENS),
        asked=asked,
        vocabulary=tokenizer.vocabulary,
        asked_bytes=_bytes_of(asked, tokenizer, documents, spool, split.validation),
    )
    return baselines.Baselines(
        unigram=baselines.unigram_bits_per_byte(streams),
        kneser_ney_bigram=baselines.kneser_ney_bits_per_byte(streams),
        xz_primed=baselines.xz_bits_per_byte(texts.train, texts.validation, workers=making.workers),
    )


def _bytes_of(asked: Tokens, tokenizer: BytePairTokenizer, documents: Documents, spool: Spool, order: Numbers) -> int:
    """The bytes of the texts at the beginning of a split.

    Of ids that do not give texts back they are those of its documents, of one that is cut in proportion to its tokens.
    """
    if tokenizer.lossless:
        lengths = tokenizer.byte_lengths.copy()
        lengths[tokenizer.eos] = 0
        return int(lengths[asked].sum())
    sizes, taken = documents.sizes[order], spool.lengths[order] + 1
    before = np.cumsum(taken) - taken
    share = np.clip((len(asked) - 1 - before) / taken, 0, 1)
    return max(1, int((share * sizes).sum()))


def _beginning(spool: Spool, order: Numbers, eos: int, limit: int) -> Tokens:
    """`eos`, then documents with `eos` behind each, at most so many tokens."""
    end, parts = np.array([eos], spool.dtype), list[Tokens]()
    needed = int(np.searchsorted(np.cumsum(spool.lengths[order] + 1), limit)) + 1
    for ids in spool.read(order[:needed]):
        parts += [ids, end]
    return np.concatenate([end, *parts])[:limit]
