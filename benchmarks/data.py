"""A dataset of random tokens, for benchmarks that need data and not language.

Promises: it is stored and staged by the product's own code; the same arguments give the same bytes; a document ends
with a token that is nowhere else.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tutti.backbone import Blobs
from tutti.backbone.files import RealFiles
from tutti.corpus.tokens.dataset import DatasetBody, ShardEntry, Split
from tutti.corpus.tokens.tokenshard import TokenRun, encode_token_shard
from tutti.trainer.io.staging import Cache

DOCUMENT_TOKENS = 500
END = 0
NOTHING = Split((), 0, 0, 0, 0)


@dataclass(frozen=True)
class Made:
    """A stored dataset."""

    manifest_key: str
    digest: str
    body: DatasetBody
    tokens: npt.NDArray[np.uint16]
    """The whole stream."""

    def stage(self, folder: Path, blobs: Blobs) -> Path:
        """The folder that a rank reads."""
        return Cache(folder, blobs, RealFiles()).datasets({self.digest: self.manifest_key})[0]


def make(blobs: Blobs, *, vocabulary: int, context: int, sequences: int, shards: int = 1) -> Made:
    """Store `shards` shards of `sequences` sequences each; there is no validation split. `vocabulary` ≤ 65,536."""
    source = np.random.default_rng(7)
    tokens = source.integers(1, vocabulary, size=shards * sequences * context + 1, dtype=np.uint16)
    entries = []
    for number in range(shards):
        begin = number * sequences * context
        starts = np.arange(0, sequences * context, DOCUMENT_TOKENS)
        tokens[begin + starts[1:] - 1] = END
        data, info = encode_token_shard(
            TokenRun(
                tokens=tokens[begin : begin + sequences * context + 1],
                tokens_used=sequences * context + 1,
                starts=starts,
                doc_ids=[f"{number:032x}{document:032x}" for document in range(len(starts))],
                context=context,
                vocabulary=vocabulary,
                eos=END,
                first_sample=number * sequences,
            )
        )
        key = f"tokenization/token-shards/{info.bytes_digest.removeprefix('blake3:')}.bin"
        blobs.put_if_absent(key, data)
        entries.append(ShardEntry.of(info, blob=key))
    samples = shards * sequences
    train = Split(
        tuple(entries), sum(each.documents for each in entries), samples, samples * context, 4 * samples * context
    )
    body = DatasetBody(
        tokenizer_version="blake3:" + "1" * 64,
        vocabulary=vocabulary,
        eos=END,
        context=context,
        train=train,
        validation=NOTHING,
    )
    manifest = body.manifest(parents=(), producer="benchmarks")
    key = f"tokenization/manifests/{manifest.content_digest.removeprefix('blake3:')}.json"
    blobs.put_if_absent(key, manifest.encode())
    return Made(key, manifest.content_digest, body, tokens)
