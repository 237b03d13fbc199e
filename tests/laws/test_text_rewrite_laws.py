"""Laws of expressions and their rewriting: value, normal form, filling, keys. The oracle is a plain evaluator of its own."""
from __future__ import annotations

import operator
from concurrent.futures import ProcessPoolExecutor
from copy import deepcopy
from dataclasses import fields, is_dataclass, replace
from multiprocessing import Pipe, get_context

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from aoec.base.errors import CheckError
from aoec.ir import index, rewrite
from aoec.ir.check import check
from aoec.ir.func.tir import Buffer, Constraint, Func, Loop
from aoec.ir.graph.graph import Graph
from aoec.ir.index import Binary, Call, Float, Hole, Int, Var
from aoec.ir.program import Instr, Program, Ref
from aoec.ir.schedule import Step, Trace
from aoec.ir.text.keys import key
from aoec.ir.text.parse import parse_expr, parse_func, parse_program, parse_trace
from aoec.ir.text.show import show
from tests.laws.strategies import HOLES, NOUNS, element_exprs, integer_exprs

QUICK = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
NAMES = ("m", "n")
INTEGERS = integer_exprs(NAMES, 4)
envs = st.fixed_dictionaries({n: st.integers(-50, 50) for n in NAMES} | {h: st.sampled_from(c) for h, c in HOLES.items()})
fillings = st.fixed_dictionaries({}, optional={h: st.sampled_from(c) for h, c in HOLES.items()})

PLAIN = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod,
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "and": lambda a, b: a != 0 and b != 0, "or": lambda a, b: a != 0 or b != 0,
}


def value(e, env):
    """What an integer expression is worth, written from docs/languages.md with Python's own integers."""
    if isinstance(e, Int):
        return e.value
    if isinstance(e, (Var, Hole)):
        return env[e.name]
    if isinstance(e, Binary):
        return int(PLAIN[e.op](value(e.left, env), value(e.right, env)))
    args = [value(a, env) for a in e.args]
    match e.fn:
        case "min": return min(args)
        case "max": return max(args)
        case "abs": return abs(args[0])
        case "not": return int(args[0] == 0)
        case "select": return args[1] if args[0] != 0 else args[2]
        case "ceildiv":
            quotient, rest = divmod(args[0], args[1])
            return quotient + (rest != 0)
    raise AssertionError(e.fn)


@QUICK
@given(INTEGERS, envs)
def test_evaluate_is_worth_what_plain_arithmetic_says(e, env):
    assert int(index.evaluate(e, env)) == value(e, env)


@QUICK
@given(integer_exprs(NAMES, 3), st.lists(envs, min_size=2, max_size=4))
def test_evaluate_does_a_column_at_once(e, rows):
    columns = {n: np.array([r[n] for r in rows], dtype=np.int64) for n in rows[0]}
    expected = [value(e, r) for r in rows]
    assume(all(abs(v) < 2**31 for v in expected))
    assert np.broadcast_to(index.evaluate(e, columns), len(rows)).tolist() == expected


@settings(QUICK, max_examples=60)
@given(INTEGERS, envs)
@example(parse_expr("(m * 5 + 7) // 4 - (m * 4 - 9) % 3 + ceildiv(7 - m * 6, 4)"), {"m": -3, "n": 1, "tm": 1, "tn": 1, "d": 1})
def test_normalise_keeps_the_value(e, env):
    assert value(index.normalise(e), env) == value(e, env)


@settings(QUICK, max_examples=60)
@given(st.one_of(INTEGERS, element_exprs({"A": 2, "s": 0}, NAMES, 3)))
def test_normalise_is_idempotent_and_states_no_choices(e):
    normal = index.normalise(e)
    assert index.normalise(normal) == normal
    assert all(choices == () for choices in index.holes(normal).values())


@settings(QUICK, max_examples=80)
@given(st.one_of(INTEGERS, element_exprs({"A": 2, "s": 0}, NAMES, 3)), fillings)
@example(parse_expr("(4 * m * ?tn + 3 * m) // 4"), {"tn": 1})
@example(parse_expr("(4 * m * ?tn + 3 * m) % 4"), {"tn": 1})
@example(parse_expr("ceildiv(4 * m * ?tn - m, 4)"), {"tn": 1})
@example(parse_expr("A[m, n] * 0 + m + m + ?tn"), {"tn": 2})
def test_normalise_and_fill_commute(e, values):
    filled = index.normalise(index.fill(e, values))
    assert index.normalise(index.fill(index.normalise(e), values)) == filled


