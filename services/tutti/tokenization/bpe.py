"""Byte-level BPE: how a tokenizer is trained.

Promises: a function of the set of texts, whatever their order, cut and the number of threads. For Llama 3's pattern the
kernel of tutti.corpus.bytepairs learns the merges; without it, and for other patterns, the library `tokenizers` does,
and gives the same.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

import pyarrow as pa
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from tutti.corpus import bytepairs
from tutti.corpus.bytepairs import LLAMA3_PATTERN, LONGEST_WORD, Merges
from tutti.corpus.canonical import canonical_json, parse_json
from tutti.corpus.tokenizer import EOS, BytePairTokenizer, TokenizerError

BYTES = 256
BPE_VERSION = 1
LEAST = 2
"""How often a pair comes at least that is merged."""

_BATCH = 1024


class PatternError(TokenizerError):
    """A split pattern is not a regular expression of Oniguruma's."""


def compiled(pattern: str) -> Regex:
    """A split pattern, ready to be used. Raises PatternError."""
    try:
        return Regex(pattern)
    except Exception as error:  # the library raises bare Exception
        raise PatternError(f"the pattern {pattern!r} does not compile: {error}; see Oniguruma's syntax") from error


def train_bpe(texts: Iterable[str], *, vocabulary: int, pattern: str = LLAMA3_PATTERN) -> BytePairTokenizer:
    """`trained` on texts one by one."""
    iterator = iter(texts)
    batches = iter(lambda: list(itertools.islice(iterator, _BATCH)), [])
    return trained((pa.array(batch, pa.large_string()) for batch in batches), vocabulary=vocabulary, pattern=pattern)


def trained(batches: Iterable[pa.Array], *, vocabulary: int, pattern: str = LLAMA3_PATTERN) -> BytePairTokenizer:
    """Train on arrays of texts; less text than merges gives fewer merges, so look at `.vocabulary`.

    Memory is that of the distinct words, not of the texts. Raises TokenizerError.
    """
    if vocabulary <= BYTES:
        raise TokenizerError(f"a vocabulary of {vocabulary}: expected at least {BYTES + 1} (every byte, and {EOS})")
    split = pre_tokenizers.Split(compiled(pattern), behavior="isolated")
    library = bytepairs.native().library
    if library is not None and pattern == LLAMA3_PATTERN:
        words = bytepairs.Words(library)
        for batch in batches:
            words.add(batch)
        tokenizer = _of(words.learn(vocabulary=vocabulary - 1, least=LEAST))
    else:
        tokenizer = _by_library(batches, split, vocabulary)
    if tokenizer.token_to_id(EOS) is not None:
        raise TokenizerError(f"the texts teach {EOS} as a token, which must be no text; use a pattern that splits it")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, _spelled()])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(EOS, special=True, normalized=False)])
    return BytePairTokenizer(canonical_json(parse_json(tokenizer.to_str())))


def _spelled() -> pre_tokenizers.ByteLevel:
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)


def _of(merges: Merges) -> Tokenizer:
    """The tokenizer of learned merges; a pair that was learned twice has its later place."""
    tokens = sorted(bytepairs.spelling())
    ordered: dict[tuple[str, str], None] = {}
    for left, right, made in merges.tolist():
        pair = tokens[left], tokens[right]
        if made == len(tokens):
            tokens.append("".join(pair))
        ordered.pop(pair, None)
        ordered[pair] = None
    return Tokenizer(models.BPE(vocab={token: id for id, token in enumerate(tokens)}, merges=list(ordered)))


def _by_library(batches: Iterable[pa.Array], split: pre_tokenizers.Split, vocabulary: int) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    parts = pre_tokenizers.Split(Regex(f"(?m:.{{1,{LONGEST_WORD}}})"), behavior="isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, parts, _spelled()])
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary - 1,
        min_frequency=LEAST,
        show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )
    tokenizer.train_from_iterator(_texts(batches), trainer)
    return tokenizer


def _texts(batches: Iterable[pa.Array]) -> Iterator[str]:
    for batch in batches:
        yield from batch.to_pylist()
