"""The verdict on a model: the advice fits what is wrong with it."""

import pytest

from tutti.report import verdict


def figures(model: float, passes: float | None, held: int = 100_000) -> tuple[dict[str, object], dict[str, object]]:
    return (
        {"bits_per_byte": model, "passes": passes},
        {"bigram_bits_per_byte": 1.6, "validation_tokens": held},
    )


@pytest.mark.parametrize(
    ("model", "passes", "beside", "advice"),
    [
        (1.2, 3.0, "25.0 % below", ""),
        (1.2, 90.0, "25.0 % below", ""),
        (2.0, 0.5, "25.0 % above", "train longer"),
        (2.0, None, "25.0 % above", "train longer"),
        (2.0, 148.8, "25.0 % above", "it read the same text 149 times and learnt it by heart: give more text"),
    ],
)
def test_a_model_that_learnt_by_heart_is_not_told_to_train_longer(
    model: float, passes: float | None, beside: str, advice: str
) -> None:
    job, dataset = figures(model, passes)
    assert verdict.beside_bigram(job, dataset) == beside
    assert verdict.advice(job, dataset).startswith(advice)
    assert bool(verdict.advice(job, dataset)) == bool(advice)


def test_of_a_mixture_the_dataset_that_was_read_most_often_decides() -> None:
    job, dataset = figures(2.0, None)
    rows = [{"dataset": f"datasets/{name * 64}", "epochs": epochs} for name, epochs in (("a", 0.4), ("b", 14.6))]
    told = verdict.advice(job, dataset, rows)
    assert told.startswith("it read datasets/bbbbbbbbbbbb 15 times and learnt it by heart: give that one less weight")
    assert verdict.advice(job, dataset, [{**each, "epochs": 1.5} for each in rows]) == "train longer"
    assert verdict.advice({**job, "bits_per_byte": 1.2}, dataset, rows) == ""


def test_a_figure_of_little_text_is_said_to_be_rough() -> None:
    assert verdict.rough(figures(1.2, 1.0)[1]) == ""
    assert verdict.rough(figures(1.2, 1.0, 937)[1]) == "only 937 tokens were held out: the figures are rough"


def test_a_plan_that_reads_little_text_often_is_warned_of() -> None:
    usual = {"vocabulary": 300, "ranks": 2, "cores": 2}
    (line,) = verdict.foreseen(3_276_800, 80_000, **usual)
    assert line.startswith("train reads 3,276,800 tokens, about 164 times what")
    for size in (4_000_000, 0):
        assert list(verdict.foreseen(3_276_800, size, **usual)) == []


def test_a_plan_warns_of_a_vocabulary_that_is_large_for_the_text_and_of_more_ranks_than_cores() -> None:
    large, shared = verdict.foreseen(1000, 400_000, vocabulary=4096, ranks=4, cores=2)
    assert "a vocabulary of 4,096 tokens is large for 400,000 bytes of text" in large
    assert large.endswith("set tokenizer.vocabulary to about 1,024")
    assert shared.startswith("train.ranks is 4 and this machine has 2 cores")
    assert list(verdict.foreseen(1000, 4_000_000, vocabulary=4096, ranks=2, cores=2)) == []
