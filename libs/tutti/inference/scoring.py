"""Texts scored by models in blocks of a fixed number of rows: by a reward model, or by how far two models differ.

Promises: a score follows from the text and the parameters under one kernel signature, whatever texts are beside it.
"""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tutti.inference.errors import PromptTooLong
from tutti.model.answers import Placed, answers_of
from tutti.model.transformer import Transformer

Scores = npt.NDArray[np.float64]
POSITIONS = 1024
"""Positions of a block of answers, where its rows are few: with fewer, most of the time goes into calls."""


def rewards(
    transformer: Transformer, texts: Sequence[Sequence[int]], begins: Sequence[int], *, rows: int, length: int = 0
) -> Scores:
    """Return the score of each text by the scalar head, float64 [len(texts)]; `begins` is where its answer begins.

    It is computed in blocks of `rows` rows of `length` tokens, 0 for the model's context. Raises PromptTooLong.
    """

    def score(tokens: Tensor, answer: Tensor) -> Tensor:
        return transformer.scores(tokens, torch.zeros_like(tokens), answer[:, :-1])

    return _blocks(transformer, texts, begins, rows, score, length)


def divergences(
    transformer: Transformer,
    reference: Transformer,
    texts: Sequence[Sequence[int]],
    begins: Sequence[int],
    *,
    rows: int,
) -> Scores:
    """Return the KL divergence from the reference along each answer, in nats, float64 [len(texts)].

    It is the sum, over the tokens of the answer, of the divergence between the distributions of that token. Along
    answers that were sampled at temperature 1 its mean estimates the divergence of the two models' answers. Raises
    PromptTooLong.
    """

    def score(tokens: Tensor, answer: Tensor) -> Tensor:
        found = transformer.divergences(reference, tokens, torch.zeros_like(tokens)).view(len(tokens), -1)
        return (found * answer[:, 1:]).sum(1)

    return _blocks(transformer, texts, begins, rows, score)


def block_rows(rows: int, length: int) -> int:
    """Return the rows of a block of answers: several leaves of `rows` rows of `length` tokens, or one.

    It does not depend on the number of ranks, and so the blocks, and their bits, do not.
    """
    return rows * max(1, POSITIONS // (rows * length))


def of_answers(
    transformer: Transformer,
    texts: Sequence[Sequence[int]],
    begins: Sequence[int],
    forward: Callable[[Placed], Tensor],
    *,
    rows: int,
    length: int,
    prompt: int,
    answer: int,
    worked: Callable[[], None] = lambda: None,
) -> list[npt.NDArray[np.float32]]:
    """Return what a forward of `rows` answers gives for every token of each answer, float32 [len(text) - begin].

    `begins` is where each answer begins, `prompt` and `answer` are the lengths of the longest of all, of which these
    texts may be a part. Texts that follow each other share their prompts, if they have the same. `worked` is called
    after each forward. Raises PromptTooLong.
    """
    found: list[npt.NDArray[np.float32]] = []
    for start in range(0, len(texts), rows):
        part, own = texts[start : start + rows], begins[start : start + rows]
        tokens = _rows(transformer, part, own, len(part), length)[0].cpu().numpy()
        answers = answers_of(tokens, np.array(own, np.int64) - 1, prompt=prompt, answer=answer)
        with torch.inference_mode():
            table = (
                forward(Placed(answers, transformer.device, transformer.dtype))
                .view(len(part), -1)
                .float()
                .cpu()
                .numpy()
            )
        found += [
            table[row, : len(text) - begin].copy() for row, (text, begin) in enumerate(zip(part, own, strict=True))
        ]
        worked()
    return found


def positions(
    transformer: Transformer,
    texts: Sequence[Sequence[int]],
    forward: Callable[[Tensor, Tensor], Tensor],
    *,
    rows: int,
    length: int = 0,
) -> list[npt.NDArray[np.float32]]:
    """Return what a forward of `rows` rows gives at every token but the last of each text, float32 [len(text) - 1].

    `forward` is given tokens and documents, int64 [rows, length + 1], and returns a number a position; a length of 0 is
    the model's context. A text begins its row and is its only document, as in a row of training. Raises PromptTooLong.
    """
    found: list[npt.NDArray[np.float32]] = []
    for start in range(0, len(texts), rows):
        part = texts[start : start + rows]
        tokens, _ = _rows(transformer, part, [0] * len(part), rows, length)
        with torch.no_grad():
            table = forward(tokens, torch.zeros_like(tokens)).view(rows, -1).float().cpu().numpy()
        found += [table[row, : len(text) - 1].copy() for row, text in enumerate(part)]
    return found


def _blocks(
    transformer: Transformer,
    texts: Sequence[Sequence[int]],
    begins: Sequence[int],
    rows: int,
    score: Callable[[Tensor, Tensor], Tensor],
    length: int = 0,
) -> Scores:
    """`score` is given tokens, int64 [rows, length + 1], and which of them are an answer's, bool of the same shape."""
    found: list[float] = []
    for start in range(0, len(texts), rows):
        part = texts[start : start + rows]
        with torch.no_grad():
            found += score(*_rows(transformer, part, begins[start : start + rows], rows, length))[: len(part)].tolist()
    return np.array(found)


def _rows(
    transformer: Transformer, texts: Sequence[Sequence[int]], begins: Sequence[int], rows: int, length: int
) -> tuple[Tensor, Tensor]:
    """The tokens of at most `rows` texts, int64 [rows, length + 1], and which are an answer's, bool.

    Raises PromptTooLong.
    """
    length, device = length or transformer.model.context, transformer.device
    tokens, answer = np.zeros((rows, length + 1), np.int64), np.zeros((rows, length + 1), np.bool_)
    for row, (text, begin) in enumerate(zip(texts, begins, strict=True)):
        if len(text) > length + 1:
            raise PromptTooLong(f"a text has {len(text)} tokens; expected at most {length + 1}, those of a row")
        tokens[row, : len(text)] = text
        answer[row, begin : len(text)] = True
    return torch.from_numpy(tokens).to(device), torch.from_numpy(answer).to(device)
