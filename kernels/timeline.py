"""The timeline: how long a program takes, for every row of hole values. Imports nothing of aoec.

The rules, complete, so that another simulator can be written from them (tests/oracle/slow_timeline.py is one):

1. Time is int64 in ticks of 1/1024 cycle. A duration is computed in doubles, in cycles, and rounded once (half to even).
2. Each core of a stream has a scalar unit, which is pipe S, and in-order pipes. The scalar unit walks the stream in program
   order. Every instruction and every flag operation costs it `issue` ticks, every iteration of a loop `loop` ticks before it;
   `advance` is free. An instruction enters the queue of its pipe when its issue ends, and leaves it when it starts. A queue holds
   `queue` instructions (flag operations take no place): the scalar unit stalls until the one that many before it on its pipe has started.
3. An instruction starts when it is issued and its pipe is free. It keeps the pipe for `busy` ticks; it is *done* `latency` ticks
   after that. The next one on the pipe may start as soon as the first is no longer busy. Nothing happens on a pipe before its `head`
   (of a pipe for which the stream has an instruction; else 0): what a launch takes until that pipe first runs.
4. set(P, Q, id) happens when it is issued and everything before it on P is done. It does not hold up what follows on P.
5. wait(P, Q, id) holds up Q until the bit's time plus `hop`, then clears the bit. The bit's set stands earlier in the stream. P and
   Q may be S. If a bit is set while set (its last wait cleared it later than the new set, or not at all) the row is an error.
6. cross_set(P, stream, id) adds one token, at the time at which a set would happen (and not before the core's previous token of that
   id), for every core of `stream` that belongs to this one. cross_wait(P, stream, id) holds up P until one token of each core of
   `stream` that belongs to this one has come, plus `cross`, and takes them in order. If stream A has n cores and B has r*n, cores r*i ..
   r*i + r - 1 of B belong to core i of A. A row that cannot be walked with at most `cross_count` tokens on the way is a deadlock.
   Where any instruction of the program has a `unit` field other than 0, M and FIXP hand L0C over in granules: a set (M, FIXP, id) or
   (FIXP, M, id) happens when the first granule of the last instruction before it is there, and the instruction that follows the wait
   may not end before the last granule is. So an instruction on M or FIXP with unit = 1 hands over from its start + `granule` to its end +
   `granule`, any other at once when it is done; a wait on M or FIXP hands over when it ends. A wait for such a flag brings a `floor`, the
   end of that span: the next instruction on its pipe ends no earlier (unit = 1), or starts no earlier (any other).
7. A transfer to or from GM is busy for the larger of its own cycles and active * unit: `unit` is the time of its bytes at the full
   rate of the chip (those of HBM at HBM's rate plus those of L2 at L2's), longer where cores crowd at few addresses and where both ways
   share HBM (aoec/simulate/reuse.py: crowding, both_ways), and `active` the number of cores of its stream that have not ended when it
   starts. (A transfer crosses HBM and L2 one after the other: first touch and repeats add up, as in the vendor's closed form for
   matrix products.) A core ends when everything on all its pipes is done.
8. Everything starts at time 0; a row takes until its last core ends. At the end no bit is set and no token is left.

What makes it fast: durations and trip counts vary with a loop or grid axis only between its first, its last and all other
iterations, so tables indexed by these *classes* are filled beforehand, and a cursor per instruction site moves when a loop's class
changes. Cores of equal class take equal time and are walked once. Rule 7 is met by epochs: all classes are walked as if every core
ran for ever; the earliest end closes the first epoch for good, because a transfer that starts before it cannot change; then the
classes with a transfer that was held back at or after that end are walked again, and so on. The state of a walk is in arrays (State),
so that a walk can stop at a cross flag, and so that two states at iteration boundaries could be compared to skip a steady loop.

Where the time went is told by a second walk over code with a PROBE after every instruction, flag operation and start of a loop (where
each iteration begins); the code that a search walks has none, so that it pays nothing.
"""
from __future__ import annotations

from collections import namedtuple

import numpy as np
from numba import njit

