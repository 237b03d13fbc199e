"""A program run as the chip may run it: pipes go ahead on their own, in any order that flags allow, all iterations, all cores.

Each pipe takes its instructions in order; which pipe goes next is drawn at random. Two orders of a program whose accesses
are all ordered by flags give the same memory. Shares nothing with the checker.
"""
from __future__ import annotations

import random
from math import prod

import numpy as np

from aoec.ir.index import DTYPES, evaluate
from aoec.ir.program import Advance, CrossSet, CrossWait, For, Instr, SetFlag, WaitFlag
from aoec.target.isa.evaluate import Core, meets, run_instruction
from aoec.target.isa.instructions import INSTRUCTIONS, added_to
from aoec.target.isa.meaning import NUMPY_DTYPES, POISON


class Broken(Exception):
    """A flag set twice or left set, or a program that stands still."""


def unrolled(core, body, env):
    """(pipe, item, env) of everything a core does, in program order."""
    for item in body:
        if isinstance(item, For):
            for i in range(int(evaluate(item.trips, env))):
                env[item.var] = i
                yield from unrolled(core, item.body, env)
        elif isinstance(item, Advance):
            env[item.counter] = (env[item.counter] + 1) % core.depths[item.counter]
        else:
            yield pipe_of(item), item, dict(env)


def pipe_of(item):
    if isinstance(item, Instr): return INSTRUCTIONS[item.op].pipe
    if isinstance(item, SetFlag): return item.source
    return item.target if isinstance(item, WaitFlag) else item.pipe


class Machine:
    """Cores with a queue a pipe, flags as bits, cross flags as counters."""

    def __init__(self, program, tensors):
        self.program, self.gm, self.tokens = program, {}, {}
        for t in program.tensors:
            shape = [int(evaluate(d, {})) for d in t.shape]
            memory = np.full(prod(shape) * DTYPES[t.dtype], POISON, np.uint8).view(NUMPY_DTYPES[t.dtype]).reshape(shape)
            if t.name in added_to(program):
                memory[...] = 0
            if t.name in tensors:
                memory[...] = np.reshape(tensors[t.name], shape)
            self.gm[t.name] = memory
        self.cores = [Core(program, s, i) for s in program.streams for i in range(prod(int(evaluate(e, {})) for _, e in s.grid))]
        self.bits = [set() for _ in self.cores]
        self.queues = []  # (core, entries); an entry waits until the scalar unit has issued it
        self.issued = [0 for _ in self.cores]  # entries before this number are issued: a wait on S holds back what follows
        for c, core in enumerate(self.cores):
            entries = list(enumerate(unrolled(core, core.stream.body, dict(core.env))))
            stops = [n for n, (pipe, item, _) in entries if pipe == "S" and isinstance(item, (WaitFlag, CrossWait))]
            for pipe in sorted({p for _, (p, _, _) in entries}):
                self.queues.append([c, [(n, item, env, sum(s < n for s in stops)) for n, (p, item, env) in entries if p == pipe]])

    def step(self, c, entry):
        """Runs an entry if it is ready; True if it ran."""
        _, item, env, held = entry
        if held > self.issued[c]:
            return False
        core = self.cores[c]
        core.env = env
        if isinstance(item, Instr):
            run_instruction(self.program, core, item, self.gm)
            return True
        flag = int(evaluate(item.id, env))
        if isinstance(item, (SetFlag, WaitFlag)):
            ran = self.flag(c, item, (item.source, item.target, flag))
        elif isinstance(item, CrossSet):
            ran = True
            for key in meets(self.program, core, item.to, item.id, True):
                self.tokens[key] = self.tokens.get(key, 0) + 1
        else:
            keys = meets(self.program, core, item.source, item.id, False)
            ran = all(self.tokens.get(k, 0) for k in keys)
            for k in keys if ran else ():
                self.tokens[k] -= 1
        if ran and pipe_of(item) == "S" and isinstance(item, (WaitFlag, CrossWait)):
            self.issued[c] += 1
        return ran

    def flag(self, c, item, key):
        if isinstance(item, SetFlag):
            if key in self.bits[c]:
                raise Broken(f"{key} is set twice")
            self.bits[c].add(key)
            return True
        if key not in self.bits[c]:
            return False
        self.bits[c].remove(key)
        return True


def run_in_any_order(program, tensors, seed):
    """All tensors that are no inputs, after one random order; Broken where flags do not work out."""
    machine, rng = Machine(program, tensors), random.Random(seed)
    favourite = {id(q): rng.random() ** 3 for q in machine.queues}  # some pipes run far ahead of others
    queues = [q for q in machine.queues if q[1]]
    while queues:
        order = sorted(queues, key=lambda q: rng.random() * favourite[id(q)])
        for q in order:
            if machine.step(q[0], q[1][0]):
                q[1].pop(0)
                break
        else:
            raise Broken("every pipe waits")
        queues = [q for q in queues if q[1]]
    if any(machine.bits) or any(machine.tokens.values()):
        raise Broken("flags are left set")
    return {t.name: machine.gm[t.name] for t in program.tensors if t.role != "input"}
