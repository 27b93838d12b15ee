"""The arithmetic of a training run as three frozen values: the model, the optimizer, the step.

They are recorded in the recipe and in every checkpoint's manifest. Equal specs, under an equal kernel signature, give
equal bits on any number of ranks; a change of any field is another run. Importing this module does not import torch.
"""

import dataclasses
import math
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import blake3
import rfc8785

from tutti.model.parameter import MOST, limited, parameter
from tutti.records.records import later, later_names, read_later, written

UPDATES = ("adamw-chunk-v1",)
SCHEDULES = ("cosine", "wsd")
LLAMA3, YARN = "llama3", "yarn"
MAX_LEAVES = 1 << 16
"""Every one is a leaf of every step's plan; ten thousand ranks need as many."""
MAX_THREADS = 1024
"""A rank with far more crashes, or takes hours for a step."""
REGISTER = 16
"""Float32 numbers in the widest vector register: sums over a multiple of so many positions have one order."""


class SpecError(ValueError):
    """A spec names an unknown field, lacks one, or holds a value that cannot work."""


class FieldError(SpecError):
    """The value of a field of a record cannot work."""

    def __init__(self, record: type, field: str, seen: object, expected: str) -> None:
        super().__init__(f"{record.__name__}.{field} is {seen!r}; expected {expected}")
        self.record, self.field, self.seen, self.expected = record, field, seen, expected


