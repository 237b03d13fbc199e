"""A slow, plain simulator of the rules at the head of kernels/timeline.py: every core on its own, a heap of events.

It shares no code and no table with the kernel: sizes are evaluated at every iteration with plain integers, formulas
instruction by instruction. It says how long a filled program takes in ticks, or why it cannot be walked.
"""
from __future__ import annotations

import heapq
import itertools
from collections import defaultdict, deque
from dataclasses import dataclass, field

from aoec.ir.index import DTYPES, Int, evaluate
from aoec.ir.program import Advance, CrossSet, CrossWait, For, Instr, SetFlag, WaitFlag
from aoec.simulate.timing.reuse import Access, Flow, traffic
from aoec.target.isa.instructions import INSTRUCTIONS

# what happens at one instant, in this order: cores end, work flows on (waits clear their bits), bits are set, transfers start
CORE_ENDS, FLOW, SET, TRANSFER = range(4)


class Illegal(Exception):
    """The program cannot be walked."""


@dataclass
class Pipe:
    name: str
    queue: deque = field(default_factory=deque)
    free_at: int = 0
    done_at: int = 0
    blocked: bool = False
    inside: int = 0  # instructions issued and not started
    early_at: int = 0  # when the first granule of L0C is handed over, and the last
    late_at: int = 0
    floor: int = 0


@dataclass
class Core:
    stream: object
    index: int
    items: object
    pipes: dict
    scalar_at: int = 0
    exhausted: bool = False
    scalar_blocked: bool = False
    stalled: object = None  # what the scalar unit could not put into a full queue
    ended: bool = False
    end: int | None = None
    bits: dict = field(default_factory=dict)  # flag -> time it was set
    until: dict = field(default_factory=dict)  # flag -> when the last granule of what it signals is handed over, in program order
    waiting: dict = field(default_factory=dict)  # flag -> what goes on when it is set
    ahead: dict = field(default_factory=dict)  # flag -> sets less waits, in program order
    busy: dict = field(default_factory=dict)
    serial: int = 0
    notes: list = field(default_factory=list)  # of every operation, in program order


@dataclass
class Note:
    """What became of one operation: the variables around it, and times in ticks."""

    item: object
    pipe: str
    variables: dict
    issue: int = 0
    start: int = 0
    end: int = 0
    done: int = 0


def instructions(items):
    """All instructions of a body."""
    for item in items:
        if isinstance(item, For):
            yield from instructions(item.body)
        elif isinstance(item, Instr):
            yield item


def simulate(program, machine, state=()):
    """A Timeline of a filled program; raises Illegal."""
    return Simulator(program, machine, state).run()


@dataclass
class Timeline:
    ticks: int
    cores: list


