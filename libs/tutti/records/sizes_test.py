"""Numbers of bytes in words."""

from hypothesis import given
from hypothesis import strategies as st

from tutti.records.sizes import size

UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


def test_the_largest_unit_that_fits_is_taken() -> None:
    assert [size(each) for each in (0, 1023, 1024, 3 << 29, 1 << 40, 5 << 50)] == [
        "0 B",
        "1023 B",
        "1.0 KiB",
        "1.5 GiB",
        "1.0 TiB",
        "5,120.0 TiB",
    ]


@given(st.integers(0, 1 << 60))
def test_the_words_mean_the_number_to_a_twentieth_of_their_unit(nbytes: int) -> None:
    number, unit = size(nbytes).split(" ")
    assert abs(float(number.replace(",", "")) * UNITS[unit] - nbytes) <= UNITS[unit] / 19