@QUICK
@given(INTEGERS, envs)
def test_the_builders_fold_without_changing_the_value(e, env):
    assert value(index.substitute(index.fill(e, env), {n: Int(env[n]) for n in NAMES}), {}) == value(e, env)


@QUICK
@given(integer_exprs(NAMES, 2), integer_exprs(NAMES, 2), envs)
def test_affine_takes_an_expression_apart(a, b, env):
    e = Var("m") * 3 + Var("n") * index.fill(a, env) + b
    parts = index.affine(e, frozenset(NAMES))
    if parts is None:
        return
    coefficients, constant = parts
    assert not any(index.variables(c) & set(NAMES) for c in (*coefficients.values(), constant))
    assert sum(value(c, env) * env[v] for v, c in coefficients.items()) + value(constant, env) == value(e, env)


def test_a_product_of_many_sums_stays_bounded():
    e = Int(1)
    for i in range(40):
        e = Binary("*", e, Binary("+", Var(f"x{i}"), Int(1)))
    normal = index.normalise(e)
    assert index.normalise(normal) == normal
    assert value(normal, {f"x{i}": 1 for i in range(40)}) == 2**40


# ---------------------------------------------------------------- nouns

ALL_FILLED = st.fixed_dictionaries({h: st.sampled_from(c) for h, c in HOLES.items()})
RENAMINGS = st.sampled_from([lambda n: n + "x", lambda n: "q" + n[::-1], lambda n: "in" + n])


@pytest.mark.parametrize("kind", ["func", "graph", "program", "trace"])
def test_nouns_are_normalised_filled_and_renamed(kind):
    """Laws of one noun, for to draw it takes longer than to ask any of them. Graphs have no holes, and names of a trace are a func's."""
    @QUICK
    @given(NOUNS[kind], fillings, ALL_FILLED, RENAMINGS)
    def law(noun, some, every, f):
        if kind != "graph":
            normal = rewrite.normalise(noun)
            normal_and_filled(noun, normal, some)
            filled_first_or_last_is_the_same(noun, normal, every)
        if kind != "trace":
            key_does_not_depend_on_names(noun, f)
    law()


def normal_and_filled(noun, normal, values):
    assert rewrite.normalise(normal) == normal
    check(normal)
    filled = rewrite.fill(noun, values)
    check(filled)
    assert rewrite.holes(filled).keys() == rewrite.holes(noun).keys() - values.keys()
    assert rewrite.fill(rewrite.fill(noun, values), values) == filled


def filled_first_or_last_is_the_same(noun, normal, values):
    """With every hole stated where first named and none left open, as emission does it."""
    filled = rewrite.normalise(rewrite.fill(noun, values))
    assert rewrite.normalise(rewrite.fill(normal, values)) == filled
    assert rewrite.holes(filled) == {}


def key_does_not_depend_on_names(noun, f):
    other = renamed_program(noun, f) if isinstance(noun, Program) else renamed(noun, f)
    assert other != noun
    assert key(other) == key(noun)


def test_choices_move_to_where_the_hole_is_first_named():
    p = parse_program("""program p for M { input A: fp16[?tm + 0*?d, ?tm in [16, 32]]
      space s: fp16 in UB at 0 size ?tm*?d depth ?d in [1, 2] stream x aiv {} }""")
    assert "input A: fp16[?tm in [16, 32], ?tm]" in show(rewrite.normalise(p))
    assert "size ?d in [1, 2] * ?tm depth ?d" in show(rewrite.normalise(p))
    assert "fp16[16, 16]" in show(rewrite.fill(p, {"tm": 16}))
    assert rewrite.holes(p) == {"tm": (16, 32), "d": (1, 2)}


def test_choices_that_differ_are_refused():
    text = "sched { split(loop=m, factor=?t in [1, 2])\n split(loop=n, factor=?t in [1, 3]) }"
    with pytest.raises(CheckError, match=r"hole \?t has choices \[1, 2\] and \[1, 3\]") as e:
        parse_trace(text, "x.sched")
    assert e.value.line == 2
    steps = tuple(Step("split", (("factor", Hole("t", c)),)) for c in ((1, 2), (1, 3)))
    with pytest.raises(CheckError, match="state them once"):
        rewrite.holes(Trace(steps))


