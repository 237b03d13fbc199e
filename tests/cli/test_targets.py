"""`aoec targets`: comparing, showing, importing; and a researcher's own file behind --target."""
from __future__ import annotations

import json
from pathlib import Path

import pytest

from aoec import cli
from aoec.target.machine import load, targets
from tests.target.test_platform import INI

FUNC = "matmul(m=64, k=32, n=48, fp16)"


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = cli.main(list(words))
    out, err = capsys.readouterr()
    return code, out, err


def test_machines_are_compared_in_one_table(capsys):
    code, out, _ = run(capsys, "targets")
    lines = out.splitlines()
    assert code == 0 and lines[0].split() == [
        "target", "cores", "MHz", "fp16", "int8", "DRAM", "GB", "GB/s", "L2", "MB", "usable", "L1", "L0A", "L0B", "L0C", "UB", "KB"]
    assert [line.split()[0] for line in lines[1:1 + len(targets())]] == targets() and max(map(len, lines)) <= 140
    row = next(line for line in lines if line.startswith("Ascend910B1 "))
    assert " ".join(row.split()) == "Ascend910B1 24 aic + 48 aiv 1,850 363.7 727.4 64 1,490 of 1,760 192 100 512 64 64 128 192"
    assert [f["name"] for f in json.loads(run(capsys, "targets", "list", "--json")[1])] == targets()


def test_every_number_is_shown_with_its_source_and_file(capsys):
    code, out, _ = run(capsys, "targets", "show", "ascend910b4")
    numbers = load("Ascend910B4").sources
    assert code == 0
    for key, n in numbers.items():
        line = next(x for x in out.splitlines() if x.startswith(f"{key} "))
        assert line.endswith(n.source) and n.file in line and n.confidence in line and f"{n.value:,} {n.unit}" in line
    facts = json.loads(run(capsys, "targets", "show", "Ascend910B4", "--json")[1])
    assert facts["numbers"]["shared.hbm_bytes_per_s"]["unit"] == "B/s" and facts["numbers"]["flags.ids"]["file"] == "family_2201.toml"


def test_a_machine_is_imported_and_used(tmp_path, capsys):
    (tmp_path / "chip.ini").write_text(INI)
    code, text, err = run(capsys, "targets", "import", str(tmp_path / "chip.ini"))
    assert code == 0 and text.startswith("# Ascend910B9_1_imported") and err.startswith("note: ")
    assert run(capsys, "targets", "import", str(tmp_path / "chip.ini"), "-o", str(tmp_path / "mine.toml"))[:2] == (0, "")
    assert (tmp_path / "mine.toml").read_text() == text
    assert "12 aic + 24 aiv, 1,600 MHz" in run(capsys, "targets", "show", str(tmp_path / "mine.toml"))[1]


def test_ones_own_file_extends_a_shipped_one_by_name_or_path(tmp_path, capsys):
    (tmp_path / "base.toml").write_text('name = "base"\nextends = "ascend910b3"\n')
    (tmp_path / "mine.toml").write_text(
        'name = "mine"\nextends = "base.toml"\ncores.aic.count = {value = 7, source = "ours", confidence = "measured"}\n')
    func = tmp_path / "g.tir"
    assert cli.main(["lower", FUNC, "-o", str(func)]) == 0
    code, out, _ = run(capsys, "search", str(func), "--budget", "20", "--target", str(tmp_path / "mine.toml"))
    assert code == 0 and "bind" in out


@pytest.mark.parametrize("text, sentence", [
    ('name = "mine"\nextends = "Ascend910B33"\n', "mine.toml: extends: Ascend910B33 is unknown; did you mean Ascend910B3?"),
    ('name = "mine"\nextends = "toy"\n[path]\n', "mine.toml: machine: unknown key path; did you mean paths?"),
    ('name = "mine"\nextends = "toy"\ntables.kf.fp61 = {value = 1, source = "x", confidence = "official"}\n',
     "tables.kf: unknown key fp61; did you mean fp16?"),
    ('name = "mine"\nextends = "toy"\npaths.gm_l1.form = "GM"\n', "paths.gm_l1: unknown key form; did you mean from?"),
    ('name = "mine"\nextends = "toy"\npaths.gm_l1.to = "L2"\n', "paths.gm_l1: to is 'L2'"),
    ("name = 'mine'\nextends = 'toy'\ntiming.vadd.busy = '__import__(\"os\")'\n", "mine.toml: timing.vadd.busy"),
    ("= 3", "mine.toml: not TOML"),
    ("x = " + "[" * 5000, "mine.toml: not TOML"),
    ("numbers.head = {value = inf, source = 'x', confidence = 'official'}\nname = 'm'\nextends = 'toy'\n", "needs a finite `value`"),
])
def test_a_broken_file_is_one_line_and_exit_code_2(tmp_path, capsys, text, sentence):
    (tmp_path / "mine.toml").write_text(text)
    code, out, err = run(capsys, "targets", "show", str(tmp_path / "mine.toml"))
    assert (code, out) == (2, "") and sentence in err and "Traceback" not in err


@pytest.mark.parametrize("words, sentence", [
    (["show"], "For example: aoec targets show Ascend910B3"),
    (["import"], "For example: aoec targets import Ascend910B3.ini"),
    (["list", "Ascend910B3"], "to see one machine"),
    (["show", "toy", "-o", "x"], "-o says where"),
    (["import", "none.ini"], "cannot read none.ini: no such file"),
    (["show", "Ascend910B33"], "did you mean Ascend910B3?"),
])
def test_what_is_asked_wrongly_is_said(capsys, words, sentence):
    code, out, err = run(capsys, "targets", *words)
    assert (code, out) == (2, "") and sentence in err


def test_output_is_checked_before_anything_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "chip.ini").write_text(INI)
    code, _, err = run(capsys, "targets", "import", str(tmp_path / "chip.ini"), "-o", str(tmp_path / "no" / "mine.toml"))
    assert code == 2 and "no" in err
