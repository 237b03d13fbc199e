"""Every program of bench/ is run by a test at its smallest size, as a reader of its usage would type it.

What takes longest is slow where another file asks in `make test` what the program is made of: test_builtin_bench.py, test_gaps.py (of
defaults), test_memory.py, test_structures.py, and in tests/jobs test_resume.py (of kills) and npu/test_on_standin.py (of npu).
"""
from __future__ import annotations

import ast
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BENCH = ROOT / "bench"
RUN_IN = {  # program -> the test file that runs it already
    "ddp": "test_ddp.py", "fidelity": "test_fidelity.py", "fuzz": "test_fuzz.py", "nodes": "test_nodes.py", "plans": "test_plans_page.py",
    "proofs": "test_proofs.py", "report_picture": "test_report_picture.py", "search": "test_search_bench.py",
    "strangers": "test_strangers.py"}


@dataclass(frozen=True)
class Run:
    """A run of a program: its words, patterns of lines that it must print, its exit code, and what it reads as standard input."""

    words: str
    says: tuple[str, ...]
    code: int = 0
    stdin: str = ""
    apart: bool = False  # in a process of its own: it forks, or leaves by itself
    slow: bool = False


NUMBER = r"[\d,.]+"
RUNS = {
    "ascendc": Run("--network mlp_softmax --target Ascend910B3", (r"\| mlp_softmax \| Ascend910B3 \| 3 \| 3 \| 3 \|",)),
    "attention": Run("--only decode", (rf"decode  b=32, m=1, .* one pass, µs {NUMBER}  single operators, µs {NUMBER}",)),
    "beside": Run("", (), code=3, stdin="{}", apart=True),  # the peer's package is in no lock; it must be seen to be missing
    "buckets": Run("--counts 161 --systems 910b-8", (
        rf" +161 910b-8 +all_reduce 8 buckets +{NUMBER} CPU s  ratio +{NUMBER}  costs +{NUMBER} +3 buckets  step {NUMBER} us  proved",
        rf"\| aoe_default \| {NUMBER} \(\+{NUMBER} %, 2 buckets\) \|")),
    "builtin": Run("--networks mlp_softmax --targets Ascend310P3 --budget 1 --jobs 1 -o made --work work",
                   (r"mlp_softmax on Ascend310P3: \d+ CPU s", rf"made/Ascend310P3\.jsonl: {NUMBER} bytes, \d+ records and plans"),
                   slow=True),
    "collectives": Run("--system 910b-8", (rf"m0235 +910b-8 +all_reduce +64 MB +1071\.0 +{NUMBER} +0\.\d\d  held out  HCCL",
                                               r"not covered: 0 rows")),
    "defaults": Run("--network mlp_softmax --budget 1 --no-verify --jobs 1",
                    (r"g0 +matmul\+relu 1x40->1x72 +1( +\d+\.\d\d){5}   modelled us", r"distinct groups: 3", r"rules broken: 0"),
                    slow=True),
    "beside_fused": Run("", (), code=3, stdin="{}", apart=True),
    "fused": Run("chain1 chain2 --rows 64 --buffer-bits 100000 --beside accelforge",
                 (rf"chain2 +{NUMBER} us proved; .* evaluated, .*", r"beside accelforge: skipped, for .* have it")),
    "hivm": Run("--network mlp_softmax",
                (r"\| mlp_softmax \| Ascend910B3 \| 3 \| 3 \| 100% \| 3 \| - \|", r"3 of 3 groups \(100\.0%\) .*")),
    "kills": Run("--kills 1 --budget 1", (r"kills: 1", r"records: 4", r"faults: \[\]"), apart=True, slow=True),
    "npu": Run("--network mlp_softmax --groups", (
        rf"\| mlp_softmax \| Ascend910B3 \| 9\.1 \| 3 \| 0 \| 3 \| {NUMBER} \| {NUMBER} \|( \S+e[-+]\d+ \|){{3}}",), slow=True),
    "measure": Run("--seeds 16 --of 8 --pick 2 --among launch mmad conv-3x3-stride",
                   (r" 1 conv-3x3-stride: .*", r" 2 launch-.*", rf"   hot {NUMBER} ± {NUMBER} %, cold .*; left {NUMBER} %, on other .*")),
    "memory": Run("--gib 0.01 --precision fp16", tuple(rf"{step:7}  fp16  constants 0\.06 GiB  peak .*" for step in ("compile", "run")),
                  slow=True),
    "operators": Run("-n 3", (r"3 cases of \d operators: .* 0 wrong, 0 fault",)),
    "pages": Run("", (r"# The primitives", r"# The instructions.*")),
    "quality": Run("--models gpt2 --targets Ascend310P3 --trials 1", (rf"\| gpt2 \| Ascend310P3 \|( {NUMBER} \|)+.*",), slow=True),
    "rates": Run("--set add(m=64,n=256) --rows 20", (rf"add\(m=64,n=256\).* {NUMBER} legal: .*/s.*", r"Geometric means of 1 groups.*")),
    "scale": Run("--only rows --first 1", (r"rows: legal candidates .*", rf" +1,000 +{NUMBER} CPU s .* legal 1,000")),
    "structures": Run("--network mlp_softmax --target Ascend310P3 --budget 1",
                      (rf"\| mlp_softmax \| Ascend310P3 \| {NUMBER} \| {NUMBER} \| 1 \| {NUMBER} \| 3 \| 0 \| 0\.0 \| 0 \| – \| \w+ \|",),
                      slow=True),
    "throughput": Run("--only vector --rows 1", (rf"vector +{NUMBER} operations a row on all cores: .* ratio {NUMBER}; skipped \d+%",)),
    "values": Run("mlp_softmax --threads 1 --repeat 1 --limit 1000", (r"\| mlp_softmax \|.*", r"\| products of fractals \|.*")),
    "warm": Run("--model mlp_softmax --budget 1 --repeat 1 --limit 1000",
                (r"mlp_softmax for Ascend910B3, .* bytes; first compile .*", r"same process: .*", r"fresh process: .*"), slow=True),
    "zoo": Run("mlp_softmax --check", (r"mlp_softmax +fp32: probabilities .* \(within .*\); latency .* us, modelled; .*",)),
}


