"""Standard streams that are closed or of an ASCII terminal, pipes without an end, devices: a result or one sentence, never a traceback."""
from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from aoec import cli
from aoec.base.errors import BackendError
from aoec.base.files import files

PROGRAM = str(Path(__file__).parents[1] / "programs" / "vector.prog")


def shell(words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a line of shell in which `aoec` is this one."""
    line = words.replace("aoec ", f"{sys.executable} -m aoec ", 1)
    return subprocess.run(["sh", "-c", line], capture_output=True, text=True, env={**os.environ, **environment}, timeout=120)


@pytest.mark.parametrize("command", ["targets", "--help", f"simulate {PROGRAM}", "aoe --help"])
def test_closed_output_is_refused_in_a_sentence(command: str) -> None:
    done = shell(f"aoec {command} >&-")
    assert done.returncode == 2 and done.stderr.splitlines()[-1].endswith("it is closed"), done.stderr
    assert "Traceback" not in done.stderr and "internal fault" not in done.stderr


def test_what_says_nothing_needs_no_output(tmp_path: Path) -> None:
    done = shell(f"aoec simulate {PROGRAM} -o {tmp_path}/out >&- 2>&-")
    assert done.returncode == 0
    assert (tmp_path / "out").read_text() == shell(f"aoec simulate {PROGRAM}").stdout  # and nothing else has gone into it
    assert shell("aoec results none.json 2>&-").returncode == 2
    assert shell("aoec results - <&-").returncode == 2


def test_terminals_without_unicode_get_escapes(tmp_path: Path) -> None:
    name = tmp_path / "n\u00fcn.json"
    name.write_text("x")
    done = shell(f"aoec results {name}", PYTHONIOENCODING="ascii")
    assert done.returncode == 2 and "n\\xfcn.json is not JSON" in done.stderr, done.stderr


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with names are of POSIX systems")
@pytest.mark.parametrize("words", [
    "compile FILE", "tune FILE", "import FILE", "bank list --bank FILE", "bank import FILE --bank NEW",
    "bank diff FILE --bank NEW",
    "run FILE --random", "run FILE.tir --random", "export FILE -o NEW", "simulate FILE", "explain FILE", "results FILE",
    "lower FILE --group g0",
    "schedule FILE --with FILE", "simulate PROGRAM --target ./FILE.toml", "lower m(a=1) --ops FILE", "deliver FILE --to DIR",
    "deliver --read FILE --bank NEW", "calibrate --read FILE -o NEW", "slice FILE --regions g0/2", "fuse FILE", "emit FILE"])
def test_no_input_is_waited_for_without_end(words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                            capsys: pytest.CaptureFixture[str]) -> None:
    """As files from an archive can be: a pipe that nobody writes to, and a device that never ends."""
    monkeypatch.setattr(files, "WRITER_SECONDS", 0.05)
    monkeypatch.chdir(tmp_path)
    for name in ("FILE", "FILE.tir", "FILE.toml"):
        os.mkfifo(name)
    command = [PROGRAM if w == "PROGRAM" else w for w in words.split(" ")]
    assert cli.main(command) == 2
    assert "it is a pipe" in capsys.readouterr().err.splitlines()[-1]
    for name in ("FILE", "FILE.tir", "FILE.toml"):
        os.unlink(name)
        os.symlink("/dev/zero", name)
    assert cli.main(command) == 2
    assert "it is a device" in capsys.readouterr().err.splitlines()[-1]
    assert not Path("NEW").exists() and not Path("DIR").exists()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with names are of POSIX systems")
def test_a_pipe_is_read_to_its_end_however_slow_its_writer(tmp_path: Path) -> None:
    pipe, part = tmp_path / "pipe", b"a" * 50_000
    os.mkfifo(pipe)

    def write() -> None:
        time.sleep(0.1)
        with open(pipe, "wb", 0) as f:
            for _ in range(3):
                time.sleep(0.1)
                f.write(part)
    writer = threading.Thread(target=write)
    writer.start()
    assert files.read_bytes(pipe, len(part) * 3) == part * 3
    writer.join()
    writer = threading.Thread(target=write)
    writer.start()
    with pytest.raises(BackendError, match="larger than 149,999 bytes"):
        files.read_bytes(pipe, len(part) * 3 - 1)
    writer.join()
