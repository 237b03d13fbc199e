"""Result files are read as every release of AOE writes them, and as aoec does; what is none is one sentence."""
from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aoec import cli
from aoec.base.errors import CheckError
from aoec.jobs.stages import manifest
from aoec.report.results.opat import KINDS, Outcome, Policy, Tuning, improvement, text
from aoec.report.results.results import Job, facts, jobs, lenient, show
from tests.oracle.schemas import faults

# The forms and figures of the samples in "tuning results" of CANN's AOE guides: 8.0, 6.2 (whose summary stands outside of OPAT), 6.0
FIGURES = {"conv": (72.055, 72.046), "slice": (134, 99), "net": (113.588725, 113.236731), "subgraph": (5.58434, 3.573203)}
MODEL = {"model_baseline_performance(ms)": 113.588725, "model_result_performance(ms)": 113.236731, "model_performance_improvement": "0.31%"}


def counted(add: int, hit: int, reserved: int, unsatisfied: int, update: int, total: int) -> dict[str, int]:
    return {"repo_add_num": add, "repo_hit_num": hit, "repo_reserved_num": reserved, "repo_unsatisfied_num": unsatisfied,
            "repo_update_num": update, "total_num": total}


def took(name: str, unit: str = "us") -> dict[str, Any]:
    before, after = FIGURES[name]
    return {f"performance_before_tune({unit})": before, f"performance_after_tune({unit})": after,
            "performance_improvement": improvement(before, after)}


NOW = [{"basic": {"tuning_name": "net", "tuning_time(s)": 1827}}, {"OPAT": {
    **MODEL, "opat_tuning_result": "tuning successful", "repo_modified_operators": [
        {"op_name": "slice", "op_type": ["softmaxv2"], "tune_performance": {"Format": took("slice") | {"update_mode": "add"}}},
        {"op_name": "conv", "op_type": "conv2d", "tune_performance": {"Schedule": took("conv") | {"update_mode": "update"}}}],
    "repo_summary": counted(19, 0, 0, 2, 0, 21)}}]
BEFORE_7 = [{"basic": {"tuning_name": "net", "tuning_time(s)": 1827}}, {"OPAT": {
    **MODEL, "opat_tuning_result": "tuning successful", "repo_modified_operators": {
        "add_repo_operators": [{"op_name": "slice", "op_type": "softmaxv2", **took("slice")}],
        "update_repo_operators": [{"op_name": "conv", "op_type": "conv2d", **took("conv")}]}},
    "repo_summary": counted(2, 17, 15, 0, 2, 19)}]
BEFORE_6_2 = {"report_20220901_1": [{"basic": {"tuning_name": "one"}}, {"OPAT": {
    "opat_tune_result": "tune failed", "repo_modified_operators": {"add_repo_operators": [{"op_name": "slice", "op_type": "slice",
                                                                                            **took("slice")}]},
    "repo_summary": counted(1, 0, 0, 0, 0, 1), "tune_failed_operators": ["res4a_branch1"]}}],
    "report_20220901_2": [{"basic": {"tuning_name": "none"}}]}
SUBGRAPHS = """[{"basic": {"tuning_name": "net"}}, {"SGAT": {"model_baseline_performance(ms)": 5.600486,
 "model_performance_improvement": "55.11%", "model_result_performance(ms)": 3.610442, "repo_modified_subgraphs": {
 "add_repo_subgraphs": [{"performance_before_tune(ms)": 5.58434, "performance_after_tune(ms)": 3.573203,
                         "performance_improvement": "56.28%", "repo_key": "8442368093364"}]
 "update_repo_subgraphs": [{"performance_before_tune(ms)": 4.58434, "performance_after_tune(ms)": 2.573203,
                            "performance_improvement": "78.15%", "repo_key": "17"}]},
 "repo_summary": {"repo_add_num": 1, "repo_hit_num": 1, "repo_reserved_num": 0, "repo_unsatisfied_num": 0, "repo_update_num": 1,
                  "total_num": 2}}}]"""


def told(j: Job) -> list[tuple[Any, ...]]:
    return [(e.name, e.types, e.kind, e.before_us, e.after_us, e.mode) for e in j.entries]


