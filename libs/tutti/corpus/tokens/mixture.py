"""Mixtures: several datasets that are read in one order, by weights, and the weights that wanted epochs come to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import lcm

from tutti.corpus.tokens.batch import PackedSequenceBatch
from tutti.corpus.tokens.loader import Loader
from tutti.corpus.tokens.sampler import MAX_WEIGHTS, SampleIds
from tutti.native.arrays import np
from tutti.records.errors import CorpusError, InvalidSpan

PRECISION = 100


class MixedLoader:
    """Reads the same split of several datasets of the same context, vocabulary and end of text, however packed."""

    def __init__(self, loaders: Mapping[str, Loader]) -> None:
        """`loaders` by dataset version. Raises CorpusError where they do not agree."""
        self.loaders = dict(loaders)
        seen = {(each.context, each.vocabulary, each.eos) for each in loaders.values()}
        if len(seen) != 1:
            raise CorpusError(
                f"datasets of (context, vocabulary, end of text) {sorted(seen)} cannot be mixed; expected the same"
            )

    def batch(self, ids: SampleIds, versions: Sequence[str]) -> PackedSequenceBatch:
        """The rows of `ids`, in that order; `versions` are the datasets that it counts."""
        present = np.unique(ids.datasets).tolist()
        if len(present) == 1:
            return self._loader(versions[present[0]]).batch(ids.samples)
        rows, width = len(ids.samples), next(iter(self.loaders.values())).context + 1
        tokens = np.empty((rows, width), np.int32)
        lengths = np.empty(rows, np.int64)
        packed = np.empty(rows, np.bool_)
        boundaries = []
        for index in present:
            places = np.flatnonzero(ids.datasets == index)
            part = self._loader(versions[index]).batch(ids.samples[places])
            tokens[places], lengths[places], packed[places] = part.tokens, part.lengths, part.packed
            row, column = np.divmod(part.boundaries, width)
            boundaries.append(places[row] * width + column)
        merged = np.concatenate(boundaries)
        merged.sort()
        return PackedSequenceBatch(tokens, lengths, merged, packed)

    def _loader(self, version: str) -> Loader:
        try:
            return self.loaders[version]
        except KeyError:
            raise CorpusError(
                f"the span reads {version}, which is none of {', '.join(self.loaders)}; was the job given all?"
            ) from None


def weights_of_epochs(sequences: Sequence[int], epochs: Sequence[float]) -> tuple[int, ...]:
    """The weights by which datasets of so many sequences are read in proportion to `epochs`, or very nearly.

    A dataset's part of what is read is its epochs x sequences over the sum of all. The weights add up to as little as
    lets no part be off by more than a hundredth of itself, since a dataset is spread the more evenly the less they add
    up to; where 65,536 (MAX_WEIGHTS) does not suffice they come as near as it lets them, and none is 0. They depend
    neither on the order of the datasets nor on the unit of the epochs. Raises InvalidSpan.
    """
    if not sequences or len(sequences) != len(epochs) or min(sequences) < 1 or not all(each > 0 for each in epochs):
        raise InvalidSpan(f"sequences {list(sequences)}, epochs {list(epochs)}: expected as many, all above 0")
    exact = [Fraction(each) * count for each, count in zip(epochs, sequences, strict=True)]
    unit = lcm(*(part.denominator for part in exact))
    parts = [int(part * unit) for part in exact]
    whole = sum(parts)
    weights = [1] * len(parts)
    for total in range(len(parts), MAX_WEIGHTS + 1):
        tried = [max(1, (2 * part * total + whole) // (2 * whole)) for part in parts]
        if (added := sum(tried)) > MAX_WEIGHTS:
            break
        weights = tried
        if all(
            PRECISION * abs(each * whole - part * added) <= part * added
            for each, part in zip(tried, parts, strict=True)
        ):
            break
    return tuple(weights)
