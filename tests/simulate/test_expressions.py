"""Law: what is left of an expression when the ranges of its variables are known has its value, wherever the variables stand."""
from __future__ import annotations

from itertools import product

import pytest
from aoec.kernels import tile
from hypothesis import given, settings
from hypothesis import strategies as st

from aoec.base.errors import CheckError, UnsupportedError
from aoec.ir.index import INT_CALLS, INT_OPS, Binary, Call, Expr, Int, Var, binary, ceildiv, evaluate, minimum, select
from aoec.ir.ranges import CONSTANT
from aoec.simulate.encode.expressions import Expressions, Term

NAMES = ("i", "j", "k")
OPERATIONS = ("+", "-", "*", "//", "%", "==", "!=", "<", "<=", ">", ">=", "and", "or")


def expressions() -> st.SearchStrategy[Expr]:
    leaves = st.builds(Int, st.integers(-3, 70)) | st.builds(Var, st.sampled_from(NAMES))
    return st.recursive(leaves, lambda e: st.one_of(
        st.builds(Binary, st.sampled_from(OPERATIONS), e, e),
        st.builds(lambda fn, *a: Call(fn, a), st.sampled_from(("min", "max", "ceildiv")), e, e),
        st.builds(lambda *a: Call("select", a), e, e, e), st.builds(lambda fn, a: Call(fn, (a,)), st.sampled_from(("not", "abs")), e)),
        max_leaves=8)


def known(highs: tuple[int, ...]) -> tuple[Expressions, dict[str, int]]:
    """Three nested loops of so many iterations, moved by rows 1, 2 and 3."""
    made = Expressions("p")
    return made, {n: made.variable(0, h - 1, row) for row, (n, h) in enumerate(zip(NAMES, highs), 1)}


def value(run: list[tuple[int, int]], env: list[int]) -> int:
    """What a postfix run gives, with the operations of Python."""
    stack: list[int] = []
    for op, argument in run:
        if op < 2:
            stack.append(argument if op == 0 else env[argument])
            continue
        word = tile.EXPR_OPS[op]
        count = {"select": 3, "not": 1, "abs": 1}.get(word, 2)
        given = [stack.pop() for _ in range(count)][::-1]
        stack.append(int(INT_OPS[word](*given) if word in INT_OPS else INT_CALLS[word](*given)))
    return stack[0]


@settings(max_examples=400, deadline=None)
@given(expressions(), st.tuples(*[st.integers(1, 4)] * 3))
def test_a_term_has_the_value_of_its_expression_and_lies_in_its_range(e, highs):
    made, scope = known(highs)
    term = made.term(e, scope)
    for at in product(*map(range, highs)):
        try:
            wanted = int(evaluate(e, dict(zip(NAMES, at))))
        except CheckError as e0:
            assert "divides by zero" in str(e0)
            continue
        assert term.low <= wanted <= term.high
        assert value(term.run, list(at)) == wanted
        if term.sum is not None:
            assert sum(c * (1 if v == CONSTANT else at[v]) for v, c in term.sum.items()) == wanted


def of(text: Expr, *highs: int) -> Term:
    made, scope = known(highs)
    return made.term(text, scope)


def test_ranges_decide_tails_that_are_none():
    i, j = Var("i"), Var("j")
    assert of(minimum(512 - i * 128 - j * 64, 64), 4, 2, 1).number == 64
    assert of(ceildiv(minimum(512 - i * 128 - j * 64, 64), 16) * 16, 4, 2, 1).number == 64
    assert of(minimum(784 - i * 160, 160), 5, 1, 1).sum is None
    assert of(minimum(784 - i * 160, 160), 4, 1, 1).number == 160
    assert of(select(binary("<", i, 4), i * 3, 7), 4, 1, 1).sum == {0: 3}
    assert of(binary("%", i + 8, 8), 8, 1, 1).sum == {0: 1}
    assert of(binary("//", i * 32 + 64, 16), 4, 1, 1).sum == {0: 2, CONSTANT: 4}


def test_what_loops_move_is_evaluated_where_the_innermost_of_them_steps_on():
    made, scope = known((5, 3, 2))
    tail = minimum(784 - Var("i") * 160, 160)
    first, again = made.add(tail, scope), made.add(tail, scope)
    assert first == again and made.spans[first][0] == tile.VARIABLE
    assert list(made.kept) == [1]
    made.add(minimum(Var("i") * Var("k"), 3), scope)
    assert sorted(made.kept) == [1, 3]


def test_what_a_counter_moves_or_what_may_divide_by_zero_stays_where_it_is():
    made, scope = known((5, 3, 2))
    scope["slot"] = made.variable(0, 1, None)
    for e in (minimum(Var("i") * Var("slot"), 3), binary("//", Int(7), Var("i")), binary("%", Var("i") * Var("j"), Var("i"))):
        assert made.spans[made.add(e, scope)][0] == tile.POSTFIX
    assert not made.kept


def test_numbers_that_int64_does_not_hold_are_left_alone():
    assert of(Var("i") * (1 << 61), 4, 1, 1).sum is None
    assert of(minimum(Var("i") * (1 << 61), 5), 4, 1, 1).sum is None


def test_unknown_names_and_deep_nests_are_refused():
    with pytest.raises(CheckError, match="no variable in scope"):
        of(Var("m") + 1, 1, 1, 1)
    made, scope = known((2, 2, 2))
    deep: Expr = Var("i")
    for n in range(2, 80):
        deep = Call("min", (Var("j") * Var("i") * n, binary("*", Var("j"), deep)))
    with pytest.raises(UnsupportedError, match="nests deeper"):
        made.add(deep, scope)
