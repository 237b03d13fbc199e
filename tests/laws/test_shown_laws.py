"""Laws of what is shown of scheduled funcs and programs: it is shorter, parses, and means and takes what the text as it was made does."""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aoec import primitives
from aoec.ir.index import Float, evaluate
from aoec.ir.program import Advance, For, Instr, Item, Program, Ref
from aoec.ir.rewrite import fill, normalise
from aoec.ir.schedule import Trace
from aoec.ir.text.keys import key
from aoec.ir.text.parse import parse_func, parse_program
from aoec.ir.text.show import show
from aoec.ir.text.simplify import is_finished, simplify, without_single
from aoec.jobs.tune.tuning import problem
from aoec.lowering.emit.emit import emit
from aoec.simulate.timing.state import PREVIOUS_LAUNCH
from aoec.simulate.timing.time import measure
from aoec.target.legality.check import check
from aoec.target.machine import load
from tests.laws.strategies import HOLES, funcs, programs
from tests.lowering.groups import MODELS, cases, legal, tuning

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
LAW = settings(max_examples=12, deadline=None, suppress_health_check=SLOW)


def filled(draw: st.DataObject, noun: object) -> object:
    """A noun with its holes filled, in normal form, as nouns are shown."""
    return normalise(fill(noun, {n: draw.draw(st.sampled_from(c)) for n, c in HOLES.items()}))  # type: ignore[type-var]


# ---------------------------------------------------------------- any program: the values of all its expressions

def said(program: Program) -> list[object]:
    """What the instructions of a program hold at the first, second and last iteration of each loop, on the first and last cores."""
    out: list[object] = []
    for s in program.streams:
        ends = [[(n, i) for i in some(evaluate(e, {}))] for n, e in s.grid]
        ends += [[(n, i) for i in some(evaluate(d, {}))] for n, d in s.counters]
        for at in product(*ends):
            out += held(s.body, dict(at))
    return out


def some(count: int) -> list[int]:
    return sorted({i for i in (0, 1, count - 1) if 0 <= i < count})


def held(body: tuple[Item, ...], at: Mapping[str, int]) -> Iterator[object]:
    for i in body:
        if isinstance(i, For):
            for k in some(evaluate(i.trips, at)):
                yield from held(i.body, {**at, i.var: k})
        elif isinstance(i, Instr):
            for name, v in i.fields:
                parts = (v.slot, v.offset) if isinstance(v, Ref) else (v,)
                yield i.op, name, [e.value if isinstance(e, Float) else evaluate(e, at) for e in parts]
        elif isinstance(i, Advance):
            yield i.counter
        else:
            yield type(i), evaluate(i.id, at)




@LAW
@given(programs(), st.data())
def test_any_program_says_the_same_in_fewer_characters(drawn: Program, data: st.DataObject) -> None:
    raw = filled(data, drawn)
    assert isinstance(raw, Program)
    for shown in (simplify(raw), without_single(raw)):
        again = parse_program(show(shown), "p")
        assert again == shown and simplify(shown) == shown and len(show(shown)) <= len(show(raw))
        # a field of 0 is none: ranges may find that it always is
        assert [x for x in said(shown) if not zero(x)] == [x for x in said(raw) if not zero(x)]
    assert without_single(without_single(raw)) == without_single(raw)


def zero(x: object) -> bool:
    return isinstance(x, tuple) and len(x) == 3 and x[2] == [0]


@LAW
@given(funcs(), st.data())
def test_any_func_that_is_shown_parses_and_is_shown_so_again(drawn, data: st.DataObject) -> None:
    raw = filled(data, drawn)
    shown = simplify(raw)
    assert parse_func(show(shown), "f") == shown == simplify(shown) and len(show(shown)) <= len(show(raw))
    assert is_finished(raw) or key(parse_func(show(shown), "f")) == key(raw)


# ---------------------------------------------------------------- what lowering and sketches make, on three chips

CHIPS = ("Ascend910B3", "Ascend310P3", "Ascend950PR_958x")
# pools are emitted by the form of their extents, convolutions by that of their indices; all of them in make test-all
SHOWN = ("matmul", "conv", "avg_pool", "max_pool_near", "softmax_rows")
EACH = [pytest.param(m, chip, marks=[pytest.mark.slow] * (m not in SHOWN or SHOWN.index(m) % 3 != i))
        for m in MODELS for i, chip in enumerate(CHIPS) if MODELS[m][0] != "fp32" or chip != "Ascend310P3"]  # whose cube has no fp32


@pytest.mark.parametrize("model, chip", EACH)
def test_what_is_shown_is_emitted_and_run_in_the_same_time(model: str, chip: str) -> None:
    for case in cases(model, chip):
        p = problem(case.func, load(chip))
        assert simplify(case.func) == case.func and key(parse_func(show(simplify(case.func)), "f")) == key(case.func)
        for number, c in enumerate(legal(p, s, 1, 11)[0] for s in range(0, len(p.sketches), 2)):
            func = normalise(primitives.apply(case.func, p.trace(c)))
            raw = normalise(emit(func, p.machine))
            again = parse_func(show(simplify(func)), "f")
            program = parse_program(show(simplify(raw)), "p")
            emitted = normalise(emit(again, p.machine))
            assert again == simplify(again) and program == simplify(program)
            assert len(show(again)) <= len(show(func)) and len(show(program)) <= len(show(raw))
            check(program, p.machine), check(emitted, p.machine)
            for state in ((), PREVIOUS_LAUNCH):
                ticks = measure(raw, p.machine, state).ticks
                assert ticks == measure(program, p.machine, state).ticks == measure(emitted, p.machine, state).ticks, p.values(c)
            if number == 0:
                wanted = case.run(raw)
                for other in (program, emitted, without_single(raw)):
                    assert np.array_equal(case.run(other), wanted, equal_nan=True)


def test_a_schedule_goes_on_from_what_is_shown() -> None:
    """Wherever a trace is broken off: the func is shown, read, scheduled to the end and emitted, and takes the same time."""
    p = tuning("matmul_even", 0)
    trace = p.trace(legal(p, 0, 1, 11)[0])
    whole = measure(normalise(emit(primitives.apply(p.func, trace), p.machine)), p.machine).ticks
    shorter = 0
    for cut in range(len(trace.steps) + 1):
        func = normalise(primitives.apply(p.func, Trace(trace.steps[:cut])))
        text = show(simplify(func))
        shorter += len(text) < len(show(func))
        after = primitives.apply(parse_func(text, "f"), Trace(trace.steps[cut:]))
        assert measure(normalise(emit(after, p.machine)), p.machine).ticks == whole, cut
    assert shorter > 3  # steps follow on what is simplified, too
