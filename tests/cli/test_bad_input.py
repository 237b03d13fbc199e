"""Whatever is wrong with a file, every command says so in one sentence, exits with 2 and leaves nothing behind."""
from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from aoec import cli
from aoec.base.files import arrays
from aoec.frontend.zoo import mlp_softmax
from aoec.options import output_check

GOOD = {
    "func": "func f(X: fp16[64]) -> (Y: fp16[64]) {\n  for i in 64 {\n    add: Y[i] = X[i] + 1.0\n  }\n}\n",
    "graph": "graph g {\n  input x: fp16[4]\n  tensor y: fp16[4]\n  n: relu(x) -> y\n  output y\n}\n",
    "trace": "sched f {\n  split(loop=i, factor=16, outer=io, inner=ii)\n}\n",
    "program": "program p for toy {\n  input X: fp16[64]\n  output Y: fp16[64]\n}\n",
}
CONTENT: dict[str, bytes] = {
    "empty": b"", "blank": b"\n\n", "binary": bytes(range(256)) * 4, "zeros": bytes(100), "one word": b"func", "open": b"graph g {\n",
    "unbalanced": b"func f(X: fp16[64]) -> (Y: fp16[64]) {\n  for i in (64 {\n",
    "deep": b"func f(X: fp16[" + b"min(1, " * 100_000 + b"1" + b")" * 100_000 + b"]) -> () {}",
    "long name": b"graph " + b"g" * 1_000_000, 
    "zip": b"PK\x03\x04" + bytes(40), "sqlite": b"SQLite format 3\x00" + bytes(84), "json": b'{"a": [1, 2]}\n',
}
MISFITS = {  # text that parses and cannot mean anything
    "func": ["func f(X: fp16[64]) -> (Y: fp16[64]) {\n  for i in 64 {\n    add: Y[i] = Z[i]\n  }\n}\n",
             "func f(X: fp17[64]) -> (Y: fp16[64]) {\n}\n", "func f(X: fp16[64], X: fp16[64]) -> (Y: fp16[64]) {\n}\n",
             "func f(X: fp16[64]) -> (Y: fp16[64]) {\n  for i in 64 {\n    add: Y[i, i] = X[i]\n  }\n}\n",
             "func f(X: fp16[64 // 0]) -> (Y: fp16[64]) {\n  for i in 64 {\n    add: Y[i] = X[i]\n  }\n}\n",
             "func f(X: fp16[64]) -> (Y: fp16[64]) {\n  for i in 64 % 0 {\n    add: Y[i] = X[i]\n  }\n}\n",
             "func f(X: fp16[64]) -> (Y: fp16[64]) {\n  for i in 64 {\n    add: Y[i] = X[i // 0]\n  }\n}\n"],
    "graph": ["graph g {\n  input x: fp16[4]\n  tensor y: fp16[4]\n  n: polish(x) -> y\n  output y\n}\n",
              "graph g {\n  input x: fp16[4]\n  n: relu(x) -> y\n  output y\n}\n", "graph g {\n  input x: fp16[-4]\n  output x\n}\n"],
    "trace": ["sched f {\n  polish(loop=i)\n}\n", "sched f {\n  split(loop=none, factor=16, outer=io, inner=ii)\n}\n",
              "sched f {\n  split(factor=16)\n}\n", "sched f {\n  split(loop=i, factor=16, outer=i, inner=i)\n}\n"],
    "program": ["program p for none {\n}\n", "program p for toy {\n  input X: fp16[64 // 0]\n}\n",
                "program p for toy {\n  space S: fp16 in UB at 64 % 0 size 64\n}\n",
                "program p for toy {\n  stream s aiv {\n    for i in ceildiv(4, 0) {\n    }\n  }\n}\n",
                "program p for toy {\n  require 1 // 0 == 0 \"never\"\n}\n",
                "program p for toy {\n  stream s aiv grid [] counters [] {\n    polish(dst=X[0])\n  }\n}\n",
                "program p for toy {\n  input X: fp16[64]\n  stream s aiv grid [] counters [] {\n    wait(MTE2, V, 0)\n  }\n}\n",
                "program p for toy {\n  input X: fp16[64]\n  stream s aiv grid [] counters [] {\n    set(MTE2, V, 0)\n  }\n}\n"],
}
READERS = {  # command lines with the bad file as {bad}; good ones by noun
    "fuse": (["fuse", "{bad}"], "graph"), "slice": (["slice", "{bad}", "--regions", "g0/2"], "graph"),
    "lower": (["lower", "{bad}", "--group", "g0"], "graph"),
    "schedule func": (["schedule", "{bad}", "--with", "{trace}"], "func"),
    "schedule trace": (["schedule", "{func}", "--with", "{bad}"], "trace"),
    "emit": (["emit", "{bad}", "--target", "toy"], "func"), "simulate": (["simulate", "{bad}"], "program"),
    "search": (["search", "{bad}", "--budget", "2", "--target", "toy"], "func"),
    "import": (["import", "{bad}"], ""), "compile": (["compile", "{bad}", "--bank", "{dir}/none.db"], ""),
    "run": (["run", "{bad}", "--random"], ""), "bank": (["bank", "list", "--bank", "{bad}"], "bank"),
    "bank import": (["bank", "import", "{bad}", "--bank", "{dir}/new.db"], ""), "target": (["targets", "show", "{bad}"], ""),
    "target of emit": (["emit", "{func}", "--target", "{bad}"], ""),
}


