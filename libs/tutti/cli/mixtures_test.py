"""The mixture of a job in words."""

from tutti.cli.mixtures import words
from tutti.cli.plain import Plain


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
