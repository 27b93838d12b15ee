"""The files of a data directory are for the account of its platform only."""

from tests.e2e.conftest import Finished


def test_no_other_account_can_use_what_a_run_leaves_in_its_data_directory(finished: Finished) -> None:
    everything = [path for path in finished.data_dir.rglob("*") if not path.is_symlink()]
    assert {"reports", "guests.lock"} <= {path.name for path in everything}
    assert [str(path) for path in everything if path.stat().st_mode & 0o077] == []
