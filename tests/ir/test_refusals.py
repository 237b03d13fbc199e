"""Every structural rule of the languages refuses with its sentence, at its place."""
from __future__ import annotations

import gc
import time

import pytest

from aoec.base.errors import CheckError, ParseError
from aoec.ir.text import parse
from aoec.ir.text.show import show

FUNC = """func f(A: fp16[4, 8]) -> (Y: fp16[4]) {
  local B: fp16[4] in UB NZ depth 2
  require ?t < 8 "small"
  for i in 4 {
    for k in 8 {
      b: B[i] += A[i, k]
    }
    y: Y[i] = exp(B[i])
  }
}"""
FUNC_FAULTS = [
    ("A: fp16", "A: fp15", "unknown dtype fp15; did you mean fp16?", (1, 11)),
    ("in UB", "in UC", "unknown scope UC; known: BT, FB, GM, L0A", (2, 23)),
    ("UB NZ", "UB NX", "expected", (2, 29)),
    ("local B", "local A", "buffer A is declared twice", (2, 9)),
    ("[4] in", "[n] in", "n is not defined here; only holes and numbers", (2, 17)),
    ("depth 2", "depth i", "i is not defined here", (2, 35)),
    ("A: fp16[4, 8]", "A: fp16[4, 8] in L1", "A is an argument and lies in GM", (1, 25)),
    ('?t < 8 "small"', "?t < 8 small", "reason in quotes", (3, 18)),
    ("for k", "for i", "loop i is declared twice", (5, 9)),
    ("for k", "for B", "has the name of a buffer", (5, 9)),
    ("in 8 {", "in j {", "j is not defined here", (5, 14)),
    ("in 8 {", "in 8 cube {", "unknown kind of loop cube; known: core, serial, tensor", (5, 16)),
    ("in 8 {", "in A[0, 0] {", "reads a tensor where an integer", (5, 14)),
    ("A[i, k]", "A[i]", "A has 2 dimensions and is given 1 indices", (6, 18)),
    ("A[i, k]", "C[i, k]", "unknown buffer C", (6, 18)),
    ("b: B", "b: A", "A is an input and cannot be written", (6, 10)),
    ("y: Y", "b: Y", "block b is declared twice", (8, 5)),
    ("exp(B[i])", "exp(B[k])", "k is not defined here; defined are i", (8, 21)),
    ("exp(B[i])", "expo(B[i])", "unknown function expo; did you mean exp?", (8, 15)),
    ("exp(B[i])", "exp(B[i], 1)", "exp takes 1 arguments and is given 2", (8, 15)),
    ("exp(B[i])", "B[i] else 0.0", "use select on the bounds", (8, 20)),
    ("exp(B[i])", "9223372036854775808", "does not fit 64 bits", (8, 15)),
    ("Y[i] =", "Y[i] -=", "expected", (8, 13)),
]
PROGRAM = """program p for M {
  input A: fp16[64]
  output Y: fp16[64]
  space s: fp16 in UB at 0 size 32 depth 2
  stream x aiv grid [g in 2] counters [c depth 2] {
    for i in 4 {
      copy(dst=s.c[0], src=A[i*16], n=1)
      set(MTE2, V, c)
      advance(c)
    }
    cross_set(MTE3, y, 0)
  }
  stream y aic {
    cross_wait(M, x, 0)
  }
}"""
PROGRAM_FAULTS = [
    ("in UB", "in GM", "unknown scope GM", (4, 20)),
    ("space s", "space A", "buffer A is declared twice", (4, 9)),
    ("stream y", "stream x", "stream x is declared twice", (13, 10)),
    ("x aiv", "x aix", "unknown kind of core aix; did you mean aiv?", (5, 12)),
    ("[c depth", "[g depth", "name g is declared twice", (5, 22)),
    ("for i", "for g", "g is declared twice", (6, 9)),
    ("A[i*16]", "B[i*16]", "unknown buffer B", (7, 28)),
    ("A[i*16]", "A[j*16]", "j is not defined here; defined are c, g, i", (7, 30)),
    ("A[i*16]", "A.1[0]", "A is a GM tensor and has no slots", (7, 28)),
    ("n=1", "src=1", "field src is declared twice", (7, 24)),
    ("MTE2, V", "MTE2, W", "unknown pipe W", (8, 17)),
    ("advance(c)", "advance(i)", "unknown counter i; known: c", (9, 15)),
    ("MTE3, y", "MTE3, z", "unknown stream z", (11, 21)),
    ("MTE3, y", "MTE3, x", "goes to another stream", (11, 21)),
    ("size 32", "size g", "g is not defined here", (4, 33)),
]
GRAPH = """graph g {
  input x: fp16[4]
  const w: fp16[4] sha256:ab
  tensor a: fp16[4] NZ
  tensor b: fp16[4]
  first: add(x, w) -> a
  second: relu(a) -> b
  output b
  group g0 vector [first, second]
}"""
GRAPH_FAULTS = [
    ("a: fp16", "a: half", "unknown dtype half", (4, 13)),
    ("tensor b", "tensor a", "tensor a is declared twice", (5, 10)),
    ("const w: fp16[4] sha256:ab", "const w: fp16[4]", "a const has its data's sha256", (3, 9)),
    ("second:", "first:", "node first is declared twice", (7, 3)),
    ("relu(a)", "relu(c)", "unknown tensor c", (7, 16)),
    ("add(x, w)", "add(x, b)", "b is read before a node makes it", (6, 17)),
    ("-> b", "-> a", "tensor a is made by two nodes", (7, 16)),
    ("-> b", "-> w", "w is an input or constant and cannot be made", (7, 22)),
    ("output b", "output c", "unknown tensor c", None),
    ("vector [", "tensor [", "unknown kind of group tensor", (9, 12)),
    ("first, second", "first, third", "unknown node third", (9, 27)),
    ("first, second", "first, first", "a node belongs to one", (9, 20)),
    ("first, second", "first", "node second is in no group", (7, 3)),
    ("[4] NZ", "[4, n] NZ", "expected a shape such as", (4, 17)),
]
BODY = """graph g {
  input x: fp16[4]
  const w: fp16[4] sha256:ab
  tensor a: fp16[4]
  tensor s: fp16[4]
  tensor t: fp16[4]
  loop: host.Loop("", "", x) -> a
  inner: add(s, w) -> t
  output a
  body loop body (s) -> (t) [inner]
}"""
BODY_FAULTS = [
    ("body loop body", "body loop tail", "unknown kind of body tail", (10, 13)),
    ("body loop body", "body lop body", "unknown node lop", (10, 8)),
    ("body loop body", "body inner body", "stands before the body that its node lies in", None),
    ("[inner]", "[outer]", "unknown node outer", (10, 30)),
    ("[inner]", "[inner, inner]", "node inner lies in two bodies", (10, 30)),
    ("[inner]", "[]", "s is read before a node makes it", (8, 14)),
    ("add(s, w)", "add(x, w)", "x is read before a node makes it", (8, 14)),
    ("(s) ->", "(x) ->", "x is an input of the body of loop and something else too", (10, 19)),
    ("(s) ->", "(t) ->", "s is read before a node makes it", (8, 14)),
    ("(s) ->", "(q) ->", "unknown tensor q", (10, 19)),
    ("-> (t)", "-> (a)", "output a is made by no node", None),
    ("output a", "output t", "output t is made by no node", None),
]
MEANING = """conv(X[n, c], W[c]; stride, q: stride) -> Y[n, h: n // stride] {
  S[n] += X[n, c * stride - 1] else 0.0 * W[c]
  Y[n, h] = S[n]
}"""
MEANING_FAULTS = [
    ("W[c]; ", "X[c]; ", "tensor X is declared twice", (1, 15)),
    ("X[n, c],", "X[n, n],", "dimension n is declared twice", (1, 8)),
    ("h: n // stride", "h", "dimension h of Y has no extent", (1, 48)),
    ("h: n //", "h: m //", "m is not defined here", (1, 51)),
    ("  S[n] +=", "  X[n] +=", "X is an input and cannot be written", (2, 3)),
    ("Y[n, h] =", "Y[n] =", "Y has 2 dimensions and is given 1 indices", (3, 3)),
    ("= S[n]", "= T[n]", "unknown buffer T", (3, 13)),
    ("else 0.0", "else X[n, 0]", "expected", (2, 37)),
]
KINDS = {
    "func": (FUNC, FUNC_FAULTS), "program": (PROGRAM, PROGRAM_FAULTS), "graph": (GRAPH, GRAPH_FAULTS), "meaning": (MEANING, MEANING_FAULTS),
}
CASES = [(kind, text, *fault) for kind, (text, faults) in KINDS.items() for fault in faults]
CASES += [("graph", BODY, *fault) for fault in BODY_FAULTS]


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_the_text_without_a_fault_is_read(kind):
    read = getattr(parse, f"parse_{kind}")
    noun = read(KINDS[kind][0])
    assert read(show(noun)) == noun


