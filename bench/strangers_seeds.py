"""The files that strangers.py changes, of each kind that aoec reads, with the commands that read them."""
from __future__ import annotations

import io
import json
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
from onnx import numpy_helper

from aoec import cli
from aoec.artifact import artifact
from aoec.frontend.translate.onnx import load
from aoec.frontend.zoo import mlp_softmax, tiny_resnet
from aoec.jobs.compile.untuned import compile_untuned
from aoec.jobs.run.execute import run_model
from aoec.jobs.run.run import random_feeds
from aoec.target import machine

Commands = Sequence[Sequence[str]]


@dataclass(frozen=True)
class Seed:
    """A file, its name, and commands that read it: {file} stands for the changed one, {seeds} for the folder of those that are whole."""

    name: str
    data: bytes
    commands: Commands
    arrays: bytes = b""  # of a graph, which lie in a file beside it


@dataclass(frozen=True)
class Seeds:
    """All of them by kind, and the folder that they lie in too."""

    folder: Path
    kinds: dict[str, list[Seed]]

    def of(self, kind: str) -> list[Seed]:
        return self.kinds[kind]


MODELS = {
    "gemm": """<ir_version: 8, opset_import: ["": 17]> net (float[4,32] a) => (float[4,16] y) {
        t = MatMul (a, w) u = Softmax <axis = -1> (t) y = Relu (u) }""",
    "control": """<ir_version: 8, opset_import: ["": 17]> net (float[4] x, bool p) => (float[4] y, float[4] z)
        <int64 n = {3}, bool t = {1}> {
        y = Loop (n, t, x) <body = b (int64 i, bool c, float[4] a) => (bool d, float[4] e) { d = Identity (c) e = Add (a, a) }>
        z = If (p) <then_branch = u () => (float[4] q) { q = Relu (x) }, else_branch = v () => (float[4] r) { r = Neg (x) }> }""",
    "shapes": """<ir_version: 8, opset_import: ["": 17]> net (float[2,3,8,8] x) => (float[2,k] y, int64[m] q)
        <int64[2] to = {0, -1}, int64[1] a = {0}, int64[1] b = {2}, int64[1] s = {1}, int64[8] pads = {0, 0, 1, 1, 0, 0, 1, 1}> {
        p = Pad (x, pads) c = MaxPool <kernel_shape = [3, 3], strides = [2, 2], ceil_mode = 1> (p) r = Reshape (c, to)
        sh = Shape (r) cut = Slice (sh, a, b, a, s) y = Clip (r) q = Concat <axis = 0> (cut, cut) }""",
    "mixed": """<ir_version: 8, opset_import: ["": 17, "own": 1]> net (float[1,4,6,6] x, int64[2] i)
        => (float[1,4,12,12] y, float[2,4,6,6] g)
        <float[4] sc = {1, 1, 2, 2}> { z = Resize <mode = "nearest"> (x, , sc) y = own.twice (z) g = Gather <axis = 0> (x, i) }
        <domain: "own", opset_import: ["": 17]> twice (x) => (y) { y = Add (x, x) }"""}
FUNC = {"matmul": "matmul(m=64, k=64, n=64, fp16)", "softmax": "softmax(m=64, n=128, fp16)", "add": "add(m=64, n=64, fp16)"}
OPERATORS = 'shifted(X[m, n]; by) -> Y[m, n] { Y[m, n] = X[m, n] * by + 1.0 }\ntotal(X[m, n]) -> Y[m] { Y[m] += X[m, n] }\n'
RULES = """rule own_silu "x * sigmoid(x)" {
  y = x * s
  s = sigmoid(x)
  x: real[*n, c]
  alone s
  if c > 0
  rounds
  => y = silu(x)
}
"""
OPERATORS_CALL = "shifted(m=8, n=8, by=3, fp16)"
SINGLE = [{"op": "MatMul", "name": "product", "input_desc": [{"format": "ND", "shape": [16, 32], "type": "float16"},
                                                           {"format": "ND", "shape": [32, 16], "type": "float16"}],
           "output_desc": [{"format": "ND", "shape": [16, 16], "type": "float16"}],
           "attr": [{"name": "transpose_x1", "type": "bool", "value": False}]}]