TICKS_PER_CYCLE = 1024
PIPE_COUNT = 7
LOOP, END, INSTR, SET, WAIT, CROSS_SET, CROSS_WAIT, ADVANCE, STOP, PROBE, EARLY_SET, EARLY_WAIT = range(12)
BUSY, MEMORY, ISSUE, QUEUE, FLAG, CROSS, HEAD = range(7)  # what the time of a pipe goes to, see `probe`
EVENT_COLUMNS = 7  # of a log, before the registers, see `probe`
FIRST, BODY, LAST = range(3)
ENDED, BLOCKED = 0, 1
SET_ON_SET, WAIT_WITHOUT_SET, LEFT_SET, DEADLOCK, FLAG_RANGE, UNPAIRED, CORE_RANGE = -1, -2, -3, -4, -5, -6, -7
MAX_CORES = 4096
NEVER = 2**63 - 1

# functions that only others here call: without the way in from Python, which would take longer to compile than most of them
inner = njit(cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)

# what does not change in a walk; `costs` holds (issue, hop, cross ticks, flag ids, cross ids, cross count, loop ticks)
Tables = namedtuple("Tables", (
    "code",  # int32[n, 4]: opcode and operands, see `walk`
    "starts",  # int32[stream]: first instruction of each
    "axis_start",  # int32[stream + 1] into the grid axes
    "form_start", "form_register",  # flag ids as linear forms: constant + sum of coefficient * register
    "depend_start", "depend_cursor", "depend_step",  # per loop, then per axis: cursors that it moves, and where to, by class
    "cursor_base",  # int32[cursor]: instruction sites, then loops
    "counter_of",  # int32[counter]: its register
    "joined",  # int64[1]: whether streams meet by cross flags
    "costs",
    "queue",  # int64[stream]: instructions that a pipe's queue holds
    "pipe_head",  # int64[row, stream, pipe]: ticks
    "cost",  # int64[row, entry, 4]: busy, latency, unit, granule (below zero where L0C is not handed over in granules)
    "trips",  # int64[row, entry]
    "form_constant", "form_coefficient", "depth", "extent",  # int64[row, ...]
    "head",  # int64[row, axis]: how many coordinates are of the first class, 1 but where work is dealt out
    "merge",  # int8[row, axis, class]: the class that stands for it
))

# what a walk changes; the first index is the core within its group of cores that meet
State = namedtuple("State", (
    "pc", "free", "done", "bit", "cleared", "register", "count", "kind", "cursor", "last_held",
    "stream", "local", "ended", "progress", "ring", "put", "got", "latest",
    "starts", "turn",  # of the last instructions on each pipe, and the place of the oldest among them
    "early", "late", "floor", "until",  # hand-over of L0C: first and last granule by pipe, floor by pipe, last granule by bit
    "before", "spent", "at", "uses", "log", "logged",  # what probes see
    "epoch_time", "epoch_active", "epochs",
))

# what `tell` fills for one row; times in ticks
Told = namedtuple("Told", (
    "spent",  # [stream, pipe, kind]: of the core that ends last
    "sum_spent",  # the same, over all cores
    "at",  # [stream, place, (ticks, times)]: held or busy at a place of the code, of the core that ends last
    "ends",  # [stream, 3]: end of the core that ends last, its index, sum of the ends of all
    "uses",  # [entry]: how often, over all cores
))


@inner
def move(t, s, m, which, old, new):
    """Moves the cursors that depend on loop or axis `which` from class `old` to `new` (-1: outside)."""
    for k in range(t.depend_start[which], t.depend_start[which + 1]):
        step = 0
        if new >= 0:
            step += t.depend_step[k, new]
        if old >= 0:
            step -= t.depend_step[k, old]
        s.cursor[m, t.depend_cursor[k]] += step


@inner
def flag_id(t, s, r, m, form):
    """The value of a linear form over counters and loop variables."""
    value = t.form_constant[r, form]
    for k in range(t.form_start[form], t.form_start[form + 1]):
        value += t.form_coefficient[r, k] * s.register[m, t.form_register[k]]
    return value