class Simulator:
    def __init__(self, program, machine, state):
        self.program, self.machine = program, machine
        self.heap, self.order = [], itertools.count()
        self.dtypes = {t.name: t.dtype for t in program.tensors} | {s.name: s.dtype for s in program.spaces}
        self.tensors = {t.name for t in program.tensors}
        self.uncached = {t.name for t in program.tensors if t.uncached}
        self.accesses = {}
        self.traffic = self.memory(state)
        self.issue, self.hop = self.ticks(machine.issue_cycles), self.ticks(machine.flag_hop_cycles)
        self.cross, self.loop = self.ticks(machine.cross_cycles), self.ticks(machine.loop_cycles)
        self.granular = any(i["unit"] != Int(0) for s in program.streams for i in instructions(s.body))
        self.stretches = {s.name: self.bus_stretch(s) for s in program.streams}
        self.cores = {s.name: [self.core(s, i) for i in range(self.count(s))] for s in program.streams}
        self.tokens, self.taken, self.fired, self.sent, self.awaiting = {}, {}, {}, {}, []

    def ticks(self, cycles):
        return round(float(cycles) * 1024)

    def memory(self, state):
        """Which bytes hit L2 is the rule of aoec.simulate.timing.reuse, tested against a cache in tests/simulate/test_reuse.py; what it is
        told, how often each loop runs and what each transfer moves, is counted here by walking every core."""
        trips, flows = [], {}
        for i, stream in enumerate(self.program.streams):
            most, accesses = {axis: int(evaluate(extent, {})) for axis, extent in stream.grid}, {}
            self.find_accesses(stream.body, i, tuple(most), (), 0, accesses)
            for core in range(self.count(stream)):
                self.tally(stream.body, self.place(stream, core), most, accesses, flows)
            self.accesses |= {key: a for key, a in accesses.items()}
            trips.append(most)
        self.totals = {a: total for a, (_, total) in flows.items()}
        found = [Flow(a, largest, float(total)) for a, (largest, total) in flows.items()]
        return traffic(self.program, self.machine, state, found, trips, {})

    def find_accesses(self, items, stream, axes, loops, meets, out):
        if any(isinstance(i, CrossWait) for i in items):
            meets = len(loops)
        for item in items:
            if isinstance(item, For):
                self.find_accesses(item.body, stream, axes, (*loops, item.var), meets, out)
            elif isinstance(item, Instr):
                for o in INSTRUCTIONS[item.op].operands:
                    ref = item[o.name]
                    if "GM" in o.scopes and ref.buffer in self.tensors:
                        out[id(item)] = Access(stream, ref.buffer, o.writes, ref.offset, axes, loops, meets)

    def tally(self, items, env, most, accesses, flows):
        """Runs over the sizes of one core alone: the most trips of each loop, the largest transfer and the sum of all."""
        for item in items:
            if isinstance(item, For):
                trips = int(evaluate(item.trips, env))
                most[item.var] = max(most.get(item.var, 1), trips)
                for i in range(trips):
                    self.tally(item.body, {**env, item.var: i}, most, accesses, flows)
                if not trips:
                    self.tally_none(item.body, most, accesses, flows)
            elif id(item) in accesses:
                access, instruction = accesses[id(item)], INSTRUCTIONS[item.op]
                fields = {n.name: int(evaluate(item[n.name], env)) for n in instruction.numbers if not n.real}
                moved = int(evaluate(instruction.gm_bytes, {**fields, "size": DTYPES[self.dtypes[access.tensor]]}))
                largest, total = flows.get(access, (0, 0))
                flows[access] = max(largest, moved), total + moved

    def tally_none(self, items, most, accesses, flows):
        """A loop that some core does not enter: its accesses and inner loops are known all the same."""
        for item in items:
            if isinstance(item, For):
                most.setdefault(item.var, 1)
                self.tally_none(item.body, most, accesses, flows)
            elif id(item) in accesses:
                flows.setdefault(accesses[id(item)], (0, 0))

    def bus_stretch(self, stream):
        """How much longer transfers take because MTE2 and MTE3 of a core share a bus."""
        bus = self.machine.cores[stream.core].bus_bytes_per_cycle
        if bus is None:
            return 1.0
        moved, cycles = 0.0, {False: 0.0, True: 0.0}
        for access, total in self.totals.items():
            if self.program.streams[access.stream] is stream:
                ends = ("UB", "GM") if access.writes else ("GM", "UB")
                path = next(p for p in self.machine.paths.values() if (p.source, p.target) == ends)
                share = float(self.traffic.shares[access])
                cycles[access.writes] += total * (share / path.bytes_per_cycle + (1.0 - share) / path.l2_bytes_per_cycle)
                moved += total
        return max(1.0, moved / bus / max(cycles.values())) if max(cycles.values()) else 1.0

    def count(self, stream):
        n = 1
        for _, extent in stream.grid:
            n *= int(evaluate(extent, {}))
        return n

    def place(self, stream, index):
        """Grid coordinates of a core."""
        env, rest = {}, index
        for axis, extent in reversed(stream.grid):
            n = int(evaluate(extent, {}))
            env[axis], rest = rest % n, rest // n
        return env

    def core(self, stream, index):
        env = self.place(stream, index)
        env |= {name: 0 for name, _ in stream.counters}
        depths = {name: int(evaluate(depth, {})) for name, depth in stream.counters}
        pipes = {p: Pipe(p) for p in self.machine.cores[stream.core].pipes if p != "S"}
        used = {INSTRUCTIONS[i.op].pipe for i in instructions(stream.body)}
        for p, cycles, per_core in self.machine.cores[stream.core].heads:
            if p in used:
                head = self.ticks(cycles + per_core * self.count(stream))
                pipes[p].free_at = pipes[p].done_at = pipes[p].early_at = pipes[p].late_at = head
        return Core(stream, index, self.walk(stream.body, env, depths), pipes, serial=sum(p.free_at for p in pipes.values()))

    def walk(self, items, env, depths):
        """Every instruction and flag operation in program order, sizes as plain numbers."""
        for item in items:
            if isinstance(item, For):
                for i in range(int(evaluate(item.trips, env))):
                    env[item.var] = i
                    yield None, 0, {}  # the scalar unit begins an iteration
                    yield from self.walk(item.body, env, depths)
            elif isinstance(item, Advance):
                env[item.counter] = (env[item.counter] + 1) % depths[item.counter]
            elif isinstance(item, Instr):
                yield item, {n.name: int(evaluate(item[n.name], env)) for n in INSTRUCTIONS[item.op].numbers if not n.real}, dict(env)
            else:
                yield item, int(evaluate(item.id, env)), dict(env)

    # ---- costs

    def cost(self, stream, item, fields):
        """(busy, latency, unit, granule) in ticks."""
        instruction, timing = INSTRUCTIONS[item.op], self.machine.timing[item.op]
        refs = dict(item.fields)
        names = [(o, refs[o.name].buffer) for o in instruction.operands]
        source = next((n for o, n in names if not o.writes), names[0][1])
        env = {**self.machine.constants, **fields, "cores": self.count(stream), "gm_bytes": 0.0, "hbm_bytes": 0.0, "l2_bytes": 0.0}
        env |= {t: table[self.dtypes[source]] for t, table in self.machine.tables.items() if self.dtypes[source] in table}
        env |= {"size": DTYPES[self.dtypes[source]], "dst_size": DTYPES[self.dtypes[names[0][1]]]}
        env |= self.places(item, refs)
        env |= {"past_l2": int(any("GM" in o.scopes and n in self.uncached for o, n in names)), "crowding": 1.0}
        unit, stretch, shared = 0, 1.0, 0.0
        for operand, name in names:
            if "GM" in operand.scopes and name in self.tensors:
                moved = int(evaluate(instruction.gm_bytes, {**fields, "size": DTYPES[self.dtypes[name]]}))
                hbm = moved * float(self.traffic.shares[self.accesses[id(item)]])
                env |= {"gm_bytes": moved, "hbm_bytes": hbm, "l2_bytes": moved - hbm}
                clock = self.machine.clock_mhz * 1e6
                through = moved - hbm + (moved if fields.get("atomic") else 0)
                crowd = [float(x) for x in self.traffic.crowding[self.accesses[id(item)]]]
                env["crowding"] = crowd[0]
                time = hbm / (self.machine.hbm_bytes_per_s / clock) * crowd[0]
                time += through / (self.machine.l2_bytes_per_s / clock) * crowd[1]
                held = time * float(self.traffic.both_ways) * float(evaluate(timing.memory, env))
                unit, stretch = self.ticks(held), self.stretches[stream.name]
                shared = held * float(self.traffic.waits_for[self.accesses[id(item)]])
        busy, latency, granule = (max(self.ticks(x), 0) for x in (
            max(evaluate(timing.busy, env) * stretch, shared), evaluate(timing.latency, env), evaluate(timing.granule, env)))
        return busy, latency, unit, granule if fields.get("unit") else None

    def places(self, item, refs):
        """Byte addresses of on-chip operands in the first and last slot, in the first iteration of every loop."""
        out = {}
        for operand in INSTRUCTIONS[item.op].operands:
            ref = refs[operand.name]
            space = next((s for s in self.program.spaces if s.name == ref.buffer), None)
            if space is not None:
                start = int(evaluate(space.address, {})) + int(evaluate(ref.offset, defaultdict(int))) * DTYPES[space.dtype]
                slots = int(evaluate(space.depth, {})) - 1
                out |= {f"{operand.name}_at": start, f"{operand.name}_last": start + slots * int(evaluate(space.size_bytes, {}))}
        return out

    # ---- events

    def at(self, time, kind, action, *args):
        heapq.heappush(self.heap, (time, kind, next(self.order), action, args))

    def run(self):
        everyone = [c for cores in self.cores.values() for c in cores]
        for core in everyone:
            self.at(0, FLOW, self.fetch, core)
            for pipe in core.pipes.values():
                self.at(pipe.free_at, FLOW, self.flow, core, pipe.name)  # where a head is over
        while self.heap:
            time, _, _, action, args = heapq.heappop(self.heap)
            action(time, *args)
        if not all(c.ended for c in everyone):
            raise Illegal("deadlock")
        if any(c.bits for c in everyone) or any(len(t) != self.taken.get(k, 0) for k, t in self.tokens.items()):
            raise Illegal("left set")
        return Timeline(max(c.end for c in everyone), everyone)

    def fetch(self, now, core):
        """The scalar unit takes up the next item."""
        core.scalar_at = now
        found = next(core.items, None)
        while found is not None and found[0] is None:
            core.serial += self.loop
            if self.loop:
                self.at(now + self.loop, FLOW, self.fetch, core)
                return
            found = next(core.items, None)
        if found is None:
            core.exhausted = True
            self.maybe_end(now, core)
        else:
            core.serial += self.issue
            self.at(now + self.issue, FLOW, self.issued, core, *found)

    def issued(self, now, core, item, number, variables):
        core.scalar_at = now
        name = INSTRUCTIONS[item.op].pipe if isinstance(item, Instr) else None
        if name in core.pipes and core.pipes[name].inside >= self.machine.cores[core.stream.core].queue_depth:
            core.stalled = (name, item, number, variables)
            return
        work, pipe = self.plan(core, item, number)
        core.notes.append(note := Note(item, pipe, variables, issue=now))
        if pipe == "S":
            self.on_scalar(now, core, work, note)
            return
        if pipe not in core.pipes:
            raise Illegal(f"no pipe {pipe}")
        core.pipes[pipe].queue.append((*work, note))
        core.pipes[pipe].inside += work[0] == "run"
        self.flow(now, core, pipe)
        self.fetch(now, core)

    def plan(self, core, item, number):
        """(what a pipe does, the pipe); order in the program is settled here."""
        if isinstance(item, Instr):
            return ("run", item, number), INSTRUCTIONS[item.op].pipe
        if isinstance(item, (SetFlag, WaitFlag)):
            if not 0 <= number < self.machine.flag_ids:
                raise Illegal("flag id")
            flag = (item.source, item.target, number)
            step = 1 if isinstance(item, SetFlag) else -1
            core.ahead[flag] = core.ahead.get(flag, 0) + step
            if core.ahead[flag] not in (0, 1):
                raise Illegal("set on set" if step > 0 else "wait without set")
            return ("set", flag) if step > 0 else ("wait", flag), item.source if step > 0 else item.target
        if not 0 <= number < self.machine.cross_ids:
            raise Illegal("cross flag id")
        if isinstance(item, CrossSet):
            keys = [(core.stream.name, core.index, item.to, other, number) for other in self.partners(core, item.to)]
            return ("token", [(k, self.number_of(self.sent, k)) for k in keys]), item.pipe
        assert isinstance(item, CrossWait)
        keys = [(item.source, other, core.stream.name, core.index, number) for other in self.partners(core, item.source)]
        return ("await", [(k, self.number_of(self.taken, k)) for k in keys]), item.pipe

    def number_of(self, table, key):
        table[key] = table.get(key, 0) + 1
        return table[key] - 1

    def partners(self, core, name):
        """Indices of the cores of stream `name` that belong to this core."""
        if name not in self.cores:
            raise Illegal("unknown stream")
        mine, others = len(self.cores[core.stream.name]), len(self.cores[name])
        if max(mine, others) % min(mine, others):
            raise Illegal("unpaired")
        if others >= mine:
            r = others // mine
            return range(core.index * r, core.index * r + r)
        return [core.index // (mine // others)]

    def on_scalar(self, now, core, work, note):
        """A flag operation of the scalar unit itself."""
        note.start = note.end = now

        def proceed(time):
            core.scalar_blocked = False
            note.end = time
            self.fetch(time, core)
        if work[0] == "set":
            self.at(now, SET, self.set_bit, core, work[1])
            self.fetch(now, core)
        elif work[0] == "token":
            self.at(now, SET, self.send, work[1])
            self.fetch(now, core)
        else:
            core.scalar_blocked = True
            (self.wait_bit if work[0] == "wait" else self.wait_tokens)(now, core, work[1], proceed)

    def flow(self, now, core, name):
        """Does what the head of a pipe's queue allows at this instant."""
        pipe = core.pipes[name]
        while pipe.queue and not pipe.blocked and (pipe.free_at <= now or pipe.queue[0][0] in ("set", "token")):
            work = pipe.queue.popleft()
            note = work[-1]
            note.start = now
            if work[0] == "run":
                self.begin(now, core, pipe, work[1], work[2], note)
            elif work[0] in ("set", "token"):
                granular = work[0] == "set" and self.granular and set(work[1][:2]) == {"M", "FIXP"}
                note.start, note.end = note.issue, (time := max(note.issue, pipe.early_at if granular else max(pipe.free_at, pipe.done_at)))
                if granular:
                    core.until.setdefault(work[1], deque()).append(max(note.issue, pipe.late_at))
                if work[0] == "set":
                    self.at(time, SET, self.set_bit, core, work[1])
                else:
                    self.at(time, SET, self.send, work[1])
            else:
                pipe.blocked = True
                (self.wait_bit if work[0] == "wait" else self.wait_tokens)(
                    now, core, work[1], self.unblock(core, name, note, work[1] if work[0] == "wait" else None))
        self.maybe_end(now, core)

    def unblock(self, core, name, note, flag):
        def go(time):
            note.end = time
            pipe = core.pipes[name]
            pipe.blocked, pipe.free_at = False, max(pipe.free_at, time)
            pipe.early_at, pipe.late_at = max(pipe.early_at, time), max(pipe.late_at, time)
            if core.until.get(flag):
                pipe.floor = max(pipe.floor, core.until[flag].popleft())
            self.flow(time, core, name)
        return go

    def begin(self, now, core, pipe, item, fields, note):
        busy, latency, unit, granule = self.cost(core.stream, item, fields)
        pipe.blocked = True
        start = max(now, pipe.floor) if granule is None else now
        self.at(start, FLOW, self.started, core, pipe, busy, latency, unit, granule, note)

    def started(self, now, core, pipe, busy, latency, unit, granule, note):
        """An instruction starts: its place in the queue is free."""
        note.start = now
        pipe.inside -= 1
        if core.stalled and core.stalled[0] == pipe.name:
            again, core.stalled = core.stalled[1:], None
            self.at(now, FLOW, self.issued, core, *again)
        if unit:
            self.at(now, TRANSFER, self.transfer, core, pipe, busy, latency, unit, granule, note)
        else:
            pipe.blocked = False
            self.occupy(now, core, pipe, busy, latency, granule, note)
            self.flow(now, core, pipe.name)

    def transfer(self, now, core, pipe, busy, latency, unit, granule, note):
        """A transfer starts: who still runs at this instant is settled, so its rate is."""
        active = sum(not c.ended for c in self.cores[core.stream.name])
        pipe.blocked = False
        self.occupy(now, core, pipe, max(busy, active * unit), latency, granule, note)
        self.flow(now, core, pipe.name)

    def occupy(self, now, core, pipe, busy, latency, granule, note):
        if granule is not None:
            busy = max(busy, pipe.floor - now)
        first, last = (now + granule, now + busy + granule) if granule is not None else (now + busy + latency,) * 2
        pipe.early_at, pipe.late_at = max(pipe.early_at, first), max(pipe.late_at, last)
        note.end, note.done = now + busy, now + busy + latency
        pipe.free_at = now + busy
        pipe.done_at = max(pipe.done_at, pipe.free_at + latency)
        core.busy[pipe.name] = core.busy.get(pipe.name, 0) + busy
        core.serial += busy + latency
        self.at(pipe.free_at, FLOW, self.flow, core, pipe.name)

    def set_bit(self, now, core, flag):
        if flag in core.bits:
            raise Illegal("set on set")
        core.bits[flag] = now
        if flag in core.waiting:
            self.at(now + self.hop, FLOW, self.clear_bit, core, flag, core.waiting.pop(flag))
        self.maybe_end(now, core)

    def wait_bit(self, now, core, flag, go):
        core.serial += self.hop
        if flag in core.bits:
            self.at(max(now, core.bits[flag] + self.hop), FLOW, self.clear_bit, core, flag, go)
        else:
            core.waiting[flag] = go

    def clear_bit(self, now, core, flag, go):
        del core.bits[flag]
        go(now)

    def send(self, now, keys):
        """Tokens arrive in the order in which the program sets them."""
        for key, number in keys:
            fired = self.fired.setdefault(key, set())
            fired.add(number)
            arrived = self.tokens.setdefault(key, [])
            while len(arrived) in fired:
                arrived.append(now)
        for need in [n for n in self.awaiting if self.arrived(n[2])]:
            self.awaiting.remove(need)
            self.await_tokens(*need)

    def arrived(self, keys):
        return all(len(self.tokens.get(key, [])) > number for key, number in keys)

    def wait_tokens(self, now, core, keys, go):
        core.serial += self.cross
        self.await_tokens(now, core, keys, go)

    def await_tokens(self, now, core, keys, go):
        if self.arrived(keys):
            time = max(self.tokens[key][number] for key, number in keys) + self.cross
            self.at(max(now, time), FLOW, go)
        else:
            self.awaiting.append((now, core, keys, go))

    def maybe_end(self, now, core):
        """A core whose program and queues are empty ends when the last thing on its pipes is done."""
        if core.exhausted and core.end is None and not any(p.queue or p.blocked for p in core.pipes.values()):
            core.end = max([core.scalar_at, *[max(p.free_at, p.done_at) for p in core.pipes.values()]])
            self.at(core.end, CORE_ENDS, self.finish, core)

    def finish(self, now, core):
        core.ended = True
