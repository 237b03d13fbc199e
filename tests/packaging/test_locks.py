"""`make` installs what the locks pin, by hash: each file says all that pyproject.toml asks for, and nothing of where it came from."""
from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PINNED = re.compile(r"([a-z0-9.-]+)==(\S+?)( ; [^\\]+?)? \\((?:\s+--hash=sha256:[0-9a-f]{64} ?\\?)+)\n")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def locked(name: str) -> dict[str, str]:
    """Return package -> version of a lock, of which every character is understood."""
    text = (ROOT / "locks" / name).read_text()
    text = text.replace("\\\n    --hash", "\\ --hash")
    lines = text.splitlines(keepends=True)
    found = [PINNED.fullmatch(line) for line in lines]
    assert all(found), next(line[:200] for line, f in zip(lines, found) if not f)
    return {f[1]: f[2] for f in found if f}


@pytest.mark.parametrize("name, extras", [
    ("dev.txt", ["dev", "verify", "completion"]), ("exporters.txt", ["dev", "exporters"]), ("run.txt", ["verify", "completion"])])
def test_a_lock_pins_all_that_is_asked_for_by_hash_and_names_no_place(name: str, extras: list[str]) -> None:
    pins = locked(name)
    asked = [*PROJECT["dependencies"], *(r for e in extras for r in PROJECT["optional-dependencies"][e])]
    for requirement in map(Requirement, asked):
        pin = pins[re.sub(r"[-_.]+", "-", requirement.name).lower()]
        assert requirement.specifier.contains(pin, prereleases=True), (requirement, pin)
    assert not re.search(r"://|/|@|--index|--find-links|--extra", (ROOT / "locks" / name).read_text())


def test_all_locks_pin_the_same_versions() -> None:
    run, dev, exporters = locked("run.txt"), locked("dev.txt"), locked("exporters.txt")
    assert run.items() < dev.items() < exporters.items() and not {"pytest", "mypy"} & run.keys()


def test_make_takes_only_what_the_locks_say() -> None:
    lines = [line for line in (ROOT / "Makefile").read_text().splitlines() if " -m pip " in line]
    assert len(lines) == 4
    assert all("$(LOCKED) -r locks/" in line or "--no-deps --no-build-isolation -e ." in line for line in lines)
    assert "--require-hashes" in (ROOT / "Makefile").read_text()