@inner
def belongs(s, a, b, count_a, count_b):
    """Whether cores a and b of a group, of streams with so many cores in it, meet."""
    if count_b >= count_a:
        return s.local[b] // (count_b // count_a) == s.local[a]
    return s.local[a] // (count_a // count_b) == s.local[b]


@inner
def cross_set(t, s, m, members, sizes, target, flag, time):
    """BLOCKED where a counter is full; else ENDED, with a token put for each core of stream `target` that belongs to core m."""
    for w in range(members):
        if s.stream[w] == target and belongs(s, m, w, sizes[s.stream[m]], sizes[target]) \
                and s.put[w, m, flag] - s.got[w, m, flag] >= t.costs[5]:
            return BLOCKED
    for w in range(members):
        if s.stream[w] == target and belongs(s, m, w, sizes[s.stream[m]], sizes[target]):
            s.latest[w, m, flag] = max(s.latest[w, m, flag], time)
            s.ring[w, m, flag, s.put[w, m, flag] % t.costs[5]] = s.latest[w, m, flag]
            s.put[w, m, flag] += 1
    return ENDED


@inner
def cross_wait(t, s, m, members, sizes, source, flag):
    """The time of the last of the tokens that core m waits for, taken; -1 where one has not been put yet."""
    time = np.int64(0)
    for w in range(members):
        if s.stream[w] == source and belongs(s, m, w, sizes[s.stream[m]], sizes[source]):
            if s.put[m, w, flag] == s.got[m, w, flag]:
                return np.int64(-1)
            time = max(time, s.ring[m, w, flag, s.got[m, w, flag] % t.costs[5]])
    for w in range(members):
        if s.stream[w] == source and belongs(s, m, w, sizes[s.stream[m]], sizes[source]):
            s.got[m, w, flag] += 1
    return time


@inner
def probe(t, s, r, m, pc, place):
    """Accounts for the operation that stands before the probe at `pc`, and logs it where core m is watched.

    A pipe's time from where it was free to where it is free again goes to ISSUE (the scalar unit had not come so far), FLAG or CROSS
    (a wait), BUSY (its own work, held up by the other side's granules of L0C or not: so profilers show it) and
    MEMORY (longer, because the chip's memory is shared); what comes before is its HEAD.
    The scalar unit is BUSY issuing and looping, and stalls on a full QUEUE. Of a loop's start only the account is kept.
    Log: place, entry or flag, then ticks: where the pipe was free, issue, start, end, done; registers.
    """
    op, a, c = t.code[pc - 1, 0], t.code[pc - 1, 1], t.code[pc - 1, 3]
    if op == LOOP:
        s.spent[m, 0, BUSY] += s.free[m, 0] - s.before[m, 0]
        s.before[m, 0] = s.free[m, 0]
        return
    pipe = np.int64(t.code[pc - 1, 2] if op == INSTR else c)
    was, end = s.before[m, pipe], s.free[m, pipe]
    issue = s.before[m, 0] + t.costs[0] if pipe == 0 else s.free[m, 0]
    s.spent[m, 0, BUSY] += t.costs[0]
    s.spent[m, 0, QUEUE] += issue - s.before[m, 0] - t.costs[0]
    start, done, which = max(was, issue), end, np.int64(-1)
    if op == INSTR:
        which = s.cursor[m, a]
        done = end + t.cost[r, which, 1]
        own = end - start if c == 1 and end == s.floor[m, pipe] else min(t.cost[r, which, 0], end - start)
        s.spent[m, pipe, BUSY] += own
        s.spent[m, pipe, MEMORY] += end - start - own
        s.uses[m, which] += 1
    else:
        which = flag_id(t, s, r, m, a)
        if op in (WAIT, EARLY_WAIT, CROSS_WAIT):
            s.spent[m, pipe, CROSS if op == CROSS_WAIT else FLAG] += end - start
        else:
            start, was = issue, issue
            end = s.bit[m, t.code[pc - 1, 2] + which] if op != CROSS_SET else max(issue, max(end, s.done[m, pipe]))
            done = end
    if pipe != 0:
        s.spent[m, pipe, ISSUE] += start - was
    s.at[m, place, 0] += end - start
    s.at[m, place, 1] += 1
    for p in range(PIPE_COUNT):
        s.before[m, p] = s.free[m, p]
    if s.logged[0] == m:
        n = s.logged[1]
        if n < s.log.shape[0]:
            row = s.log[n]
            row[0], row[1], row[2], row[3], row[4], row[5], row[6] = place, which, was, issue, start, end, done
            for k in range(s.register.shape[1]):
                row[EVENT_COLUMNS + k] = s.register[m, k]
        s.logged[1] = n + 1