TUNE_OPS = {"tune_ops_name": ["conv_1"], "tune_ops_type": ["MatMul", "Conv2D"]}
HEAD = ("Op Name,OP Type,Task Type,Task Duration(us),Block Dim,Mix Block Dim,Input Shapes,Input Data Types,Input Formats,Output Shapes,"
        "Output Data Types,Output Formats,aicore_time(us),aiv_time(us)")
ROWS = ('matmul_0,MatMulV3,AI_CORE,12.5,20,0,"""64,64;64,64""",FLOAT16;FLOAT16,ND;ND,"""64,64""",FLOAT16,ND,11.5,0',
        'add_1,Add,AI_VECTOR_CORE,4.25,8,0,"""64,64;64,64""",FLOAT16;FLOAT16,ND;ND,"""64,64""",FLOAT16,ND,0,3.5',
        'relu_2,Relu,AI_VECTOR_CORE,3.75,8,0,"""64,64""",FLOAT16,ND,"""64,64""",FLOAT16,ND,0,3.0')


def make(folder: Path) -> Seeds:
    """Return the seeds, made anew in a folder; kernels are loaded then, and compiled where that has not been done."""
    kinds: dict[str, list[Seed]] = {k: [] for k in ("onnx", "artifact", "text", "bank", "json", "csv")}
    models = {name: onnx.parser.parse_model(text) for name, text in MODELS.items()}
    models["gemm"].graph.initializer.append(numpy_helper.from_array(np.ones((32, 16), np.float32), "w"))
    models |= {"mlp": mlp_softmax(), "resnet": tiny_resnet()}
    for name, model in models.items():
        data = model.SerializeToString()
        (folder / f"{name}.onnx").write_bytes(data)
        kinds["onnx"].append(Seed(f"{name}.onnx", data, (("onnx",), ("onnx",), ("import", "{file}"), ("tasks", "{file}"))))
    for name in ("gemm", "control", "mlp"):
        graph, weights, _ = load(models[name])
        built, _ = compile_untuned(graph, weights, "fp16", machine.load())
        run_model(built, random_feeds(built, 0))
        data = artifact.pack(built)
        (folder / f"{name}.aoec").write_bytes(data)
        commands = (("run", "{file}", "--random", "-o", "{folder}/o.npz"), ("run", "{file}", "--random"),
                    ("export", "{file}", "-o", "{folder}/e.onnx"))
        kinds["artifact"].append(Seed(f"{name}.aoec", data, commands))
    _texts(folder, kinds["text"])
    _banks(folder, kinds)
    csv = "\n".join((HEAD, *ROWS)) + "\n"
    (folder / "op_summary.csv").write_text(csv)
    kinds["csv"].append(Seed("op_summary.csv", csv.encode(), (
        ("deliver", "--read", "{file}", "--bank", "{folder}/b.db"), ("calibrate", "--read", "{file}", "-o", "{folder}/m.toml"),
        ("explain", "--op-summary", "{file}", "{seeds}/gemm.aoec"), ("explain", "--op-summary", "{file}", "{seeds}/op_summary.csv"),
        ("deliver", "--read", "{file}", "--before", "{seeds}/op_summary.csv", "--bank", "{folder}/b.db"))))
    return Seeds(folder, kinds)


def said(*words: str) -> str:
    """Return what a command writes to standard output; it must succeed."""
    out, errors = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(errors):
        code = cli.main(list(words))
    assert code == 0, (words, errors.getvalue())
    return out.getvalue()