@pytest.mark.parametrize("kind, text, old, new, said, place", CASES)
def test_a_fault_is_refused_at_its_place(kind, text, old, new, said, place):
    assert text.count(old) >= 1
    with pytest.raises(ParseError) as e:
        getattr(parse, f"parse_{kind}")(text.replace(old, new, 1), "x")
    assert said in e.value.message
    if place:
        assert (e.value.line, e.value.column) == place


def test_an_empty_text_is_called_so():
    for source, said in (("g.prog", "g.prog: the file is empty; expected 'program'"),
                         ("-", "-: standard input is empty: the command before it wrote nothing; expected 'program'")):
        with pytest.raises(ParseError) as e:
            parse.parse_program(" \n", source)
        assert str(e.value) == said


@pytest.mark.parametrize("read", [parse.parse_expr, parse.parse_meaning])
def test_an_empty_part_of_a_file_is_no_empty_file(read):
    with pytest.raises(ParseError, match="found the end of the text") as e:
        read("", "m.toml: pipe.cycles")
    assert (e.value.line, e.value.column) == (1, 1)


EXPECTED = [
    ("1 +", "expected an expression, found the end of the text"), ("(a", "expected ')', found the end of the text"),
    ("a b", "or the end of the text, found 'b'"), ("f(", "expected an expression, found the end of the text"),
    ("?t in [", "expected a whole number, found the end of the text"), ("a $ b", "found '$'"), ("a == b == c", "found '=='"),
]


