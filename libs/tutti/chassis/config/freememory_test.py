from pathlib import Path

import psutil
import pytest

from tutti.chassis.config.freememory import available_bytes

LIMIT, USED, CACHED = 1 << 20, 700_000, 200_000


def write(folder: Path, limit: str, taken: str, stat: str, most: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / limit).write_text(most + "\n")
    (folder / taken).write_text(f"{USED}\n")
    (folder / "memory.stat").write_text(f"anon 5\n{stat} {CACHED}\n")


@pytest.mark.parametrize("own", ["job", ""])
def test_a_limit_of_the_cgroup_or_of_one_above_it_leaves_less_than_the_machine(tmp_path: Path, own: str) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(f"0::/outer/{own}\n")
    group = tmp_path / "sys/fs/cgroup/outer"
    write(group, "memory.max", "memory.current", "inactive_file", str(LIMIT))
    write(group / "job", "memory.max", "memory.current", "inactive_file", "max")
    assert available_bytes(tmp_path) == LIMIT - USED + CACHED


def test_the_first_version_of_cgroups_has_limits_too(tmp_path: Path) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("4:cpu,cpuacct:/x\n3:memory:/not/seen/in/a/container\n")
    names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
    write(tmp_path / "sys/fs/cgroup/memory", *names, str(LIMIT))
    assert available_bytes(tmp_path) == LIMIT - USED + CACHED
    write(tmp_path / "sys/fs/cgroup/memory", *names, "9223372036854771712")
    assert available_bytes(tmp_path) > LIMIT


def test_without_limits_the_machine_counts(tmp_path: Path) -> None:
    assert 0 < available_bytes(tmp_path) <= psutil.virtual_memory().total
    assert 0 < available_bytes() <= psutil.virtual_memory().total