def test_both_forms_of_whole_models_say_the_same() -> None:
    now, = jobs(json.dumps(NOW), "now.json")
    older, = jobs(json.dumps(BEFORE_7), "older.json")
    assert told(now) == [("slice", ("softmaxv2",), "Format", 134, 99, "add"), ("conv", ("conv2d",), "Schedule", 72.055, 72.046, "update")]
    assert told(older) == [(n, t, "", b, a, m) for n, t, _, b, a, m in told(now)]
    assert (now.seconds, now.baseline_ms, now.result_ms) == (older.seconds, older.baseline_ms, older.result_ms) == (1827, *FIGURES["net"])
    assert now.counters == {"add": 19, "update": 0, "reserved": 0, "unsatisfied": 2, "hit": 0, "total": 21}
    assert older.counters == {"add": 2, "update": 2, "reserved": 15, "unsatisfied": 0, "hit": 17, "total": 19}


def test_reports_of_single_operators_and_of_subgraphs() -> None:
    one, none = jobs(json.dumps(BEFORE_6_2), "old.json")
    assert (one.status, one.failed, told(one)) == ("tune failed", ("res4a_branch1",), [("slice", ("slice",), "", 134, 99, "add")])
    assert (none.name, none.job, none.entries) == ("none", "", ())
    sgat, = jobs(SUBGRAPHS, "sgat.json")
    assert (sgat.job, sgat.counters["hit"]) == ("sgat", 1)
    assert [(e.name, e.mode, e.before_us, e.after_us) for e in sgat.entries] == [
        ("8442368093364", "add", pytest.approx(5584.34), pytest.approx(3573.203)),
        ("17", "update", pytest.approx(4584.34), pytest.approx(2573.203))]


names = st.text(min_size=1, max_size=8)
policies = st.lists(st.builds(Policy, names, st.lists(names, min_size=1, max_size=2).map(tuple), st.sampled_from(KINDS),
                              st.floats(0.001, 1e6), st.floats(0.001, 1e6), st.sampled_from(Outcome)), max_size=4).map(tuple)


@given(policies, st.one_of(st.none(), st.floats(0, 1e5)), st.lists(names, max_size=2).map(tuple))
def test_what_is_written_is_of_the_schema_and_read_again(done: tuple[Policy, ...], seconds: float | None, failed: tuple[str, ...]) -> None:
    ended = {} if seconds is None else {"seconds": seconds, "baseline_ms": 2.0, "result_ms": 1.0}
    written = text(Tuning("net", done, failed if ended else (), **ended))
    assert faults("result", json.loads(written)) == []
    found, = jobs(written, "mine.json")
    kept = [p for p in done if p.outcome in (Outcome.ADD, Outcome.UPDATE)]
    assert [(e.kind, e.mode, e.before_us, e.after_us) for e in found.entries] == [
        (p.kind, p.outcome.value, pytest.approx(p.before_us, abs=1e-4), pytest.approx(p.after_us, abs=1e-4)) for p in kept]
    assert found.result_ms == (1.0 if ended and (done or failed) else None) and "\x1b" not in show([found, found])
    assert json.loads(json.dumps(facts([found])))[0]["name"] == "net"


@pytest.mark.parametrize("said", [
    "", "nothing", "[", "[" * 200_000, "{}", "[]", "3", "null", '"text"', '[{"basic": {}}]', '[{"basic": {"tuning_name": 7}}]',
    '[{"basic": {"tuning_name": "x", "tuning_time(s)": NaN}}]', '[{"basic": {"tuning_name": "x", "tuning_time(s)": true}}]',
    '[{"basic": {"tuning_name": "x"}}, {"OPAT": {"repo_modified_operators": [{}]}}]',
    '[{"basic": {"tuning_name": "x"}}, {"OPAT": {"repo_modified_operators": {"lost": []}}}]',
    '[{"basic": {"tuning_name": "x"}}, {"OPAT": {"repo_summary": {"repo_add_num": "many"}}}]', "[1 " * 12])
def test_what_is_no_result_file_is_one_sentence(said: str) -> None:
    with pytest.raises(CheckError) as caught:
        jobs(said, "x.json")
    assert len(str(caught.value)) < 200 and "x.json" in str(caught.value)


