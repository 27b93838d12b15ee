"""The one event loop of a process, in a thread of its own.

Promises: gRPC's asynchronous half allows one loop a process, so all servers of a process share this one; it is started
when first asked for and lives as long as the process.
"""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None


def event_loop() -> asyncio.AbstractEventLoop:
    global _loop
    with _lock:
        if _loop is None:
            _loop = asyncio.new_event_loop()
            threading.Thread(target=_loop.run_forever, name="event-loop", daemon=True).start()
        return _loop


def run(coroutine: Coroutine[Any, Any, T], timeout_seconds: float | None = None) -> T:
    """Run it there and wait from another thread. Raises TimeoutError, after cancelling it."""
    future = asyncio.run_coroutine_threadsafe(coroutine, event_loop())
    try:
        return future.result(timeout_seconds)
    except TimeoutError:
        future.cancel()
        raise