LEGAL = {("bank", "empty"), ("bank import", "empty"), ("bank import", "blank")}  # an empty SQLite database, an export without records


class Refusals:
    """Runs commands in an empty directory and insists on one sentence, exit code 2 and nothing new."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.capsys = folder, capsys
        for noun, text in GOOD.items():
            (folder / noun).write_text(text)

    def refused(self, words: list[str], bad: Path | None = None) -> str:
        fixed = {"bad": str(bad), "dir": str(self.folder), **{n: str(self.folder / n) for n in GOOD}}
        before = sorted(os.listdir(self.folder))
        code = cli.main([w.format(**fixed) for w in words])
        out, err = self.capsys.readouterr()
        last = [line for line in err.splitlines() if line.startswith("aoec: ")]
        assert code == 2 and len(last) == 1 and last[0].startswith("aoec: error: "), f"exit code {code}: {err}"
        assert len(last[0]) > 25 and "Traceback" not in err and not out
        assert sorted(os.listdir(self.folder)) == before
        return err


@pytest.fixture
def refusals(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Refusals:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    return Refusals(tmp_path, capsys)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("kind", [*CONTENT, "missing", "directory"])
def test_bad_files(reader: str, kind: str, refusals: Refusals) -> None:
    words, _ = READERS[reader]
    if (reader, kind) in LEGAL:
        return
    bad = refusals.folder / "bad.x"
    if kind == "directory":
        bad.mkdir()
    elif kind != "missing":
        bad.write_bytes(CONTENT[kind])
    error = refusals.refused(words, bad)
    assert "bad.x" in error


@pytest.mark.parametrize("reader", [r for r, (_, noun) in READERS.items() if noun in MISFITS])
@pytest.mark.parametrize("number", range(4))
def test_misfits_and_other_nouns(reader: str, number: int, refusals: Refusals) -> None:
    words, noun = READERS[reader]
    texts = [*MISFITS[noun], *(text for n, text in GOOD.items() if n != noun)]
    for text in texts[number::4]:
        bad = refusals.folder / "bad.x"
        bad.write_text(text)
        assert "bad.x" in refusals.refused(words, bad)
        bad.unlink()


def test_a_caret_shows_the_place(refusals: Refusals) -> None:
    bad = refusals.folder / "bad.sched"
    bad.write_text("sched f {\n  split(loop=i, factor=16, outer=io, inner=ii)\n  split(loop=gone, factor=4, outer=a, inner=b)\n}\n")
    error = refusals.refused(["schedule", "{func}", "--with", "{bad}"], bad)
    assert "bad.sched:3:3: " in error
    lines = error.splitlines()
    assert lines[-2].strip().startswith("split(loop=gone") and lines[-1].strip() == "^"


# ---------------------------------------------------------------- ONNX

def _model(nodes: list[onnx.NodeProto], shape: list[int | str | None], opset: int = 17, **more: object) -> onnx.ModelProto:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["p", "q"])
    graph = helper.make_graph(nodes, "g", [x], [y], **more)  # type: ignore[arg-type]
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid("my.domain", 1)])


def _relu(source: str = "x") -> onnx.NodeProto:
    return helper.make_node("Relu", [source], ["y"])


def _two_results() -> onnx.ModelProto:
    model = _model([_relu()], [1, 4])
    model.graph.output.append(model.graph.output[0])
    return model


BAD_MODELS: dict[str, tuple[Callable[[], onnx.ModelProto], str]] = {
    "dangling input": (lambda: _model([_relu("nowhere")], [1, 4]), "nowhere"),
    "unknown operator": (lambda: _model([helper.make_node("Polish", ["x"], ["y"])], [1, 4]), "Polish"),
    "custom domain": (lambda: _model([helper.make_node("Polish", ["x"], ["y"], domain="my.domain")], [1, 4]), "Polish"),
    "unbound dimension": (lambda: _model([_relu()], [1, "length"]), "--input-shape x:1,"),
    "shapes disagree": (lambda: _model([helper.make_node("MatMul", ["x", "x"], ["y"])], [3, 4]), "MatMul"),
    "a circle": (lambda: _model([helper.make_node("Add", ["x", "y"], ["a"]), helper.make_node("Relu", ["a"], ["y"])], [1, 4]),
                 "however input 'y' of node: name: OpType: Add is not output of any previous nodes."),
    "a number that is none": (lambda: _model([helper.make_node("LeakyRelu", ["x"], ["y"], alpha=float("nan"))], [1, 4]),
                              "node LeakyRelu -> y: alpha is nan"),
    "a result twice": (_two_results, "its output y is listed more than once"),
    "no nodes": (lambda: _model([], [1, 4]), "y"),
    "future opset": (lambda: _model([_relu()], [1, 4], opset=999), "opset"),
}


@pytest.mark.parametrize("command", ["import", "compile"])
@pytest.mark.parametrize("kind", BAD_MODELS)
def test_bad_models(command: str, kind: str, refusals: Refusals) -> None:
    build, expected = BAD_MODELS[kind]
    bad = refusals.folder / "bad.onnx"
    bad.write_bytes(build().SerializeToString())
    assert expected in refusals.refused([command, "{bad}", *(["--bank", "{dir}/none.db"] if command == "compile" else [])], bad)


@pytest.mark.parametrize("keep", [0.2, 0.5, 0.9, 0.99])
def test_truncated_models(keep: float, refusals: Refusals) -> None:
    weights = [helper.make_tensor("w", TensorProto.FLOAT, [4, 64], np.ones(256, np.float32).tolist())]
    whole = _model([helper.make_node("MatMul", ["x", "w"], ["y"])], [1, 4], initializer=weights).SerializeToString()
    bad = refusals.folder / "bad.onnx"
    bad.write_bytes(whole[:int(len(whole) * keep)])
    refusals.refused(["import", "{bad}"], bad)


@pytest.mark.parametrize("words, expected", [
    (["import", "m.onnx", "--input-shape", "z:1,4"], "z"),
    (["import", "m.onnx", "--input-shape", "x:1,5"], "x"),
    (["import", "m.onnx", "-o", "none/m.graph"], "there is no directory none"),
    (["compile", "m.onnx", "-o", "none/m.aoec"], "there is no directory none"),
    (["compile", "m.onnx", "--target", "Ascend910B33"], "Ascend910B3"),
    (["compile", "m.onnx", "--bank", "m.onnx/bank.db"], "m.onnx/bank.db"),
    (["emit", "{func}", "--target", "Ascend"], "Ascend"),
    (["emit", "{func}", "--set", "tm=3"], "there is no hole tm"),
    (["schedule", "-", "--with", "-"], "cannot both come from standard input"),
    (["lower", "polish(m=1)"], "unknown operator polish"),
    (["lower", "matmul(m=0, k=1, n=1)"], "m must lie between"),
    (["lower", "{graph}", "--group", "g0"], "has no groups; run aoec fuse first"),
    (["run", "m.onnx", "--random"], "aoec compile makes one of an ONNX model"),
    (["targets", "show"], "which machine?"),
    (["targets", "show", "910B3x"], "910B3"),
    (["bank", "best", "--bank", "{dir}/none.db"], ""),
    (["bank", "list", "--bank", "{dir}/none.db"], "none.db"),
])
def test_wrong_words(words: list[str], expected: str, refusals: Refusals, tmp_path: Path) -> None:
    model = tmp_path / "m.onnx"
    model.write_bytes(_model([_relu()], [1, 4]).SerializeToString())
    assert expected in refusals.refused(words)


def test_constants_that_are_missing_or_altered(refusals: Refusals, tmp_path: Path) -> None:
    data = np.arange(4, dtype=np.float16)
    import hashlib
    digest = hashlib.sha256(data.tobytes()).hexdigest()
    bad = tmp_path / "c.graph"
    bad.write_text(f"graph g {{\n  input x: fp16[4]\n  const c: fp16[4] sha256:{digest}\n"
                   "  tensor y: fp16[4]\n  n: add(x, c) -> y\n  output y\n}\n")
    assert "cannot read" in refusals.refused(["fuse", "{bad}"], bad)
    arrays.save(tmp_path / "c.graph.npz", {"other": data})
    assert "the constant c of graph g is missing" in refusals.refused(["fuse", "{bad}"], bad)
    arrays.save(tmp_path / "c.graph.npz", {digest: data + 1})
    assert "another hash" in refusals.refused(["fuse", "{bad}"], bad)
    arrays.save(tmp_path / "c.graph.npz", {digest: data})
    assert cli.main(["fuse", str(bad)]) == 0


@pytest.mark.parametrize("words, said", [
    (["run", "empty.onnx", "--random"], "the file is empty; aoec compile makes an .aoec artifact of an ONNX model"),
    (["compile", "empty.onnx"], "the file is empty, and an ONNX model is wanted here"),
    (["run", "net.onnx", "--random"],
     "by its name this is no compiled model, which is wanted here; aoec compile makes one of an ONNX model"),
    (["compile", "net.aoec"], "this is a compiled model, and an ONNX model is wanted here: aoec run runs a compiled one"),
])
def test_one_kind_of_file_for_the_other(words: list[str], said: str, refusals: Refusals, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(refusals.folder)
    Path("empty.onnx").write_bytes(b"")
    onnx.save(mlp_softmax(), "net.onnx")
    Path("net.aoec").write_bytes(b"PK\x05\x06" + bytes(18))
    assert f"{words[1]}: {said}" in refusals.refused(words)


@pytest.mark.parametrize("words, lost", [
    (["compile", "m.onnx", "-o", "m.onnx"], "m.onnx"), (["compile", "m.onnx", "-o", "./../{here}/m.onnx"], "m.onnx"),
    (["tune", "m.onnx", "--embed", "m.onnx"], "m.onnx"), (["compile", "other.aoec"], "other.aoec"),
    (["compile", "m.onnx", "--events", "m.onnx"], "m.onnx"), (["compile", "m.onnx", "--lowered", "m.onnx"], "m.onnx"),
    (["import", "m.onnx", "-o", "m.onnx"], "m.onnx"), (["export", "m.graph", "-o", "link"], "m.graph"),
    (["schedule", "m.graph", "--with", "g.sched", "-o", "g.sched"], "g.sched"),
    (["run", "m.aoec", "--inputs", "x.npz", "-o", "x.npz"], "x.npz"), (["run", "m.aoec", "--random", "-o", "m.aoec"], "m.aoec"),
    (["simulate", "m.graph", "--svg", "m.graph"], "m.graph"), (["simulate", "m.graph", "--trace", "m.graph"], "m.graph"),
    (["bank", "export", "--bank", "b.db", "-o", "b.db"], "b.db"),
])
def test_what_is_read_is_not_written_over(words: list[str], lost: str, refusals: Refusals, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(refusals.folder)
    for name in ("m.onnx", "other.aoec"):
        onnx.save(mlp_softmax(), name)
    for name in ("m.graph", "g.sched", "x.npz", "m.aoec", "b.db"):
        Path(name).write_text(name)
    Path("link").symlink_to("m.graph")
    before = Path(lost).read_bytes()
    said = refusals.refused([w.replace("{here}", refusals.folder.name) for w in words])
    assert "it is read here, and would be lost; name another file" in said and Path(lost).read_bytes() == before


def test_a_schedule_may_lie_where_nothing_can_be_written(refusals: Refusals, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read: only of simulate --trace is a file to write."""
    asked: list[str] = []
    monkeypatch.setattr(output_check, "check_writable", lambda path: asked.append(path))
    folder = refusals.folder
    assert cli.main(["schedule", str(folder / "func"), "--with", str(folder / "trace"), "-o", str(folder / "out.tir")]) == 0
    assert asked == [str(folder / "out.tir")]


