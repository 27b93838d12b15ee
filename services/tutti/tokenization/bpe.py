"""Byte-level BPE: how a tokenizer is trained.

Promises: a function of the set of texts, whatever their order, cut and the number of threads. For Llama 3's pattern the
kernel of tutti.corpus.tokens.bytepairs learns the merges; without it, and for other patterns, the library `tokenizers`
does, and gives the same.
"""

from __future__ import annotations

import ctypes
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from tutti.corpus.tokens import bytepairs
from tutti.corpus.tokens.bytepairs import LLAMA3_PATTERN, LONGEST_WORD, Merges
from tutti.corpus.tokens.tokenizer import EOS, SPECIAL, BytePairTokenizer, TokenizerError
from tutti.native.arrays import pa
from tutti.records.canonical import canonical_json

BYTES = 256
BPE_VERSION = 1
LEAST = 2
"""Minimum frequency of a pair that is merged."""

_BATCH = 1024


class PatternError(TokenizerError):
    """A split pattern is not a regular expression of Oniguruma's."""


def compiled(pattern: str) -> Regex:
    """A split pattern, ready to be used. Raises PatternError."""
    try:
        return Regex(pattern)
    except Exception as error:  # the library raises bare Exception
        raise PatternError(f"the pattern {pattern!r} does not compile: {error}; see Oniguruma's syntax") from error


def train_bpe(
    texts: Iterable[str], *, vocabulary: int, pattern: str = LLAMA3_PATTERN, reserved: Sequence[str] = ()
) -> BytePairTokenizer:
    """`trained` on texts one by one."""
    iterator = iter(texts)
    batches = iter(lambda: list(itertools.islice(iterator, _BATCH)), [])
    arrays = (pa.array(batch, pa.large_string()) for batch in batches)
    return trained(arrays, vocabulary=vocabulary, pattern=pattern, reserved=reserved)


def trained(
    batches: Iterable[pa.Array], *, vocabulary: int, pattern: str = LLAMA3_PATTERN, reserved: Sequence[str] = ()
) -> BytePairTokenizer:
    """Train on arrays of texts; less text than merges gives fewer merges, so look at `.vocabulary`.

    `reserved` are special tokens whose ids are the last but the end of text. Memory is that of the distinct words, not
    of the texts. Raises TokenizerError.
    """
    special = special_tokens(reserved)
    if (least := BYTES + len(special)) > vocabulary:
        named = ", ".join(special)
        raise TokenizerError(f"a vocabulary of {vocabulary}: expected at least {least} (every byte, {named})")
    split = pre_tokenizers.Split(compiled(pattern), behavior="isolated")
    library = bytepairs.native().library
    if library is not None and pattern == LLAMA3_PATTERN:
        model = _of(_learned(library, batches, vocabulary - len(special)))
    else:
        model = _by_library(batches, split, vocabulary - len(special))
    if learned := next((token for token in special if token in model.tokens), ""):
        raise TokenizerError(
            f"the texts teach {learned} as a token, which must be no text; use a pattern that splits it"
        )
    return BytePairTokenizer(_artefact(split, model, special))


def special_tokens(reserved: Sequence[str]) -> tuple[str, ...]:
    """Return the special tokens in the order of their ids: those that are reserved, then the end of text.

    Raises TokenizerError for reserved tokens that cannot be.
    """
    if wrong := next((token for token in reserved if not SPECIAL.fullmatch(token) or token == EOS), ""):
        raise TokenizerError(f"{wrong!r} cannot be reserved; expected a token such as <|user|>, other than {EOS}")
    if len(set(reserved)) != len(reserved):
        raise TokenizerError(f"the reserved tokens are {list(reserved)}; expected each once")
    return (*reserved, EOS)


@dataclass(frozen=True, slots=True)
class _Model:
    """Tokens with their ids, and merges in their order, both as `tokenizer.json` spells them."""

    tokens: Mapping[str, int]
    merges: Sequence[Sequence[str]]


def _artefact(split: pre_tokenizers.Split, model: _Model, special: Sequence[str]) -> bytes:
    """The `tokenizer.json`: that of an empty model by the library, and this model in it."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, _spelled()])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    written = json.loads(tokenizer.to_str())
    for number, added in enumerate(written["added_tokens"], len(model.tokens)):
        added["id"] = number
    written["model"] |= {"vocab": model.tokens, "merges": model.merges}
    return canonical_json(written)


def _spelled() -> pre_tokenizers.ByteLevel:
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)


def _learned(library: ctypes.CDLL, batches: Iterable[pa.Array], vocabulary: int) -> Merges:
    words = bytepairs.Words(library)
    for batch in batches:
        words.add(batch)
    return words.learn(vocabulary=vocabulary, least=LEAST)


def _of(merges: Merges) -> _Model:
    tokens = sorted(bytepairs.spelling())
    pairs = list[tuple[str, str]]()
    for left, right, _ in merges.tolist():
        pairs.append((tokens[left], tokens[right]))
        tokens.append(tokens[left] + tokens[right])
    return _Model({token: number for number, token in enumerate(tokens)}, pairs)


def _by_library(batches: Iterable[pa.Array], split: pre_tokenizers.Split, vocabulary: int) -> _Model:
    tokenizer = Tokenizer(models.BPE())
    parts = pre_tokenizers.Split(Regex(f"(?m:.{{1,{LONGEST_WORD}}})"), behavior="isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, parts, _spelled()])
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        min_frequency=LEAST,
        show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )
    tokenizer.train_from_iterator(_texts(batches), trainer)
    written = json.loads(tokenizer.to_str())["model"]
    return _Model(written["vocab"], written["merges"])


def _texts(batches: Iterable[pa.Array]) -> Iterator[str]:
    for batch in batches:
        yield from batch.to_pylist()
