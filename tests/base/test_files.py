"""Files are written whole or not at all, and every failure is one sentence."""
from __future__ import annotations

import io
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from aoec.base.errors import BackendError, ParseError
from aoec.base.files import files


def test_written_whole_and_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "a.tir"
    path.write_text("old")
    files.write_text(path, "new ×")
    assert path.read_text("utf-8") == "new ×" and os.listdir(tmp_path) == ["a.tir"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~files._umask()


def test_a_link_stays_a_link_and_a_pipe_a_pipe(tmp_path: Path) -> None:
    link, pipe = tmp_path / "link", tmp_path / "pipe"
    link.symlink_to(tmp_path / "a.tir")
    files.write_text(link, "text")
    assert link.is_symlink() and (tmp_path / "a.tir").read_text() == "text"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    files.write_text(pipe, "text")
    assert os.read(reader, 8) == b"text" and stat.S_ISFIFO(pipe.stat().st_mode)
    os.close(reader)


def test_failed_write_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.tir"
    path.write_text("old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")
    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(BackendError, match=r"cannot write .*a\.tir: no space left on device"):
        files.write_text(path, "new")
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["a.tir"]


def test_a_file_that_is_not_there_may_be_one_that_is(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").touch()
    asked = f"; did you mean {tmp_path / 'model.onnx'}?"
    for name, tail in (("Model.onnx", asked), ("modell.onnx", asked), ("other.tir", ""),
                       ("none/a.tir", f" (there is no directory {tmp_path / 'none'})")):
        for read in (lambda path: files.check_file(path, "a model"), files.read_text):
            with pytest.raises(BackendError) as caught:
                read(tmp_path / name)
            assert str(caught.value) == f"cannot read {tmp_path / name}: no such file or directory{tail}"


def test_what_is_no_file_is_not_read(tmp_path: Path) -> None:
    """A device may have no end, and what must be read from several places is no pipe."""
    (tmp_path / "a").write_text("text")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    os.mkfifo(tmp_path / "pipe")
    assert files.check_file(tmp_path / "link", "a model") == 4 and files.check_file(tmp_path / "pipe", "a model", pipes=True) == 0
    for path, words in ((tmp_path / "none", "no such file"), (tmp_path, "it is a directory, not a model"),
                        (tmp_path / "pipe", "it is a pipe, not a model"), (Path("/dev/zero"), "it is a device, not a model")):
        with pytest.raises(BackendError, match=f"cannot read .*: {words}"):
            files.check_file(path, "a model")


@pytest.mark.parametrize("name, sentence", [
    ("none/a.tir", "cannot write .*: no such file or directory"), (".", "cannot write"),
])
def test_unwritable(tmp_path: Path, name: str, sentence: str) -> None:
    with pytest.raises(BackendError, match=sentence):
        files.write_text(tmp_path / name, "new")
    assert os.listdir(tmp_path) == []


def test_check_writable_says_why(tmp_path: Path) -> None:
    files.check_writable(tmp_path / "a")
    with pytest.raises(BackendError, match="it is a directory"):
        files.check_writable(tmp_path)
    with pytest.raises(BackendError, match="there is no directory"):
        files.check_writable(tmp_path / "none" / "a")


def test_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BackendError, match=r"cannot read .*none: no such file or directory"):
        files.read_text(tmp_path / "none")
    with pytest.raises(BackendError, match="is a directory"):
        files.read_text(tmp_path)
    (tmp_path / "bytes").write_bytes(b"func \xff")
    with pytest.raises(ParseError, match=r"bytes: this is not UTF-8 text \(byte 5 is 0xff\)"):
        files.read_text(tmp_path / "bytes")
    (tmp_path / "m.onnx").write_bytes(b"\xff")
    with pytest.raises(ParseError, match=r"m.onnx: this is an ONNX model, and text is wanted here: aoec import"):
        files.read_text(tmp_path / "m.onnx")
    with pytest.raises(BackendError, match="larger than 3 bytes"):
        files.read_bytes(tmp_path / "bytes", 3)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"from a pipe")))
    assert files.read_text("-") == "from a pipe"


def test_a_folder_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    files.write_folder(tmp_path / "new" / "out", {"a.txt": "1", "deep/er/b.txt": "2"})
    assert (tmp_path / "new" / "out" / "deep" / "er" / "b.txt").read_text() == "2"
    (tmp_path / "empty").mkdir()
    files.write_folder(tmp_path / "empty", {"a": "1"})
    assert (tmp_path / "empty" / "a").read_text() == "1"
    with pytest.raises(BackendError, match="there are files in it already"):
        files.write_folder(tmp_path / "empty", {"b": "2"})
    with pytest.raises(BackendError, match="cannot write"):
        files.write_folder(tmp_path / "late", {"a": "1", "a/b": "2"})  # the second cannot lie below a file
    assert sorted(p.name for p in tmp_path.iterdir()) == ["empty", "new"]
    assert [p.name for p in (tmp_path / "empty").iterdir()] == ["a"]


PARTS = """
import os, signal, sys, time
from pathlib import Path
from aoec.base.files.files import write_whole
def put(f):
    f.write(b"half")
    f.flush()
    print("begun", flush=True)
    time.sleep(60)
write_whole(Path(sys.argv[1]), put)
"""


def test_what_a_killed_run_left_is_removed_by_a_later_one_and_nothing_else(tmp_path: Path) -> None:
    out = tmp_path / "model.aoec"
    writers = [subprocess.Popen([sys.executable, "-c", PARTS, str(out)], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    for w in writers:
        assert w.stdout is not None and w.stdout.readline() == "begun\n"
    parts = set(tmp_path.glob(".model.aoec.*.part"))
    assert len(parts) == 2
    writers[0].kill()
    writers[0].wait()
    others = [tmp_path / ".other.aoec.abcdefgh.part", tmp_path / ".model.aoec.part", tmp_path / "model.aoec.abcdefgh.part"]
    for path in others:
        path.write_bytes(b"")
    files.write_bytes(out, b"whole")
    assert set(tmp_path.glob(".model.aoec.*.part")) == parts  # too new to be sure
    for path in (*parts, *others):
        os.utime(path, (0, 0))
    files.write_bytes(out, b"whole")
    assert len(parts & set(tmp_path.glob(".model.aoec.*.part"))) == 1 and all(p.exists() for p in others)  # the other has a writer
    writers[1].kill()
    writers[1].wait()
    files.write_bytes(out, b"whole")
    assert not any(p.exists() for p in parts) and out.read_bytes() == b"whole"
    folder = tmp_path / ".made.abcdefgh.part"
    folder.mkdir()
    (folder / "a").write_text("")
    os.utime(folder, (0, 0))
    files.write_folder(tmp_path / "made", {"b": "c"})
    assert not folder.exists() and (tmp_path / "made" / "b").read_text() == "c"
