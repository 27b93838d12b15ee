"""The text and the scores of completions, token by token, and again from the journal."""

import codecs
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests import talks

from tutti.chat.answering import joined
from tutti.chat.filter.release import NONE, Filter, judged, of_rules
from tutti.chat.filter.rules import Rule
from tutti.chat.filter.words import WORDS, Withheld
from tutti.chat.generations import Generation
from tutti.chat.replaying import replayed
from tutti.chat.requests import ChatRequest, read_completion
from tutti.chat.saying import Piece, Record, Saying, Score, Served
from tutti.chat.visible import cut_at
from tutti.corpus.conversations.template import CHAT_1
from tutti.inference.engine import Chosen

SPELLED = talks.TOKENIZER.spelled
IDS = st.lists(
    st.sampled_from([*talks.TOKENIZER.encode("a b c").tolist(), *"é".encode(), 0xFF, 97, 98, talks.TOKENIZER.eos]),
    min_size=1,
    max_size=12,
)
FILTERS = st.sampled_from(
    [NONE, of_rules([Rule("pair", "ab", inside=True)]), of_rules([Rule("b", "b c", inside=True)])]
)
WORDS_OF = [words[Withheld.ANSWER] for words in WORDS.values()]


def text_of(ids: list[int]) -> str:
    return b"".join(SPELLED[each] for each in ids).decode(errors="replace")


def served_with(chosen: Filter) -> Served:
    return Served("blake3:a", 256, talks.TOKENIZER, CHAT_1.bind(talks.TOKENIZER), chosen)


def said(served: Served, request: ChatRequest, ids: list[int]) -> tuple[list[Piece], Record]:
    """The pieces of a completion whose tokens are those that are forced, and then `ids`."""
    record = Record(joined(served, request, id="a", seed=1, salt=""))
    saying, pieces = Saying(served, request, record), list[Piece]()
    for at, token in enumerate([*record.request.forced, *ids]):
        pieces += saying.push(Chosen("a", at, token, -float(at), ((97, -1.5), (98, -2.5))))
        if saying.ended:
            return pieces, record
    return [*pieces, saying.end("length")], record


@given(prompt=IDS, ids=IDS, stops=st.lists(st.sampled_from(["a", "bc", "c b", "é"]), max_size=2), chosen=FILTERS)
def test_the_text_and_the_scores_are_those_of_what_may_be_shown(
    prompt: list[int], ids: list[int], stops: list[str], chosen: Filter
) -> None:
    body: dict[str, Any] = {"model": "toy", "prompt": prompt, "stop": stops, "max_tokens": 50}
    for echo, logprobs in ((False, 2), (True, None), (True, 2)):
        request, served = read_completion({**body, "echo": echo, "logprobs": logprobs}), served_with(chosen)
        pieces, record = said(served, request, ids)
        if not echo:
            text = text_of(ids)
            whole = text[: cut_at(text, stops)]
            cut = judged(chosen.answer, whole).cut
            assert record.cut == cut
            assert record.text.startswith(whole[:cut])
        shown = record.text if record.cut is None else record.text[: record.cut]
        assert record.text == "".join(each.text for each in pieces)
        assert record.cut is None or record.text.endswith(tuple(WORDS_OF))
        scored = [score.token for each in pieces for score in each.scores]
        assert scored == [*(prompt if echo else []), *ids][: len(scored)] or logprobs is None
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        assert shown.startswith(decoder.decode(b"".join(SPELLED[each] for each in scored)))
        assert 0 <= record.released <= record.completion_tokens <= len(ids)
        likeliest = ((97, -1.5), (98, -2.5))
        scores: list[Score] = [(-float(at), likeliest) for at in range(len(record.ids))] if logprobs else []
        again = replayed(served, Generation(request, record.ids, scores), pieces[-1].finished)
        prompts = judged(chosen.prompt, text_of(prompt)).decisions
        assert prompts or again.pieces == pieces
        assert prompts or again.record.released == record.released
