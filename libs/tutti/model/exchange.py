"""Exchange of vectors between ranks: one all-to-all per phase, with lengths that every rank knows from the plan.

No float is ever added by a collective: it only carries values from the one rank that wrote them, so the result does not
depend on the algorithm of the back end. With no process group there is one rank, and nothing is copied.
"""

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from tutti.model.device import is_gpu


class Exchange:
    """This rank's end of the process group."""

    def __init__(self, group: dist.ProcessGroup | None, *, rank: int, ranks: int) -> None:
        """Raises ValueError when the group is not the one that the plan was made for."""
        seen = (0, 1) if group is None else (dist.get_rank(group), dist.get_world_size(group))
        if seen != (rank, ranks):
            raise ValueError(f"the process group has rank {seen[0]} of {seen[1]}; the plan expects {rank} of {ranks}")
        self._group, self.rank, self.ranks = group, rank, ranks
        self._hosted = group is not None and dist.get_backend(group) == "gloo"  # gloo carries host memory alone

    def scatter(self, outgoing: Sequence[Tensor], incoming: Sequence[int]) -> list[Tensor]:
        """Send outgoing[r] to rank r; receive a vector of incoming[r] elements from every rank r."""
        if self._group is None:
            return [outgoing[0]]
        own = outgoing[self.rank]
        sent = [0 if rank == self.rank else part.numel() for rank, part in enumerate(outgoing)]
        received = [0 if rank == self.rank else length for rank, length in enumerate(incoming)]
        buffer = own.new_empty(sum(received))
        parts = [part for rank, part in enumerate(outgoing) if rank != self.rank]
        payload = parts[0] if len(parts) == 1 and parts[0].is_contiguous() else torch.cat(parts)
        self._carry(buffer, payload, received, sent)
        got = list(torch.split(buffer, received))
        got[self.rank] = own
        return got

    def gather(self, own: Tensor, lengths: Sequence[int], into: Tensor) -> None:
        """Fill `into` with every rank's vector, one after the other in the order of ranks."""
        if self._group is None:
            into.copy_(own)
            return
        self._carry(into, own.repeat(self.ranks), list(lengths), [own.numel()] * self.ranks)

    def share(self, record: Tensor, lengths: Sequence[int]) -> list[Tensor]:
        """Every rank's record, on every rank. Lengths may differ."""
        return self.scatter([record] * self.ranks, lengths)

    def _carry(self, into: Tensor, payload: Tensor, received: list[int], sent: list[int]) -> None:
        if self._hosted and is_gpu(payload.device.type):
            there = torch.empty(into.shape, dtype=into.dtype)
            dist.all_to_all_single(there, payload.cpu(), received, sent, group=self._group)
            into.copy_(there)
        else:
            dist.all_to_all_single(into, payload, received, sent, group=self._group)
