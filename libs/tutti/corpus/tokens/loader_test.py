"""The loader's kernel and its twin gather the same arrays, from streams and packed rows, narrow and wide tokens."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.corpus.documents.documents import document_id
from tutti.corpus.tokens.loader import Loader, by_kernel, by_numpy, native
from tutti.corpus.tokens.tokenshard import TokenRun, encode_token_shard


@st.composite
def splits(draw: st.DrawFn) -> list[TokenRun]:
    """The shards of a split."""
    context, packed = draw(st.integers(1, 9)), draw(st.booleans())
    vocabulary = draw(st.sampled_from([300, 70_000]))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    runs: list[TokenRun] = []
    first = 0
    for number in range(draw(st.integers(1, 4))):
        sequences = draw(st.integers(1, 6))
        if packed:
            lengths = rng.integers(2, context + 2, sequences)
            total, used = sequences * (context + 1), int(lengths.sum())
            held = np.flatnonzero(np.arange(context + 1) < lengths[:, None])
            begins = np.arange(sequences) * (context + 1)
            starts = np.union1d(begins, rng.choice(held, rng.integers(0, len(held)), replace=False))
        else:
            lengths, total = None, sequences * context + 1
            used = total - int(rng.integers(0, min(context, total - 1)))
            starts = np.union1d([0], rng.integers(0, used, rng.integers(0, used)))
        runs.append(
            TokenRun(
                tokens=rng.integers(0, vocabulary, total),
                tokens_used=used,
                starts=starts,
                doc_ids=[document_id(source=f"{number}/{k}", text="") for k in range(len(starts))],
                context=context,
                vocabulary=vocabulary,
                eos=0,
                first_sample=first,
                lengths=lengths,
            )
        )
        first += sequences
    return runs


@pytest.mark.skipif(native().library is None, reason=native().why_not)
@given(runs=splits(), data=st.data())
def test_the_kernel_gathers_what_numpy_gathers(
    tmp_path_factory: pytest.TempPathFactory, runs: list[TokenRun], data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("split")
    for run in runs:
        (folder / f"{run.first_sample}.tokens").write_bytes(encode_token_shard(run)[0])
    loader = Loader(list(folder.iterdir()))
    wanted = np.array(data.draw(st.lists(st.integers(0, loader.sequences - 1), min_size=1, max_size=20)))
    library = native().library
    assert library is not None
    for ours, theirs in zip(by_kernel(library, loader, wanted), by_numpy(loader, wanted), strict=True):
        np.testing.assert_array_equal(ours, theirs, strict=True)