def parts(said: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in JSON at which something may lack or be something else."""
    inner = said.items() if isinstance(said, dict) else enumerate(said) if isinstance(said, list) else ()
    return [place, *(p for name, value in inner for p in parts(value, (*place, name)))]


@pytest.mark.parametrize("whole", [NOW, BEFORE_7, BEFORE_6_2, lenient(SUBGRAPHS, "s")], ids=["now", "before 7", "before 6.2", "sgat"])
def test_an_abbreviated_or_altered_file_is_read_or_refused(whole: Any) -> None:
    """Each part of a file of each release taken out, and in turn made something else: it is shown, or one sentence says what it is not."""
    for *above, last in filter(None, parts(whole)):
        for other in (..., None, 0, "", [], {}, "text", [None], {"a": None}):
            said = deepcopy(whole)
            at = said
            for name in above:
                at = at[name]
            if other is ...:
                del at[last]
            else:
                at[last] = other
            try:
                found = jobs(json.dumps(said), "x.json")
            except CheckError:
                continue
            assert show(found) and show([*found, *found]) and json.dumps(facts(found))


def test_an_entry_without_times_is_listed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    said = deepcopy(BEFORE_7)
    said[1]["OPAT"]["repo_modified_operators"]["add_repo_operators"] = [{"op_name": "slice", "op_type": "softmaxv2"}]  # type: ignore[index]
    (tmp_path / "x.json").write_text(json.dumps(said))
    assert cli.main(["results", str(tmp_path / "x.json")]) == 0
    row = next(line.split() for line in capsys.readouterr().out.splitlines() if line.split()[:1] == ["slice"])
    assert row == ["slice", "-", "-", "-", "-", "add"]


def test_a_folder_is_its_result_files(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Those in it, or the one that the summary of a tuning names; a folder without any is an error."""
    for number, name in enumerate(("one", "two")):
        said = deepcopy(NOW)
        said[0]["basic"]["tuning_name"] = name  # type: ignore[index]
        (tmp_path / f"aoe_result_opat_2026090112000000{number}_pid1.json").write_text(json.dumps(said))
    inner = tmp_path / "tuning_results_20260901"
    inner.mkdir()
    (inner / "summary.json").write_text(json.dumps({"result_file": "aoe_result_opat_20260901120000001_pid1.json"}))
    assert cli.main(["results", str(tmp_path)]) == 0
    assert "1: one (" in (told := capsys.readouterr().out) and "2: two (" in told
    assert cli.main(["results", str(inner)]) == 0 and "two (opat" in capsys.readouterr().out
    for wrong in ({"result_file": "../x.json"}, {"result_file": 3}, {}, []):
        (inner / "summary.json").write_text(json.dumps(wrong))
        assert cli.main(["results", str(inner)]) == 2 and "without result files" in capsys.readouterr().err


def test_files_are_shown_side_by_side(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [tmp_path / "now.json", tmp_path / "older.json"]
    for path, said in zip(paths, (NOW, NOW)):
        path.write_text(json.dumps(said))
    assert cli.main(["results", *map(str, paths)]) == 0
    shown = capsys.readouterr().out
    assert "1: net (opat;" in shown and "113.589 -> 113.237 ms, 1.003 times as fast; times are not labelled" in shown
    assert shown.split("after tuning")[1].split() == [
        "1:", "net", "2:", "net", "model,", "ms", "113.237", "113.237", "slice", "Format,", "µs", "99.000", "99.000",
        "conv", "Schedule,", "µs", "72.046", "72.046"]
    assert cli.main(["results", "--json", str(paths[0])]) == 0
    assert json.loads(capsys.readouterr().out)[0]["entries"][0]["before_us"] == 134
    (tmp_path / "bad.json").write_text("{")
    assert cli.main(["results", str(tmp_path / "bad.json")]) == 2 and "is not JSON" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["[" + "9" * 5000 + "]", "[" * 5000, "[1 2 3"], ids=["digits", "depth", "commas"])
def test_what_json_readers_give_up_on_is_refused(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.json").write_text(text)
    (tmp_path / "manifest.json").write_text(text)
    assert cli.main(["results", str(tmp_path / "bad.json")]) == 2 and "is not JSON" in capsys.readouterr().err
    with pytest.raises(CheckError, match="is not JSON"):
        manifest.read(tmp_path)
