"""Compiled models on data: against onnxruntime, and what is refused."""
from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import aoec
from aoec.api import Session
from aoec.artifact.artifact import load, write
from aoec.artifact.compiled import check
from aoec.base.errors import CheckError
from aoec.base.files import arrays
from aoec.cli import main
from aoec.ir.index import Int
from aoec.ir.program import Tensor
from aoec.jobs.run.execute import Runner, pad_array, run_model
from aoec.jobs.run.run import rate, run_artifact
from aoec.jobs.verify.verify import verify_model
from aoec.options.func import RunOptions
from aoec.simulate.values.account import Account
from tests.frontend.models import model, node
from tests.jobs.nets import compiled, feeds, fused, net

TOLERANCE = {"fp32": 1e-4, "fp16": 2e-2}


def test_the_net_has_every_kind_of_group() -> None:
    artifact = compiled("fp16")
    check(artifact)
    assert {g.kind for g in artifact.graph.groups} == {"cube", "vector", "host", "view"}
    assert {"to_nc1hwc0", "from_nc1hwc0"} <= {n.op for n in artifact.graph.nodes}


@pytest.mark.parametrize("precision", ["fp16", "fp32"])
@pytest.mark.parametrize("seed", [0, 1])
def test_outputs_match_onnxruntime(precision: str, seed: int, tmp_path: Path) -> None:
    onnx.save(net(), tmp_path / "net.onnx")
    graph, weights = fused(precision)
    found = verify_model(compiled(precision, seed), graph, weights, feeds(seed), str(tmp_path / "net.onnx"))
    assert set(found) == {"scores", "probabilities", "marked"}
    for name, a in found.items():
        assert a.reference == "onnxruntime" and a.relative_error <= TOLERANCE[precision], (name, a)
    assert found["scores"].same_top1 == found["scores"].rows == 2


def test_outputs_match_the_references_where_no_model_is_given() -> None:
    graph, weights = fused("fp16")
    found = verify_model(compiled("fp16"), graph, weights, feeds())
    assert all(a.relative_error <= 4e-3 and "reference" in a.reference for a in found.values()), found


