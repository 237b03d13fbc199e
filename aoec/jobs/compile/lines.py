"""Whole-model figures: the groups of a model on one timeline."""
from __future__ import annotations

from dataclasses import replace

from aoec.ir.graph.bodies import MAIN, homes
from aoec.jobs.choose.model_tasks import host_times, tasks
from aoec.jobs.choose.rounds import passes, weighted_sum
from aoec.jobs.compile.compiled_model import Choice, Lines, Model
from aoec.jobs.tune.made import realise
from aoec.simulate.timing.state import State
from aoec.simulate.timing.time import Chain, Measure, chain, measure
from aoec.target.machine import Machine


def model_lines(model: Model, choices: list[Choice], machine: Machine) -> Lines:
    """Return one timeline of all groups in order, with launches overlapped as in a task queue. Throughput is from the state that one
    inference leaves.

    The time of groups on the host is added, and so are bodies of control flow, each a timeline of its own as often as it runs. Nothing runs
    in parallel with the host."""
    known = {c.task.group.name: c.task for c in choices}
    funcs, keys = {name: t.func for name, t in known.items()}, {name: t.func_key for name, t in known.items()}
    warm = {t.group.name: t for t in tasks(model.graph, machine, True, funcs, keys)}

    def line(pick: str, choices: list[Choice]) -> Chain:
        cold = [getattr(c, pick).measure for c in choices]
        cache: dict[tuple[int, str], Measure] = {}
        steady = []
        for c in choices:
            state, program = warm[c.task.group.name].state, getattr(c, pick).program
            at = (id(program), str(state))
            if at not in cache:
                cache[at] = cold_or(c, pick, state, machine)
            steady.append(cache[at])
        return chain(cold, machine, steady)

    home, often = homes(model.graph), passes(model.graph)
    there = {at: [c for c in choices if home.get(c.task.group.nodes[0], MAIN) == at] for at in often}

    def in_all(pick: str) -> Chain:
        main, added_us = line(pick, there[MAIN]), weighted_sum(host_times(model.graph), model.graph)
        alone_us = main.sum_us + added_us
        for body, count in [(line(pick, there[at]), count) for at, count in often.items() if at != MAIN]:
            added_us, alone_us = added_us + count * body.latency_us, alone_us + count * body.sum_us
        return replace(main, latency_us=main.latency_us + added_us, throughput_us=main.throughput_us + added_us, sum_us=alone_us)

    return Lines(in_all("default"), in_all("best"))


def cold_or(c: Choice, pick: str, state: State, machine: Machine) -> Measure:
    """Return the measure of a chosen program in another state; its own where the states are equal."""
    schedule, record = getattr(c, pick), getattr(c.solved, pick)
    if state == c.task.state:
        return schedule.measure
    made = realise(c.task.func, record.trace, machine, state)
    return made.measure if made.program == schedule.program else measure(schedule.program, machine, state)