def test_normalise_drops_what_always_holds_and_keeps_what_never_does():
    f = Func("f", (), (Buffer("Y", "fp16", (Int(4),)),), constraints=(
        Constraint(parse_expr("?t * 2 <= 8"), "a"), Constraint(parse_expr("?t >= 4"), "b"), Constraint(parse_expr("?u == ?u"), "c")))
    assert [c.reason for c in rewrite.normalise(f).constraints] == ["a", "b"]
    assert rewrite.normalise(rewrite.fill(f, {"t": 3})).constraints == (Constraint(Int(0), "b"),)


# ---------------------------------------------------------------- keys

def renamed(x, f):
    """The noun with `f` of every name of its own, found by field, not by the code under test."""
    if isinstance(x, tuple):
        return tuple(renamed(i, f) for i in x)
    if isinstance(x, (Instr, Step)):
        return x
    if not is_dataclass(x):
        return x
    own = {"name", "var", "buffer", "counter", "to"} if not isinstance(x, (Hole, Call)) else set()
    if type(x).__name__ == "CrossWait":
        own = own | {"source"}
    out = {k.name: f(getattr(x, k.name)) if k.name in own else renamed(getattr(x, k.name), f) for k in fields(x)}
    if isinstance(x, Graph):
        out |= {k: tuple(map(f, getattr(x, k))) for k in ("inputs", "outputs")}
    if type(x).__name__ == "OpNode":
        out |= {k: tuple(n and f(n) for n in getattr(x, k)) for k in ("inputs", "outputs")}
        out["attributes"] = x.attributes
    if type(x).__name__ in ("Group", "Body"):
        out |= {k: tuple(map(f, getattr(x, k))) for k in ("nodes", "inputs", "outputs") if hasattr(x, k)}
    if type(x).__name__ == "Body":
        out["node"] = f(x.node)
    if type(x).__name__ == "Stream":
        out |= {k: tuple((f(n), renamed(e, f)) for n, e in getattr(x, k)) for k in ("grid", "counters")}
    if isinstance(x, Constraint):
        out["reason"] = f(x.reason)
    return replace(x, **out)


def renamed_program(p, f):
    """As `renamed`; an instruction's own words stay and its operands follow."""
    def item(i):
        if isinstance(i, Instr):
            return Instr(i.op, tuple((k, renamed(v, f)) for k, v in i.fields))
        return replace(renamed(i, f), body=tuple(map(item, i.body))) if hasattr(i, "body") else renamed(i, f)
    out = renamed(p, f)
    return replace(out, streams=tuple(replace(s, body=tuple(map(item, old.body))) for s, old in zip(out.streams, p.streams)))


def test_a_trace_key_does_not_depend_on_the_names_it_makes():
    def text(outer, inner, copy, loop="m"):
        return (f"sched {{ split(loop={loop}, factor=4, outer={outer}, inner={inner}) reorder(loops=[{inner}, n, {outer}]) "
                f"cache_read(buffer=A, name={copy}, at={outer}) bind(loop={copy}_0) }}")
    keys = {key(parse_trace(text(*own))) for own in [("mo", "mi", "a"), ("x", "y", "z"), ("mi", "mo", "b")]}
    assert len(keys) == 1
    assert key(parse_trace(text("mo", "mi", "a", loop="k"))) not in keys


CHANGES = [
    ("fp16[4, ?t]", "fp32[4, ?t]"), ("fp16[4, ?t]", "fp16[5, ?t]"), ("for i in 4 ", "for i in 3 "), ("+=", "max="),
    ("core", ""), ("A[i, 0]", "A[0, i]"), ("as copy", "as mmad"), ("in UB", "in L1"), ("depth 2", "depth 3"), ("?t", "?u"),
    ("init 0.0", "init 1.0"), ("init 0.0", ""),
    ("require ?t < 8", "require ?t < 9"), ("B[i]", "B[i - 1]"), ("in UB depth", "in UB NZ depth"),
]
FUNC = """func f(A: fp16[4, ?t]) -> (Y: fp16[4]) {
  local B: fp16[4] in UB depth 2
  require ?t < 8 "small"
  for i in 4 core { b: B[i] += A[i, 0] init 0.0 as copy }
}"""


