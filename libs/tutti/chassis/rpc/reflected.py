"""The descriptors that reflection answers from.

Promises: the full name of a method, a field or an enum value is found in the file of what it belongs to, as in other
languages; protobuf's pool for Python knows no methods.
"""

from typing import Any, cast

from google.protobuf.descriptor_pool import Default
from grpc_reflection.v1alpha import reflection


def reflect(names: list[str], server: Any) -> None:
    """Let a server describe services of these names."""
    reflection.enable_server_reflection([*names, reflection.SERVICE_NAME], server, pool=cast(Any, _Pool()))


class _Pool:
    """The default pool, which finds symbols by the name of their parent too."""

    def __getattr__(self, name: str) -> Any:
        return getattr(Default(), name)

    def FindFileContainingSymbol(self, symbol: str) -> Any:
        """Raises KeyError."""
        parent = symbol.rpartition(".")[0]
        try:
            return Default().FindFileContainingSymbol(symbol)
        except KeyError:
            if not parent:
                raise
        file = Default().FindFileContainingSymbol(parent)
        service = file.services_by_name.get(parent.rpartition(".")[2])
        if service is None or symbol.rpartition(".")[2] not in service.methods_by_name:
            raise KeyError(symbol)
        return file
