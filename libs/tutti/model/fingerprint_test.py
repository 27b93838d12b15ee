"""A fingerprint is of the bits."""

import torch

from tutti.model.fingerprint import fingerprints


def test_one_flipped_bit_shows_in_its_slice_only() -> None:
    vector = torch.randn(256)
    before = fingerprints(vector, [64, 128, 64])
    vector.view(torch.int32)[70] ^= 1
    after = fingerprints(vector, [64, 128, 64])
    assert [a == b for a, b in zip(before, after, strict=True)] == [True, False, True]


def test_the_two_zeros_differ() -> None:
    assert fingerprints(torch.tensor([0.0]), [1]) != fingerprints(torch.tensor([-0.0]), [1])


def test_it_fits_an_int64_and_reads_bfloat16() -> None:
    found = fingerprints(torch.randn(640).bfloat16(), [64] * 10)
    assert all(0 <= value < 2**63 for value in found)
