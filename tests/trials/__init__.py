"""Trials of what `deploy` has: containers, Kubernetes and telemetry, with real programs.

Their servers are those of deploy/local, whose modules are programs beside each other; they are put on the path here.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "deploy" / "local"))
