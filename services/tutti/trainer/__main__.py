"""The agent as a process: `python -P -m tutti.trainer --data-dir D --node a`.

SIGTERM and SIGINT end the ranks at a step boundary and release them; a second signal ends everything at once.
"""

import os
import sys

from tutti.platform.garbage import kept
from tutti.platform.heartbeatpipe import first_word

if __name__ == "__main__":
    first_word()
    with kept():
        from tutti.trainer.agent.main import main
    code = main()
    sys.stderr.flush()
    os._exit(code)
