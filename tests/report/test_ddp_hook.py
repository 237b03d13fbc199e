"""The communication hook of DDP: its text, and what it does under torch with two processes."""
from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from aoec.base.errors import CheckError
from aoec.ir.training import BucketPlan, Gradient, StepTrace
from aoec.report.ddp_hook import hook_text

TORCH = os.environ.get("AOEC_TORCH_PYTHON") or (sys.executable if find_spec("torch") else "")
NAMES = ("3.bias", "3.weight", "2.bias", "2.weight", "0.bias", "0.weight")


def trace_of(names: tuple[str, ...]) -> StepTrace:
    return StepTrace(tuple(Gradient(n, 4, float(i)) for i, n in enumerate(names)), 0.0, 10.0, 0.0, "modelled")


def test_the_text_is_a_module_that_needs_torch_alone() -> None:
    odd = 'odd "name" \U0001f600\n'  # beyond what JSON writes as one character
    text = hook_text(BucketPlan((1, 5)), trace_of((*NAMES[:5], odd)))
    tree = ast.parse(text)
    imported = {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    assert imported == {"threading", "torch", "torch.distributed"} and not any(isinstance(n, ast.ImportFrom) for n in ast.walk(tree))
    listed = next(n.value for n in tree.body if isinstance(n, ast.Assign) and n.targets[0].id == "BUCKETS")  # type: ignore[attr-defined]
    assert ast.literal_eval(listed) == [list(NAMES[:2]), [*NAMES[2:5], odd]]
    assert "2 buckets, 6 gradients, 24 bytes." in text and "modelled" in text and "__" not in ast.get_docstring(tree, clean=False)


def test_what_no_hook_can_do() -> None:
    with pytest.raises(CheckError, match="two gradients are called a"):
        hook_text(BucketPlan((1,)), trace_of(("a", "a")))
    with pytest.raises(CheckError, match="scheme is split"):
        hook_text(BucketPlan((1,), "split"), trace_of(("a", "b")))
    with pytest.raises(CheckError, match="buckets end at"):
        hook_text(BucketPlan((0,)), trace_of(("a", "b")))


def run_ranks(hook: Path, folder: Path, ranks: int = 2) -> list[subprocess.CompletedProcess[str]]:
    words = [TORCH, str(Path(__file__).parent / "ddp_run.py"), str(hook)]
    # started together: each waits for the other
    started = [subprocess.Popen([*words, str(r), str(ranks), str(folder / "store")], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True, env={**os.environ, "GLOO_SOCKET_IFNAME": "lo"}) for r in range(ranks)]
    try:
        done = [(p, *p.communicate(timeout=240)) for p in started]
    finally:
        for p in started:
            p.kill()
    return [subprocess.CompletedProcess(words, p.returncode, out, err) for p, out, err in done]


@pytest.mark.slow
@pytest.mark.skipif(not TORCH, reason="torch is not here; AOEC_TORCH_PYTHON names a Python that has it")
@pytest.mark.parametrize("ends", [(5,), (0, 1, 2, 3, 4, 5), (1, 5), (2, 3, 5)])
def test_gradients_are_those_of_plain_ddp(tmp_path: Path, ends: tuple[int, ...]) -> None:
    hook = tmp_path / "hook.py"
    hook.write_text(hook_text(BucketPlan(ends), trace_of(NAMES)), "utf-8")
    for done in run_ranks(hook, tmp_path):
        assert done.returncode == 0, done.stderr[-2000:]
        said = json.loads(done.stdout)
        assert said["worst"] < 1e-6 and all(sorted(o) == list(range(len(ends))) for o in said["orders"])
        assert said["orders"][1:] == [list(range(len(ends)))] * 2  # once DDP has seen which gradient comes when


@pytest.mark.slow
@pytest.mark.skipif(not TORCH, reason="torch is not here; AOEC_TORCH_PYTHON names a Python that has it")
def test_a_plan_of_another_model_is_refused_at_once(tmp_path: Path) -> None:
    hook = tmp_path / "hook.py"
    hook.write_text(hook_text(BucketPlan((4,)), trace_of((*NAMES[:4], "9.weight"))), "utf-8")
    for done in run_ranks(hook, tmp_path):
        assert done.returncode != 0
        assert "1 are not in the model (9.weight), 2 are not in the plan (0.bias, 0.weight)" in done.stderr
