"""The tokenizer: byte-level BPE, named by its content.

Any text survives encoding and decoding; `<|endoftext|>` is never produced by text, only by its id.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from tutti.corpus.canonical import bytes_digest, content_digest, parse_json
from tutti.corpus.errors import NotCanonical

EOS = "<|endoftext|>"
_BATCH = 64


class TokenizerError(Exception):
    """A tokenizer can't be trained as asked, or its file does not hold."""


@dataclass(frozen=True)
class BytePairTokenizer:
    """A tokenizer; `artefact` is the `tokenizer.json` that Hugging Face reads, as canonical JSON."""

    artefact: bytes

    @property
    def version(self) -> str:
        """The content digest of the artefact: the `tokenizer_version` of datasets and checkpoints."""
        return content_digest(parse_json(self.artefact), kind="tokenizer")

    @property
    def artefact_digest(self) -> str:
        return bytes_digest(self.artefact)

    @property
    def vocabulary(self) -> int:
        """How many ids there are: 256 bytes, the merges, and one for the end of a text."""
        return int(self._encoder.get_vocab_size())

    @property
    def eos(self) -> int:
        return self.vocabulary - 1

    @classmethod
    def load(cls, artefact: bytes, *, expected_version: str) -> BytePairTokenizer:
        """Raises TokenizerError unless `artefact` is the tokenizer of that version."""
        try:
            tokenizer = cls(artefact)
            version = tokenizer.version
        except NotCanonical as error:
            raise TokenizerError(f"not a tokenizer.json: {error}; fetch it again") from error
        if version != expected_version:
            raise TokenizerError(
                f"the tokenizer is damaged: version {version}, expected {expected_version}; fetch it again"
            )
        if tokenizer._encoder.token_to_id(EOS) != tokenizer.eos:
            raise TokenizerError(f"the tokenizer has no {EOS} as its last id; train it with this version")
        return tokenizer

    def encode(self, text: str) -> npt.NDArray[np.uint32]:
        """The ids of `text`, without `eos`."""
        return next(self.encode_all((text,)))

    def encode_all(self, texts: Iterable[str]) -> Iterator[npt.NDArray[np.uint32]]:
        """The ids of each text, in order, a batch of texts at a time."""
        iterator = iter(texts)
        while batch := list(itertools.islice(iterator, _BATCH)):
            for encoding in self._encoder.encode_batch_fast(batch, add_special_tokens=False):
                yield np.array(encoding.ids, np.uint32)

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids; `eos` reads `<|endoftext|>`, and bytes that are no UTF-8 read U+FFFD."""
        return str(self._encoder.decode([int(token) for token in ids], skip_special_tokens=False))

    def __reduce__(self) -> tuple[type[BytePairTokenizer], tuple[bytes]]:
        """Pickled by its file: an encoder that was pickled would take text that spells `<|endoftext|>` for the end."""
        return BytePairTokenizer, (self.artefact,)

    @cached_property
    def _encoder(self) -> Tokenizer:
        try:
            encoder = Tokenizer.from_buffer(self.artefact)
        except Exception as error:  # the library raises bare Exception
            raise TokenizerError(f"not a tokenizer.json: {error}; fetch it again") from error
        encoder.encode_special_tokens = True  # text that spells a special token is text
        return encoder
