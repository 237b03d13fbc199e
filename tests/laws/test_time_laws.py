"""Laws of the timeline, on generated programs."""
from __future__ import annotations

import re
from dataclasses import astuple, replace

import numpy as np
import pytest
from aoec.kernels import timeline as kernel
from hypothesis import given, settings
from hypothesis import strategies as st

from aoec.ir.index import Int
from aoec.ir.program import For, Instr
from aoec.simulate.encode.encode import encode
from aoec.simulate.reasons.events import events
from aoec.simulate.timing.floors import floor_rows
from aoec.simulate.timing.time import ERRORS, measure, time_rows
from aoec.target.machine import load
from tests.oracle.pipelines import cases, cube_cases, filled, twisted, twists, vector_cases
from tests.oracle.slow_timeline import Illegal, simulate

# the named numbers that are rates and costs; the rest are sizes and factors
RATE = re.compile("_rate$|^fixpipe_|^img2col_[af]|^ragged_store$")
COST = re.compile("latency|head|issue$|nd2nz_row|mmad_alone|_gap$|vec_reduce")


def columns(rows):
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


@settings(max_examples=60, deadline=None)
@given(cases, st.data())
def test_kernel_and_oracle_agree_to_the_tick(case, data):
    program, rows = case
    machine = twisted(load(program.target), data.draw(twists))
    times = time_rows(encode(program, machine), columns(rows))
    for i, row in enumerate(rows):
        try:
            slow = simulate(filled(program, row), machine)
        except Illegal as e:
            assert times.status[i] < 0, (row, str(e))
            continue
        assert times.status[i] == 0, (row, ERRORS[int(times.status[i])])
        assert times.ticks[i] == slow.ticks, row


def one(case):
    """(filled program, machine) of the first row."""
    program, rows = case
    return filled(program, rows[0]), load(program.target)


def on_one_core(program):
    """The program with a grid of one core, which does the work of the first."""
    streams = tuple(replace(s, grid=tuple((axis, Int(1)) for axis, _ in s.grid)) for s in program.streams)
    return replace(program, streams=streams)


@settings(max_examples=25, deadline=None)
@given(cases, st.data())
def test_time_lies_between_the_busiest_pipe_and_the_serial_sum(case, data):
    program, _ = one(case)
    machine = twisted(load(program.target), data.draw(twists))
    ticks, slow = measure(program, machine).ticks, simulate(program, machine)
    together = sum if len(program.streams) > 1 else max  # cores that meet may at worst take turns
    assert max(max(c.busy.values(), default=0) for c in slow.cores) <= ticks <= together(c.serial for c in slow.cores)


@settings(max_examples=25, deadline=None)
@given(cases)
def test_busy_cycles_and_bytes_are_those_of_the_slow_simulator(case):
    program, machine = one(case)
    m, slow = measure(program, machine), simulate(program, machine)
    last = {s.name: max(c.end for c in slow.cores if c.stream.name == s.name) for s in program.streams}
    for s in program.streams:
        prefix = f"{s.name}." if len(program.streams) > 1 else ""
        told = {p.removeprefix(prefix): round(v * 1024) for p, v in m.busy_cycles.items() if p.startswith(prefix)}
        assert told in [{p: v for p, v in c.busy.items() if v} for c in slow.cores if c.stream.name == s.name and c.end == last[s.name]]
    assert m.hbm_bytes + m.l2_bytes == pytest.approx(sum(m.bytes_by_path.values()))


@settings(max_examples=25, deadline=None)
@given(vector_cases(), st.integers(1, 6))
def test_cores_that_share_nothing_take_as_long_as_one(case, cores):
    """Rates of the chip are put out of reach; every core does the work of the first."""
    program, rows = case
    machine = replace(load(program.target), hbm_bytes_per_s=1e18, l2_bytes_per_s=1e18)
    machine = replace(machine, cores={k: replace(c, heads=()) for k, c in machine.cores.items()},  # which grow with the cores
                      constants={**machine.constants, "gm_ub_crowd": machine.constants["gm_ub_rate"]})  # which falls with them
    program = filled(program, rows[0])
    program = replace(program, tensors=tuple(replace(t, uncached=True) for t in program.tensors))  # equal addresses would share hits
    alike = [replace(program, streams=(replace(program.streams[0], grid=(("c", Int(1)), ("copy", Int(n)))),)) for n in (1, cores)]
    assert measure(alike[0], machine).ticks == measure(alike[1], machine).ticks


@settings(max_examples=25, deadline=None)
@given(st.one_of(vector_cases(), cube_cases()), st.floats(1.0, 4.0), st.floats(1.0, 4.0), st.floats(1.0, 4.0))
def test_a_faster_machine_is_never_slower_on_one_core(case, path, shared, hop):
    program, machine = one(case)
    program = on_one_core(program)
    faster = replace(
        machine, constants={n: v * path if RATE.search(n) else v / path if COST.search(n) else v for n, v in machine.constants.items()},
        hbm_bytes_per_s=machine.hbm_bytes_per_s * shared, l2_bytes_per_s=machine.l2_bytes_per_s * shared,
        flag_hop_cycles=machine.flag_hop_cycles / hop, issue_cycles=machine.issue_cycles / hop)
    assert measure(program, faster).ticks <= measure(program, machine).ticks