@inner
def hand_over(s, m, pipe, start, latency, granule):
    """Keeps when an instruction on M or FIXP, which has just taken its pipe from `start`, hands L0C over."""
    if granule >= 0:
        s.free[m, pipe] = max(s.free[m, pipe], s.floor[m, pipe])
        s.early[m, pipe] = max(s.early[m, pipe], start + granule)
        s.late[m, pipe] = max(s.late[m, pipe], s.free[m, pipe] + granule)
    else:
        s.early[m, pipe] = max(s.early[m, pipe], s.free[m, pipe] + latency)
        s.late[m, pipe] = max(s.late[m, pipe], s.free[m, pipe] + latency)


@inner
def reach(s, m, pipe):
    """A wait hands over when it ends."""
    s.early[m, pipe] = max(s.early[m, pipe], s.free[m, pipe])
    s.late[m, pipe] = max(s.late[m, pipe], s.free[m, pipe])


@inner
def walk(t, s, r, m, members, sizes):
    """ENDED, BLOCKED at a cross flag (call again later), or an error: core m of the group from where it stands."""
    code = t.code
    free = s.free[m]
    done = s.done[m]
    cursor = s.cursor[m]
    starts = s.starts[m]
    turn = s.turn[m]
    issue, hop, cross, ids, loop = t.costs[0], t.costs[1], t.costs[2], t.costs[3], t.costs[6]
    queue = t.queue[s.stream[m]]
    pc = s.pc[m]
    while True:
        op, a, b, c = code[pc, 0], code[pc, 1], code[pc, 2], code[pc, 3]
        if op == INSTR:  # a site, b pipe, c 1 where L0C is handed over in granules
            oldest = turn[b]
            free[0] = max(free[0] + issue, starts[b, oldest])
            entry = cursor[a]
            busy = t.cost[r, entry, 0]
            unit = t.cost[r, entry, 2]
            start = max(free[b], free[0])
            if c == 1 and t.cost[r, entry, 3] < 0:
                start = max(start, s.floor[m, b])
            starts[b, oldest] = start
            turn[b] = oldest + 1 if oldest + 1 < queue else 0
            if unit > 0:
                e = s.epochs[0] - 1
                while s.epoch_time[e] > start:
                    e -= 1
                held = unit * s.epoch_active[e, s.stream[m]]
                if held > busy:
                    busy = held
                    s.last_held[m] = max(s.last_held[m], start)
            free[b] = start + busy
            if c == 1:
                hand_over(s, m, np.int64(b), start, t.cost[r, entry, 1], t.cost[r, entry, 3])
            done[b] = max(done[b], free[b] + t.cost[r, entry, 1])
        elif op == SET:  # a form, b first bit of the pair, c source pipe
            free[0] += issue
            flag = flag_id(t, s, r, m, a)
            if flag < 0 or flag >= ids:
                return FLAG_RANGE
            time = max(free[0], free[c], done[c])
            if s.bit[m, b + flag] >= 0 or time < s.cleared[m, b + flag]:
                return SET_ON_SET
            s.bit[m, b + flag] = time
        elif op == WAIT:  # a form, b first bit of the pair, c target pipe
            free[0] += issue
            flag = flag_id(t, s, r, m, a)
            if flag < 0 or flag >= ids:
                return FLAG_RANGE
            if s.bit[m, b + flag] < 0:
                return WAIT_WITHOUT_SET
            free[c] = max(max(free[c], free[0]), s.bit[m, b + flag] + hop)
            s.bit[m, b + flag] = -1
            s.cleared[m, b + flag] = free[c]
        elif op == EARLY_SET:  # as SET, between M and FIXP
            free[0] += issue
            flag = flag_id(t, s, r, m, a)
            if flag < 0 or flag >= ids:
                return FLAG_RANGE
            time = max(free[0], s.early[m, c])
            if s.bit[m, b + flag] >= 0 or time < s.cleared[m, b + flag]:
                return SET_ON_SET
            s.bit[m, b + flag] = time
            s.until[m, b + flag] = max(free[0], s.late[m, c])
        elif op == EARLY_WAIT:  # as WAIT, on M or FIXP
            free[0] += issue
            flag = flag_id(t, s, r, m, a)
            if flag < 0 or flag >= ids:
                return FLAG_RANGE
            if s.bit[m, b + flag] < 0:
                return WAIT_WITHOUT_SET
            free[c] = max(max(free[c], free[0]), s.bit[m, b + flag] + hop)
            s.floor[m, c] = max(s.floor[m, c], s.until[m, b + flag])
            s.bit[m, b + flag] = -1
            s.cleared[m, b + flag] = free[c]
            reach(s, m, np.int64(c))
        elif op == LOOP:  # a loop, b its end, c register
            n = t.trips[r, cursor[t.cursor_base.shape[0] - s.count.shape[1] + a]]
            if n <= 0:
                pc = b
            else:
                s.count[m, a] = n
                s.register[m, c] = 0
                s.kind[m, a] = LAST if n == 1 else FIRST
                free[0] += loop
                move(t, s, m, np.int64(a), np.int64(-1), s.kind[m, a])
        elif op == END:  # a loop, b its start, c register
            i = s.register[m, c] + 1
            if i < s.count[m, a]:
                s.register[m, c] = i
                free[0] += loop
                kind = np.int64(LAST if i == s.count[m, a] - 1 else BODY)
                if kind != s.kind[m, a]:
                    move(t, s, m, np.int64(a), s.kind[m, a], kind)
                    s.kind[m, a] = kind
                pc = b
            else:
                move(t, s, m, np.int64(a), s.kind[m, a], np.int64(-1))
        elif op == ADVANCE:  # a counter
            s.register[m, t.counter_of[a]] = (s.register[m, t.counter_of[a]] + 1) % t.depth[r, a]
        elif op == STOP:
            s.ended[m] = 1
            s.progress[0] += 1
            return ENDED
        elif op == PROBE:
            probe(t, s, r, m, pc, np.int64(a))
        else:  # CROSS_SET, CROSS_WAIT: a form, b the other stream, c pipe
            flag = flag_id(t, s, r, m, a)
            if flag < 0 or flag >= t.costs[4]:
                return FLAG_RANGE
            s.pc[m] = pc
            if op == CROSS_SET:
                if cross_set(t, s, m, members, sizes, b, flag, max(free[0] + issue, free[c], done[c])) == BLOCKED:
                    return BLOCKED
                free[0] += issue
            else:
                time = cross_wait(t, s, m, members, sizes, b, flag)
                if time < 0:
                    return BLOCKED
                free[0] += issue
                free[c] = max(max(free[c], free[0]), time + cross)
                reach(s, m, np.int64(c))
            s.progress[0] += 1
        pc += 1


