"""A tokenizer that learnt nothing, for tests: every byte is a token."""

from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from tutti.corpus.bytepairs import spelling
from tutti.corpus.tokenizer import EOS, BytePairTokenizer
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
