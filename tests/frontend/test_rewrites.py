"""Rules for graphs: their text, how they match, what is declined and noted, and what a user's file may hold."""
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from aoec import cli
from aoec.base.errors import AoecError
from aoec.frontend import passes
from aoec.frontend.rewrites import library
from aoec.frontend.rewrites.apply import STEPS_EACH, Rewriting, Site, apply
from aoec.frontend.rewrites.law import check_laws
from aoec.frontend.rewrites.match import MOST_STEPS, Matcher
from aoec.frontend.rewrites.scene import Scene
from aoec.frontend.translate.onnx import load
from aoec.ir.graph.rule import Rule
from aoec.ir.text.flat import flat, noun
from aoec.ir.text.parse import parse_rules
from aoec.ir.text.show import show
from aoec.jobs import rewrites

from .models import model, node, normal, run
from .test_passes import draft, values

RELU = """rule by_clip "a bound from below" {
  y = relu(x)
  x: real
  => y = clip(x; lo=0.0, hi=inf)
}
"""
EVERY = [(subject, r) for subject in library.subjects() for r in library.rules(subject)]


@pytest.mark.parametrize("rule", [r for _, r in EVERY], ids=lambda r: r.name)
def test_a_rule_is_its_text(rule: Rule) -> None:
    assert parse_rules(show(rule)) == (rule,) and noun(flat(rule)) == rule


def test_every_kind_of_line_is_text() -> None:
    text = """rule all "each line" {
  y = ?a * (x + (u + 2.0)) * ~0.5 or attention(x, v, v; scale=a)
  u = reshape(w; shape=[*n~m, *ones(n), len(n) * size(m)])
  x, "odd name": const real[*n~m, 2 * c]
  w: any
  k: number
  alone u
  if c % 2 == 0 and k < -1.0
  if c != 3 or c == 5
  when join(x, w)
  keeps u
  rounds
  => z = relu(x)
    y = max_pool(z; kernel=[1, 1])
}"""
    text = text.replace(', "odd name"', "").replace("u + 2.0", "u + k")
    assert show(parse_rules(text)[0]) == text


@pytest.mark.parametrize("text, complaint, at", [
    ("rule a \"\" {\n  y = relu(x)\n", "the end of the text", "2:14"),
    ("rule a \"\" {\n  y = relux(x)\n  => y = relu(x)\n}", "operator relux is not in the dictionary; did you mean relu?", "1:1"),
    ("rule a \"\" {\n  y = clip(x; low=0.0, hi=1.0)\n  => y = relu(x)\n}", "operator clip has no attribute low", "1:1"),
    ("rule a \"\" {\n  y = relu(x)\n  => y = relu(z)\n}", "the replacement reads z, which is no tensor of the pattern", "3:15"),
    ("rule a \"\" {\n  y = relu(x)\n  z = relu(x)\n  => y = relu(x)\n}", "z is read by nothing before this line", "3:3"),
    ("rule a \"\" {\n  y = relu(y)\n  => y = relu(y)\n}", "y would be made of itself", "2:3"),
    ("rule a \"\" {\n  y = relu(x)\n  x: reel\n  => y = relu(x)\n}", "unknown kind reel; did you mean real?", "3:6"),
    ("rule a \"\" {\n  y = relu(x)\n  when joined(x, x)\n  => y = relu(x)\n}", "unknown condition joined; did you mean join?", "1:1"),
    ("rule a \"\" {\n  y = relu(x)\n  if c > 1\n  => y = relu(x)\n}", "c has no value in the pattern", "3:6"),
    ("rule a \"\" {\n  y = relu(x)\n  alone y\n  => y = relu(x)\n}", "alone y is none of the tensors", "2:3"),
    ("rule a \"\" {\n  y = relu(x)\n  => z = relu(x)\n}", "the last line of the replacement makes y", "1:6"),
    ("rule a \"\" {\n  y = 1 * 2\n  => y = relu(x)\n}", "a product needs a tensor", "2:3"),
    (RELU + RELU, "rule by_clip is declared twice", "6:6"), ("", "it has 0 rules", "mine"), ("# none\n", "it has 0 rules", "mine"),
    ("rule a \"\" {\n  y = " + "relu(" * 200 + "x" + ")" * 200 + "\n  => y = x\n}", "nested more than 100 levels deep", "2:"),
    ("rule a \"\" {\n" + "".join(f"  y{i} = relu(y{i + 1})\n" for i in range(80)) + "  => y0 = y80\n}", "are too many; up to 64", "1:6")])