@inner
def axis_class(index, extent, head):
    """The class of a grid coordinate; the first `head` are FIRST."""
    if index == extent - 1:
        return LAST
    return FIRST if index < head else BODY


@inner
def signature(t, r, stream, core):
    """A number that is equal for cores of equal class."""
    value = np.int64(stream)
    rest = core
    for axis in range(t.axis_start[stream + 1] - 1, t.axis_start[stream] - 1, -1):
        n = t.extent[r, axis]
        value = value * 3 + t.merge[r, axis, axis_class(rest % n, n, t.head[r, axis])]
        rest //= n
    return value


@inner
def set_all(values, value):
    """Sets a row to one value (a loop: slices take several times as long to compile)."""
    for k in range(values.shape[0]):
        values[k] = value


@inner
def begin(t, s, r, m, stream, local, core):
    """Puts core m of a group at the start of its stream."""
    s.stream[m] = stream
    s.local[m] = local
    s.pc[m] = t.starts[stream]
    s.ended[m] = 0
    s.last_held[m] = -1
    for p in range(PIPE_COUNT):
        s.free[m, p] = t.pipe_head[r, stream, p]
        s.spent[m, p, HEAD] = t.pipe_head[r, stream, p]
        s.early[m, p] = t.pipe_head[r, stream, p]
        s.late[m, p] = t.pipe_head[r, stream, p]
        set_all(s.starts[m, p], 0)
    set_all(s.turn[m], 0)
    set_all(s.floor[m], 0)
    set_all(s.until[m], 0)
    set_all(s.done[m], 0)
    set_all(s.bit[m], -1)
    set_all(s.cleared[m], 0)
    set_all(s.register[m], 0)
    for p in range(PIPE_COUNT):
        s.before[m, p] = s.free[m, p]
    for k in range(t.cursor_base.shape[0]):
        s.cursor[m, k] = t.cursor_base[k]
    loops = s.count.shape[1]
    rest = core
    for axis in range(t.axis_start[stream + 1] - 1, t.axis_start[stream] - 1, -1):
        n = t.extent[r, axis]
        move(t, s, m, np.int64(loops + axis), np.int64(-1), np.int64(t.merge[r, axis, axis_class(rest % n, n, t.head[r, axis])]))
        rest //= n