def programs() -> list[str]:
    """The files of bench/ that are run, by their names."""
    return [p.stem for p in sorted(BENCH.glob("*.py")) if re.search(r'^if __name__ == "__main__":$', p.read_text("utf-8"), re.MULTILINE)]


def said(name: str, run: Run, folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> str:
    """What a program prints in a folder, after its exit code was looked at. Most run in this process, whose kernels are loaded."""
    path = str(BENCH / f"{name}.py")
    if run.apart:
        done = subprocess.run([sys.executable, path, *run.words.split()], input=run.stdin, capture_output=True, text=True, cwd=folder)
        assert done.returncode == run.code, done.stderr
        return done.stdout
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", [path, *run.words.split()])
    monkeypatch.setattr(sys, "path", [*sys.path])
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):  # which some programs set for their children
        monkeypatch.setenv(variable, os.environ.get(variable, "1"))
    try:
        runpy.run_path(path, run_name="__main__")
        code = 0
    except SystemExit as e:
        code = int(e.code or 0)
    out, err = capfd.readouterr()
    assert code == run.code, out + err
    return out


@pytest.mark.filterwarnings("ignore")  # of ONNX, as it makes its data
@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * r.slow) for n, r in RUNS.items()])
def test_a_program_runs_at_its_smallest_size(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str],
                                             monkeypatch: pytest.MonkeyPatch) -> None:
    lines = said(name, RUNS[name], tmp_path, capfd, monkeypatch).splitlines()
    for pattern in RUNS[name].says:
        assert [line for line in lines if re.fullmatch(pattern, line)], f"{pattern} is not in\n" + "\n".join(lines)


def test_what_a_program_does_not_say_is_seen(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AssertionError):
        said("beside", replace(RUNS["beside"], code=0), tmp_path, capfd, monkeypatch)


def runs_in(text: str) -> Iterator[str]:
    """The programs that a test file runs: by `main` of its module, or by its file in another process."""
    modules, mains = dict[str, str](), dict[str, str]()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module == "bench":
            modules |= {a.asname or a.name: a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("bench."):
            mains |= {a.asname or a.name: node.module.split(".")[1] for a in node.names if node.module and a.name == "main"}
        elif isinstance(node, ast.Import):
            modules |= {a.asname or a.name: a.name.removeprefix("bench.") for a in node.names}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in mains:
            yield mains[node.func.id]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.attr in ("main", "__file__"):
            yield modules.get(node.value.id, "")


def not_run(names: list[str], run_in: dict[str, str], text_of: Callable[[str], str]) -> list[str]:
    """The programs that no test runs."""
    found = {name for name, file in run_in.items() if name in runs_in(text_of(file))}
    return [name for name in names if name not in found and name not in RUNS]


def test_every_program_is_run_by_a_test() -> None:
    names = programs()
    assert len(names) > 15 and not (set(RUNS) | set(RUN_IN)) - set(names)
    assert not_run(names, RUN_IN, lambda file: (ROOT / "tests/bench" / file).read_text("utf-8")) == []


@pytest.mark.parametrize("text, run", [
    ("from bench.new import main\nmain([])", True), ("from bench import new\nnew.main()", True), ("import bench.new as n\nn.main()", True),
    ("import new\nsubprocess.run([new.__file__])", True), ("from bench.new import main", False),
    ("from bench import new\nnew.other()", False)])
def test_a_program_that_no_test_runs_is_seen(text: str, run: bool) -> None:
    assert not_run(["new"], {"new": "file"}, lambda _: text) == [] * run + ["new"] * (not run)
    assert not_run(["new"], {}, lambda _: text) == ["new"]
