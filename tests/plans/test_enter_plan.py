"""A plan that is entered: untouched it leads to the same bytes, edited to another model, and what cannot be is refused at its line."""
from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

import aoec
from aoec import cli
from aoec.frontend.zoo import mlp_softmax, tiny_resnet
from aoec.ir.plan import Plan
from aoec.ir.text.parse import parse_plan
from aoec.ir.text.show import show
from bench.networks.text import bert_base
from tests.frontend.models import model, node, normal, run
from tests.jobs.test_slices import SMALL, TEXT, seeded
from tests.oracle.schemas import faults

pytestmark = pytest.mark.usefixtures("few")

COMMON = ["--bank", "b.db", "--base", "none", "--jobs", "1"]
# products between which a matrix can lie in NZ
PRODUCTS = model([node("MatMul", "x a", "p"), node("Relu", "p", "r"), node("MatMul", "r b", "y")], {"x": (64, 64)}, ["y"],
                 {"a": normal(64, 64), "b": normal(64, 64)})
# heads whose products read through moves
HEADS = model([node("Reshape", "x s", "q"), node("Transpose", "q", "t", perm=[1, 0, 2]), node("MatMul", "t k", "m"),
               node("Transpose", "m", "u", perm=[1, 0, 2]), node("Reshape", "u w", "y")], {"x": (32, 128), "k": (2, 64, 48)}, ["y"],
              {"s": np.array([32, 2, 64]), "w": np.array([32, 96])})

# a GELU as exporters spell it out
GELU = model([node("Mul", "x r", "a"), node("Erf", "a", "b"), node("Add", "b one", "c"), node("Mul", "x half", "d"),
              node("Mul", "d c", "y")],
             {"x": (32, 64)}, ["y"], {"r": np.float32(np.sqrt(0.5)), "one": np.float32(1), "half": np.float32(0.5)})


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def compiled(net: onnx.ModelProto, *words: str, output: str = "a.aoec") -> Plan:
    """The plan of a compile of a model."""
    onnx.save(net, "net.onnx")
    assert cli.main(["compile", "net.onnx", *COMMON, "--dump", "dump", "-o", output, *words]) == 0
    return parse_plan(Path("dump/model.plan").read_text())


def entered(text: str, *words: str, code: int = 0, output: str = "b.aoec") -> None:
    """A compile by a plan of this text ends with this code."""
    Path("my.plan").write_text(text)
    assert cli.main(["compile", "net.onnx", *COMMON, "--plan", "my.plan", "-o", output, *words]) == code