@inner
def run_group(t, s, r, stream_of, core_of, members, sizes):
    """ENDED or an error: all cores of a group from start to end, in turns."""
    local = np.int64(0)
    for m in range(members):
        local = local + 1 if m > 0 and stream_of[m] == stream_of[m - 1] else 0
        begin(t, s, r, m, stream_of[m], local, core_of[m])
        for w in range(members):
            set_all(s.put[m, w], 0)
            set_all(s.got[m, w], 0)
            set_all(s.latest[m, w], 0)
    left = members
    while left > 0:
        before = s.progress[0]
        for m in range(members):
            if s.ended[m] == 0:
                status = walk(t, s, r, m, members, sizes)
                if status < 0:
                    return status
                left -= s.ended[m]
        if s.progress[0] == before:
            return DEADLOCK
    for m in range(members):
        for k in range(s.bit.shape[1]):
            if s.bit[m, k] >= 0:
                return LEFT_SET
        if t.joined[0] == 1:
            for w in range(members):
                for k in range(s.put.shape[2]):
                    if s.put[m, w, k] != s.got[m, w, k]:
                        return LEFT_SET
    return ENDED


@inner
def core_end(s, m):
    """When everything on all pipes of core m is done."""
    end = np.int64(0)
    for p in range(PIPE_COUNT):
        end = max(end, max(s.free[m, p], s.done[m, p]))
    return end


@inner
def stream_cores(t, r, cores):
    """Cores of the whole launch (0 or less where it is out of range); `cores` takes those of each stream."""
    total = np.int64(0)
    for stream in range(cores.shape[0]):
        cores[stream] = 1
        for axis in range(t.axis_start[stream], t.axis_start[stream + 1]):
            n = t.extent[r, axis]
            if n < 1 or n > MAX_CORES or cores[stream] * n > MAX_CORES:
                return np.int64(-1)
            cores[stream] *= n
        total += cores[stream]
    return total


@inner
def lowest(values):
    """The least of a row."""
    least = values[0]
    for k in range(1, values.shape[0]):
        least = min(least, values[k])
    return least


