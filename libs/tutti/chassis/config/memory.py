"""Memory that ran out, in the words that an operator reads. Imports nothing: ranks use it too."""

TOO_LITTLE = (
    "out of memory: raise the memory limit (of the container, or `ulimit -v`), or run fewer processes on this machine"
)
KILLED = "by the kernel, if memory ran out: see the memory limit of the container, and `dmesg`"
"""The likely sender of a SIGKILL that no process of ours has sent."""
_SIGNS = ("can't allocate memory", "cannot allocate memory", "bad_alloc", "failed to map segment")


def ran_out(error: BaseException) -> bool:
    """True if an allocation failed. Native code, such as that of torch, says so in the words of its own errors."""
    words = str(error).lower()
    # A library on a noexec mount cannot be mapped either: "failed to map segment …: Operation not permitted".
    return isinstance(error, MemoryError) or (any(sign in words for sign in _SIGNS) and "not permitted" not in words)


def named(error: BaseException) -> str:
    """Return the type and words of an error, with advice if memory ran out."""
    words = f"{type(error).__name__}: {error}".removesuffix(": ")
    return f"{words}; {TOO_LITTLE}" if ran_out(error) else words