@settings(max_examples=25, deadline=None)
@given(cases, st.randoms(use_true_random=False))
def test_rows_are_independent_of_their_neighbours(case, random):
    program, rows = case
    encoded = encode(program, load(program.target))
    order = [random.choice(rows) for _ in range(5)] + rows
    together = time_rows(encoded, columns(order))
    for i, row in enumerate(order):
        alone = time_rows(encoded, columns([row]))
        assert (together.ticks[i], together.status[i], together.total_ticks[i]) == (alone.ticks[0], alone.status[0], alone.total_ticks[0])


@settings(max_examples=25, deadline=None)
@given(st.one_of(vector_cases(), cube_cases()), st.integers(0, 5000))
def test_what_is_in_l2_is_never_slower(case, resident):
    """On one core: what others do at the same time may shift. Bytes are moved alike on any number."""
    program, machine = one(case)
    warm = tuple((t.name, resident) for t in program.tensors)
    assert measure(on_one_core(program), machine, warm).ticks <= measure(on_one_core(program), machine).ticks
    hot, cold = measure(program, machine, warm), measure(program, machine)
    assert hot.hbm_bytes <= cold.hbm_bytes and hot.hbm_bytes + hot.l2_bytes == pytest.approx(cold.hbm_bytes + cold.l2_bytes)


@settings(max_examples=6, deadline=None)
@given(cases)
def test_compiled_kernel_equals_its_python(case):
    program, rows = case
    encoded = encode(program, load(program.target))
    compiled = everything(encoded, program, rows)
    names = [n for n, f in vars(kernel).items() if hasattr(f, "py_func")]
    with pytest.MonkeyPatch.context() as patch:
        for n in names:
            patch.setattr(kernel, n, getattr(kernel, n).py_func)
        plain = everything(encoded, program, rows)
    for a, b in zip(compiled, plain, strict=True):
        assert np.array_equal(a, b)


def everything(encoded, program, rows):
    """What the kernel says of the rows: their times, and of each that can be timed where the time went."""
    times = time_rows(encoded, columns(rows))
    some = [filled(program, row) for row, status in zip(rows, times.status, strict=True) if status == 0]
    return [*astuple(times), *(x for p in some for e in events(p, encoded.machine) for x in (*vars(e.walked.told).values(), e.log))]


@settings(max_examples=25, deadline=None)
@given(cases, st.data())
def test_a_dropped_flag_or_advance_is_an_error_or_told_alike(case, data):
    """Whatever goes wrong, the two simulators agree on whether the row can be walked."""
    program, _ = one(case)
    machine = twisted(load(program.target), data.draw(twists))
    places = [(s, i) for s, stream in enumerate(program.streams) for i in range(flags_in(stream.body))]
    at = data.draw(st.sampled_from(places))
    broken = replace(program, streams=tuple(replace(x, body=without(x.body, at[1])[0]) if s == at[0] else x
                                            for s, x in enumerate(program.streams)))
    times = time_rows(encode(broken, machine), {})
    try:
        slow = simulate(broken, machine)
        assert times.status[0] == 0 and times.ticks[0] == slow.ticks
    except Illegal:
        assert times.status[0] < 0


def flags_in(items):
    return sum(flags_in(i.body) if isinstance(i, For) else not isinstance(i, Instr) for i in items)


def without(items, index):
    """(items less the flag operation or advance number `index`, what is left of the count)"""
    out = []
    for item in items:
        if isinstance(item, For):
            body, index = without(item.body, index)
            item = replace(item, body=body)
        elif not isinstance(item, Instr):
            index -= 1
            if index == -1:
                continue
        out.append(item)
    return tuple(out), index


@settings(max_examples=60, deadline=None)
@given(cases, st.data())
def test_rows_are_abandoned_exactly_at_their_limit_and_no_row_ends_below_its_floor(case, data):
    program, rows = case
    machine = twisted(load(program.target), data.draw(twists))
    encoded = encode(program, machine)
    times, floors = time_rows(encoded, columns(rows)), floor_rows(encoded, columns(rows))
    good = times.status == 0
    assert (floors.total_ticks[good] <= times.total_ticks[good]).all()
    for i in np.flatnonzero(good)[:3]:  # each as if its own holes were open
        row = {name: values[i:i + 1] for name, values in columns(rows).items()}
        assert floor_rows(encoded, row, opened={n: int(v[0]) for n, v in row.items()}, whole=True).total_ticks[0] <= times.total_ticks[i]
    limit = int(data.draw(st.sampled_from([*times.total_ticks[good], 10**6])) + data.draw(st.integers(-1, 1)))
    cut = time_rows(encoded, columns(rows), limit=limit)
    below = good & (times.total_ticks < limit)
    assert (cut.total_ticks[below] == times.total_ticks[below]).all() and (cut.status[below] == 0).all()
    assert (cut.status[good & ~below] == kernel.ABANDONED).all()