def test_a_text_that_is_no_rule_is_refused_at_its_place(text: str, complaint: str, at: str) -> None:
    with pytest.raises(AoecError) as error:
        library.read(text, "mine")
    assert complaint in str(error.value) and f"mine:{at}" in str(error.value) or at == "mine" and complaint in str(error.value)


def rule(text: str) -> Rule:
    return library.read(text)[0]


PRODUCT = rule('rule triple "x * 3 * relu(z)" { y = x * 3 * r r = relu(z) alone r => y = r }'.replace(" r = ", "\n r = ").replace(
    " alone", "\n alone"))


@pytest.mark.parametrize("nodes", [
    [("relu", "x", "r", {}), ("muls", "z", "a", {"scalar": 3.0}), ("mul", "a r", "y", {})],
    [("relu", "x", "r", {}), ("mul", "r z", "a", {}), ("muls", "a", "y", {"scalar": 3.0})],
    [("relu", "x", "r", {}), ("muls", "r", "b", {"scalar": 1.5}), ("mul", "z b", "a", {}), ("muls", "a", "y", {"scalar": 2.0})]])
def test_a_product_is_found_in_any_order_and_grouping(nodes: list[tuple[str, str, str, dict[str, object]]]) -> None:
    d, done = draft(*nodes, ("exp", "y", "end", {}), z=normal(2, 3, 4, 5), outputs=("end",)), Rewriting()
    scene = Scene(d)
    found = Matcher(PRODUCT, scene).at(scene.producers["y"])
    assert found is not None and found.tensors["x"] == "z" and found.tensors["r"] == "r"
    apply((PRODUCT,), d, done)
    assert done.applied == [Site("triple", "y")]


@pytest.mark.parametrize("nodes", [
    [("relu", "x", "r", {}), ("muls", "z", "a", {"scalar": 2.0}), ("mul", "a r", "y", {})],  # another number
    [("relu", "x", "r", {}), ("muls", "z", "a", {"scalar": 3.0}), ("mul", "a r", "b", {}), ("add", "b r", "y", {})],  # read twice
    [("relu", "x", "r", {}), ("mul", "z r", "y", {})]])  # no number
def test_another_product_is_none(nodes: list[tuple[str, str, str, dict[str, object]]]) -> None:
    d, done = draft(*nodes, ("exp", "y", "end", {}), z=normal(2, 3, 4, 5), outputs=("end",)), Rewriting()
    apply((PRODUCT,), d, done)
    assert done.applied == []


def test_attributes_that_a_rule_does_not_name_are_as_by_default() -> None:
    """A product that turns an operand is none that a rule speaks of without saying so."""
    r = rule('rule p "" {\n  y = relu(matmul(x, w))\n  => y = matmul(x, w)\n}')
    cases: list[tuple[dict[str, object], int]] = [({}, 1), ({"trans_b": 1}, 0), ({"trans_b": 0}, 1)]
    for given, count in cases:
        d, done = draft(("matmul", "x w", "a", given), ("relu", "a", "y", {}), shape=(4, 4), w=normal(4, 4)), Rewriting()
        apply((r,), d, done)
        assert len(done.applied) == count


def test_work_of_one_place_is_bounded() -> None:
    """Of a product of many equal factors not every order is tried."""
    links: list[tuple[str, str, str, dict[str, object]]] = [("mul", f"a{i} x", f"a{i + 1}", {}) for i in range(14)]
    chain: list[tuple[str, str, str, dict[str, object]]] = [("mul", "x z", "a0", {}), *links, ("relu", "a14", "y", {})]
    d = draft(*chain, z=normal(2, 3, 4, 5))
    wide = rule('rule w "" {\n  y = ' + " * ".join(f"relu(x{i})" for i in range(15)) + "\n  => y = relu(x0)\n}")
    scene = Scene(d)
    matcher = Matcher(wide, scene)
    assert matcher.at(scene.producers["a14"]) is None and matcher.steps <= MOST_STEPS + 1


