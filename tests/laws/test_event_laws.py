"""Laws of the events and of the account of time, on generated programs."""
from __future__ import annotations

import numpy as np
from aoec.kernels import timeline as kernel
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from aoec.ir.program import PIPES, Instr
from aoec.simulate.encode.encode import encode
from aoec.simulate.reasons.events import events
from aoec.simulate.reasons.path import critical_path
from aoec.simulate.timing.time import time_rows
from aoec.target.machine import load
from tests.oracle.pipelines import cases, filled, twisted, twists
from tests.oracle.slow_timeline import Illegal, simulate


def first_legal(case, data):
    """(filled program, machine, its slow timeline) of the first row, where it can be walked."""
    program, rows = case
    program, machine = filled(program, rows[0]), twisted(load(program.target), data.draw(twists))
    try:
        slow = simulate(program, machine)
    except Illegal:
        assume(False)
    return program, machine, slow


@settings(max_examples=40, deadline=None)
@given(cases, st.data())
def test_events_are_those_of_the_slow_simulator(case, data):
    program, machine, slow = first_legal(case, data)
    every = [(c.stream.name, c.index) for c in slow.cores]
    for told, core in zip(events(program, machine, cores=every), slow.cores, strict=True):
        assert told.total == len(core.notes)
        for i, note in enumerate(core.notes):
            e = told.event(i)
            assert (e.item, e.pipe) == (note.item, note.pipe)
            assert {v: told.variables(i)[v] for v in note.variables} == note.variables
            assert [round(x * 1024) for x in (e.issue, e.start, e.end)] == [note.issue, note.start, note.end]
            if isinstance(e.item, Instr):
                assert round(e.done * 1024) == note.done


@settings(max_examples=40, deadline=None)
@given(cases, st.data())
def test_the_account_of_a_pipe_is_its_time(case, data):
    """What a pipe's time went to adds up to when it was last free; over all cores the sums are those of the cores."""
    program, machine, slow = first_legal(case, data)
    every = [(c.stream.name, c.index) for c in slow.cores]
    for told, core in zip(events(program, machine, cores=every), slow.cores, strict=True):
        for p, name in enumerate(PIPES):
            free = core.scalar_at if p == 0 else core.pipes[name].free_at if name in core.pipes else 0
            mine = told.pipes == p
            if not p or not (mine & np.isin(told.kinds, [0, 2, 4])).any():
                continue
            mine &= np.isin(told.kinds, [0, 2, 4])
            spent = (told.column("end") - told.column("was"))[mine].sum()
            assert told.column("was")[mine][0] + spent == free  # the first is where its head is over
    told = events(program, machine)[0].walked.told
    for s, stream in enumerate(program.streams):
        cores = [c for c in slow.cores if c.stream is stream]
        assert told.ends[s, 0] == max(c.end for c in cores) and told.ends[s, 2] == sum(c.end for c in cores)
        assert cores[told.ends[s, 1]].end == told.ends[s, 0]
        frees = [[c.scalar_at, *[c.pipes[p].free_at if p in c.pipes else 0 for p in PIPES[1:]]] for c in cores]
        assert told.sum_spent[s].sum(axis=1).tolist() == np.sum(frees, axis=0).tolist()
        assert told.spent[s].sum(axis=1).tolist() == frees[told.ends[s, 1]]


@settings(max_examples=20, deadline=None)
@given(cases, st.data())
def test_a_bounded_log_holds_the_first_events(case, data):
    program, machine, _ = first_legal(case, data)
    whole, part = events(program, machine)[0], events(program, machine, limit=5)[0]
    assert part.total == whole.total and len(part) == min(5, whole.total)
    assert np.array_equal(part.log, whole.log[:5]) and bool(part.note) == (whole.total > 5) and not whole.note


def test_code_that_a_search_walks_has_no_probes():
    from tests.oracle.pipelines import cube_program
    encoded = encode(cube_program("toy", 32, 32, 32), load("toy"))
    assert not (encoded.code[:, 0] == kernel.PROBE).any() and (encoded.add_probes()[0][:, 0] == kernel.PROBE).sum() > 10
    assert time_rows(encoded, {n: np.array([32]) if n[0] != "d" else np.array([2]) for n in encoded.holes}).status[0] == 0


@settings(max_examples=60, deadline=None)
@given(cases, st.data())
def test_the_critical_path_takes_the_time_of_its_core(case, data):
    program, machine, slow = first_legal(case, data)
    every = [(c.stream.name, c.index) for c in slow.cores]
    for told, core in zip(events(program, machine, cores=every), slow.cores, strict=True):
        parts = critical_path(told)
        assert sum(p.cycles for p in parts) * 1024 == max([0, *[max(n.end, n.done) for n in core.notes]])
        for name, busy in core.busy.items():
            assert sum(p.cycles for p in parts if p.pipe == name and p.what in ("work", "memory")) * 1024 <= busy
        issued = len(core.notes) * machine.issue_cycles
        assert machine.loop_cycles or sum(p.cycles for p in parts if p.what == "issue") <= issued
        heads = any(machine.core(s.core).heads for s in program.streams)
        assert heads or not [p for p in parts if p.what == "start"]