def refused(text: str, capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    """The lines of a refusal of a plan: a sentence, the line of the plan and a caret."""
    capsys.readouterr()
    entered(text, *words, code=2, output="no.aoec")
    err = capsys.readouterr().err
    lines = err[err.index("aoec: error: "):].splitlines()
    assert not Path("no.aoec").exists() and "Traceback" not in err and len(lines) == 3 and lines[2].strip() == "^"
    return lines


# in `make test` each model on one machine, machines in turn
@pytest.mark.parametrize("net, target", [
    pytest.param(net, target, id=f"{name}-{target}", marks=[pytest.mark.slow] * (name == "resnet" or (i + j) % 2))
    for i, (name, net) in enumerate((("mlp", mlp_softmax()), ("heads", HEADS), ("products", PRODUCTS), ("resnet", tiny_resnet())))
    for j, target in enumerate(("Ascend310P3", "Ascend910B3"))])
def test_an_untouched_plan_leads_to_the_same_bytes(net: onnx.ModelProto, target: str, here: Path) -> None:
    plan = compiled(net, "--target", target)
    assert plan.groups and all(g.takes_ns for g in plan.groups if g.kind in ("cube", "vector"))
    entered(show(plan), "--target", target)
    assert Path("a.aoec").read_bytes() == Path("b.aoec").read_bytes()
    without = Plan(plan.name, plan.target, wide=plan.wide, tails=plan.tails, apart=plan.apart, nz=plan.nz)
    entered(show(without), "--target", target)  # groups are then those of fusion
    assert Path("a.aoec").read_bytes() == Path("b.aoec").read_bytes()


@pytest.mark.slow
def test_attention_that_is_apart_leads_to_the_same_bytes(here: Path) -> None:
    """So few words that single operators are faster than one pass."""
    plan = compiled(bert_base(layers=1, words=20, width=128).model)
    assert any("." not in name for name in plan.apart)
    entered(show(plan))
    assert Path("a.aoec").read_bytes() == Path("b.aoec").read_bytes()
    less = show(plan).replace("  apart ", "  # apart ")
    without = "\n".join(x for x in less.splitlines() if not x.startswith("  group"))
    entered(without, output="c.aoec")  # in one pass
    assert Path("a.aoec").read_bytes() != Path("c.aoec").read_bytes()


def test_a_plan_in_slices_leads_to_the_same_bytes(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    onnx.save(seeded(TEXT), "net.onnx")
    Path("small.toml").write_text(SMALL)
    words = [*COMMON, "--target", "small.toml", "--no-verify"]
    assert cli.main(["compile", "net.onnx", *words, "--slices", "auto", "--dump", "dump", "-o", "a.aoec"]) == 0
    text = Path("dump/model.plan").read_text()
    plan = parse_plan(text)
    assert plan.slices and not any("of" in g.name for g in plan.groups)
    with monkeypatch.context() as m:
        m.setattr("aoec.jobs.choose.slices.find_regions", None)  # nothing is looked for
        entered(text, "--target", "small.toml", "--no-verify", "--report", "page")
        assert Path("a.aoec").read_bytes() == Path("b.aoec").read_bytes()
        assert cli.main(["compile", "dump", "--from", "plan", *words, "-o", "c.aoec"]) == 0
    assert Path("a.aoec").read_bytes() == Path("c.aoec").read_bytes()
    (first, last, count), = plan.slices
    said = json.loads(Path("page/report.json").read_text())
    assert faults("report", said) == []
    listed = {x["name"]: x for x in said["structure"]["launches"]}
    assert [x.name for x in plan.groups if x.kind in ("cube", "vector")] == list(listed) and listed[first]["slices"] == count
    for g in (g for g in plan.groups if g.takes_ns):
        assert listed[g.name]["us"] == pytest.approx(g.takes_ns / 1000, abs=0.001)  # type: ignore[operator]
    assert f"{first} in {count} slices" in Path("page/index.html").read_text()
    assert cli.main(["compile", "net.onnx", *words, "--slices", f"{first}..{last}/{count}", "--dump", "given", "-o", "d.aoec"]) == 0
    assert Path("given/model.plan").read_text() == text and Path("a.aoec").read_bytes() == Path("d.aoec").read_bytes()
    assert cli.main(["compile", "net.onnx", *words, "--slices", "none", "--dump", "whole", "-o", "w.aoec"]) == 0
    entered(Path("whole/model.plan").read_text().rstrip("}\n") + f"\n  slices {first}..{last}/{count}\n}}\n", "--target", "small.toml",
            "--no-verify", output="e.aoec")
    assert Path("a.aoec").read_bytes() == Path("e.aoec").read_bytes()


def test_matrices_that_a_plan_puts_in_nz_lie_there(here: Path) -> None:
    plan = compiled(PRODUCTS, "--target", "Ascend310P3")
    assert not plan.nz
    entered(f"plan {plan.name} for Ascend310P3 {{ nz relu_0 }}".replace("relu_0", made_by(plan, "relu")), "--target", "Ascend310P3",
            "--dump", "nz", "--verify")
    text = Path("nz/model.plan").read_text()
    assert parse_plan(text).nz and "NZ" in Path("nz/fused.graph").read_text()
    entered(text, "--target", "Ascend310P3", output="c.aoec")
    assert Path("b.aoec").read_bytes() == Path("c.aoec").read_bytes()


def made_by(plan: Plan, op: str) -> str:
    """The tensor that the node of an operator makes."""
    line = next(x for x in Path("dump/import.graph").read_text().splitlines() if f": {op}(" in x)
    return line.rpartition("-> ")[2]


def test_a_rewrite_that_is_off_is_not_made(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = compiled(GELU, "--target", "Ascend910B3")
    (line,) = [x.strip() for x in show(plan).splitlines() if "rewrite gelu" in x]
    assert ": gelu(" in Path("dump/import.graph").read_text() and line.split()[2:3] == ["at"] and line.endswith(" y")
    entered("plan test for Ascend910B3 { " + line + " off }", "--target", "Ascend910B3", "--dump", "again")
    imported, again = Path("again/import.graph").read_text(), parse_plan(Path("again/model.plan").read_text())
    assert ": gelu(" not in imported and ": erf(" in imported and again.declined == (("gelu_erf", "y"),) and again.rewrites == ()
    feeds = {"x": normal(32, 64)}
    for path in ("a.aoec", "b.aoec"):
        np.testing.assert_allclose(aoec.Session(path).run(None, feeds)[0], run(GELU, feeds)[0], atol=4e-3)
    capsys.readouterr()
    Path("again/own.plan").write_text(show(again))
    assert cli.main(["compile", "again", *COMMON, "--from", "plan", "-o", "c.aoec"]) == 0
    assert "rewrites that are off change no graph that is imported already" in capsys.readouterr().err
    said = refused("plan test for Ascend910B3 { rewrite gelu_erf at z off }", capsys, "--target", "Ascend910B3")
    assert "rewrite gelu_erf at z: no such rewrite is made in this model" in said[0] and said[1].strip().startswith("plan test for")


def test_an_edited_plan_makes_another_model_with_the_same_values(here: Path) -> None:
    plan = compiled(mlp_softmax(), "--target", "Ascend910B3")
    at, g = next((i, g) for i, g in enumerate(plan.groups) if len(g.nodes) > 1 and g.kind == "cube")
    head, *tail = g.nodes
    text = show(plan).replace(show_line(g), f"group {g.name} cube [{head}]\n  group rest vector [{', '.join(tail)}]")
    entered(text, "--target", "Ascend910B3", "--verify", "--dump", "split")
    assert [x.name for x in parse_plan(Path("split/model.plan").read_text()).groups][at:at + 2] == [g.name, "rest"]
    feeds = {i.name: normal(*[d.dim_value for d in i.type.tensor_type.shape.dim]) for i in mlp_softmax().graph.input}
    ours = [aoec.Session(path).run(None, feeds)[0] for path in ("a.aoec", "b.aoec")]
    np.testing.assert_allclose(ours[0], ours[1], atol=2e-3)
    np.testing.assert_allclose(ours[1], run(mlp_softmax(), feeds)[0], atol=4e-3)


def test_what_cannot_be_is_refused_at_its_line(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = compiled(HEADS, "--target", "Ascend910B3")
    good, words = show(plan), ("--target", "Ascend910B3")
    last = plan.groups[-1]

    def said(text: str) -> str:
        return "\n".join(refused(text, capsys, *words))

    def with_line(line: str) -> str:
        return good.rstrip("}\n") + f"\n  {line}\n}}\n"

    assert "is nothing that fusion decides in this model; did you mean" in said(with_line("apart matmul_2.resul"))
    assert "is no matrix between products" in said(with_line("nz x"))
    assert "is no sum that can be wide" in said(with_line("wide matmul_99"))
    assert "is no norm of groups of channels" in said(with_line("tail x"))
    assert "unknown group g77" in said(with_line(f"slices {plan.groups[0].name}..g77/2"))
    assert "slices: " in said(with_line(f"slices {plan.groups[0].name}..{last.name}/7"))
    assert "by the plan's other lines the model has no node nothing" in said(with_line("group more vector [nothing]"))
    assert "is in no group: once there are group lines" in said(good.replace(", ".join(last.nodes), last.nodes[-1]) if len(last.nodes) > 1
                                                                else good.replace(show_line(last), ""))
    assert "a node belongs to one group\n" in said(with_line(f"group more vector [{last.nodes[-1]}]"))
    cube = next(g for g in plan.groups if g.kind == "cube")
    assert "write cube" in said(good.replace(f"group {cube.name} cube", f"group {cube.name} vector"))
    assert "unknown kind of group cubes; did you mean cube?" in said(good.replace(f"group {cube.name} cube", f"group {cube.name} cubes"))
    assert "this plan is for Ascend910B3, and Ascend310P3 is the target" in "\n".join(refused(good, capsys, "--target", "Ascend310P3"))
    assert "this plan is of other, and the model is" in said(good.replace(f"plan {plan.name}", "plan other", 1))
    assert "expected" in said(good.replace("group", "grup", 1))


def show_line(g: object) -> str:
    """The line of a group, but for its time."""
    return f"group {g.name} {g.kind} [{', '.join(g.nodes)}]"  # type: ignore[attr-defined]


BRANCHES = model([node("Relu", "x", "a"), node("Softmax", "a", "b", axis=-1), node("Gather", "b i", "c"),
                  node("Sigmoid", "c", "d"), node("Softmax", "d", "e", axis=-1)], {"x": (32, 64)}, ["e"], {"i": np.array([3, 0, 17, 5, 3])})


def test_groups_that_cannot_run_or_be_one_launch_are_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = compiled(BRANCHES)
    names = {n.partition("_")[0] for g in plan.groups for n in g.nodes}
    assert names == {"relu", "softmax", "gather", "sigmoid"} and len(plan.groups) == 3
    own = [n for g in plan.groups for n in g.nodes]

    def text(*groups: str) -> str:
        return f"plan {plan.name} for {plan.target} {{ {' '.join(groups)} }}"

    def group(name: str, *nodes: str) -> str:
        return f"group {name} vector [{', '.join(nodes)}]"

    relu, softmax, gather, sigmoid, last = own
    rest = group("c", gather), group("d", sigmoid, last)
    said = "\n".join(refused(text(group("b", softmax), group("a", relu), *rest), capsys))
    assert "group b runs before a" in said and "put the line of a before that of b" in said
    said = "\n".join(refused(text(group("a", relu, gather), group("b", softmax), group("d", sigmoid, last)), capsys))
    assert "groups a and b need each other" in said and "split one of them" in said
    said = "\n".join(refused(text(group("a", relu, softmax, gather, sigmoid, last)), capsys))
    assert "group a cannot be one launch: " in said and "is a launch of its own" in said and "split it, or write host" in said
    entered(text(group("a", relu), group("b", softmax), *rest), "--verify")
    entered(text(f"group a host [{relu}]", group("b", softmax), *rest), "--verify", output="h.aoec")
    assert aoec.Session("h.aoec").on_host == ("relu",)


def test_a_plan_is_of_one_gear_and_says_its_slices(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    compiled(mlp_softmax())
    Path("my.plan").write_text(Path("dump/model.plan").read_text())
    for words, why in ((["--dynamic-batch", "1,2"], "is a plan of one gear, and several are asked for"),
                       (["--slices", "auto"], "write them as slices lines of the plan")):
        capsys.readouterr()
        assert cli.main(["compile", "net.onnx", "--plan", "my.plan", *COMMON, *words]) == 2
        assert why in capsys.readouterr().err
    assert cli.main(["compile", "dump", "--from", "fuse", "--plan", "my.plan", *COMMON]) == 2
    assert "--from plan enters the folder's own model.plan" in capsys.readouterr().err
    assert cli.main(["tune", "net.onnx", "--job", "sgat", "--plan", "my.plan", *COMMON]) == 2
    assert "--job sgat finds the groups that run in slices, and --plan says them" in capsys.readouterr().err
    assert cli.main(["compile", "net.onnx", "--plan", "dump/import.graph", *COMMON]) == 2
    assert "this is a graph, and a plan is wanted here: aoec plan makes one of a graph" in capsys.readouterr().err


def test_gears_have_a_plan_each(here: Path) -> None:
    net = model([node("MatMul", "x a", "p"), node("Relu", "p", "y")], {"x": ("n", 32)}, ["y"], {"a": normal(32, 32)})
    onnx.save(net, "net.onnx")
    assert cli.main(["compile", "net.onnx", *COMMON, "--dynamic-batch", "16,32", "--dump", "dump", "-o", "a.aoec"]) == 0
    assert cli.main(["compile", "dump", *COMMON, "--from", "plan", "-o", "b.aoec"]) == 0
    assert Path("a.aoec").read_bytes() == Path("b.aoec").read_bytes()


def test_a_plan_is_made_of_a_graph_and_entered_by_fuse(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = compiled(HEADS)
    assert cli.main(["plan", "dump/import.graph", "-o", "net.plan"]) == 0
    made = parse_plan(Path("net.plan").read_text())
    assert made.apart == plan.apart and [(g.name, g.kind, g.nodes) for g in made.groups] == [(g.name, g.kind, g.nodes) for g in plan.groups]
    assert cli.main(["fuse", "dump/import.graph", "--plan", "net.plan", "-o", "fused.graph"]) == 0
    assert Path("fused.graph").read_text() == Path("dump/fused.graph").read_text()
    Path("net.plan").write_text(show(made).replace("group", "group more vector [a] group", 1))
    capsys.readouterr()
    assert cli.main(["fuse", "dump/import.graph", "--plan", "net.plan", "-o", "no.graph"]) == 2
    assert "has no node a" in capsys.readouterr().err and not Path("no.graph").exists()


def test_a_plan_says_what_it_is_and_two_what_differs(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = """plan net for Ascend910B3 {
  apart mm.result
  group g0 cube [mm, relu] takes 10 us
  group g1 vector [add] takes 2.5 us
  group g2 vector [exp] takes 3 us
  group g3 host [where] takes 20 us
}
"""
    other = """plan net for Ascend910B3 {
  nz t4
  group g0 cube [mm] takes 8 us
  group g1 vector [relu] takes 3 us
  group g2 vector [add, exp] takes 4 us
  group g3 host [where] takes 21 us
  slices g0..g2/4
}
"""
    Path("a.plan").write_text(text)
    Path("b.txt").write_text(other)
    assert cli.main(["explain", "a.plan"]) == 0
    said = capsys.readouterr().out
    assert "net for Ascend910B3, 3 launches, 35.50 us as claimed, modelled" in said and "fusions not made: 1" in said
    assert "mm.result: the move behind it is a launch of its own" in said and "takes longer by default schedules" in said
    assert cli.main(["explain", "a.plan", "b.txt", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["decisions"] == {"apart": {"a": ["mm.result"], "b": []}, "nz": {"a": [], "b": ["t4"]}}
    found = [(p["cause"], p["a_us"], p["b_us"], p["apart"]) for p in facts["parts"]]
    assert found == [("joined", 5.5, 4.0, []), ("split", 10.0, 11.0, ["mm.result"])]
    assert facts["slices"] == [{"a": None, "b": "g0..g2/4", "a_us": 15.5, "b_us": 15.0}]
    assert [(x["a_us"], x["b_us"]) for x in facts["times"]] == [(20.0, 21.0)]
    assert cli.main(["explain", "a.plan", "b.txt"]) == 0
    said = capsys.readouterr().out
    assert "split: 10.00 -> 11.00 us (+1.00) (apart: mm.result)" in said and "whole -> g0..g2/4: 15.50 -> 15.00 us (-0.50)" in said
    assert cli.main(["explain", "a.plan", "a.plan"]) == 0
    assert "they say the same" in capsys.readouterr().out
