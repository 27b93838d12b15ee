"""The verdict on a model: what its figures say of it, and what to change."""

from collections.abc import Iterator, Sequence

from tutti.client.plain import Plain
from tutti.report import mixtures
from tutti.web import curves as shown

PASSES = 4
"""Over the same tokens teach nearly as much as new ones; each one more teaches less (Muennighoff et al. 2023)."""
MANY = 16
"""Passes from which on a plan warns; what a file holds is not known to a factor of four."""
BYTES_A_TOKEN = 4
BYTES_A_WORD = 200
"""Bytes of text for each token of a vocabulary, below which most of its tokens are rare."""
LITTLE = 20_000
"""Tokens held out, of which fewer make a rough figure."""


def loss(job: Plain) -> tuple[float, str]:
    """Nats a token of the newest steps, since one alone is noise; and what this figure is."""
    return shown.loss(job["loss"], job["newest_loss"], job["newest_steps"])


def beside_bigram(job: Plain, dataset: Plain) -> str:
    """A sentence that compares the model with a bigram model of the tokens, in bits per byte of the held-out text."""
    apart = 100 * (1 - job["bits_per_byte"] / dataset["bigram_bits_per_byte"])
    return f"{abs(apart):.1f} % {'below' if apart > 0 else 'above'}"


def advice(job: Plain, dataset: Plain, mixture: Sequence[Plain] = ()) -> str:
    """Advice for a model that is worse than a bigram model; "" if it is not. `mixture`: the share of each dataset that
    it read, if there are several.
    """
    if job["bits_per_byte"] < dataset["bigram_bits_per_byte"]:
        return ""
    if mixture:
        most = max(mixture, key=lambda each: each["epochs"])
        what, passes, change = most["dataset"][: mixtures.SHOWN], most["epochs"], "give that one less weight, more text"
    else:
        what, passes, change = "the same text", job["passes"] or 0, "give more text, fewer steps"
    if passes > PASSES:
        return f"it read {what} {passes:,.0f} times and learnt it by heart: {change} or a smaller size"
    return "train longer"


def rough(dataset: Plain) -> str:
    """The reason why the figures are not reliable; "" if they are."""
    held = dataset["validation_tokens"]
    return f"only {held:,} tokens were held out: the figures are rough" if held < LITTLE else ""


def foreseen(tokens: int, input_bytes: int, *, vocabulary: int, ranks: int, cores: int) -> Iterator[str]:
    """The warnings about a plan that trains on so many tokens of files of so many bytes (0: unknown)."""
    passes = tokens * BYTES_A_TOKEN / input_bytes if input_bytes else 0
    if passes >= MANY:
        yield (
            f"train reads {tokens:,} tokens, about {passes:,.0f} times what is in these files: a model learns that by "
            "heart; give more text, fewer steps (train.steps) or a smaller size"
        )
    if 0 < input_bytes < vocabulary * BYTES_A_WORD:
        fitting = max(512, 1 << (input_bytes // BYTES_A_WORD).bit_length() - 1)
        yield (
            f"a vocabulary of {vocabulary:,} tokens is large for {input_bytes:,} bytes of text: many tokens occur too "
            f"rarely to be learned; set tokenizer.vocabulary to about {fitting:,}"
            if fitting < vocabulary
            else f"{input_bytes:,} bytes of text are little for any vocabulary; give more text"
        )
    if ranks > cores:
        yield (
            f"train.ranks is {ranks} and this machine has {cores} cores: ranks that share a core are slower than fewer "
            "ranks; the result is the same for any number"
        )
