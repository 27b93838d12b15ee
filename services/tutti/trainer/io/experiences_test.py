"""Experience on the local disk: durable until its owner knows it, whoever died in between."""

from pathlib import Path

from tutti.backbone.files import RealFiles
from tutti.contracts.trainer.v1 import ExperienceName, StoreExperience
from tutti.records.canonical import bytes_digest
from tutti.trainer.io.experiences import ExperienceSpool, experience_key


def experience(iteration: int) -> StoreExperience:
    data = b"rollouts %d" % iteration
    name = ExperienceName(job="jobs/j", line=1, iteration=iteration, digest=bytes_digest(data))
    return StoreExperience(name=name, checkpoint="", data=data)


def test_it_is_stored_once_by_a_process_and_again_by_the_next_until_it_is_forgotten(tmp_path: Path) -> None:
    spool = ExperienceSpool(tmp_path, RealFiles())
    for iteration in (0, 1, 1):
        spool.put(experience(iteration))
    seen = []
    while (found := spool.next()) is not None:
        seen.append(found)
        spool.stored(found.name)
    assert seen == [experience(0), experience(1)]
    again = ExperienceSpool(tmp_path, RealFiles())  # the process before told of both, or was killed before it could
    assert again.next() == experience(0)
    for iteration in (0, 1, 7):
        again.forget(experience(iteration).name)
    assert again.next() is None
    assert list(tmp_path.iterdir()) == []


def test_what_is_half_written_or_damaged_holds_up_nothing(tmp_path: Path) -> None:
    (tmp_path / "j.1.0.tmp").write_bytes(b"half")
    (tmp_path / "j.0.0.damaged.experience").write_bytes(b"\xff\xff\xff")
    spool = ExperienceSpool(tmp_path, RealFiles())
    spool.put(experience(1))
    assert spool.next() == experience(1)
    assert len(list(tmp_path.iterdir())) == 1


def test_the_blob_is_named_by_job_line_iteration_and_content() -> None:
    name = experience(3).name
    assert experience_key(name, "a") == f"trainer/experiences/j/1/3/{name.digest.removeprefix('blake3:')}=a"