@pytest.mark.parametrize("text, said", EXPECTED)
def test_what_was_expected_is_said_in_words(text, said):
    with pytest.raises(ParseError) as e:
        parse.parse_expr(text)
    assert said in e.value.message and "__" not in e.value.message


DEEP = ["(" * 5000 + "1" + ")" * 5000, "1" + " + 1" * 5000, "abs(" * 300 + "1" + ")" * 300, "A[" * 300 + "1" + "]" * 300]


@pytest.mark.parametrize("text", DEEP)
def test_depth_is_bounded(text):
    if text.startswith("(("):
        assert show(parse.parse_expr(text)) == "1"  # brackets alone make no levels
        return
    with pytest.raises(CheckError, match="levels deep"):
        parse.parse_expr(text)


def test_loops_nest_within_bounds():
    loops = "".join(f"for i{n} in 2 {{ " for n in range(3000)) + "}" * 3000
    with pytest.raises(CheckError, match="levels deep"):
        parse.parse_func(f"func f() -> () {{ {loops} }}")


def test_a_text_beyond_all_bounds_is_not_read():
    with pytest.raises(ParseError, match="are too many"):
        parse.parse_trace("sched {" + " " * (64 << 20) + "}")


def test_a_long_graph_is_read_in_linear_time():
    """The least CPU time of three, without a look for the garbage of all tests in it, which takes a second."""
    def text(count):
        tensors = "".join(f"tensor t{i}: fp16[1, 64, 56, 56] NC1HWC0\n" for i in range(1, count + 1))
        nodes = "".join(f"n{i}: relu(t{i}) -> t{i + 1}\n" for i in range(count))
        return f"graph g {{ input t0: fp16[1, 64, 56, 56]\n{tensors}{nodes}output t{count} }}"

    def seconds(count):
        graph = text(count)
        start = time.process_time()
        assert len(parse.parse_graph(graph).nodes) == count
        return time.process_time() - start
    enabled = gc.isenabled()
    gc.disable()
    try:
        seconds(10)
        assert min(seconds(2000) for _ in range(3)) < 40 * max(min(seconds(200) for _ in range(3)), 1e-3)
    finally:
        if enabled:
            gc.enable()