def test_a_model_that_onnxruntime_does_not_take_is_held_to_the_references(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    newer = net()
    newer.ir_version = 99
    (tmp_path / "net.onnx").write_bytes(newer.SerializeToString())
    graph, weights = fused("fp16")
    found = verify_model(compiled("fp16"), graph, weights, feeds(), str(tmp_path / "net.onnx"))
    assert all(a.relative_error <= 4e-3 and "onnxruntime does not run this model" in a.reference for a in found.values()), found
    assert capfd.readouterr() == ("", "")  # it writes its own complaints on standard error unless it is told not to


def test_a_model_that_only_onnxruntimes_optimiser_fails_on_is_held_to_onnxruntime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session, levels = onnxruntime.InferenceSession, []

    def failing(path: str, options: onnxruntime.SessionOptions, **how: object) -> onnxruntime.InferenceSession:
        levels.append(options.graph_optimization_level)
        if options.graph_optimization_level != onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL:
            raise RuntimeError("Attempt to replace the existing tensor")
        return session(path, options, **how)

    monkeypatch.setattr(onnxruntime, "InferenceSession", failing)
    onnx.save(net(), tmp_path / "net.onnx")
    graph, weights = fused("fp16")
    found = verify_model(compiled("fp16"), graph, weights, feeds(), str(tmp_path / "net.onnx"))
    assert len(levels) == 2 and {a.reference for a in found.values()} == {"onnxruntime"}


def test_feeds_are_checked() -> None:
    artifact, good = compiled("fp16"), feeds()["data"]
    for given, words in (({}, "input data is missing"), ({"data": good, "more": good}, "no input more"),
                         ({"data": good[:1]}, r"has shape \[2, 3, 13, 11\], and an array of shape \[1, "),
                         ({"data": good.astype(np.int32)}, "is float32, and an array of int32")):
        with pytest.raises(CheckError, match=words):
            run_model(artifact, given)


def test_feeds_of_other_float_widths_are_rounded() -> None:
    wide = {n: x.astype(np.float64) for n, x in feeds().items()}
    narrow, same = run_model(compiled("fp16"), feeds()), run_model(compiled("fp16"), wide)
    assert all(np.array_equal(narrow[n], same[n]) for n in narrow)


def test_programs_make_the_outputs() -> None:
    """A group whose program reads another bias gives another result."""
    artifact = compiled("fp16")
    first, last = (dict(g.bindings)["bias"] for g in artifact.groups if "bias" in dict(g.bindings))
    groups = tuple(replace(g, bindings=tuple((p, first if t == last else t) for p, t in g.bindings)) for g in artifact.groups)
    weights = {**artifact.weights, first: artifact.weights[first][:len(artifact.weights[last])]}
    before, after = run_model(artifact, feeds()), run_model(replace(artifact, groups=groups, weights=weights), feeds())
    assert not np.array_equal(before["scores"], after["scores"])


def test_placed_pads_with_zeros_and_refuses_more() -> None:
    t = Tensor("bias", "fp32", (Int(2), Int(3)), "input")
    assert pad_array(t, np.ones(4, np.float32)).tolist() == [1, 1, 1, 1, 0, 0]
    with pytest.raises(CheckError, match="has 6 elements, and 7 are stored"):
        pad_array(t, np.ones(7, np.float32))


# ---------------------------------------------------------------- aoec run

def options(model: Path, **given: Any) -> RunOptions:
    return RunOptions(model=str(model), **given)


def test_run_reads_writes_and_labels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, out = tmp_path / "net.aoec", tmp_path / "out.npz"
    write(model, compiled("fp16"))
    arrays.save(tmp_path / "in.npz", feeds())
    assert run_artifact(options(model, inputs=str(tmp_path / "in.npz"), output=str(out))) == 0
    said, want = capsys.readouterr().out, run_model(compiled("fp16"), feeds())
    got = arrays.load(out)
    assert set(got) == set(want) and all(np.array_equal(got[n], want[n]) for n in want)
    assert "modelled on Ascend910B3: latency 21.00 µs, throughput 50,000 inferences" in said and "on this computer" in said
    assert f"argmax {', '.join(map(str, want['scores'].argmax(1)))}" in said


def test_random_inputs_are_seeded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tmp_path / "net.aoec"
    write(model, compiled("fp16"))
    texts = []
    for seed in (3, 3, 4):
        run_artifact(options(model, random=True, seed=seed, json=True))
        texts.append(json.loads(capsys.readouterr().out)["outputs"])
    assert texts[0] == texts[1] != texts[2]


def test_a_machine_with_other_numbers_is_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "net.aoec", replace(compiled("fp16"), machine_hash="0" * 64))
    assert run_artifact(options(tmp_path / "net.aoec", random=True)) == 0
    assert "modelled times are stale" in capsys.readouterr().err


def test_programs_for_a_machine_that_nobody_knows_are_not_run(tmp_path: Path) -> None:
    """They could be checked against nothing."""
    artifact = compiled("fp16")
    groups = tuple(replace(g, program=replace(g.program, target="nobody") if g.program else None) for g in artifact.groups)
    write(tmp_path / "net.aoec", replace(artifact, target="nobody", groups=groups, machine=""))
    with pytest.raises(CheckError, match=r"compiled for nobody, which is no machine that comes with aoec.*compile the model again"):
        run_artifact(options(tmp_path / "net.aoec", random=True))
    with pytest.raises(CheckError, match="compiled for nobody"):
        Session(tmp_path / "net.aoec")


def test_an_illegal_program_is_refused(tmp_path: Path) -> None:
    artifact = compiled("fp16")
    at = next(i for i, g in enumerate(artifact.groups) if g.program)
    bad = replace(artifact.groups[at].program, streams=tuple(replace(s, body=s.body[1:]) for s in artifact.groups[at].program.streams))
    groups = (*artifact.groups[:at], replace(artifact.groups[at], program=bad), *artifact.groups[at + 1:])
    write(tmp_path / "net.aoec", replace(artifact, groups=groups))
    with pytest.raises(CheckError, match=r"not legal on Ascend910B3.*compile the model again"):
        run_artifact(options(tmp_path / "net.aoec", random=True))


