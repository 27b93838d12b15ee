"""One rank's part of the training step: leaves, reduce, vote, update, gather.

Every rank crosses step N together or nobody does. The bits of the state and of the loss are those of the recipe, for
any number of ranks. A rank keeps moments only of its own chunks.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.distributed as dist
from torch import Tensor

from tutti.model import nonfinite
from tutti.model.audit import Audit, check_audits, ring_audit
from tutti.model.batch import CheckedBatch, LeafBatch, checked
from tutti.model.chunks import KINDS, Chunk, Kind
from tutti.model.device import Clock, compute_type, deterministic, updated_at_once
from tutti.model.exchange import Exchange
from tutti.model.fingerprint import fingerprints
from tutti.model.gradients import Buffer, Gradients, Score, squared_norms
from tutti.model.initial import initial_parameters
from tutti.model.kernel import KernelSignature, kernel_signature
from tutti.model.objective import NextToken, Objective
from tutti.model.parameters import Replicated, placement
from tutti.model.plan import Plan
from tutti.model.results import AuditFailed, Outcome, Scalars, SetupMismatch, SkipCause, StepResult, Timings
from tutti.model.schedule import learning_rate
from tutti.model.spec import ModelSpec, OptimizerSpec, SpecError, StepSpec
from tutti.model.spikes import OFF, REWIND, SKIP, Watch
from tutti.model.transformer import Transformer
from tutti.model.tree import PartialSums, tree_sum
from tutti.model.update import adamw, runs_of
from tutti.model.vote import Tally, Verdict, decide, record_lengths, write_record

Read = Callable[[int, str], "memoryview | npt.NDArray[np.float32]"]
"""Gives the float32 elements of (chunk index, kind)."""


def _prepare(step: StepSpec, device: torch.device) -> KernelSignature:
    torch.set_num_threads(step.threads)
    deterministic(device, step.exact)
    return kernel_signature(step, device)


class RankStep:
    """The state that one rank keeps, and the step that moves it. All methods that say *collective* run on all ranks.

    `work` counts what this rank has computed: it grows while a long step or validation goes on. Another thread may
    read it.
    """

    def __init__(
        self,
        model: ModelSpec,
        optimizer: OptimizerSpec,
        step: StepSpec,
        plan: Plan,
        *,
        rank: int,
        epoch: int,
        group: dist.ProcessGroup | None = None,
        device: torch.device | str = "cpu",
        audit_every: int = 100,
        objective: Objective | None = None,
        spikes: str = OFF,
    ) -> None:
        """Collective. `audit_every`: steps between audits, 0 for none; `objective`: next tokens unless given;
        `spikes`: the policy of `tutti.model.spikes`.

        Raises SpecError, SetupMismatch.
        """
        if plan.layout.model != model or plan.leaves != step.leaves:
            raise SpecError("the plan was made for another model or number of leaves; make it from the same specs")
        self.model, self.optimizer, self.step_spec, self.plan = model, optimizer, step, plan
        self.rank, self.epoch, self.device, self.audit_every = rank, epoch, torch.device(device), audit_every
        self.kernel = _prepare(step, self.device)
        self._scalars, self._spikes, self.work = Scalars(), spikes, 0
        layout = plan.layout
        self._exchange = Exchange(group, rank=rank, ranks=len(plan.ranks))
        self._compute_type = dtype = compute_type(self.device)
        self._placement = placement(plan, self._exchange, rank=rank, device=self.device, dtype=dtype)
        if step.compile and self._placement.collective:
            raise SpecError("shard: parameters does not work with compile: true; leave one of them out")
        transformer = Transformer.of_units(
            layout, self._placement.units, device=self.device, dtype=dtype, compiled=step.compile
        )
        self._gradients = Gradients(layout, transformer, objective or NextToken(), self._placement)
        self._chunks = plan.chunks_of(rank)
        self._runs = runs_of(self._chunks, updated_at_once(self.device))
        self._state = torch.zeros(len(Kind), plan.state_span(rank).length, device=self.device)
        self._spans = [plan.gradient_spans(other) for other in plan.ranks]
        self._agree()

    def _agree(self) -> None:
        names = ("model", "optimizer", "step", "layout", "shape", "kernel")
        digests = (
            self.model.digest(),
            self.optimizer.digest(),
            self.step_spec.digest(),
            self.plan.layout.digest,
            self.plan.shape.digest(),
            self.kernel.digest(),
        )
        own = torch.tensor([int(digest[:15], 16) for digest in digests], device=self.device)
        shared = self._exchange.share(own, [len(names)] * len(self.plan.ranks))
        for position, name in enumerate(names):
            if others := [rank for rank, record in enumerate(shared) if record[position] != shared[0][position]]:
                raise SetupMismatch(f"ranks {others} have another {name} than rank 0; start all ranks from one spec")

    def initialize(self, read: Read | None = None) -> None:
        """Collective. Step 0: parameters from the seed, or those that a checkpoint has; moments zero."""
        for chunk, at in zip(self._chunks, self._starts(), strict=True):
            if read is None:
                values = initial_parameters(self.plan.layout, chunk, self.step_spec.seed)
            else:
                values = self._tensor(read, chunk, Kind.PARAMETER.value)
            self._state[0, at : at + chunk.length].copy_(torch.from_numpy(values))
        self._state[1:].zero_()
        self._scalars = Scalars()
        self._gather()

    def load(self, read: Read, scalars: Scalars) -> None:
        """Collective. Take a checkpoint's tensors of this rank's chunks, and its scalars."""
        for chunk, at in zip(self._chunks, self._starts(), strict=True):
            for kind, name in enumerate(KINDS):
                values = self._tensor(read, chunk, name)
                self._state[kind, at : at + chunk.length].copy_(torch.from_numpy(values))
        self._scalars = scalars
        self._gather()

    def _tensor(self, read: Read, chunk: Chunk, kind: str) -> npt.NDArray[np.float32]:
        """One tensor of a chunk in a checkpoint, copied. Raises SpecError when it has another length."""
        values = np.frombuffer(read(chunk.index, kind), dtype="<f4")
        if len(values) != chunk.length:
            seen = f"{kind} of chunk {chunk.index} ({chunk.name}) has {len(values)} elements"
            raise SpecError(f"{seen}; expected {chunk.length}: the checkpoint is of another layout")
        return values.copy()

    def leaves_needed(self, step: int) -> tuple[int, ...]:
        """The leaves whose batches `run` must be given: this rank's own, and the one it repeats in an audit."""
        own = tuple(self.plan.leaves_of(self.rank))
        audit = self.audit(step)
        return own if audit is None else tuple(dict.fromkeys((*own, audit.witnessed(self.rank))))

    @property
    def leaves_computed(self) -> tuple[int, ...]:
        """The leaves that each rank computes in a step, those that it computes for nothing included."""
        own = [len(self.plan.leaves_of(rank)) for rank in self.plan.ranks]
        return tuple(max(own) if self._placement.collective else count for count in own)

    def audit(self, step: int) -> Audit | None:
        """The audited leaves of this step and the ranks that recompute them; None for a step without an audit."""
        return ring_audit(self.plan, step, every=self.audit_every, last=self.optimizer.steps, epoch=self.epoch)

    def run(
        self, step: int, leaves: Mapping[int, LeafBatch], fetch: Callable[[int], LeafBatch] | None = None
    ) -> StepResult:
        """Collective. Cross one step. `fetch` gives other leaves than those needed, which is rare; by default `leaves`
        has all of them.

        Raises StepAborted (see results), BatchError; the state is then unchanged.
        """
        if step != self._scalars.step + 1:
            raise ValueError(f"asked for step {step} in a state at step {self._scalars.step}; steps come one by one")
        clock = Clock(self.device)
        audit = self.audit(step)
        batches = {leaf: self._checked(leaves[leaf], f"step {step}, leaf {leaf}") for leaf in self.leaves_needed(step)}
        sums, tallies, witnessed = self._gradients.new_sums(self.plan.leaves), {}, [0, 0]
        for leaf in self.plan.leaves_of(self.rank):
            if audit is not None and audit.owned(self.rank) == leaf:
                tallies[leaf], witnessed[0] = self._gradients.add_fingerprinted_leaf(sums, leaf, batches[leaf])
            else:
                tallies[leaf] = self._gradients.add_leaf(sums, leaf, batches[leaf])
            self.worked()
        some = batches[self.plan.leaves_of(self.rank)[0]]
        for _ in range(self._idle([len(self.plan.leaves_of(rank)) for rank in self.plan.ranks])):
            self._gradients.idle(some)
            self.worked()
        forward_backward = clock.lap()
        if audit is not None:
            witnessed[1] = self._gradients.fingerprint_leaf(batches[audit.witnessed(self.rank)])
            self.worked()
        witness = clock.lap()

        pieces = self._scatter(sums)
        exchanged = clock.lap()
        gradient = self._sum(pieces)
        squares = squared_norms(gradient, [chunk.length for chunk in self._chunks])
        summed = clock.lap()

        verdict = self._vote(step, forward_backward + witness, summed, tallies, squares)
        voted = clock.lap()
        if audit is not None:
            self._check(audit, step, witnessed)
        skip = None
        if verdict.outcome is Outcome.SKIPPED:
            skip = SkipCause.NO_TOKENS
            if verdict.count:
                skip = self._confirm(step, tallies, batches, fetch or leaves.__getitem__)
        watch, spike = self._scalars.watch, None
        if skip is None and self._spikes != OFF:
            watch, spike = (watch or Watch()).after(step, verdict.loss, verdict.gradient_norm)
            if self._spikes in (SKIP, REWIND) and (watch.in_spike or (spike is not None and spike.last == step)):
                skip = SkipCause.SPIKE
        outcome = Outcome.COMMITTED if skip is None else Outcome.SKIPPED
        audited = clock.lap()

        rate = learning_rate(self.optimizer, step)
        scalars = self._scalars.after(outcome, watch)
        if outcome is Outcome.COMMITTED:
            self._update(gradient, verdict, rate, scalars.updates)
        self._gradients.release(sums)
        updated = clock.lap()
        self._gather()
        gathered = clock.lap()
        self._scalars = scalars

        reduce_wait = min(exchanged, max(verdict.busy) - verdict.busy[self.rank])
        vote_wait = min(voted, max(verdict.summing) - verdict.summing[self.rank])
        return StepResult(
            step=step,
            outcome=outcome,
            loss=verdict.loss,
            gradient_norm=verdict.gradient_norm,
            rate=rate,
            tokens=verdict.count,
            busy=verdict.busy,
            skip=skip,
            spike=spike or (watch.until(step) if watch and step == self.optimizer.steps else None),
            timings=Timings(
                forward_backward=forward_backward,
                reduce_wait=reduce_wait,
                reduce=exchanged - reduce_wait + summed,
                vote_wait=vote_wait,
                vote=voted - vote_wait,
                update=updated,
                gather=gathered,
                audit=witness + audited,
            ),
        )

    def evaluate(self, leaves: int, batch: Callable[[int], LeafBatch]) -> tuple[float, int]:
        """Collective. The sum of token losses in nats, and the tokens, over `leaves` validation batches.

        `batch(i)` is asked for this rank's share, one at a time. The bits do not depend on the number of ranks.
        """
        held = [self.plan.evaluation_leaves_of(rank, leaves) for rank in self.plan.ranks]
        own: list[Tally] = []
        for leaf in held[self.rank]:
            ready = self._checked(batch(leaf), f"validation leaf {leaf}")
            own.append(self._gradients.token_sum(ready))
            self.worked()
        for _ in range(self._idle([len(part) for part in held])):
            self._gradients.token_sum(self._checked(batch(0), "validation leaf 0"))
        record = torch.tensor([[tally.loss, tally.count] for tally in own], dtype=torch.float64, device=self.device)
        shared = self._exchange.share(record.flatten(), [2 * len(part) for part in held])
        table = torch.cat(shared).view(-1, 2).cpu().numpy()
        return tree_sum(table[:, 0]), int(table[:, 1].sum())

    def scores(
        self, leaves: int, batch: Callable[[int], LeafBatch], score: Score, width: int
    ) -> npt.NDArray[np.float64]:
        """Collective. Return `width` numbers of each of `leaves` batches by `score`, float64[leaves, width].

        As in `evaluate`, each rank computes its share, and the bits do not depend on the number of ranks.
        """
        held = [self.plan.evaluation_leaves_of(rank, leaves) for rank in self.plan.ranks]
        own: list[Sequence[float]] = []
        for leaf in held[self.rank]:
            ready = self._checked(batch(leaf), f"scored leaf {leaf}")
            own.append(self._gradients.scored(ready, score))
            self.worked()
        for _ in range(self._idle([len(part) for part in held])):
            self._gradients.scored(self._checked(batch(0), "scored leaf 0"), score)
        record = torch.tensor(own, dtype=torch.float64, device=self.device)
        shared = self._exchange.share(record.flatten(), [width * len(part) for part in held])
        found: npt.NDArray[np.float64] = torch.cat(shared).view(-1, width).cpu().numpy()
        return found

    def _idle(self, leaves: Sequence[int]) -> int:
        """The number of leaves that this rank computes for nothing, where all must compute as many as the busiest."""
        return max(leaves) - leaves[self.rank] if self._placement.collective else 0

    def _checked(self, batch: LeafBatch, what: str) -> CheckedBatch:
        return checked(batch, self.model, self.step_spec.rows, what, length=self.step_spec.length)

    def share(self, values: npt.NDArray[Any], lengths: Sequence[int]) -> list[npt.NDArray[Any]]:
        """Collective. Every rank's vector of numbers, on every rank; `lengths` are those of all ranks."""
        shared = self._exchange.share(torch.from_numpy(np.ascontiguousarray(values)).to(self.device), lengths)
        return [part.cpu().numpy() for part in shared]

    def scale(self, unit: str, factor: float) -> None:
        """Collective. Multiply the parameters of a unit by a factor, the same on all ranks; moments stay.

        Raises SpecError where the model has no such unit.
        """
        if unit not in {chunk.unit for chunk in self.plan.layout.chunks}:
            raise SpecError(f"the model has no unit {unit}")
        for chunk, at in zip(self._chunks, self._starts(), strict=True):
            if chunk.unit == unit:
                self._state[0, at : at + chunk.length].mul_(factor)
        self._gather()

    def worked(self) -> None:
        """Count something that this rank computed outside of a step: a token of a rollout, a scored answer."""
        self.work += 1

    def scalars(self) -> Scalars:
        return self._scalars

    @property
    def parameters(self) -> Tensor:
        """The whole parameter vector that this rank computes with, [layout.elements]; gathered anew in every step.

        Raises SpecError where each rank keeps its own chunks alone.
        """
        if not isinstance(self._placement, Replicated):
            raise SpecError("shard: parameters leaves no rank with all parameters, which this program needs; remove it")
        return self._placement.vector

    def snapshot_size(self) -> int:
        """Bytes of this rank's snapshot; plan.snapshot_table(rank) says what lies where."""
        return self.plan.snapshot_size(self.rank)

    def snapshot_into(self, buffer: memoryview) -> None:
        """Copy this rank's chunks into a writable buffer of exactly snapshot_size() bytes."""
        if buffer.nbytes != self.snapshot_size():
            raise ValueError(f"the snapshot buffer has {buffer.nbytes} bytes; expected {self.snapshot_size()}")
        state = self._state.cpu().numpy()
        np.copyto(np.frombuffer(buffer, np.float32).reshape(state.shape), state)

    def peak_parameter_bytes(self) -> int:
        """Bytes of parameters to compute with that were ever on this rank at once."""
        return self._placement.most_elements * self._compute_type.itemsize

    def state_bytes(self) -> int:
        """Bytes of the float32 parameters and moments that this rank keeps."""
        return self._state.nbytes

    def peak_gradient_bytes(self) -> int:
        """Bytes of gradient sums that were ever alive at once on this rank (without the exchange)."""
        return self._gradients.buffers * self.plan.layout.gradient_elements * 4

    def _starts(self) -> list[int]:
        first = self.plan.state_span(self.rank).start
        return [self.plan.layout.offsets[chunk.index] - first for chunk in self._chunks]

    def _scatter(self, sums: PartialSums[Buffer]) -> list[Tensor]:
        vectors = [sums.nodes[node].vector for node in self.plan.nodes_of(self.rank)]
        outgoing = []
        for spans in self._spans:
            parts = [vector[span.start : span.stop] for span in spans for vector in vectors]
            outgoing.append(parts[0] if len(parts) == 1 else torch.cat(parts))
        own = sum(span.length for span in self._spans[self.rank])
        return self._exchange.scatter(outgoing, [own * len(self.plan.nodes_of(rank)) for rank in self.plan.ranks])

    def _sum(self, pieces: list[Tensor]) -> Tensor:
        totals: list[Tensor] = []
        starts = [0] * len(pieces)
        for span in self._spans[self.rank]:
            sums: PartialSums[Tensor] = PartialSums(self.plan.leaves, lambda left, right: left.add_(right))
            for rank, piece in enumerate(pieces):
                for node in self.plan.nodes_of(rank):
                    sums.add(node, piece[starts[rank] : starts[rank] + span.length])
                    starts[rank] += span.length
            totals.append(sums.total())
        first = totals[0]
        for span, use in zip(self._spans[self.rank][1:], totals[1:], strict=True):
            first[span.onto : span.onto + span.length].add_(use)
        return first

    def _vote(
        self, step: int, busy: float, summing: float, tallies: Mapping[int, Tally], squares: list[float]
    ) -> Verdict:
        record = write_record(step=step, epoch=self.epoch, busy=busy, summing=summing, tallies=tallies, squares=squares)
        shared = self._exchange.share(torch.from_numpy(record).to(self.device), record_lengths(self.plan))
        return decide(self.plan, [part.cpu().numpy() for part in shared])

    def _check(self, audit: Audit, step: int, witnessed: list[int]) -> None:
        chunks = self.plan.layout.chunks
        held = self._placement.fingerprints()
        kept = fingerprints(self._state[0].to(self._compute_type), [chunk.length for chunk in self._chunks])
        record = torch.tensor([*witnessed, *held, *kept], dtype=torch.int64, device=self.device)
        lengths = [2 + len(chunks) + len(self.plan.chunks_of(rank)) for rank in self.plan.ranks]
        shared = self._exchange.share(record, lengths)
        check_audits(self.plan, audit, step, [part.tolist() for part in shared])

    def _confirm(
        self,
        step: int,
        tallies: Mapping[int, Tally],
        batches: Mapping[int, CheckedBatch],
        fetch: Callable[[int], LeafBatch],
    ) -> SkipCause:
        """Collective. Return why the loss or the gradient of a step is not finite. Raises AuditFailed if a rank is."""
        ranks, own = len(self.plan.ranks), self.plan.leaves_of(self.rank)
        lowest, seen, contradicts = nonfinite.NONE, 0, False
        for leaf in own:
            tally, found, finite = self._gradients.examine_leaf(batches[leaf])
            self.worked()
            contradicts |= np.float64(tally.loss).tobytes() != np.float64(tallies[leaf].loss).tobytes()
            if lowest == nonfinite.NONE and not finite:
                lowest, seen = leaf, found
        for _ in range(self._idle([len(self.plan.leaves_of(rank)) for rank in self.plan.ranks])):
            self._gradients.idle(batches[own[0]])
        record = torch.tensor([lowest, seen, contradicts], dtype=torch.int64, device=self.device)
        examined = [
            nonfinite.Examined(leaf, seen, bool(contradicts))
            for leaf, seen, contradicts in (part.tolist() for part in self._exchange.share(record, [3] * ranks))
        ]
        leaf = next(each.leaf for rank, each in enumerate(examined) if nonfinite.neighbour(rank, ranks) == self.rank)
        seen, finite = 0, True
        if leaf != nonfinite.NONE:
            batch = batches[leaf] if leaf in batches else self._checked(fetch(leaf), f"step {step}, leaf {leaf}")
            _, seen, finite = self._gradients.examine_leaf(batch)
        elif self._placement.collective and any(each.leaf != nonfinite.NONE for each in examined):
            self._gradients.idle(batches[own[0]])
        record = torch.tensor([seen, finite], dtype=torch.int64, device=self.device)
        shared = [part.tolist() for part in self._exchange.share(record, [2] * ranks)]
        finding = nonfinite.judge(examined, [nonfinite.Witnessed(seen, bool(finite)) for seen, finite in shared])
        if finding:
            raise AuditFailed(step, finding, nonfinite.words(examined))
        return SkipCause.NOT_FINITE if any(each.leaf != nonfinite.NONE for each in examined) else SkipCause.OVERFLOW

    def _update(self, gradient: Tensor, verdict: Verdict, rate: float, updates: int) -> None:
        clip = min(1.0, self.optimizer.clip_norm / (verdict.gradient_norm + 1e-6))
        gradient.mul_(clip / verdict.count)
        parameter, first, second = self._state.unbind()
        for run in self._runs:
            part = slice(run.start, run.stop)
            adamw(
                self.optimizer,
                parameter=parameter[part],
                first_moment=first[part],
                second_moment=second[part],
                gradient=gradient[part],
                rate=rate,
                updates=updates,
                decay=run.decay,
            )

    def _gather(self) -> None:
        self._placement.refresh(self._state[0])
