"""Byte-level BPE: how a tokenizer is trained.

The same documents in the same order give the same tokenizer on any number of threads.
"""

from __future__ import annotations

from collections.abc import Iterable

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from tutti.corpus.canonical import canonical_json, parse_json
from tutti.corpus.tokenizer import EOS, BytePairTokenizer, TokenizerError

BYTES = 256
BPE_VERSION = 1
# The split pattern of Llama 3: contractions, words, up to three digits, punctuation, space.
LLAMA3_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


class PatternError(TokenizerError):
    """A split pattern is not a regular expression of Oniguruma's."""


def compiled(pattern: str) -> Regex:
    """A split pattern, ready to be used. Raises PatternError."""
    try:
        return Regex(pattern)
    except Exception as error:  # the library raises bare Exception
        raise PatternError(f"the pattern {pattern!r} does not compile: {error}; see Oniguruma's syntax") from error


def train_bpe(texts: Iterable[str], *, vocabulary: int, pattern: str = LLAMA3_PATTERN) -> BytePairTokenizer:
    """Train on `texts` (in doc_id order); less text than merges gives fewer merges, so look at `.vocabulary`."""
    if vocabulary <= BYTES:
        raise TokenizerError(f"a vocabulary of {vocabulary}: expected at least {BYTES + 1} (every byte, and {EOS})")
    split = compiled(pattern)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(split, behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary - 1,
        min_frequency=2,
        show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_special_tokens([AddedToken(EOS, special=True, normalized=False)])
    return BytePairTokenizer(canonical_json(parse_json(tokenizer.to_str())))
