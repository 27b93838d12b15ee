"""The mixture of a job in words."""

import json

from tutti.client.plain import Plain
from tutti.report.mixtures import mixed, words


def row(name: str, weight: int, epochs: float) -> Plain:
    return {
        "dataset": f"datasets/{name * 64}",
        "weight": weight,
        "sequences": 1234,
        "epochs": epochs,
        "epochs_in_all": 2.5,
    }


def test_a_dataset_is_told_with_its_part_and_how_often_it_was_read() -> None:
    own, other = words([row("a", 3, 1.2), row("b", 1, 2.5)])
    assert own == "datasets/aaaaaaaaaaaa  75.0 % of what is read, 1,234 sequences, read 1.20 times of 2.50"
    assert other == "datasets/bbbbbbbbbbbb  25.0 % of what is read, 1,234 sequences, read 2.50 times"
    assert words([]) == []


def test_the_share_that_a_training_reads_of_a_dataset_is_told() -> None:
    shares = [{"dataset": f"blake3:{name * 64}", "weight": weight} for name, weight in (("a", 3), ("b", 1))]
    training = json.dumps({"mixture": shares})
    assert [mixed(training, f"datasets/{name * 64}") for name in "abc"] == [0.75, 0.25, 0.0]
    assert mixed("{}", f"datasets/{'a' * 64}") == mixed("", "datasets/x") == 0.0