def test_a_bank_beneath_is_refused_by_its_own_option(refusals: Refusals, monkeypatch: pytest.MonkeyPatch) -> None:
    onnx.save(mlp_softmax(), refusals.folder / "m.onnx")
    assert "(this is the bank beneath, of --base)" in refusals.refused(["compile", "{dir}/m.onnx", "--base", "{func}"])
    monkeypatch.setenv("AOEC_BASE_BANK", "none.db")
    assert "there is no bank none.db" in (said := refusals.refused(["compile", "{dir}/m.onnx"])) and "of $AOEC_BASE_BANK)" in said


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("words", [["targets"], ["bank", "list", "--builtin"], ["--version"], ["--help"]])
def test_standard_output_on_a_full_disk(words: list[str], tmp_path: Path) -> None:
    with open("/dev/full", "w", encoding="utf-8") as full:
        made = subprocess.run([sys.executable, "-m", "aoec", *words], stdout=full, stderr=subprocess.PIPE, text=True)
    assert made.returncode == 2 and made.stderr == "aoec: error: cannot write standard output: no space left on device\n"


@pytest.mark.parametrize("words", [["targets"], ["--version"], ["--help"], ["compile", "--help"]])
def test_standard_output_that_nobody_reads(words: list[str]) -> None:
    read, write = os.pipe()
    os.close(read)
    made = subprocess.run([sys.executable, "-m", "aoec", *words], stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert (made.returncode, made.stderr) == (141, "")
