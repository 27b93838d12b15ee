"""The Python in which peers are that are no dependencies: `make bench-data` sets it up."""

from benchmarks.program import ROOT

PYTHON = ROOT / "build" / "peers" / "bin" / "python"
HOW = (
    "there is no build/peers; make it: .venv/uv/bin/uv venv build/peers && "
    ".venv/uv/bin/uv pip install --python build/peers/bin/python --group peers"
)
