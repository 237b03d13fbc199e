"""Files that are changed by their structure, a few of each kind each time: a result or one sentence; and that what is wrong is seen."""
from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

import strangers
import strangers_seeds

COUNT = 2


def test_a_few_files_of_each_kind() -> None:
    command = [sys.executable, "-W", "ignore", strangers.__file__, "-n", str(COUNT), "--first", "1000"]
    done = subprocess.run(command, capture_output=True, text=True)  # of its own, since it forks, and this process may have threads
    assert done.returncode == 0, done.stdout + done.stderr
    for kind in strangers.CHANGES:
        assert f"{kind}: {COUNT} files: " in done.stdout


def seeds(kind: str, tmp_path: Path) -> bytes:
    """Return a small file of a kind."""
    if kind == "onnx":
        return onnx.parser.parse_model(strangers_seeds.MODELS["shapes"]).SerializeToString()
    if kind == "bank":
        with sqlite3.connect(tmp_path / "b.db") as c:
            c.execute("CREATE TABLE records (label VARCHAR, ticks INTEGER)")
            c.executemany("INSERT INTO records VALUES (?, ?)", [("a b", 7), ("c", 9)])
        c.close()
        return (tmp_path / "b.db").read_bytes()
    if kind == "artifact":
        from zipfile import ZipFile
        with ZipFile(tmp_path / "a.zip", "w") as z:
            z.writestr("manifest.json", json.dumps({"format": 1, "groups": [{"name": "g0", "ticks": 5}]}))
            z.writestr("graph.graph", "graph net { a = relu(b) }")
        return (tmp_path / "a.zip").read_bytes()
    return {"text": strangers_seeds.OPERATORS, "json": json.dumps(strangers_seeds.SINGLE),
            "csv": "\n".join((strangers_seeds.HEAD, *strangers_seeds.ROWS))}[kind].encode()


@pytest.mark.parametrize("kind", sorted(strangers.CHANGES))
def test_equal_numbers_change_alike_and_most_changes_change_something(kind: str, tmp_path: Path) -> None:
    data, change = seeds(kind, tmp_path), strangers.CHANGES[kind]
    if kind != "bank":  # whose file has a counter of changes
        assert change(data, np.random.default_rng(5)) == change(data, np.random.default_rng(5))
    made = [change(data, np.random.default_rng(seed)) for seed in range(30)]
    assert len(set(made)) > 15 and sum(m != data for m in made) > 20


def test_what_is_wrong_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def one(work: object) -> str:
        monkeypatch.setattr(strangers.cli, "main", work)
        for name in ("said", "result"):
            (tmp_path / name).unlink(missing_ok=True)
        return strangers.fuzz.guarded(lambda: strangers.called([], tmp_path), tmp_path / "result")[0]["status"]

    def say(text: str, code: int) -> object:
        return lambda words: print(text, file=sys.stderr) or code
    assert one(say("aoec: error: no", 2)) == "refused" and one(say("", 0)) == "done"
    assert one(say("aoec: internal fault: ValueError", 70)) == "fault" and one(say("Traceback (most recent call last)", 1)) == "fault"
    assert one(say("aoec: error: " + "a" * 5000, 2)) == "long" and one(say("", 2)) == "long"
    assert one(lambda words: 1 // 0) == "died"
