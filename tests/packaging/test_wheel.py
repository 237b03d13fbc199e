"""The wheel, built from a copy of the sources and installed alone, works in an empty directory without the checkout."""
from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ("aoec", "kernels", "grammars", "pyproject.toml", "README.md")


class Installed:
    """An environment that holds the wheel and sees the dependencies of this one, and an empty directory to work in."""

    def __init__(self, wheel: Path, home: Path) -> None:
        self.wheel, self.work = wheel, home / "work"
        self.work.mkdir()
        venv.create(home / "env", with_pip=True, symlinks=True)
        self.bin = home / "env" / "bin"
        site = next((home / "env" / "lib").glob("python*/site-packages"))
        subprocess.run([self.bin / "python", "-m", "pip", "install", "-q", "--no-deps", "--no-index", wheel], check=True, cwd=home)
        others = [p for p in sys.path if p.endswith("site-packages") and p != str(site)]  # .pth files there (editable aoec) are not read
        (site / "dependencies.pth").write_text("\n".join(others) + "\n")
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "TUNE_", "NUMBA_"))}
        self.environment |= {"HOME": str(home), "XDG_DATA_HOME": str(home / "data"), "PATH": f"{self.bin}:{os.environ['PATH']}"}

    def shell(self, command: str, timeout: float = 300) -> subprocess.CompletedProcess[str]:
        words = ["bash", "-o", "pipefail", "-c", command]
        return subprocess.run(words, cwd=self.work, env=self.environment, capture_output=True, text=True, timeout=timeout)

    def ok(self, command: str) -> str:
        done = self.shell(command)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    home = tmp_path_factory.mktemp("wheel")
    tree = home / "tree"
    tree.mkdir()
    for name in SOURCES:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tree / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        else:
            shutil.copy(source, tree)
    subprocess.run([sys.executable, "-m", "build", "--wheel", "--no-isolation", "--skip-dependency-check", "-o", home / "dist", tree],
                   check=True, capture_output=True)
    yield Installed(next((home / "dist").glob("*.whl")), home)


def test_wheel_holds_everything(installed: Installed) -> None:
    names = set(zipfile.ZipFile(installed.wheel).namelist())
    for folder, package in (("aoec", "aoec"), ("kernels", "aoec/kernels"), ("grammars", "aoec/grammars")):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".py", ".lark", ".toml"):
                assert f"{package}/{path.relative_to(ROOT / folder)}" in names
    assert not [n for n in names if n.startswith(("tests", "bench"))]


def test_doctor_sees_the_wheel(installed: Installed) -> None:
    facts = json.loads(installed.ok("aoec doctor --json"))
    assert facts["versions"]["aoec"] and str(installed.bin.parent) in facts["kernels"]["cache"]
    assert str(installed.work.parent / "data") in facts["bank"]["path"]
    places = installed.ok("python -c 'import aoec.kernels as k, aoec.grammars as g, aoec as a; print(a.__path__, k.__path__, g.__path__)'")
    assert str(ROOT) not in places


def test_first_lines_within_two_seconds(installed: Installed) -> None:
    start = time.perf_counter()
    assert "compile" in installed.ok("aoec --help")
    assert time.perf_counter() - start < 2
