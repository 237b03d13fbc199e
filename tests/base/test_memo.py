"""What is kept is what comes back, or nothing does: damaged, foreign and misplaced files are passed over, and there are never too many."""
from __future__ import annotations

import os
from pathlib import Path

import pytest

from aoec.base.files import memo
from aoec.base.files.memo import Memo, cache_folder

VALUE = {"a": [1, 2.5, -0.0, "ü", None, True], "b": {"c": [[], {}]}}


@pytest.fixture
def kept(tmp_path: Path) -> Memo:
    m = Memo(tmp_path / "cache" / "made", "v1")
    m.put(VALUE, "kind", "key")
    return m


def file(m: Memo) -> Path:
    (path,) = m.folder.iterdir()
    return path


def test_what_is_kept_comes_back_to_any_process(kept: Memo) -> None:
    again = Memo(kept.folder.parent, "v1")
    assert repr(again.get("kind", "key")) == repr(VALUE)
    assert again.get("kind", "key2") is again.get("kindkey") is again.get("kind", "key", "") is None
    assert Memo(kept.folder.parent, "v2").get("kind", "key") is None
    assert kept.folder.stat().st_mode & 0o777 == 0o700


def test_a_file_that_is_damaged_in_any_byte_is_passed_over(kept: Memo) -> None:
    good = file(kept).read_bytes()
    for at in range(len(good)):
        for bad in (good[:at] + bytes([good[at] ^ 1]) + good[at + 1:], good[:at]):
            file(kept).write_bytes(bad)
            assert kept.get("kind", "key") is None
    file(kept).write_bytes(good)
    assert kept.get("kind", "key") == VALUE


def test_a_file_under_another_name_and_one_of_another_user_are_passed_over(kept: Memo, monkeypatch: pytest.MonkeyPatch) -> None:
    kept.put([1], "other")
    mine, other = kept.folder / memo._name(("kind", "key")), kept.folder / memo._name(("other",))
    other.write_bytes(mine.read_bytes())
    assert kept.get("other") is None
    monkeypatch.setattr(os, "getuid", lambda: mine.stat().st_uid + 1)
    assert (kept.get("kind", "key") is None) == (mine.stat().st_uid != 0)
    monkeypatch.setattr(memo, "is_own", lambda found: False)
    assert kept.get("kind", "key") is None


def test_what_cannot_be_kept_is_no_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    m = Memo(tmp_path / "file" / "made", "v1")
    m.put(VALUE, "key")
    assert m.get("key") is None
    monkeypatch.setattr(memo, "VALUE_LIMIT_BYTES", 64)
    large = Memo(tmp_path, "v1")
    large.put("x" * 64, "key")
    assert large.get("key") is None and not large.folder.exists()


def test_there_are_never_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memo, "VALUES", 8)
    m = Memo(tmp_path, "v1")
    for i in range(12):
        m.put(i, str(i))
        os.utime(m.folder / memo._name((str(i),)), (i, i))
    Memo(tmp_path, "v1").put("new", "new")
    assert [i for i in range(12) if m.get(str(i)) is not None] == [8, 9, 10, 11] and m.get("new") == "new"
    for number in range(memo.VERSIONS + 2):
        os.utime(tmp_path / f"v{number}", (number, number)) if (tmp_path / f"v{number}").exists() else None
        Memo(tmp_path, f"w{number}").put(1, "key")
    assert len(list(tmp_path.iterdir())) == memo.VERSIONS and Memo(tmp_path, f"w{number}").get("key") == 1


def test_the_folder_is_the_users_own_or_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AOEC_CACHE_DIR", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.delenv("AOEC_CACHE_DIR")
    assert cache_folder().name == "aoec" and cache_folder() != tmp_path