@pytest.mark.parametrize("old, new", CHANGES)
def test_keys_differ_when_the_meaning_does(old, new):
    assert old in FUNC
    assert key(parse_func(FUNC)) != key(parse_func(FUNC.replace(old, new)))


def test_keys_see_which_buffer_is_meant():
    two = "func f(A: fp16[4], B: fp16[4]) -> (Y: fp16[4]) { for i in 4 { b: Y[i] = A[i] } }"
    assert key(parse_func(two)) != key(parse_func(two.replace("= A[i]", "= B[i]")))


def test_keys_of_programs_see_slots_and_operands():
    text = """program p for M { input A: fp16[8] space s: fp16 in UB at 0 size 16 depth 2
      stream x aiv counters [c depth 2] { op(dst=s.c[0], src=A[4], n=1) } }"""
    changes = [("", ""), ("s.c[0]", "s[0]"), ("A[4]", "A[5]"), ("n=1", "n=2"), ("for M", "for N")]
    assert len({key(parse_program(text.replace(old, new))) for old, new in changes}) == len(changes)


def test_refs_keep_slot_and_offset_apart():
    p = parse_program("program p for M { space s: fp16 in UB at 0 size 16 depth 2 stream x aiv { op(dst=s.1[3]) } }")
    assert p.streams[0].body == (Instr("op", (("dst", Ref("s", Int(3), Int(1))),)),)


@pytest.mark.parametrize("deep", [lambda e: Binary("+", e, Int(1)), lambda e: Call("abs", (e,)), lambda e: Binary("-", Int(1), e)])
def test_what_is_nested_too_deeply_is_refused_in_a_sentence(deep):
    e = Var("m")
    for _ in range(5000):
        e = deep(e)
    f = Func("f", (), (), (), (Loop("m", e, ()),), (Constraint(e, ""),))
    for act in (show, check, rewrite.normalise, lambda f: rewrite.fill(f, {}), key):
        with pytest.raises(CheckError, match=r"deep|levels|large"):
            act(f)
    assert rewrite.holes(f) == {}  # walks without recursion


def test_reals_keep_their_value_and_sign():
    for v in (0.1, 1e-45, 1.7976931348623157e308, float("inf"), float("-inf"), 5e-324, 1e16, -2.5):
        assert parse_expr(show(Float(v))) == Float(v)
    assert str(parse_expr("-0.0").value) == "-0.0"


# ---------------------------------------------------------------- nodes

def sent(e):
    """The expression as another process would get it."""
    there, here = Pipe()
    there.send(e)
    return here.recv()


@QUICK
@given(element_exprs({"A": 2, "B": 1}, NAMES, 3), element_exprs({"A": 2, "B": 1}, NAMES, 1))
def test_expressions_are_equal_where_they_are_shown_alike(e, other):
    for copied in (parse_expr(show(e)), sent(e), deepcopy(e)):
        assert copied == e and hash(copied) == hash(e) and repr(copied) == repr(e)
    assert (e == other) == (repr(e) == repr(other))


def test_of_a_number_and_a_name_there_is_one_node():
    for made in (lambda: Int(7), lambda: Int(-2**63), lambda: Var("m"), lambda: Hole("tm", (1, 2))):
        assert made() is made() and sent(made()) is made() and deepcopy(made()) is made()
    assert len({Var("t"), Hole("t"), Hole("t", (1, 2)), Int(1), Float(1.0)}) == 5
    assert show(Int(np.int64(3))) == show(Int(3)) and repr(Int(True)) == repr(Int(1))


def test_zeros_of_either_sign_are_two_numbers():
    x = index.Read("A", (Var("m"),))
    assert show(x * 0.0) != show(x * -0.0) and index.normalise(x * 0.0) != index.normalise(x * -0.0)
    assert Float(float("nan")) == Float(float("nan")) and index.is_zero(Float(-0.0)) and not index.is_zero(Int(0))


def test_an_expression_of_another_process_is_found_here(monkeypatch):
    text = "min(m * ?tm, n // 3) + A[m, n]"
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        assert pool.submit(parse_expr, text).result() in {parse_expr(text)}
