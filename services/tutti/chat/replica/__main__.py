"""A replica as a process: `python -P -m tutti.chat.replica --data-dir D --name a --checkpoint FOLDER`."""

import os
import sys

from tutti.platform.garbage import kept
from tutti.platform.heartbeatpipe import first_word

if __name__ == "__main__":
    first_word()
    with kept():
        from tutti.chat.replica.program import main
    code = main()
    sys.stderr.flush()
    os._exit(code)  # the thread of the engine must not keep the process