def whole_registers(length: int, most: int) -> int:
    """Return the least multiple of REGISTER that holds `length` positions, or `most` where that is less."""
    return min(-(-length // REGISTER) * REGISTER, most)


def row_length(length: int, context: int) -> int:
    """Return the least multiple of REGISTER that holds `length` tokens, as far as the context goes.

    Rows of such a length are decoded in less time: slots share products of attention.
    """
    return max(length, whole_registers(length, context))


def digest_of(value: Mapping[str, Any]) -> str:
    """The name of a JSON value: BLAKE3 over its canonical form (RFC 8785), in hexadecimal."""
    return blake3.blake3(rfc8785.dumps(dict(value))).hexdigest()


class Recorded:
    """A frozen dataclass of plain fields that goes to and from JSON, and refuses what it does not know."""

    def to_dict(self) -> dict[str, Any]:
        return written(self)

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Self:
        """Build from a mapping that `to_dict` could have written. Raises SpecError."""
        names = [field.name for field in dataclasses.fields(cls)]  # type: ignore[arg-type]
        if unknown := sorted(set(value) - set(names)):
            raise SpecError(f"{cls.__name__} has no field {', '.join(unknown)}; its fields are {', '.join(names)}")
        try:
            grown = read_later(cls, value)
        except ValueError as error:
            raise SpecError(f"{cls.__name__}.{error}") from error
        if missing := sorted(set(names) - later_names(cls) - set(value)):
            raise SpecError(f"{cls.__name__} lacks {', '.join(missing)}; a record holds every field")
        return cls(**{**value, **grown})

    def digest(self) -> str:
        return digest_of(self.to_dict())

    def _check_types(self) -> None:
        for name, kind in typing.get_type_hints(type(self)).items():
            value = getattr(self, name)
            if kind is float and type(value) is int:
                object.__setattr__(self, name, float(value))
            elif isinstance(kind, type) and not isinstance(kind, types.GenericAlias) and type(value) is not kind:
                raise FieldError(type(self), name, value, kind.__name__)
            if kind is float and not math.isfinite(getattr(self, name)):
                raise FieldError(type(self), name, value, "a finite number")
        self._check_limits()

    def _check_limits(self) -> None:
        """Raises SpecError for a parameter outside of the limits that its field declares."""
        name, expected = limited(self)
        self._require(**({name: (False, expected)} if name else {}))

    def _require(self, **rules: tuple[bool, str]) -> None:
        for name, (holds, expected) in rules.items():
            if not holds:
                raise FieldError(type(self), name, getattr(self, name), expected)


@dataclass(frozen=True)
class RopeScaling(Recorded):
    """The stretching of rotary positions beyond the context that a model was first trained with.

    A frequency that turns at most `slow` times in `original_context` tokens is divided by `factor`, and one that turns
    at least `fast` times stays as it is. Between them the kinds differ: llama3 interpolates by the number of turns
    (Llama 3.1), yarn by the index of the frequency (Peng et al. 2023, section 3.2).
    """

    kind: str = parameter(description="method of scaling", choices=(LLAMA3, YARN))
    factor: float = parameter(description="divisor of slow frequencies", ge=1)
    original_context: int = parameter(description="context before scaling, in tokens", ge=1, lt=MOST)
    fast: float = parameter(
        description="turns in the original context from which a frequency is kept; default: 4 (llama3), 32 (yarn)", gt=0
    )
    slow: float = parameter(1.0, "turns in the original context up to which a frequency is divided", gt=0)
    attention: float = parameter(
        1.0, "factor of cosines and sines; default: 1 (llama3), 1 + ln(factor) / 10 (yarn)", gt=0
    )

    def __post_init__(self) -> None:
        self._check_types()
        self._require(
            fast=(self.fast > self.slow, f"more than slow ({self.slow:g})"),
            attention=(self.kind == YARN or self.attention == 1, "1: llama3 does not scale attention"),
        )

    @classmethod
    def of(
        cls,
        kind: str,
        factor: float,
        original_context: int,
        *,
        slow: float = 1.0,
        fast: float | None = None,
        attention: float | None = None,
    ) -> Self:
        """The scaling; None means the default of its kind. Raises SpecError."""
        llama3 = kind == LLAMA3
        if fast is None:
            fast = 4.0 if llama3 else 32.0
        if attention is None:
            attention = 1.0 if llama3 or factor < 1 else 1.0 + 0.1 * math.log(factor)
        return cls(kind, factor, original_context, fast, slow, attention)


def _scaling(value: Mapping[str, Any]) -> RopeScaling | None:
    return RopeScaling.from_dict(value)


@dataclass(frozen=True)
class ModelSpec(Recorded):
    """A Llama-shaped decoder: RMSNorm, rotary positions, SwiGLU, grouped-query attention."""

    vocabulary: int
    context: int
    width: int = parameter(description="width of the model: elements of a hidden state", ge=1, lt=MOST)
    layers: int = parameter(description="number of blocks", ge=1, lt=MOST)
    heads: int = parameter(description="number of attention heads", ge=1, lt=MOST)
    kv_heads: int = parameter(
        description="number of key and value heads, which divides heads; default: heads, if that is set", ge=1, lt=MOST
    )
    hidden: int = parameter(description="width of the MLP", ge=1, lt=MOST)
    tied: bool = parameter(False, "use one matrix for input and output embeddings")
    qk_norm: bool = parameter(False, "normalize the queries and keys of each head (RMSNorm)")
    document_mask: bool = True
    rope_base: float = parameter(10_000.0, "base of the rotary frequencies", gt=1)
    norm_epsilon: float = parameter(1e-5, "epsilon of RMSNorm", key="norm_eps", gt=0)
    init_std: float = parameter(0.02, "standard deviation of initial matrices", gt=0)
    scaled_init: bool = parameter(
        True, "divide the standard deviation of matrices that add to the residual stream by the root of 2 x layers"
    )
    scalar_head: bool = later(False, since="0.2")
    """A unit of `width` numbers that turns a hidden state into a scalar: for rewards."""
    value_model: bool = later(False, since="0.2")
    """A second model of the same shape beside this one, with a scalar instead of logits at each position."""
    head_dim: int = parameter(
        0, "elements of a head, an even number; 0: width / heads", key="head_width", since="0.3", ge=0, lt=MOST
    )
    qkv_bias: bool = parameter(False, "add a bias to queries, keys and values", since="0.3")
    rope_scaling: RopeScaling | None = later(None, since="0.3", read=_scaling)

    def __post_init__(self) -> None:
        self._check_types()
        self._require(
            **{name: (getattr(self, name) > 0, "a positive number") for name in ("vocabulary", "context")},
            width=(bool(self.head_dim) or self.width % self.heads == 0, f"a multiple of heads ({self.heads})"),
            heads=(self.heads % self.kv_heads == 0, f"a multiple of kv_heads ({self.kv_heads})"),
            head_dim=(self.head_dim * self.heads != self.width, "0, which means width / heads"),
        )
        self._require(
            **{
                "head_dim" if self.head_dim else "width": (
                    self.head_width % 2 == 0,
                    "an even number of elements a head (rotary positions pair them)",
                )
            }
        )

    @property
    def head_width(self) -> int:
        """Elements of a head."""
        return self.head_dim or self.width // self.heads

    @property
    def attention_width(self) -> int:
        """Elements of all heads, which the output matrix of attention reads."""
        return self.heads * self.head_width


@dataclass(frozen=True)
class OptimizerSpec(Recorded):
    """The optimizer: the update function by name, its rate over the steps, clipping."""

    peak_rate: float = parameter(description="peak learning rate", key="learning_rate", gt=0)
    steps: int = parameter(description="number of optimizer steps", ge=1, lt=MOST)
    update: str = "adamw-chunk-v1"
    min_rate: float = parameter(0.0, "learning rate one step after the last", key="min_learning_rate", ge=0)
    warmup_steps: int = parameter(0, "warmup steps; default: a twentieth of the steps", key="warmup", ge=0, lt=MOST)
    schedule: str = parameter(
        "cosine", "learning rate schedule after warmup; wsd: constant, then decay", choices=SCHEDULES
    )
    decay_fraction: float = parameter(0.2, "with wsd: share of the steps in which the rate decays", ge=0, le=1)
    beta1: float = parameter(0.9, "decay of the mean of gradients (AdamW)", ge=0, lt=1)
    beta2: float = parameter(0.95, "decay of the mean of squared gradients (AdamW)", ge=0, lt=1)
    epsilon: float = 1e-8
    weight_decay: float = parameter(0.1, "weight decay of matrices; norm gains do not decay", ge=0)
    clip_norm: float = parameter(1.0, "maximum norm of the mean gradient; a larger one is scaled down", gt=0)
    decay_end: int = later(0, since="0.3")
    """The step at which the rate is min_rate; 0 for the last one, which moves nothing where min_rate is 0."""

    def __post_init__(self) -> None:
        self._check_types()
        self._require(
            update=(self.update in UPDATES, f"one of {', '.join(UPDATES)}"),
            min_rate=(self.min_rate <= self.peak_rate, f"at most peak_rate ({self.peak_rate})"),
            warmup_steps=(self.warmup_steps <= self.steps, f"at most steps ({self.steps})"),
            epsilon=(self.epsilon > 0, "a positive number"),
            decay_end=(self.decay_end == 0 or self.decay_end > self.steps, f"0, or a step after steps ({self.steps})"),
        )


@dataclass(frozen=True)
class StepSpec(Recorded):
    """The division of a step into work whose bits do not depend on the rank that does it.

    A *leaf* is one logical microbatch: a forward and backward of `rows` fixed rows of `length` tokens, 0 for as many as
    the model's context. A step sums the gradients of `leaves` of them in one fixed binary tree.
    """

    leaves: int = parameter(
        8,
        "G: number of microbatches (leaves) per step, on any number of ranks",
        key="microbatches",
        ge=1,
        le=MAX_LEAVES,
    )
    rows: int = parameter(2, "rows per microbatch; default: 2, or derived from batch", ge=1, lt=MOST)
    threads: int = parameter(1, "threads of a rank; another number may give different bits", ge=1, le=MAX_THREADS)
    compile: bool = False
    seed: int = parameter(0, "seed of initial parameters and of the order of sequences or samples", ge=0, lt=2**53)
    exact: bool = True
    length: int = later(0, since="0.2")

    def __post_init__(self) -> None:
        self._check_types()
        self._require(length=(self.length >= 0, "0 or more"))
