"""A tokenizer that learnt nothing, for tests: every byte is a token."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors

from tutti.corpus.tokens.bytepairs import LLAMA3_PATTERN, byte_ids, spelling
from tutti.corpus.tokens.marks import Marks
from tutti.corpus.tokens.tokenizer import EOS, BytePairTokenizer, TokenizerError
from tutti.records.canonical import canonical_json, parse_json


def of_bytes(*reserved: str) -> BytePairTokenizer:
    """257 ids: 256 bytes, the end of a text; before it the reserved tokens."""
    tokenizer = Tokenizer(models.BPE(vocab={each: number for number, each in enumerate(spelling())}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = [AddedToken(token, special=True, normalized=False) for token in (*reserved, EOS)]
    tokenizer.add_special_tokens(special)
    return BytePairTokenizer(canonical_json(parse_json(tokenizer.to_str())))


@given(text=st.text(alphabet=st.characters(codec="utf-8"), max_size=100))
def test_its_tokens_are_the_bytes_of_a_text(text: str) -> None:
    tokenizer = of_bytes()
    assert tokenizer.encode(text).tolist() == list(text.encode())
    assert BytePairTokenizer.load(tokenizer.artefact, expected_version=tokenizer.version).eos == 256


def test_an_extended_tokenizer_reserves_more_tokens_and_encodes_texts_as_before() -> None:
    plain, extended = of_bytes("<|user|>"), of_bytes("<|user|>").extended(["<|user|>", "<|tool|>", "<|system|>"])
    assert extended.version == of_bytes("<|user|>", "<|tool|>", "<|system|>").version
    assert extended.reserved == {"<|user|>": 256, "<|tool|>": 257, "<|system|>": 258}
    assert (plain.eos, extended.eos) == (257, 259)
    text = "a <|tool|> b <|endoftext|>"
    assert extended.encode(text).tolist() == plain.encode(text).tolist()
    assert extended.extended(["<|tool|>"]).version == extended.version
    for token in (EOS, "tool", "a"):
        with pytest.raises(TokenizerError, match="cannot be reserved"):
            plain.extended([token])


def learned(*, ignore_merges: bool = False, word: str = "") -> BytePairTokenizer:
    """A tokenizer with Llama 3's pattern and some merges; `word` is an id that no merges make."""
    vocabulary = dict(zip(spelling(), byte_ids().tolist(), strict=True))
    merges = [("h", "e"), ("l", "l"), ("he", "ll"), ("hell", "o")]
    for each in (*("".join(pair) for pair in merges), *filter(None, (word,))):
        vocabulary[each] = len(vocabulary)
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, ignore_merges=ignore_merges))
    split = pre_tokenizers.Split(Regex(LLAMA3_PATTERN), behavior="isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(EOS, special=True, normalized=False)])
    return BytePairTokenizer(canonical_json(parse_json(tokenizer.to_str())))


def test_a_word_that_no_merges_make_is_one_id_where_whole_words_are_looked_up() -> None:
    tokenizer, before = learned(ignore_merges=True, word="world"), learned(word="world")
    library = Tokenizer.from_buffer(tokenizer.artefact)
    assert tokenizer.encode("world hello").tolist() == library.encode("world hello").ids
    assert len(tokenizer.encode("world")) == 1
    assert len(before.encode("world")) == 5
    assert learned(ignore_merges=True).encode("hello").tolist() == learned().encode("hello").tolist()


@given(text=st.text(alphabet="<tol_ca>/ ", max_size=30))
def test_text_never_spells_an_added_token_whether_it_is_special_or_not(text: str) -> None:
    plain, parsed = learned(), json.loads(learned().artefact)
    more = {**parsed["added_tokens"][0], "content": "<tool_call>", "special": False, "id": 261}
    tokenizer = BytePairTokenizer(canonical_json({**parsed, "added_tokens": [*parsed["added_tokens"], more]}))
    for each in (text, f"a <tool_call>{text}"):
        assert tokenizer.encode(each).tolist() == plain.encode(each).tolist()
    assert tokenizer.decode([261]) == "<tool_call>"


def of_others(*, roles: tuple[str, ...] = ()) -> BytePairTokenizer:
    """A tokenizer that puts <s> before each text, ends one with either of two ids, and has another token in between."""
    tokenizer = Tokenizer.from_buffer(of_bytes("<|user|>").artefact)
    tokenizer.add_special_tokens(["<s>", "</s>"])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 258)])
    tokenizer.enable_truncation(2)
    return BytePairTokenizer.of_others(tokenizer.to_str().encode(), Marks((259, 257), begin=258, roles=roles))


def test_a_tokenizer_of_others_has_its_own_ends_and_the_same_texts() -> None:
    tokenizer, text = of_others(), "a longer text </s>"
    again = BytePairTokenizer.load(tokenizer.artefact, expected_version=tokenizer.version)
    assert (again.eos, again.ends, again.vocabulary, again.opening) == (259, (259, 257), 260, (258,))
    assert tokenizer.encode(text).tolist() == list(text.encode())
    assert (again.reserved, again.spelled[259], again.byte_lengths[ord("a")]) == ({}, b"", 1)
    assert Tokenizer.from_buffer(again.file).encode("a longer text").ids == [258, ord("a")]


def test_tokens_are_reserved_behind_the_ids_of_a_tokenizer_of_others() -> None:
    extended = of_others().extended(["<|user|>", "<|tool|>", "<|system|>"])
    assert extended.reserved == {"<|user|>": 256, "<|tool|>": 260, "<|system|>": 261}  # the first was there
    assert (extended.eos, extended.vocabulary) == (259, 262)
    assert extended.encode("a <|tool|>").tolist() == list(b"a <|tool|>")
    assert extended.extended(["<|tool|>"]).version == extended.version
    with pytest.raises(TokenizerError, match="cannot be reserved"):
        extended.extended(["tool"])


@pytest.mark.parametrize("change", [{"ends": []}, {"more": 1}, {"begin": ...}])
def test_marks_that_are_not_whole_are_refused(change: dict[str, object]) -> None:
    stored = {**json.loads(of_others().artefact), **change}
    artefact = canonical_json({key: value for key, value in stored.items() if value is not ...})
    with pytest.raises(TokenizerError, match="not a tokenizer"):
        BytePairTokenizer.load(artefact, expected_version=BytePairTokenizer(artefact).version)
