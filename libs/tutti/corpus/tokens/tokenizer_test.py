"""A tokenizer that learnt nothing, for tests: every byte is a token."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

from tutti.corpus.tokens.bytepairs import LLAMA3_PATTERN, byte_ids, spelling
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
