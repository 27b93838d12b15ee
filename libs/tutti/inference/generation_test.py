"""Generation: the same seed gives the same text, alone or among others, and says why it ended."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tutti.inference.decoder import Decoder
from tutti.inference.decoder_test import MODEL, parameters, tokens_of
from tutti.inference.errors import InvalidSampling, PromptTooLong
from tutti.inference.generation import Continuation, generate
from tutti.inference.limits import Limits, Stop
from tutti.inference.sampling import Sampling
from tutti.model.transformer import Transformer

DECODER = Decoder(*parameters(MODEL))
END = MODEL.vocabulary - 1
LIMITS = Limits(tokens=12, end=END, vocabulary=MODEL.vocabulary)
GREEDY = Sampling(temperature=0)


def prompts(lengths: list[int]) -> list[list[int]]:
    return [tokens_of(MODEL, length, seed=k) for k, length in enumerate(lengths)]


@given(st.lists(st.integers(0, 25), min_size=1, max_size=12), st.integers(0, 2**53 - 1), st.data())
@settings(max_examples=25)
def test_the_same_seed_gives_the_same_text_alone_and_in_a_batch(
    lengths: list[int], seed: int, data: st.DataObject
) -> None:
    given_prompts, sampling = prompts(lengths), Sampling(temperature=1.2, top_p=0.95, seed=seed)
    together = generate(DECODER, given_prompts, sampling, LIMITS)
    mine = data.draw(st.integers(0, len(lengths) - 1))
    assert generate(DECODER, given_prompts[mine : mine + 1], sampling, LIMITS, first=mine) == [together[mine]]
    cut = data.draw(st.integers(0, len(lengths)))
    apart = generate(DECODER, given_prompts[:cut], sampling, LIMITS)
    assert apart + generate(DECODER, given_prompts[cut:], sampling, LIMITS, first=cut) == together


def test_another_seed_and_another_number_give_another_text() -> None:
    same = [tokens_of(MODEL, 5)] * 2
    one, two = generate(DECODER, same, Sampling(seed=1), LIMITS)
    other, _ = generate(DECODER, same, Sampling(seed=2), LIMITS)
    assert len({one.tokens, two.tokens, other.tokens}) == 3


def test_greedy_is_the_likeliest_token_of_the_training_forward_each_time() -> None:
    """Every next token is looked for among the losses of all, with the whole text read anew."""
    [prompt] = prompts([9])
    tokens = list(prompt)
    transformer = Transformer(*parameters(MODEL), compiled=False)
    for _ in range(6):
        rows = torch.zeros(MODEL.vocabulary, MODEL.context + 1, dtype=torch.long)
        rows[:, : len(tokens)] = torch.tensor(tokens)
        rows[:, len(tokens)] = torch.arange(MODEL.vocabulary)
        valid = torch.ones(MODEL.vocabulary, MODEL.context, dtype=torch.bool)
        with torch.no_grad():
            losses = transformer.token_losses(rows, torch.zeros_like(rows), valid)[1]
        tokens.append(int(losses.view(MODEL.vocabulary, -1)[:, len(tokens) - 1].argmin()))
    found = generate(DECODER, [prompt], GREEDY, replace(LIMITS, tokens=6))
    assert found == [Continuation(tuple(tokens[9:]), Stop.TOKENS)]


def test_a_text_that_fills_the_context_ends_and_says_so() -> None:
    given_prompts = prompts([31, 25, 20])
    found = generate(DECODER, given_prompts, GREEDY, replace(LIMITS, end=-1))
    assert [(len(each.tokens), each.stop) for each in found] == [(1, "context"), (7, "context"), (12, "tokens")]
    to_the_brim = generate(DECODER, prompts([20]), GREEDY, replace(LIMITS, end=-1))
    assert to_the_brim[0].stop == Stop.TOKENS


def test_the_end_of_text_ends_a_text_and_is_no_part_of_it() -> None:
    [whole] = generate(DECODER, prompts([5]), GREEDY, replace(LIMITS, end=-1))
    end = whole.tokens[4]
    [ended] = generate(DECODER, prompts([5]), GREEDY, replace(LIMITS, end=end))
    assert ended == Continuation(whole.tokens[: whole.tokens.index(end)], Stop.END)


def test_an_empty_prompt_begins_behind_an_end_of_text() -> None:
    assert generate(DECODER, [[]], GREEDY, LIMITS) == generate(DECODER, [[END]], GREEDY, LIMITS)


def test_ids_that_the_tokenizer_does_not_have_are_never_chosen() -> None:
    found = generate(DECODER, prompts([5] * 4), Sampling(temperature=50.0), replace(LIMITS, end=-1, vocabulary=7))
    assert {token for each in found for token in each.tokens} <= set(range(7))


def test_no_prompts_give_no_texts() -> None:
    assert generate(DECODER, [], GREEDY, LIMITS) == []


def test_what_cannot_be_continued_is_refused() -> None:
    with pytest.raises(PromptTooLong, match=r"prompt 1 has 33 tokens.*context is 32; shorten it by at least 2"):
        generate(DECODER, prompts([3, 33]), GREEDY, LIMITS)
    with pytest.raises(InvalidSampling, match="tokens is 0; expected at least 1"):
        replace(LIMITS, tokens=0)