def test_a_runner_gives_every_run_its_own_results() -> None:
    """Results lie in the memory of programs while a run lasts, and no longer."""
    runner, other = Runner(compiled("fp16")), {n: -x for n, x in feeds().items()}
    first, second, third = runner.run(feeds()), runner.run(other), runner.run(feeds())
    wanted = [run_model(compiled("fp16"), x) for x in (feeds(), other)]
    for name, value in wanted[0].items():
        assert np.array_equal(first[name], value) and np.array_equal(third[name], value)
        assert np.array_equal(second[name], wanted[1][name])
    assert any(not np.array_equal(wanted[0][name], wanted[1][name]) for name in wanted[0])


def test_equal_programs_with_constants_of_their_own_are_encoded_once(tmp_path: Path) -> None:
    """Layers behind the first find the same in L2, and so have one program."""
    random, layers = np.random.default_rng(3), range(4)
    x, *w = (random.integers(-1, 2, (32, 32)).astype(np.float32) for _ in range(5))
    nodes = [n for i in layers for n in (node("MatMul", f"x{i} w{i}", f"h{i}"), node("Clip", f"h{i} low high", f"x{i + 1}"))]
    ends = {"low": np.float32(-1), "high": np.float32(1)}
    chain = model(nodes, {"x0": (32, 32)}, ["x4"], {**{f"w{i}": w[i] for i in layers}, **ends})
    aoec.compile(chain, tmp_path / "m.aoec", bank=tmp_path / "b.db")
    runner, wanted = Runner(load(tmp_path / "m.aoec")), x
    for i in layers:
        wanted = np.clip(wanted @ w[i], -1, 1)
    for _ in range(2):
        assert np.array_equal(runner.run({"x0": x})["x4"], wanted)
    made = list(runner.executables.values())
    assert len({id(e.code) for e in made}) == len({id(e.program) for e in made}) < len({id(e.memory.gm) for e in made}) == len(made)


def test_one_thread_and_several_give_the_same_bytes_and_an_account_says_what_ran() -> None:
    runner = Runner(compiled("fp16"), threads=1)
    one = runner.run(feeds())
    runner.threads = 3
    several = runner.run(feeds())
    runner.account = Account()
    watched = runner.run(feeds())
    assert all(one[n].tobytes() == several[n].tobytes() == watched[n].tobytes() for n in one)
    words = {word: (count, fields, body) for word, count, fields, body in runner.account.words()}
    assert words["mmad_bias"][0] > 0 and runner.account.seconds > 0
    assert 0 < sum(fields + body for _, fields, body in words.values()) <= runner.account.seconds


def test_a_quantised_model_may_be_a_step_from_onnxruntime_and_no_other_may(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In fp16 some of 4,096 numbers lie on the other side of the middle between two steps, which are 3 % of the largest result."""
    text = """<ir_version: 8, opset_import: ["": 17]> net (float[1,4096] x) => (float[1,4096] y)
        <float c = {0.7}, float s = {0.1}, int8 z = {0}> { a = Mul(x, c) q = QuantizeLinear(a, s, z) y = DequantizeLinear(q, s, z) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "net.onnx")
    words = ["compile", str(tmp_path / "net.onnx"), "--verify", "--effort", "none", "--bank", str(tmp_path / "b.db"), "-o"]
    assert main([*words, str(tmp_path / "net.aoec")]) == 0
    out = capsys.readouterr().out
    near, own = (line for line in out.splitlines() if line.startswith("values: y"))
    assert float(near.split()[4]) > 0.02 and "of onnxruntime" in near
    assert own.startswith("values: y: on average within") and 0 < float(own.split()[5]) < 0.02
    text = text.replace("QuantizeLinear(a, s, z)", "Floor(a)").replace("DequantizeLinear(q, s, z)", "Mul(q, c)")
    onnx.save(onnx.parser.parse_model(text), tmp_path / "net.onnx")
    assert main([*words, str(tmp_path / "floor.aoec")]) == 1 and not (tmp_path / "floor.aoec").exists()
    assert "wrong values: y differs by" in capsys.readouterr().err


@pytest.mark.parametrize("a_second, said", [(48157.96, "48,158"), (4286.463, "4,286.5"), (412.5891, "412.59"), (1.23456, "1.23")])
def test_a_rate_has_the_digits_that_hold(a_second: float, said: str) -> None:
    """A file holds the time of one inference in whole nanoseconds: the closing table of a compile rounds to the same."""
    assert rate(a_second) == said
