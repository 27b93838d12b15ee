"""An agent with two ranks that step for long, as a process of its own: prints their pids, then runs until killed."""

import sys
import time
from pathlib import Path

from tests.trainer import conftest

stage = conftest.Stage(Path(sys.argv[1]))
agent = stage.agent()
training = stage.training(steps=1_000_000, checkpoint_every=1_000_000)
stage.plane.assign("a", stage.assignment(training, ranks=(0, 1), dp=2))
conftest.until(lambda: stage.plane.last_step > 3)
print(*(pid for _, pid in sorted(agent.pids().items())), flush=True)
time.sleep(300)
