"""A tokenizer that learnt nothing, for tests: every byte is a token."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from tutti.corpus.tokens.bytepairs import spelling
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