def _texts(folder: Path, found: list[Seed]) -> None:
    def put(name: str, text: str, *commands: Sequence[str]) -> None:
        (folder / name).write_text(text)
        found.append(Seed(name, text.encode(), commands))
    for name, call in FUNC.items():
        func = said("lower", call)
        put(f"{name}.tir", func, ("run", "{file}", "--random"), ("search", "{file}", "--budget", "4"), ("sweep", "{file}"))
        trace = said("search", f"{folder}/{name}.tir", "--budget", "8")
        put(f"{name}.sched", trace, ("schedule", f"{{seeds}}/{name}.tir", "--with", "{file}"),
            ("run", f"{{seeds}}/{name}.tir", "--with", "{file}", "--random"), ("explain", "{file}", "--func", f"{{seeds}}/{name}.tir"))
        scheduled = said("schedule", f"{folder}/{name}.tir", "--with", f"{folder}/{name}.sched")
        put(f"{name}.scheduled.tir", scheduled, ("emit", "{file}"), ("explain", "{file}"))
        program = said("emit", f"{folder}/{name}.scheduled.tir")
        put(f"{name}.prog", program, ("simulate", "{file}"), ("explain", "{file}"), ("simulate", "{file}", "--svg", "{folder}/p.svg"))
    graph, fused = folder / "gemm.graph", folder / "fused.graph"
    said("import", f"{folder}/gemm.onnx", "-o", str(graph))
    said("fuse", str(graph), "-o", str(fused))
    fusing, lowering = (("fuse", "{file}"),), (("lower", "{file}", "--group", "g0"), ("slice", "{file}", "--regions", "g0..g1/2"))
    for path, commands in ((graph, fusing), (fused, lowering)):
        beside = path.with_name(path.name + ".npz")
        found.append(Seed(path.name, path.read_bytes(), commands, beside.read_bytes() if beside.exists() else b""))
    put("own.toml", machine.load("Ascend910B3").text, ("simulate", "{seeds}/matmul.prog", "--target", "{file}"), ("targets", "{file}"))
    put("own.rules", RULES, ("rewrites", "--rewrites", "{file}"), ("import", "{seeds}/gemm.onnx", "--rewrites", "{file}"))
    put("own.op", OPERATORS, ("lower", OPERATORS_CALL, "--ops", "{file}"), ("lower", "total(m=8, n=64, fp16)", "--ops", "{file}"))


def _banks(folder: Path, kinds: dict[str, list[Seed]]) -> None:
    bank = folder / "own.db"
    said("tune", f"{folder}/gemm.onnx", "--budget", "8", "--jobs", "1", "--bank", str(bank), "-o", f"{folder}/tuned.aoec",
         "--results", str(folder))
    exported = said("bank", "export", "--bank", str(bank))
    whole = folder / "whole.db"
    said("bank", "merge", str(bank), "--bank", str(whole))
    key = json.loads(exported.splitlines()[0])["func_key"]
    kinds["bank"].append(Seed("bank.db", whole.read_bytes(), tuple(("bank", *words, "--bank", "{file}") for words in (
        ("list",), ("stats",), ("verify",), ("export",), ("show", key), ("prune",), ("diff", "{seeds}/own.db"),
        ("merge", "{seeds}/own.db"), ("which", "{seeds}/gemm.onnx"))) + (("bank", "import", "{file}", "--bank", "{folder}/n.db"),)))
    results = next(folder.rglob("aoe_result_opat_*.json")).read_text()
    for name, text, commands in (
            ("results.json", results, (("results", "{file}"), ("results", "{file}", "--json"))),
            ("single.json", json.dumps(SINGLE),
             (("aoe", "--job_type=2", "--singleop={file}", "--output={folder}/o", "--tuning_time_limit=1"),)),
            ("ops.json", json.dumps(TUNE_OPS), (("tasks", "{seeds}/gemm.onnx", "--only", "{file}"),)),
            ("lines.jsonl", exported, (("bank", "import", "{file}", "--bank", "{folder}/n.db"),
                                       ("bank", "diff", "{file}", "--bank", "{seeds}/own.db")))):
        kinds["json"].append(Seed(name, text.encode(), commands))
