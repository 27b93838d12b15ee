"""The end of a process that cannot continue: one line of text and an exit code, never a traceback.

Promises: 2 where a person has to change what was asked for (settings, arguments), 1 where the world is in the way.
"""

import logging
from collections.abc import Callable

from tutti.backbone.blobs import BlobError
from tutti.backbone.connect import BadUrl, MissingExtra
from tutti.backbone.database import DatabaseError
from tutti.backbone.eventlog import EventLogError
from tutti.chassis.config import memory
from tutti.chassis.config.datadir import DataDirError, NewerVersion
from tutti.chassis.config.exits import FAILED, MISUSE, say
from tutti.chassis.config.settings import SettingsError

MISTAKES: tuple[type[Exception], ...] = (SettingsError, NewerVersion, BadUrl, MissingExtra)
TROUBLES: tuple[type[Exception], ...] = (DataDirError, DatabaseError, EventLogError, BlobError, OSError)
log = logging.getLogger(__name__)


def guarded(
    work: Callable[[], int], *, mistakes: tuple[type[Exception], ...] = (), troubles: tuple[type[Exception], ...] = ()
) -> int:
    """The exit code of `work`, or that of what it raised, after saying so on stderr."""
    try:
        return work()
    except (*MISTAKES, *mistakes) as error:
        return say(str(error), MISUSE)
    except (*TROUBLES, *troubles) as error:
        return say(str(error), FAILED)
    except MemoryError as error:
        return say(memory.named(error), FAILED)
    except Exception as error:
        log.exception("a defect of ours")
        return say(f"{type(error).__name__}: {error}; this is a defect of ours, the log has more", FAILED)