def test_what_is_declined_stays_and_what_is_applied_is_noted() -> None:
    nodes = [("muls", "x", "a", {"scalar": 1.0}), ("relu", "a", "b", {}), ("adds", "b", "c", {"scalar": 0.0}), ("exp", "c", "y", {})]
    d, done = draft(*nodes), Rewriting(declined={Site("number_for_nothing", "c")})  # type: ignore[arg-type]
    before = values(d)
    passes.clean(d, rewriting=done)
    assert [n.op for n in d.nodes] == ["relu", "adds", "exp"]
    assert done.applied == [Site("number_for_nothing", "a")] and done.counts() == {"number_for_nothing": 1}
    np.testing.assert_array_equal(values(d), before)


def test_a_replacement_of_another_shape_is_none() -> None:
    r = rule('rule s "" {\n  y = relu(x)\n  => y = reduce_max(x; axes=[0])\n}')
    d, done = draft(("relu", "x", "y", {})), Rewriting()
    apply((r,), d, done)
    assert not done.applied and [n.op for n in d.nodes] == ["relu"]


def test_a_window_with_pads_is_not_nothing() -> None:
    """Kernels of one pixel in steps of two over a padded image give an image of the same size, and another one."""
    window: dict[str, object] = {"kernel": (1, 1), "stride": (2, 2), "pad": (1, 1, 1, 1), "dilation": (1, 1)}
    d = draft(("relu", "x", "r", {}), ("max_pool", "r", "p", window), ("exp", "p", "y", {}), shape=(1, 2, 3, 3))
    before = values(d)
    passes.drop_identities(d)
    np.testing.assert_array_equal(values(d), before)


# ---------------------------------------------------------------- a user's own

@pytest.mark.parametrize("text, complaint", [
    (RELU.replace("lo=0.0", "lo=0.25"), "rule by_clip is false: for x fp"),
    (RELU.replace("y = relu(x)", "y = relu(x)\n  if len(n) == 99").replace("x: real", "x: real[*n]"), "could not be tried"),
    ('rule e "" {\n  y = exp(x)\n  x: real[*n]\n  => w = expand(reshape(x; shape=[1, *n]); shape=[99999999, *n])\n'
     '  y = reshape(reduce_max(w; axes=[0]); shape=[*n])\n}',
     "makes no fp"), ('rule e "" {\n  y = exp(x)\n  => y = reduce_max(x; axes=[0])\n}', "the replacement makes no "),
    (RELU.replace("by_clip", "silu"), "give it a name of its own")])
