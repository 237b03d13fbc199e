"""What a device says back: kept as measured times, joined with the bank's records; hits, wins and regressions of two profiles."""
from __future__ import annotations

import csv
import json
from io import StringIO
from pathlib import Path

import pytest

from aoec.bank.bank import Bank
from aoec.bank.record import Key, Record
from aoec.cli import main
from aoec.ir.text.keys import key
from aoec.ir.text.show import show
from aoec.jobs.bank.row_funcs import operand
from aoec.jobs.stages.stages import lower_operator
from tests.cann.synthetic import HEAD, NAMES, sides

CALLS = ("matmul(m=64, k=32, n=128, fp16)", "matmul(m=32, k=32, n=128, fp16)", "add(m=64, n=64, fp16)", "softmax(m=16, n=64, fp16)",
         "matmul(m=256, k=32, n=128, fp16)")
US = 1024 * 1800  # ticks of a microsecond of Ascend910B3


def table(*rows: tuple[str, float, int]) -> str:
    """A profile: calls with their times and cores."""
    out = StringIO()
    writer = csv.writer(out)
    writer.writerow(HEAD)
    for i, (call, us, cores) in enumerate(rows):
        func, name = lower_operator(call), call.partition("(")[0]
        writer.writerow([f"{name}_{i}", NAMES[name], "AI_CORE", us, cores, 0, *sides(func.inputs), *sides(func.outputs), us / 2, 0])
    return out.getvalue()


@pytest.fixture
def bank(tmp_path: Path) -> Path:
    """Records of the first three: the matrix products are tuned, of the addition nothing better was found."""
    made = Bank.open(tmp_path / "b.db")
    for call, ticks, default in ((CALLS[0], US, 2 * US), (CALLS[1], US, 2 * US), (CALLS[2], 3 * US, 3 * US), (CALLS[4], US, 2 * US)):
        func = lower_operator(call)
        label = call.partition("(")[0] + " " + "->".join("x".join(map(str, operand(b).shape)) for b in (func.inputs[0], func.outputs[0]))
        at = Key(key(func), "Ascend910B3", "h", "v", "cold inputs")
        made.put(Record(at, label, "sched {\n}", default, ticks, US // 2, func=show(func)))
    return tmp_path / "b.db"


def read(bank: Path, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    capsys.readouterr()
    code = main(["deliver", *words, "--bank", str(bank), "--base", "none"])
    return code, *capsys.readouterr()


def test_hits_wins_and_regressions(bank: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The first is faster, the second slower, the fifth as it was; the third has no tuned record, so that its change says nothing."""
    held = Bank.open(bank).list()
    before, after = tmp_path / "before.csv", tmp_path / "after.csv"
    before.write_text(table(*((c, us, 8) for c, us in zip(CALLS, (4.0, 4.0, 3.0, 5.0, 2.0)))))
    after.write_text(table(*((c, us, 8) for c, us in zip(CALLS, (2.0, 5.0, 3.03, 5.0, 2.04)))))
    code, out, _ = read(bank, capsys, "--read", str(after), "--before", str(before), "--json")
    said = json.loads(out)
    assert code == 0 and (said["operators"], said["with_record"], said["hits"], said["wins"], said["regressions"], said["not_hit"]) == (
        5, 4, 2, 1, 1, 1)
    assert [(r["work"], r["what"]) for r in said["rows"]][:3] == [
        ("matmul 32x32x128 fp16", "hit"), ("matmul 64x32x128 fp16", "hit"), ("matmul 256x32x128 fp16", "not hit")]
    assert said["rows"][0]["modelled_us"] == pytest.approx(1.0) and said["rows"][2]["modelled_us"] == pytest.approx(2.0)
    assert said["share_with_record"] == pytest.approx(1 - 5 / 17.07) and "not yet run on a device by us" in said["label"]
    assert Bank.open(bank).list() == held and said["kept"] == "10 added"
    kept = Bank.open(bank).measurements.list()
    assert sorted(m.time_ns for m in kept if m.trace) == [2000, 5000] and {m.when for m in kept} == {"before", "after"}
    assert sum(not m.func_key for m in kept) == 2 and all(m.target == "Ascend910B3" for m in kept)
    code, out, _ = read(bank, capsys, "--read", str(after), "--before", str(before))
    assert code == 0 and "10 kept" in out and "2 (1 faster, 1 slower), not hit: 1" in out and "slower than before: matmul 32x32x128" in out
    assert main(["bank", "show", key(lower_operator(CALLS[0])), "--bank", str(bank)]) == 0
    shown = capsys.readouterr().out
    assert "2.00 us after" in shown and "4.00 us before" in shown


def test_what_changes_for_other_reasons_is_no_hit(bank: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where operators that nothing was delivered for change by a tenth, a fifth is nothing; another number of cores is something."""
    before, after = tmp_path / "before.csv", tmp_path / "after.csv"
    before.write_text(table(*((c, 4.0, 8) for c in CALLS)))
    after.write_text(table(*((c, us, cores) for c, us, cores in zip(CALLS, (3.2, 4.1, 4.4, 3.6, 4.0), (8, 4, 8, 8, 8)))))
    said = json.loads(read(bank, capsys, "--read", str(after), "--before", str(before), "--json")[1])
    assert {r["work"]: r["what"] for r in said["rows"]} == {
        "matmul 64x32x128 fp16": "not hit", "matmul 32x32x128 fp16": "hit", "matmul 256x32x128 fp16": "not hit",
        said["rows"][-2]["work"]: "", said["rows"][-1]["work"]: ""} and len(said["rows"]) == 5


def test_one_profile_says_nothing_of_what_ran(bank: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "p.csv").write_text(table((CALLS[0], 2.0, 48)))
    code, out, err = read(bank, capsys, "--read", str(tmp_path / "p.csv"))
    assert code == 0 and "hit" not in out.partition("where model")[0] and "another chip's profile?" in err and "48 cores" in err
    assert [m.trace for m in Bank.open(bank).measurements.list()] == [""]


@pytest.mark.parametrize("words, said", [
    (("--read", "no.csv"), "cannot read no.csv"), (("--read", "p.csv", "--before", "p.csv"), "are the same file"),
    (("net.onnx", "--read", "p.csv"), "without one"), (("--to", "x"), "deliver writes of a model"),
    ((), "one of the arguments --read --to"), (("net.onnx", "--to", "x", "--before", "p.csv"), "deliver writes of a model"),
    (("--read", "m.csv"), "modelled, as its column")])
def test_wrong_words_are_one_line(bank: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
                                  words: tuple[str, ...], said: str) -> None:
    monkeypatch.chdir(tmp_path)
    text = table((CALLS[0], 2.0, 8))
    (tmp_path / "p.csv").write_text(text)
    (tmp_path / "m.csv").write_text("".join(f"{line},{end}\n" for line, end in zip(text.splitlines(), ("source", "modelled"))))
    code, _, err = read(bank, capsys, *words)
    assert code == 2 and said in err and len(err.strip().splitlines()) == 1 and not Bank.open(bank).measurements.list()