@inner
def group_classes(t, r, cores, sizes, stream_of, core_of, key, weight):
    """The number of classes of groups, or UNPAIRED.

    A group is the cores that meet: one of the smallest stream and those that belong to it; any core alone where streams
    do not meet. Fills members (class by member), their keys and how many groups are of each class.
    """
    groups = np.int64(0)
    for stream in range(cores.shape[0]):
        if t.joined[0] == 1:
            groups = cores[stream] if stream == 0 else min(groups, cores[stream])
        else:
            groups += cores[stream]
    for stream in range(cores.shape[0]):
        sizes[stream] = cores[stream] // groups if t.joined[0] == 1 else 1
        if t.joined[0] == 1 and cores[stream] % groups != 0:
            return UNPAIRED
    for a in range(cores.shape[0]):
        for b in range(a):
            if t.joined[0] == 1 and max(sizes[a], sizes[b]) % min(sizes[a], sizes[b]) != 0:
                return UNPAIRED
    classes = 0
    stream, first = 0, np.int64(0)
    for g in range(groups):
        n = 0
        if t.joined[0] == 1:
            for j in range(cores.shape[0]):
                for local in range(sizes[j]):
                    stream_of[classes, n] = j
                    core_of[classes, n] = g * sizes[j] + local
                    n += 1
        else:
            while g - first >= cores[stream]:
                first += cores[stream]
                stream += 1
            stream_of[classes, 0] = stream
            core_of[classes, 0] = g - first
            n = 1
        for m in range(n):
            key[classes, m] = signature(t, r, stream_of[classes, m], core_of[classes, m])
        found = -1
        for k in range(classes):
            same = True
            for m in range(n):
                same = same and key[k, m] == key[classes, m]
            if same:
                found = k
                break
        if found >= 0:
            weight[found] += 1
        else:
            weight[classes] = 1
            classes += 1
    return classes


@inner
def time_row(t, probed, s, r, cores, sizes, detail, out):
    """Ticks of a row, or an error (below zero)."""
    total = stream_cores(t, r, cores)
    if total < 1:
        return np.int64(CORE_RANGE)
    members = np.int64(1)
    if t.joined[0] == 1:
        members = total // lowest(cores)
    stream_of = np.zeros((total + 1, members), np.int64)
    core_of = np.zeros((total + 1, members), np.int64)
    key = np.zeros((total + 1, members), np.int64)
    weight = np.zeros(total + 1, np.int64)
    classes = group_classes(t, r, cores, sizes, stream_of, core_of, key, weight)
    if classes < 0:
        return np.int64(classes)
    ends = np.zeros((classes, members), np.int64)
    running = np.ones((classes, members), np.bool_)
    held = np.zeros(classes, np.int64)
    stale = np.ones(classes, np.bool_)
    s.epoch_time[0] = 0
    for j in range(cores.shape[0]):
        s.epoch_active[0, j] = cores[j]
    s.epochs[0] = 1
    now = np.int64(0)
    left = classes * members
    while left > 0:
        for k in range(classes):
            if stale[k]:
                status = run_group(t, s, r, stream_of[k], core_of[k], members, sizes)
                if status < 0:
                    return np.int64(status)
                held[k] = -1
                for m in range(members):
                    held[k] = max(held[k], s.last_held[m])
                    ends[k, m] = core_end(s, m)
        now = np.int64(NEVER)
        for k in range(classes):
            for m in range(members):
                if running[k, m]:
                    now = min(now, ends[k, m])
        e = s.epochs[0]
        s.epoch_time[e] = now
        for j in range(cores.shape[0]):
            s.epoch_active[e, j] = s.epoch_active[e - 1, j]
        s.epochs[0] += 1
        for k in range(classes):
            stale[k] = False
            for m in range(members):
                if running[k, m] and ends[k, m] == now:
                    running[k, m] = False
                    left -= 1
                    s.epoch_active[e, stream_of[k, m]] -= weight[k]
                if running[k, m] and held[k] >= now:
                    stale[k] = True
    if detail:
        tell(probed, s, r, stream_of, core_of, weight, classes, members, sizes, out)
    return now


@inner
def clear(values):
    """Sets a table [row, column] to zero."""
    for i in range(values.shape[0]):
        set_all(values[i], 0)