def test_a_rule_that_is_false_or_cannot_be_tried_is_refused(text: str, complaint: str, tmp_path: Path,
                                                             capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.rules"
    file.write_text(text)
    assert cli.main(["rewrites", "--rewrites", str(file)]) == 2
    err = capsys.readouterr().err
    assert complaint in err and err.count("\n") == 1 and "mine.rules" in err


def test_a_rule_that_rounds_otherwise_says_so() -> None:
    text = 'rule r "" {\n  y = div(x, sqrt(z))\n  x, z: real[*n]\n  => y = mul(x, rsqrt(z))\n}'
    with pytest.raises(AoecError, match="write rounds"):
        check_laws((rule(text),))
    check_laws((rule(text.replace("  =>", "  rounds\n  =>")),))


def test_a_users_rule_is_applied_to_the_graph_that_import_shows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import onnx
    proto = model([node("MatMul", "x w", "a"), node("Relu", "a", "b"), node("Relu", "b", "c"), node("Neg", "c", "y")], {"x": (4, 6)}, ["y"],
                  {"w": normal(6, 5)})
    file, net = tmp_path / "mine.rules", tmp_path / "net.onnx"
    file.write_text(RELU)
    onnx.save(proto, net)
    assert cli.main(["import", str(net), "--rewrites", str(file), "--precision", "fp32", "-o", str(tmp_path / "net.graph")]) == 0
    assert "rule by_clip: applied at 2 places" in capsys.readouterr().err
    assert (tmp_path / "net.graph").read_text().count("clip(") == 2
    done = Rewriting((rule(RELU),))
    graph, weights, _ = load(proto, precision="fp32", rewriting=done)
    from aoec import ops
    x = normal(4, 6, seed=1)
    np.testing.assert_allclose(ops.evaluate(graph, {"x": x}, weights)["y"], run(proto, {"x": x})[0], rtol=1e-5, atol=1e-5)
    assert done.counts()["by_clip"] == 2


def test_facts_of_rules() -> None:
    found = rewrites.facts()
    assert [f["name"] for f in found] == [r.name for _, r in EVERY]
    assert rewrites.facts("silu")[0]["replacement"] == ["y = silu(x)"]
    with pytest.raises(AoecError, match="did you mean silu"):
        rewrites.facts("silo")


def test_the_example_of_the_page_holds_and_is_refused_as_the_page_says(tmp_path: Path) -> None:
    """docs/rewrites.md: Mish as three nodes."""
    page = (Path(__file__).parents[2] / "docs/rewrites.md").read_text("utf-8")
    text = next(part for part in page.split("```") if part.strip().startswith("rule mish"))
    found = library.read(text.strip())
    check_laws(found)
    proto = model([node("Softplus", "x", "s"), node("Tanh", "s", "t"), node("Mul", "t x", "y")], {"x": (4, 6)}, ["y"])
    graph, _, notices = load(proto, rewriting=Rewriting(found))
    assert [n.op for n in graph.nodes] == ["mish"] and "rule mish: applied at 1 place" in notices
    with pytest.raises(AoecError, match="rule mish is false: for x fp32"):
        check_laws(library.read(text.replace("mish(x)", "silu(x)").strip()))


def test_a_rule_is_no_burden_to_a_large_graph() -> None:
    """One that nearly matches everywhere ends after so many steps on average of the nodes."""
    links: list[tuple[str, str, str, dict[str, object]]] = [("mul", f"a{i} x", f"a{i + 1}", {}) for i in range(300)]
    d = draft(("mul", "x z", "a0", {}), *links, ("relu", "a300", "y", {}), shape=(2,), z=normal(2))
    wide = rule('rule w "" {\n  y = ' + " * ".join(f"x{i}" for i in range(9)) + "\n  x0: real[7]\n  => y = relu(x0)\n}")
    scene = Scene(d)
    matcher = Matcher(wide, scene)
    spent = sum(matcher.at(n) is None and matcher.steps for n in d.nodes if n.op == "mul")
    assert spent > 100 * MOST_STEPS  # so much without a bound
    done, counted = Rewriting(), []
    real = Matcher.at
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Matcher, "at", lambda self, node: (real(self, node), counted.append(self.steps))[0])
        apply((wide,), d, done)
    assert sum(counted) < 19 * MOST_STEPS + STEPS_EACH * 301


def test_a_compile_says_which_rules_it_applied(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In its JSON and in its dump, which holds the hash of a user's rules; a dump takes no more rules."""
    import json

    import onnx
    file, net, dump = tmp_path / "mine.rules", tmp_path / "net.onnx", tmp_path / "dump"
    file.write_text(RELU)
    onnx.save(model([node("Relu", "x", "a"), node("Exp", "a", "y")], {"x": (4, 64)}, ["y"]), net)
    words = ["compile", str(net), "--rewrites", str(file), "--dump", str(dump), "--json", "-o", str(tmp_path / "net.aoec"), "--bank",
             str(tmp_path / "bank.db"), "--base", "none"]
    assert cli.main(words) == 0
    assert json.loads(capsys.readouterr().out)["rewrites"] == {"by_clip": 1}
    said = json.loads((dump / "manifest.json").read_text())
    assert said["rewrites"] == {"by_clip": 1} and said["own_rules"] == library.digest_rules((rule(RELU),))
    assert cli.main(["compile", str(dump), *words[2:4], "-o", str(tmp_path / "b.aoec"), "--bank", str(tmp_path / "bank.db")]) == 2
    assert "is a dump, whose graph is rewritten already" in capsys.readouterr().err
