"""The benches of growth and of a second compile: what they count is what was done, and their figures are of the work alone."""
from __future__ import annotations

import json

import pytest

from bench import scale, warm


def test_a_line_counts_what_was_timed_and_says_how_it_grew(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(scale, "SIZES", {"rows": (10, 50, 200, 400)})
    monkeypatch.setattr("sys.argv", ["scale.py", "--child", "rows", "200"])
    assert scale.main() == 0
    line = json.loads(capsys.readouterr().out)
    assert line["size"] == line["legal"] == 200 and line["cpu_s"] > 0 and line["peak_bytes"] > line["grown_bytes"] >= 0
    text = scale.show("rows", [line, {**line, "size": 800, "cpu_s": 2 * line["cpu_s"]}])
    assert "x4.0  size, x2.00   time" in text and text.count("legal 200") == 2


def test_unknown_kinds_are_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["scale.py", "--only", "rows,nothing"])
    with pytest.raises(SystemExit):
        scale.main()
    assert "nothing: not one of shapes, rows" in capsys.readouterr().err


@pytest.mark.slow
def test_a_second_compile_is_held_against_a_session() -> None:
    found = warm.bench("mlp_softmax", 8, 1)
    for where in ("same_process", "fresh_process"):
        f = found[where]
        assert 0 < sum(f["steps_cpu_s"].values()) <= f["compile_cpu_s"] < found["first_s"]
        assert f["ratio_cpu"] == pytest.approx(f["compile_cpu_s"] / f["opened_cpu_s"])
    assert set(found["same_process"]["steps_cpu_s"]) <= set(warm.STEPS.values())