@inner
def tell(t, s, r, stream_of, core_of, weight, classes, members, sizes, out):
    """Walks all classes once more under the final epochs, with probes, for where the time went; `out` is a Told of zeros."""
    for k in range(classes):
        for m in range(members):
            clear(s.spent[m])
            clear(s.at[m])
            set_all(s.uses[m], 0)
        run_group(t, s, r, stream_of[k], core_of[k], members, sizes)
        for m in range(members):
            stream = stream_of[k, m]
            end = core_end(s, m)
            out.ends[stream, 2] += end * weight[k]
            last = end > out.ends[stream, 0]
            if last:
                out.ends[stream, 0] = end
                out.ends[stream, 1] = core_of[k, m]
                for i in range(out.at.shape[1]):
                    out.at[stream, i, 0] = s.at[m, i, 0]
                    out.at[stream, i, 1] = s.at[m, i, 1]
            for p in range(PIPE_COUNT):
                for i in range(out.spent.shape[2]):
                    out.sum_spent[stream, p, i] += s.spent[m, p, i] * weight[k]
                    if last:
                        out.spent[stream, p, i] = s.spent[m, p, i]
            for e in range(out.uses.shape[0]):
                out.uses[e] += s.uses[m, e] * weight[k]


@njit(cache=True, nogil=True)
def time_rows(t, probed, s, first, last, cores, sizes, detail, ticks, status, out):
    """Fills ticks and status of rows first .. last - 1 whose status is still 0.

    With detail, `probed` is t with probes in its code and `out` a Told of zeros for a single row; else neither is used.
    """
    for r in range(first, last):
        if status[r] == 0:
            time = time_row(t, probed, s, r, cores, sizes, detail, out)
            if time < 0:
                status[r] = time
            else:
                ticks[r] = time


@njit(cache=True, nogil=True)
def log_core(probed, s, r, stream_of, core_of, members, sizes, watched):
    """How many events core number `watched` of a group has; s.log takes the first of them. Right after time_rows of this row alone."""
    s.logged[0], s.logged[1] = watched, 0
    status = run_group(probed, s, r, stream_of, core_of, members, sizes)
    s.logged[0] = -1
    return s.logged[1] if status == ENDED else np.int64(status)


def make_told(streams: int, places: int, entries: int) -> Told:
    """Zeros for `tell` to fill."""
    spent = (streams, PIPE_COUNT, HEAD + 1)
    return Told(np.zeros(spent, np.int64), np.zeros(spent, np.int64), np.zeros((streams, places, 2), np.int64),
                np.zeros((streams, 3), np.int64), np.zeros(entries, np.int64))


def make_state(members: int, bits: int, registers: int, loops: int, cursors: int, entries: int, streams: int, queue: int, cross_ids: int,
               cross_count: int, places: int = 0, events: int = 0) -> State:
    """Fresh arrays for one thread; `members` is the largest number of cores that meet. Of the code's length `places` where probes tell."""
    def zeros(*shape: int) -> np.ndarray:
        return np.zeros(shape, np.int64)

    epochs = streams * MAX_CORES + 2
    return State(
        pc=zeros(members), free=zeros(members, PIPE_COUNT), done=zeros(members, PIPE_COUNT), bit=zeros(members, bits),
        cleared=zeros(members, bits), register=zeros(members, registers), count=zeros(members, loops), kind=zeros(members, loops),
        cursor=zeros(members, cursors), last_held=zeros(members), stream=zeros(members),
        local=zeros(members), ended=zeros(members), progress=zeros(1),
        ring=zeros(members, members, cross_ids, cross_count), put=zeros(members, members, cross_ids),
        got=zeros(members, members, cross_ids), latest=zeros(members, members, cross_ids),
        starts=zeros(members, PIPE_COUNT, queue), turn=zeros(members, PIPE_COUNT), early=zeros(members, PIPE_COUNT),
        late=zeros(members, PIPE_COUNT), floor=zeros(members, PIPE_COUNT), until=zeros(members, bits),
        before=zeros(members, PIPE_COUNT), spent=zeros(members, PIPE_COUNT, HEAD + 1), at=zeros(members, places, 2),
        uses=zeros(members, entries if places else 1), log=zeros(events, EVENT_COLUMNS + registers), logged=np.array([-1, 0]),
        epoch_time=zeros(epochs), epoch_active=zeros(epochs, streams), epochs=zeros(1))
