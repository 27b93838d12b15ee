"""Building: an index of spans from the token shards of one split.

Promises: the same shards give the same bytes, whatever the memory; every byte of a shard was verified before it was
used; the target is there whole or not at all. Memory holds at most `memory_bytes`, and one mapped shard at a time.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from blake3 import blake3

from tutti.backbone.files import RealFiles, overwrite
from tutti.corpus.spans.diskarray import DiskArray
from tutti.corpus.spans.indexfile import Header, content, extents
from tutti.corpus.spans.suffixes import Suffixes
from tutti.corpus.tokens.loader import Loader
from tutti.corpus.tokens.tokenshard import TokenShard, token_dtype
from tutti.native.arrays import np, npt
from tutti.records.canonical import framed, hasher, named
from tutti.records.errors import CorpusError
from tutti.records.fields import Digest

MEMORY_BYTES = 512 << 20
LEAST_MEMORY_BYTES = 1 << 20
MOST_TOKENS = (1 << 32) - 1
"""A position takes four bytes."""

_COPY = 1 << 16


@dataclass(frozen=True, slots=True)
class IndexInfo:
    """The entry of an index in a manifest; `suffixes`: the positions that it sorts."""

    content_digest: Digest
    bytes_digest: Digest
    bytes: int
    tokens: int
    suffixes: int
    documents: int


def build(shards: Sequence[Path], target: Path, *, memory_bytes: int = MEMORY_BYTES) -> IndexInfo:
    """Write the index of all shards of a split, which may be given in any order, to `target`.

    Works in a folder beside `target`, on about 50 bytes of disk a token. Raises CorruptShard or UnsupportedFormat for
    a shard that is damaged, CorpusError for shards that are no whole split or hold too many tokens, and for less than
    LEAST_MEMORY_BYTES.
    """
    if memory_bytes < LEAST_MEMORY_BYTES:
        raise CorpusError(f"memory_bytes is {memory_bytes}, expected at least {LEAST_MEMORY_BYTES}")
    Loader(shards)  # refuses shards that are missing, there twice or of several datasets
    ordered = sorted(shards, key=lambda path: TokenShard(path).first_sample)
    first = TokenShard(ordered[0]).header
    with tempfile.TemporaryDirectory(prefix=f"{target.name}-", dir=target.parent) as scratch:
        folder = Path(scratch)
        with (
            DiskArray(folder / "tokens", token_dtype(first.vocabulary)) as tokens,
            DiskArray(folder / "suffixes", "<u4") as suffixes,
            DiskArray(folder / "starts", "<u4") as starts,
            DiskArray(folder / "doc_ids", "S32") as doc_ids,
        ):
            copied = _unpacked if first.packed else _copied
            digest = framed(hasher("token shards"), copied(ordered, tokens, starts, doc_ids)).digest()
            sorts = Suffixes(
                tokens, vocabulary=first.vocabulary, eos=first.eos, folder=folder, memory_bytes=memory_bytes
            )
            for piece in sorts.sorted():
                suffixes.append(piece)
            sections = [each.path for each in (tokens, suffixes, starts, doc_ids)]
            header = Header(
                vocabulary=first.vocabulary,
                eos=first.eos,
                tokens=len(tokens),
                suffixes=len(suffixes),
                documents=len(starts),
                shards=digest,
                sections=extents(sections),
            )
        state = blake3()
        overwrite(RealFiles(), folder / "index", target, _digested(content(header, sections), state))
    return IndexInfo(
        content_digest=header.content_digest(),
        bytes_digest=named(state),
        bytes=header.sections[-1].end,
        tokens=header.tokens,
        suffixes=header.suffixes,
        documents=header.documents,
    )


def _copied(paths: Sequence[Path], tokens: DiskArray, starts: DiskArray, doc_ids: DiskArray) -> Iterator[bytes]:
    """Append what the shards hold; gives the content digest of each.

    A shard's last token is the first of the next one too, so it is left to that one, and so is a document that begins
    there; a document that goes on in the next shard is noted once.
    """
    noted = ""
    for path, behind in zip_longest(paths, paths[1:]):
        shard = TokenShard(path)
        shard.verify()
        header, base = shard.header, len(tokens)
        length = header.tokens_used if behind is None else header.sequences * header.context
        if base + length > MOST_TOKENS:
            raise CorpusError(f"{path.name}: more than {MOST_TOKENS} tokens before its end; make the dataset smaller")
        if behind is not None and header.tokens_used != len(shard.tokens):
            raise CorpusError(f"{path.name} is padded, but {behind.name} follows it: stage the dataset again")
        goes_on = shard.doc_id(0) == noted
        begins = shard.starts[int(goes_on) : int(np.searchsorted(shard.starts, length))] + base
        if base == 0 and shard.tokens[0] == header.eos:
            begins[0] = 1  # the stream begins with an end-of-text token, which belongs to no document
        for at in range(0, length, _COPY):
            tokens.append(shard.tokens[at : min(at + _COPY, length)])
        apart = shard.tokens[np.maximum(begins - base - 1, 0)] == header.eos
        if len(begins) and (base == 0 or begins[0] == base):
            apart[0] = base == 0 or tokens.read(base - 1, base)[0] == header.eos
        if not apart.all() or (behind is None and shard.tokens[length - 1] != header.eos):
            raise CorpusError(
                f"{path.name}: a document does not end with the end-of-text token {header.eos}; "
                "was the dataset made by another tokenization, or is its last shard missing?"
            )
        starts.append(begins)
        doc_ids.append(shard.doc_ids[int(goes_on) : int(goes_on) + len(begins)])
        if len(begins):
            noted = shard.doc_id(int(goes_on) + len(begins) - 1)
        yield header.content_digest().encode()


def _unpacked(paths: Sequence[Path], tokens: DiskArray, starts: DiskArray, doc_ids: DiskArray) -> Iterator[bytes]:
    """As `_copied` for packed rows: documents as they were before they were cut into pieces, one behind the other.

    Gives the content digest of each shard. The pieces of a document come in its order, in one shard or several.
    """
    shards = [TokenShard(path) for path in paths]
    for at, shard in enumerate(shards):
        shard.verify()
        eos, begins, names = shard.header.eos, list[int](), list[int]()
        for index in range(shard.header.documents):
            piece = shard.piece(index)
            if piece[0] != eos:
                continue  # it goes on with a document that began before
            begins.append(len(tokens))
            names.append(index)
            rest = _rest(shards[at:], shard.doc_id(index), eos)
            while piece[-1] != eos:
                tokens.append(piece[1:])
                try:
                    piece = next(rest)
                except StopIteration:
                    raise CorpusError(
                        f"{shard.name}: a document does not end with the end-of-text token {eos}; was the dataset made "
                        "by another tokenization, or is its last shard missing?"
                    ) from None
            tokens.append(piece[1:])
            if len(tokens) > MOST_TOKENS:
                raise CorpusError(f"{shard.name}: more than {MOST_TOKENS} tokens; make the dataset smaller")
        starts.append(np.array(begins, np.int64))
        doc_ids.append(shard.doc_ids[names])
        yield shard.header.content_digest().encode()


def _rest(shards: Sequence[TokenShard], doc_id: str, eos: int) -> Iterator[npt.NDArray[np.unsignedinteger]]:
    """The pieces of a document behind its first."""
    for shard in shards:
        pieces = (shard.piece(index) for index in shard.places_of(doc_id))
        yield from (piece for piece in pieces if piece[0] != eos)


def _digested(pieces: Iterable[bytes], state: blake3) -> Iterator[bytes]:
    for piece in pieces:
        state.update(piece)
        yield piece
