"""Two nodes of Ray on this machine, on loopback alone, for as long as a block lasts.

Promises: what was started is stopped; nothing is told to those who make Ray.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

STOP_SECONDS = 60
# Ray binds to all interfaces wherever it thinks that other machines may join; by this they may not.
ALONE = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0"}
START_SECONDS = 240
PORTS = ("metrics_agent_port", "metrics_export_port", "runtime_env_agent_port", "dashboard_agent_listen_port")
# Where these ports are left to it, a node ends when its agents have not told them after 15 s, which busy machines miss.
PROGRAM = """
import json, sys
from ray.cluster_utils import Cluster
first, other = json.loads(sys.argv[1])
cluster = Cluster(initialize_head=True, head_node_args={**first, "include_dashboard": False})
cluster.add_node(**other)
print(json.dumps(cluster.address), flush=True)
sys.stdin.read()
cluster.shutdown()
"""


@dataclass(frozen=True)
class Nodes:
    """`pid` is the process whose descendants they are."""

    address: str
    pid: int


@contextmanager
def two_nodes(store_bytes: int = 100_000_000) -> Iterator[Nodes]:
    """A head and another node, of one core each; the environment lets this process and its children join them."""
    folder = Path(tempfile.mkdtemp(prefix="ray", dir="/tmp"))
    (folder / "ray").mkdir()
    wanted = {**ALONE, "RAY_TMPDIR": str(folder), "RAY_raylet_start_wait_time_s": str(START_SECONDS)}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ |= wanted
    node = {"num_cpus": 1, "num_gpus": 0, "object_store_memory": store_bytes}
    ports = free_ports(2 * len(PORTS))
    both = [{**node, **dict(zip(PORTS, ports[half::2], strict=True))} for half in range(2)]
    command = [sys.executable, "-c", PROGRAM, json.dumps(both)]
    program = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert program.stdout is not None
        yield Nodes(json.loads(program.stdout.readline()), program.pid)
    finally:
        try:
            program.communicate(timeout=STOP_SECONDS)
        finally:
            program.kill()
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
        shutil.rmtree(folder, ignore_errors=True)


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody uses now, all different."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [each.getsockname()[1] for each in held]
    finally:
        for each in held:
            each.close()
