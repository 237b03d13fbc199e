"""A dump's stages re-enter the job: untouched to the same bytes, edited to other cycles and values or to a refusal with its place."""
from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

from aoec import cli
from aoec.artifact import artifact
from aoec.base.files import arrays
from aoec.frontend.zoo import mlp_softmax, tiny_resnet
from aoec.jobs.run.run import random_feeds

pytestmark = pytest.mark.usefixtures("small")

STAGES = ("import", "plan", "fuse", "lower", "schedule", "emit")
TUNE = ["--tune", "--budget", "16", "--jobs", "1"]


class Dump:
    """A dumped model in its own folder, with the bank that it was made with."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.capsys = folder, capsys
        self.output = folder / "again.aoec"

    def edit(self, name: str, old: str, new: str) -> None:
        """Replaces the one first place of `old` in a file of the dump."""
        path = self.folder / "dump" / name
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new, 1))

    def enter(self, start: str, *words: str, bank: str = "bank.db") -> int:
        return cli.main(["compile", str(self.folder / "dump"), "--from", start, "--bank", str(self.folder / bank), "--json",
                         "-o", str(self.output), *words])

    def report(self, start: str) -> dict[str, dict[str, object]]:
        """Group -> its row of the report."""
        assert self.enter(start) == 0
        return {row["name"]: row for row in json.loads(self.capsys.readouterr().out)["groups"]}

    def refused(self, start: str) -> list[str]:
        """The lines of a refusal: the sentence, and with a place the line of text and the caret."""
        self.capsys.readouterr()
        assert self.enter(start) == 2
        out, err = self.capsys.readouterr()
        lines = err[err.index("aoec: error: "):].splitlines()
        assert not out and not self.output.exists() and "Traceback" not in err and len(lines) in (1, 3)
        return lines


def compiled(model: onnx.ModelProto, folder: Path, *words: str) -> Path:
    onnx.save(model, folder / "model.onnx")
    assert cli.main(["compile", str(folder / "model.onnx"), "--dump", str(folder / "dump"), "--bank", str(folder / "bank.db"),
                     "-o", str(folder / "model.aoec"), *words]) == 0
    return folder


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(mlp_softmax(), tmp_path_factory.mktemp("tuned"), *TUNE)


@pytest.fixture
def dump(tuned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Dump:
    shutil.copytree(tuned, tmp_path / "copy")
    return Dump(tmp_path / "copy", capsys)


# ---------------------------------------------------------------- untouched

@pytest.mark.parametrize("start", STAGES)
def test_every_stage_leads_to_the_same_bytes(start: str, dump: Dump) -> None:
    assert dump.enter(start) == 0
    assert dump.output.read_bytes() == (dump.folder / "model.aoec").read_bytes()


@pytest.mark.parametrize("start", STAGES)
def test_a_fresh_bank_and_the_same_seed_lead_to_the_same_bytes(start: str, dump: Dump) -> None:
    assert dump.enter(start, *TUNE, bank="fresh.db") == 0
    assert dump.output.read_bytes() == (dump.folder / "model.aoec").read_bytes()


@pytest.mark.parametrize("start", STAGES)
def test_a_dump_of_a_dump_is_the_same(start: str, dump: Dump) -> None:
    assert dump.enter(start, "--dump", str(dump.folder / "second")) == 0
    first, second = ({p.relative_to(f): p.read_bytes() for p in f.rglob("*") if p.is_file()}
                     for f in (dump.folder / "dump", dump.folder / "second"))
    assert second == {p: first[p] for p in second}
    left_out = {str(p) for p in first.keys() - second.keys()}
    assert left_out == (set() if start in ("import", "plan") else {"import.graph", "import.graph.npz", "model.plan"})


@pytest.mark.slow
def test_a_model_with_every_kind_of_group_re_enters(tmp_path: Path) -> None:
    folder = compiled(tiny_resnet(), tmp_path)
    for start in STAGES[1:]:
        again = folder / f"{start}.aoec"
        assert cli.main(["compile", str(folder / "dump"), "--from", start, "--bank", str(folder / "bank.db"), "-o", str(again)]) == 0
        assert again.read_bytes() == (folder / "model.aoec").read_bytes(), start


def test_a_dump_is_entered_for_its_own_machine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.toml").write_text('name = "Mine"\nextends = "Ascend910B3"\n')
    compiled(mlp_softmax(), tmp_path, "--target", str(tmp_path / "mine.toml"))
    dump = Dump(tmp_path, capsys)
    for i, start in enumerate(STAGES):
        words = ("--target", str(tmp_path / "mine.toml")) if i % 2 else ()  # with the machine's file and without it, in turn
        assert dump.enter(start, *words) == 0
        assert dump.output.read_bytes() == (tmp_path / "model.aoec").read_bytes()
        dump.output.unlink()
    capsys.readouterr()
    assert cli.main(["run", str(tmp_path / "model.aoec"), "--random"]) == 0
    assert "Mine is no machine that comes with aoec; the artifact holds it" in capsys.readouterr().err
    assert dump.enter("schedule", "--target", "Ascend910B3") == 0  # another machine: the default is made again
    assert dump.enter("emit", "--target", "Ascend910B3") == 2
    assert "this program is for Mine, and Ascend910B3 is the target; enter at --from schedule" in capsys.readouterr().err


def test_a_dump_shows_what_emit_and_schedule_show_and_takes_either_text(dump: Dump) -> None:
    """Of each group: the texts of the commands are those of the dump, and with --raw are longer; raw programs lead to the same bytes."""
    text = {}
    for name in (p.stem for p in (dump.folder / "dump/programs").glob("*.prog")):
        func, trace, scheduled, program = (str(dump.folder / "dump" / x) for x in (
            f"funcs/{name}.tir", f"schedules/{name}.sched", f"scheduled/{name}.tir", f"programs/{name}.prog"))
        for how in ("", "--raw"):
            shown = str(dump.folder / f"{name}{how}.tir")
            assert cli.main(["schedule", func, "--with", trace, "-o", shown, *filter(None, [how])]) == 0
            for after in ("", "--raw", "--short"):
                assert cli.main(["emit", shown, "-o", str(dump.folder / "a.prog"), *filter(None, [after])]) == 0
                text[how, after] = (dump.folder / "a.prog").read_text()
            text[how] = Path(shown).read_text()
        assert text[""] == Path(scheduled).read_text() and text["", ""] == text["--raw", ""] == Path(program).read_text()
        assert len(text[""]) < len(text["--raw"]) and len(text["", "--short"]) < len(text["", ""]) < len(text["--raw", "--raw"])
        Path(program).write_text(text["--raw", "--raw"])
    assert dump.enter("emit") == 0 and text
    assert dump.output.read_bytes() == (dump.folder / "model.aoec").read_bytes()


def test_a_dump_of_an_edited_program_leads_to_the_same_bytes(dump: Dump) -> None:
    dump.edit("programs/g0.prog", "relu=1", "relu=0 * 7")
    assert dump.enter("emit", "--dump", str(dump.folder / "second")) == 0
    edited = dump.output.read_bytes()
    assert edited != (dump.folder / "model.aoec").read_bytes()
    shutil.rmtree(dump.folder / "dump")
    shutil.move(dump.folder / "second", dump.folder / "dump")
    dump.output.unlink()
    assert dump.enter("emit") == 0 and dump.output.read_bytes() == edited


# ---------------------------------------------------------------- an edited schedule

def test_an_edited_tile_changes_the_cycles(dump: Dump) -> None:
    before = dump.report("schedule")
    text = (dump.folder / "dump/schedules/g0.sched").read_text()
    for loop in ("k", "k_r"):
        tile = re.search(rf"loop={loop}, factor=(\d+)", text)
        assert tile and int(tile[1]) > 16
        dump.edit("schedules/g0.sched", tile[0], f"loop={loop}, factor=16")
    after = dump.report("schedule")
    assert after["g0"]["tuned_us"] > before["g0"]["tuned_us"]  # type: ignore[operator]
    assert after["g0"]["default_us"] == before["g0"]["default_us"] and after["g1"] == before["g1"]
    program = next(g.program for g in artifact.load(dump.output).groups if g.group == "g0")
    assert program != next(g.program for g in artifact.load(dump.folder / "model.aoec").groups if g.group == "g0")


def test_a_slower_edit_is_not_called_optimal(dump: Dump) -> None:
    shared = {name: found for name, row in dump.report("schedule").items() if row["proof"] and (
        found := re.search(r"parts=(?!1,)\d+", (dump.folder / f"dump/schedules/{name}.sched").read_text()))}
    name, cores = next(iter(shared.items()))
    dump.edit(f"schedules/{name}.sched", cores[0], "parts=1")
    assert dump.report("schedule")[name]["proof"] == ""


def edit_step(old: str, new: str) -> Callable[[str], str]:
    return lambda text: re.sub(old, new, text, count=1)


ILLEGAL = {  # an edit of g0.sched -> what the sentence says, and what stands at the caret
    "slots": (edit_step(r"buffer=C, depth=\d+", "buffer=C, depth=4096"), "", "double_buffer(buffer=C,"),
    "more than a core's share": (edit_step(r"loop=n_u, factor=\d+", "loop=n_u, factor=4096"), "", "split(loop=n_u,"),
    "not a fractal": (edit_step(r"loop=k, factor=\d+", "loop=k, factor=7"), "", "split(loop=k,"),
    "zero": (edit_step(r"loop=m, factor=\d+", "loop=m, factor=0"), "", "split(loop=m,"),
    "unknown loop": (edit_step("loop=k,", "loop=kk,"), "kk", "split(loop=kk,"),
    "unknown buffer": (edit_step("buffer=A_L1, depth", "buffer=AL1, depth"), "AL1", "double_buffer(buffer=AL1,"),
    "unknown scope": (edit_step("scope=L0C", "scope=L0X"), "L0X", "set_scope("),
    "unknown instruction": (edit_step("instr=mmad", "instr=madd"), "madd", "tensorize("),
    "unknown primitive": (edit_step("  split", "  spilt"), "did you mean split?", "spilt("),
    "missing field": (edit_step(r"loop=m, factor=\d+, ", "loop=m, "), "factor", "split(loop=m,"),
    "unknown field": (edit_step(r"inner=m_u\)", "inner=m_u, colour=red)"), "colour", "split(loop=m,"),
    "a name twice": (edit_step("inner=m_i", "inner=n"), "n", "split(loop=m_u,"),
    "an open hole": (edit_step(r"loop=m, factor=\d+", "loop=m, factor=?t in [16, 32]"), "?t is open", "split(loop=m,"),
    "bracket": (edit_step(r"inner=m_u\)", "inner=m_u"), "expected", ""),
    "word": (edit_step(r"factor=\d+", "factor=many"), "", "split(loop=m,"),
    "empty": (lambda text: "", "", None),
    "another noun": (lambda text: "graph g {\n}\n", "", "graph"),
}


@pytest.mark.parametrize("kind", ILLEGAL)
def test_an_illegal_schedule_is_refused_at_its_place(kind: str, dump: Dump) -> None:
    change, words, at = ILLEGAL[kind]
    path = dump.folder / "dump/schedules/g0.sched"
    before = path.read_text()
    path.write_text(change(before))
    assert path.read_text() != before
    lines = dump.refused("schedule")
    assert "g0.sched" in lines[0] and words in lines[0] and len(lines[0]) > 60
    if at is not None:
        assert lines[2].strip() == "^" and lines[1][lines[2].index("^"):].startswith(at), "\n".join(lines)


def test_of_two_edits_the_one_that_breaks_it_is_shown(dump: Dump) -> None:
    tile = re.search(r"loop=k_r, factor=(\d+)", (dump.folder / "dump/schedules/g0.sched").read_text())
    assert tile
    dump.edit("schedules/g0.sched", tile[0], "loop=k_r, factor=16")
    depth = re.search(r"buffer=C, depth=\d+", (dump.folder / "dump/schedules/g0.sched").read_text())
    assert depth
    dump.edit("schedules/g0.sched", depth[0], "buffer=C, depth=4096")
    lines = dump.refused("schedule")
    assert lines[1].strip().startswith("double_buffer(buffer=C")


# ---------------------------------------------------------------- other edited stages

@pytest.mark.parametrize("start, name, old, new, words", [
    ("import", "import.graph", "relu", "relo", "relo"),
    ("import", "import.graph", "softmax(", "softmax(axis=7, ", ""),
    ("fuse", "fused.graph", "group g0", "group g1", "g1"),
    ("fuse", "fused.graph", "cube", "cubic", ""),
    ("lower", "funcs/g0.tir", "A[", "Q[", "Q"),
    ("lower", "funcs/g0.tir", "fp16[4, 40]", "fp16[4, 44]", "its group takes"),
    ("lower", "funcs/g0.tir", "for ", "fro ", ""),
    ("schedule", "manifest.json", '"default"', '"fault"', "nothing usable of group g0"),
    ("import", "manifest.json", "{", "[", "not JSON"),
    ("import", "manifest.json", '"precision"', '"prescision"', "no manifest"),
])
def test_other_stages_are_checked_too(start: str, name: str, old: str, new: str, words: str, dump: Dump) -> None:
    dump.edit(name, old, new)
    lines = dump.refused(start)
    assert words in lines[0] and Path(name).name in lines[0]


@pytest.mark.parametrize("name, start", [("fused.graph", "fuse"), ("funcs/g1.tir", "lower"), ("schedules/g1.sched", "schedule"),
                                         ("programs/g1.prog", "emit"), ("import.graph.npz", "import"), ("manifest.json", "lower")])
def test_a_missing_file_is_named(name: str, start: str, dump: Dump) -> None:
    (dump.folder / "dump" / name).unlink()
    assert Path(name).name in dump.refused(start)[0]


# ---------------------------------------------------------------- edited programs

def outputs(path: Path) -> dict[str, np.ndarray]:
    """What `aoec run` gives on the same inputs."""
    feeds, out = path.with_suffix(".in.npz"), path.with_suffix(".out.npz")
    arrays.save(feeds, random_feeds(artifact.load(path), 0))
    assert cli.main(["run", str(path), "--inputs", str(feeds), "-o", str(out)]) == 0
    return arrays.load(out)


CHANGED = {  # an edit of g0.prog that stays legal, and does something else
    "activation": (r"relu=1", "relu=0"),
    "source offset": (r"(copy_gm_l1_nd2nz\(dst=A_L1.*?, src=A\[)", r"\g<1>8 + "),
    "fewer columns": (r"cols=40", "cols=24"),
    "fewer rows": (r"(fixpipe_nd\(.*?)m=", r"\g<1>m=1 + 0 * "),
    "stride": (r"dst_stride=72", "dst_stride=71"),
    "no accumulation": (r"init=.*?(, unit|\))(?=\)?\n)", r"init=0\1"),
    "another weight": (r"src=B\[", "src=B[16 + "),
}
REFUSED = {  # one that breaks a rule -> what the sentence says
    "a flag less": (r"\n *set\(MTE2, MTE1, [^)]*\)", "", ""),
    "a wait less": (r"\n *wait\(MTE1, M, [^)]*\)", "", ""),
    "a flag twice": (r"(\n *set\(M, FIXP, [^)]*\))", r"\1\1", ""),
    "beyond the tensor": (r"src=A\[", "src=A[100000 + ", "A"),
    "beyond the space": (r"dst=A_L1([^\[]*)\[", r"dst=A_L1\1[999999 + ", "A_L1"),
    "size of a space": (r"(space C: .* size )\d+", r"\g<1>999999999", "L0C"),
    "another instruction": (r"mmad_bias\(", "mmud_bias(", "mmud_bias"),
    "a field less": (r", relu=1", "", "relu"),
    "a word": (r"stream aic aic", "stream aic cubic", ""),
    "an unknown loop": (r"dst=Y\[", "dst=Y[k_9 * 16 + ", "k_9"),
    "another target": ("for Ascend910B3", "for toy", "toy"),
    "another shape": (r"output Y: fp16\[4, 72\]", "output Y: fp16[72, 4]", ""),
    "syntax": (r"src_gap=0,", "src_gap=0", ""),
}


@pytest.fixture(scope="module")
def plain_outputs(tuned: Path) -> dict[str, np.ndarray]:
    return outputs(tuned / "model.aoec")


@pytest.mark.parametrize("kind", CHANGED)
def test_an_edited_program_is_what_runs(kind: str, dump: Dump, plain_outputs: dict[str, np.ndarray]) -> None:
    path = dump.folder / "dump/programs/g0.prog"
    before = path.read_text()
    path.write_text(re.sub(*CHANGED[kind], before, count=1))
    assert path.read_text() != before
    if dump.enter("emit") == 2:  # a rule of the machine forbids it: that is an answer, too
        assert "g0.prog" in dump.capsys.readouterr().err
        return
    got = outputs(dump.output)
    assert any(not np.array_equal(got[n], plain_outputs[n], equal_nan=True) for n in plain_outputs)


def test_some_edits_are_legal_and_verification_finds_them(dump: Dump) -> None:
    dump.edit("programs/g0.prog", "relu=1", "relu=0")
    assert dump.enter("emit", "--verify") == 1
    out, err = dump.capsys.readouterr()
    assert "wrong values: g0: " in err and not out and not dump.output.exists()


@pytest.mark.parametrize("kind", REFUSED)
def test_an_illegal_program_is_refused(kind: str, dump: Dump) -> None:
    old, new, words = REFUSED[kind]
    path = dump.folder / "dump/programs/g0.prog"
    before = path.read_text()
    path.write_text(re.sub(old, new, before, count=1))
    assert path.read_text() != before
    lines = dump.refused("emit")
    assert "g0" in lines[0] and words in lines[0] and len(lines[0]) > 60


def test_the_reasons_of_best_and_default_lie_beside_their_programs(tuned: Path) -> None:
    programs = sorted((tuned / "dump/programs").glob("*.prog"))
    assert programs
    for path in programs:
        said = json.loads((tuned / "dump/reasons" / f"{path.stem}.json").read_text())
        assert said["times"] == "modelled" and said["best"]["time_us"] <= said["default"]["time_us"]
        assert said["best"]["reasons"]["accounts"] and said["best"]["verdict"]["sentence"]
