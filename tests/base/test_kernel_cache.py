"""Compiled kernels are pickles of code: they are taken only from where no other user can have written."""
from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from aoec.base.files.ownership import why_not_own
from aoec.base.process import kernel_cache

pytestmark = pytest.mark.skipif(not hasattr(os, "getuid"), reason="owners and modes are of systems with users")
PLACES = """
import json
import aoec.simulate.timing.time, aoec.simulate.encode.tape, aoec.simulate.values.values
from numba.core.dispatcher import Dispatcher
from aoec.kernels import columns, registers, tile, timeline
found = {d._cache.cache_path for m in (columns, registers, tile, timeline) for d in vars(m).values() if isinstance(d, Dispatcher)}
print(json.dumps(sorted(p for p in found if p)))
"""
FOREIGN = 12345  # a user that is neither this one nor root


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "named"
    made.mkdir(mode=0o755)
    os.chmod(tmp_path, 0o755)
    return made


@pytest.fixture
def private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AOEC_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "kernels"


def places(folder: Path) -> list[str]:
    """Return where Numba looks for the kernels of a process whose $NUMBA_CACHE_DIR is the folder."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder)}
    done = subprocess.run([sys.executable, "-c", PLACES], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_folder_that_others_may_write_to_is_not_used(folder: Path, private: Path) -> None:
    assert all(p.startswith(f"{folder}/") for p in places(folder))
    os.chmod(folder, 0o777)
    found = places(folder)
    assert found and all(p.startswith(f"{private}/") for p in found)
    assert oct(private.stat().st_mode & 0o777) == oct(0o700) and not any(p.name.endswith(".nbi") for p in folder.rglob("*"))


def test_doctor_says_where_kernels_are_and_why(folder: Path, private: Path) -> None:
    os.chmod(folder, 0o777)
    environment, words = {**os.environ, "NUMBA_CACHE_DIR": str(folder)}, ("doctor", "--bank", str(folder / "b.db"))
    done = subprocess.run([sys.executable, "-m", "aoec", *words], capture_output=True, text=True, env=environment)
    line = next(line for line in done.stdout.splitlines() if line.startswith("kernels"))
    assert str(private) in line and f"not where Numba would keep them: others may write to {folder}" in line


def test_owners_and_modes_of_all_folders_above_count(tmp_path: Path) -> None:
    os.chmod(tmp_path, 0o755)
    outer, inner = tmp_path / "outer", tmp_path / "outer" / "inner"
    inner.mkdir(parents=True)
    os.chmod(outer, 0o755)
    os.chmod(inner, 0o755)
    assert why_not_own(inner) == "" and why_not_own(inner / "new" / "one") == ""
    os.chmod(outer, 0o777)
    assert why_not_own(inner) == why_not_own(outer / "new") == f"others may write to {outer}"
    os.chmod(outer, 0o1777)  # as /tmp is: what lies there nobody else can rename
    assert why_not_own(inner) == "" and why_not_own(outer) == f"others may write to {outer}"
    link = tmp_path / "link"
    link.symlink_to(inner)
    os.chmod(inner, 0o757)
    assert why_not_own(link) == f"others may write to {inner}"


def test_files_of_another_user_count(tmp_path: Path) -> None:
    os.chmod(tmp_path, 0o755)
    file = tmp_path / "tile.run-1.py311.nbi"
    file.write_bytes(b"")
    os.chmod(file, 0o644)
    assert why_not_own(tmp_path, kernel_cache.ENDINGS) == ""
    os.chmod(file, 0o666)
    assert why_not_own(tmp_path, kernel_cache.ENDINGS) == f"another user can have written {file}"
    os.chmod(file, 0o644)
    if os.getuid() == 0:
        os.chown(file, FOREIGN, FOREIGN)
        assert why_not_own(tmp_path, kernel_cache.ENDINGS) == f"another user can have written {file}"
        os.chown(file, 0, 0)
        os.chown(tmp_path, FOREIGN, FOREIGN)
        assert why_not_own(tmp_path) == f"{tmp_path} belongs to another user"


def test_where_no_safe_folder_is_a_temporary_one_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.chmod(tmp_path, 0o777)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "named"))
    monkeypatch.setenv("AOEC_CACHE_DIR", str(tmp_path / "cache"))
    found = kernel_cache.choose_folder.__wrapped__()
    assert tmp_path not in found.folder.parents and why_not_own(found.folder) == "" and found.folder.stat().st_mode & 0o777 == 0o700
    assert "others may write to" in found.why and "compiled anew by each command" in found.why
    found.folder.rmdir()
