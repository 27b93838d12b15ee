"""Tokenizers of the families of open models: texts have the ids of the library, and spell no added token."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from tutti.corpus.tokens.bytepairs import LLAMA3_PATTERN
from tutti.corpus.tokens.fidelity import is_lossless
from tutti.corpus.tokens.tokenizer import BytePairTokenizer
from tutti.records.canonical import canonical_json, parse_json

TEXTS = [
    "def f(x):\n\treturn x ** 2  # caf\u00e9 \u4e2d\u6587 \U0001f600",
    "It's 12345 o'clock, and they'll say that the words are split\r\n\r\n where a space begins one.",
    "The quick brown fox jumps over the lazy dog. THE QUICK BROWN FOX; ein Fluss, \u00fcber den nichts f\u00fchrt.",
]
QWEN_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
TEKKEN_PATTERN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SPECIAL, PLAIN, UNKNOWN = "<|im_end|>", "<tool_call>", "<unk>"


def learned(pattern: str, normalizer: normalizers.Normalizer | None = None, *, whole_words: bool = False) -> Tokenizer:
    """A byte-level tokenizer with a family's split."""
    tokenizer = Tokenizer(models.BPE(ignore_merges=whole_words))
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    split = pre_tokenizers.Split(Regex(pattern), behavior="isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(
        TEXTS * 3, trainers.BpeTrainer(vocab_size=340, show_progress=False, initial_alphabet=alphabet)
    )
    return tokenizer


def metaspaced() -> Tokenizer:
    """A tokenizer of words that begin with a mark, in which bytes stand for unknown characters."""
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    tokenizer.train_from_iterator(
        TEXTS * 3, trainers.BpeTrainer(vocab_size=420, show_progress=False, special_tokens=[UNKNOWN, "<s>", *bytes_])
    )
    return tokenizer


FAMILIES = {
    "llama 3": lambda: learned(LLAMA3_PATTERN, whole_words=True),
    "qwen": lambda: learned(QWEN_PATTERN, normalizers.NFC()),
    "mistral, tekken": lambda: learned(TEKKEN_PATTERN, whole_words=True),
    "mistral, metaspace": metaspaced,
}


@pytest.mark.parametrize("family", FAMILIES)
def test_texts_have_the_ids_of_the_library_and_spell_no_added_token(family: str) -> None:
    library = FAMILIES[family]()
    without = BytePairTokenizer(canonical_json(parse_json(library.to_str())))
    library.add_special_tokens([AddedToken(SPECIAL, special=True, normalized=False)])
    library.add_tokens([AddedToken(PLAIN, special=False, normalized=False)])
    ours = BytePairTokenizer(canonical_json(parse_json(library.to_str())))
    assert {SPECIAL, PLAIN} <= {each["content"] for each in json.loads(ours.artefact)["added_tokens"]}

    @given(st.text(alphabet=st.characters(codec="utf-8", exclude_characters="<"), max_size=60))
    @settings(max_examples=60, deadline=None)
    def any_text(text: str) -> None:
        assert ours.encode(text).tolist() == library.encode(text, add_special_tokens=False).ids
        for spelled in (SPECIAL, PLAIN):
            assert ours.encode(f"{text}{spelled}").tolist() == without.encode(f"{text}{spelled}").tolist()

    any_text()
    for text in TEXTS:
        assert ours.encode(text).tolist() == library.encode(text, add_special_tokens=False).ids


@pytest.mark.parametrize("family", FAMILIES)
def test_a_tokenizer_is_lossless_if_every_text_comes_back(family: str) -> None:
    library = FAMILIES[family]()
    lossless = is_lossless(json.loads(library.to_str()))
    assert lossless == (family in ("llama 3", "mistral, tekken"))
    changed = ["cafe\u0301", " a", "a\u2581b", ""]

    @given(st.text(alphabet=st.characters(codec="utf-8"), max_size=60))
    @settings(max_examples=60, deadline=None)
    def any_text(text: str) -> None:
        assert library.decode(library.encode(text).ids, skip_special_tokens=False) == text

    if lossless:
        any_text()
    else:
        assert any(library.decode(library.encode(text).ids, skip_special_tokens=False) != text for text in changed)


@pytest.mark.parametrize(
    "pre",
    [
        pre_tokenizers.ByteLevel(True),
        pre_tokenizers.Sequence([pre_tokenizers.Split(" ", "removed"), pre_tokenizers.ByteLevel(False)]),
    ],
)
def test_a_split_that_adds_or_takes_spaces_is_not_lossless(pre: pre_tokenizers.PreTokenizer) -> None:
    library = learned(LLAMA3_PATTERN)
    library.pre_tokenizer = pre
    assert library.decode(library.encode("a b").ids) != "a b"
    assert not is_lossless(json.loads(library.to_str()))
