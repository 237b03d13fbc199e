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
   share HBM (aoec/simulate/timing/reuse.py: crowding, both_ways), and `active` the number of cores of its stream that have not ended
   when it starts. (A transfer crosses HBM and L2 one after the other: first touch and repeats add up, as in the vendor's closed form for
   matrix products.) A core ends when everything on all its pipes is done.
8. Everything starts at time 0; a row takes until its last core ends. At the end no bit is set and no token is left.
9. Steady loops are not walked to their end: nothing but time that is saved, and no rule that another simulator needs.

What makes it fast: durations and trip counts vary with a loop or grid axis only between its first, its last and all other
iterations, so tables indexed by these *classes* are filled beforehand, and a cursor per instruction site moves when a loop's class
changes. Cores of equal class take equal time and are walked once. Rule 7 is met by epochs: all classes are walked as if every core
ran for ever; the earliest end closes the first epoch for good, because a transfer that starts before it cannot change. When one class has
ended, the others stop in front of the first transfer that would be held back after that (the *horizon*), and go on from there in the next
epoch; one that has been held back after its begin is walked again. Where nothing holds a class back, and others are sure to end no later
(`does_less`), these are not walked at all. The state of a walk is in arrays (State), so that a walk can stop at the horizon or at a cross
flag, and so that two states at iteration boundaries can be compared to skip a steady loop.

Rule 9 is exact. All that rules 2 to 6 do with times is to take the larger of some, each plus a number that does not depend on time. So
where all that counts stands D ticks later than it stood some iterations before, these iterations go round for ever, each time D ticks
later, until the class of a loop changes: as many as fit into what is left of the loop are taken off it, and D is added as often
(`leap`). What counts is seen from the scalar unit, before whose time nothing can happen any more; of a time behind it counts only
that it is (`picture`). Rule 7 alone asks what the clock says: a leap ends before the end of the epoch in which the iterations that were
compared began (`rounds`). A mark of the state is set anew at growing distances (Brent's way to find a period), so that any period is
found soon after it begins. No loop is looked at in which the id of a flag follows the loop's own variable, so that iterations are not
alike. In a loop that holds a cross flag other cores have a say: there all cores of a group are compared at once (`meet`). The first of
them stops where an iteration of such a loop begins, and the others go on until they can do nothing before it does; that hangs on tokens
alone, not on times, so what they have done by then is the same in each way of taking turns. Where each of them has since gone on in one
loop, stands D ticks later than it stood then (with what is on its way between them), and had work of one class, all goes round.

A loop that is gone through again from where it was gone through before goes the same way (`recall`): on this core, in an inner loop that
an outer one comes back to, or on another core of the row, of whatever class. From where, is compared number by number: `stance`, which is a
picture of the pipes and flags of its body with the counters that its flags go by, and the costs and trip counts that it may meet. What
became of it then is put in the place of a walk (`take`), unless it would reach beyond the end of an epoch. So loops in loops, of which
each takes some iterations until it is steady, do not take the product of these.

Where the time went is told by a second walk over code with a PROBE after every instruction, flag operation and start of a loop (where
each iteration begins); the code that a search walks has none, so that it pays nothing.

What stands where, in this order:

    entry .. State              how kernels are made; the tables of a program and the state of a walk, field by field
    move .. cross_wait          cursors of instruction sites, ids of flags, cross flags
    probe .. reach              what a second walk notes; granules that L0C is handed over in
    is_in_step .. equal         a picture of the state, by which iterations are compared (rule 9)
    epoch_end .. leap           iterations that are alike, taken at once
    mark_of .. resolve          the same where other cores have a say (`meet`)
    flags_of_row .. show        whether a loop can be compared at all: what its flags go by
    learn .. turn_page          a loop that is gone through again: kept and recalled
    over .. lead                floors of what is still to do, for a walk with a limit
    flag_of .. instruct_often   one instruction, or many that are alike
    walk                        a core's stream from where it stands, to its end, a cross flag or the horizon
    axis_class .. walk_class    classes of cores; a group of cores that meet
    core_end .. core_classes    which cores are alike
    time_row                    a row: epochs, until its last core ends (rule 7)
    does_less .. single_classes classes that need not be walked
    floor .. firsts             the least that a row takes
    find_rows                   the way in: many rows
    make_state                  an empty state
"""
from __future__ import annotations

from collections import namedtuple
from functools import wraps

import numpy as np
from numba import config, typeof, types

from . import linked
from .linked import by_address, inline, inner
from .structs import pass_by_address

TICKS_PER_CYCLE = 1024
PIPE_COUNT = 7
# a bit each, so that `walk` asks for bits: of equal values the compiler would make a table of jumps, and where the next one goes is guessed
# wrong more often than which of some branches is taken
LOOP, END, INSTR, SET, WAIT, CROSS_SET, CROSS_WAIT, ADVANCE, STOP, PROBE, EARLY_SET, EARLY_WAIT = (1 << k for k in range(12))
SETS, EARLY, FLAGS = SET | EARLY_SET, EARLY_SET | EARLY_WAIT, SET | EARLY_SET | WAIT | EARLY_WAIT
BUSY, MEMORY, ISSUE, QUEUE, FLAG, CROSS, HEAD = range(7)  # what the time of a pipe goes to, see `probe`
OWN, LATENCY, UNIT, GRANULE = range(4)  # of the cost of an entry: its pipe is busy for so long on its own, ...
COST = 4  # numbers
EVENT_COLUMNS = 7  # of a log, before the registers, see `probe`
FIRST, BODY, LAST, OUTSIDE = range(4)  # classes of iterations; before and after a loop
M, FIXP = 2, 6  # the pipe of products, and the one that takes them
ENDED, BLOCKED, OVER, HALTED = range(4)
TIMES, FLOORS, ALONE, WORK, ENDS, AGAIN = range(6)  # what is asked of rows, see `find_rows`
SET_ON_SET, WAIT_WITHOUT_SET, LEFT_SET, DEADLOCK, FLAG_RANGE, UNPAIRED, CORE_RANGE = -1, -2, -3, -4, -5, -6, -7
ABANDONED = -10  # beside errors of rows that others know: not before its limit is the row done
TOO_LONG, STOPPED = -11, -12  # its walk took more steps than it may; the flag `stop` was set
LOOK = 4096  # operations between two looks at these
LATEST = 2**62  # ticks that are counted
MAX_CORES = 4096
NEVER = 2**63 - 1
FOLLOWED = 256  # operations before the end of which it is looked up what follows them
FIRST_REACH = 2  # iterations for which the first mark of a loop stands, twice as many for each next one
LONG = 32  # iterations that are not worth a look, at most, of a loop that is remembered
RECORDS, LOG = 384, 1 << 17  # executions of loops that are remembered of a row at most, and numbers that say them
INSIDE, READ, PLACES = 1024, 160, 729  # what bodies of loops read, all together, each of them; and from how many places of a table
KEPT = 8  # classes of cores of a row whose walks can stop and go on, at most
STOOD = 128  # of the places of cursors in front of loops, so many are told apart in a row at most
MANY = 32  # operations of a loop that is looked up, at least, for each of its iterations that is not worth a look
U = np.uint64  # of a place that is never below zero: the compiler need not ask


def entry(function):
    """Return a way in from Python that need not name its last argument, the address of `walk`: so `walk`, which is most of the code with
    all that it calls, is compiled once, and not once for each link of each chain that leads to it. `compile_rest` compiles all but `walk`
    for arguments like these."""
    compiled = linked.entry(function)

    @wraps(function)
    def call(t, s, *given):
        return compiled(t, s, *given, walk if config.DISABLE_JIT else address_of_walk(t, s))

    def compile_rest(t, s, *given):
        compiled.compile((*map(typeof, (t, s, *given)), types.FunctionType(type_of_walk(t, s))))

    call.compiled, call.compile_rest = compiled, compile_rest
    return call


def type_of_walk(t, s):
    """Return the signature of `walk` for tables and states like these, all of which are of one type."""
    number = types.int64
    return number(typeof(t), typeof(s), number, number, number, typeof(s.pc))


def address_of_walk(t, s):
    """Return `walk`, compiled for tables and states like these, as a value for kernels."""
    if not pointers:
        pointers.append(types.CompileResultWAP(walk.get_compile_result(type_of_walk(t, s))))
    return pointers[0]


pointers = []  # the address of `walk`, once it is known

# what does not change in a walk; `costs` holds (issue, hop, cross ticks, flag ids, cross ids, cross count, loop ticks)
Tables = namedtuple("Tables", (
    "code",  # int32[n, 4]: opcode and operands, see `walk`
    "flat",  # the same, one row behind the other
    "starts",  # int32[stream]: first instruction of each
    "axis_start",  # int32[stream + 1] into the grid axes
    "form_start", "form_register",  # flag ids as linear forms: constant + sum of coefficient * register
    "depend_start", "depend_cursor", "depend_step",  # per loop, then per axis: cursors that it moves, and where to, by class (OUTSIDE: 0)
    "cursor_base",  # int64[cursor]: instruction sites, then loops (into a row of `trips`)
    "entry_of",  # int32[position]: which of a site's entries instructions have, by class of the loops that their sizes vary with
    "counter_of",  # int32[counter]: its register
    "preset",  # int64[2]: pairs of pipes, as bits, between which flags are set before the loops: those that give slots back; and those
    # with flags by which L0C is handed over in granules
    "joined",  # int64[2]: whether streams meet by cross flags; whether flags go in turns whatever the trip counts, see `does_less`
    "used",  # int64[loop, 5]: pipes, and pairs of them, that a loop's body uses, as bits; how many iterations left are not worth a look;
    # whether its iterations are long, so that all is marked from the first; how many are not worth a look at all cores that meet
    "heard",  # int8[stream, register]: 1 where a loop goes by it, or the id of a flag: what no time hangs on is not looked at
    "costs",
    "queue",  # int64[stream]: instructions that a pipe's queue holds
    "form_constant", "form_coefficient", "depth",  # int64[row, ...]
    "trips",  # int64[row, entry]
    "work",  # int64[row]: rows of equal sizes, which differ in slots at most, share one row of all tables below
    "cost",  # int64[COST * entry]: ticks (GRANULE: below zero where L0C is not handed over in granules)
    "place",  # int64[work, site, 2]: the first of a site's entries, and of its positions
    "pipe_head",  # int64[work, stream, pipe]: ticks
    "extent",  # int64[work, axis]
    "head",  # int64[work, axis]: how many coordinates are of the first class, 1 but where work is dealt out
    "merge",  # int8[work, loop or axis, class]: the class that stands for it: BODY where no size differs
    "opened",  # int8[loop + 1]: 1 for loops whose trips hang on holes that are open; at last whether any hole is
))

# what a walk changes; the first index is the core within its group of cores that meet, and where no cores do, the class of cores
State = namedtuple("State", (
    "pc", "free", "done",
    "bit",  # of a flag: when it was set, or -1 - when it was cleared (or 0 where it never was)
    "held",  # see `follow`
    "register", "count", "kind", "cursor", "last_held",
    "stream", "local", "ended",
    "progress",  # what has moved; then steps of the row so far, and the most that it may take
    "stop",  # int64[1]: another thread sets it, and all walks end
    "ring", "put", "got", "latest",
    "limit",  # ticks at which a row is abandoned
    "left",  # ticks that what a core has yet to do will keep each pipe busy, at the least
    "led", "last",  # of the first operations, see `lead`, and what follows a pipe's last, see `follow`
    "taken", "excess",  # of it by the last operations, and how much later than that all is done, at the least
    "alike",  # cores that run at least as long as this one
    "weight",  # see `total`
    "shared",  # ticks [stream, pipe] that all transfers keep the chip's memory busy
    "starts", "turn",  # of the last instructions on each pipe, and the place of the oldest among them
    "early", "late", "floor", "until",  # hand-over of L0C: first and last granule by pipe, floor by pipe, last granule by bit
    "before", "spent", "at", "uses", "log", "logged",  # what probes see
    "probed",  # how many operations they saw
    "horizon",  # when the first of the other classes is known to end, where a walk stops
    "paused",  # the loop at the start of whose next iteration core 0 waits for the others of its group, -1: none
    "epoch_time", "epoch_active", "epochs", "mark", "groups", "memo",
    "shown",  # see Shown
    "form",  # int64[4 * form], see `resolve`
))

# what pictures show, see `picture`: by loop, and last by what a core does in all
Shown = namedtuple("Shown", (
    "pipe", "pipes",  # pipes that its body uses, and how many
    "flag", "flags",  # places of flags that it uses; how many, and how many of them, the first, are not handed over in granules
    "filled",  # of which stamp these are
    "counter", "counters",  # by stream: registers of the counters that flag ids go by, and how many
    "form", "pair",  # of each pair of pipes, and each form by which its flags go: these
    "top",  # by pair: the highest flag id of a row, and one
    "count",  # how many of `form` there are, -1: not filled yet; the stamp of `top`; the row of which it is not filled yet, -1: none
))

# how a core stood between two iterations of each loop; the first index is the loop. A walk that stops in a loop which is skipped on a core
# alone (it holds no cross flag) is marked anew when it goes on, so that one mark of each serves all cores. Of loops with cross flags it is
# the loop of core 0, and how core m of its group stood then comes m times as many places further on as there are loops (`mark_of`).
Mark = namedtuple("Mark", (
    "at",  # the iteration that came next
    "reach",  # how many iterations later it is set anew; 0: the mark is another walk's
    "whole",  # whether there is a picture, or `free` alone
    "free", "left",
    "picture",  # see `picture`; the last row is for the one to compare
    "register",  # of cores that meet
    "spent", "times", "uses",  # what probes had seen: of State spent, at and uses
))

# what is remembered of a row: loops that some core has gone through, from what state to what state; a record each, see `recall`
Memo = namedtuple("Memo", (
    "worth",  # by loop: whether it is remembered
    "inside", "inside_of",  # cursors that its body reads: [loop, (begin, end)] of the list
    "moved", "moved_of",  # of each of these, the loop itself or one in it that moves it, and its entry of `depend_step`
    "stood", "stood_last", "before",  # where these stood, a record each; by loop: the last; the one before a record, -1: none
    "same",  # the first record of the loop from which it meets the same costs and trip counts
    "counter", "counter_of",  # registers that it goes by or sets
    "open",  # by loop: the record of the one that is under way, -1: none
    "count",  # of records; of numbers in the log; of what the lists hold; of records of where cursors stood
    "newest",  # by record of where cursors stood: the last that begins with the same sizes, -1: none
    "former",  # the record with the same sizes before one
    "of",  # with which sizes it begins, see `same`
    "log",  # numbers of all records, one behind the other: the states from which loops were gone through, and what became of them
    "key", "length", "sum",  # where a state begins, how many numbers it takes, and their sum
    "result",  # where begins what became of it: see `keep`
    "room",  # how many numbers one of either may take
    "begun",  # when, and `last_held` then
    "left",
    "place",  # room for positions
))

# the groups of cores of a row by class; the first index is the class, the second the core within the group
Groups = namedtuple("Groups", ("stream_of", "core_of", "key", "weight", "end", "running", "held", "stale", "classes",
                               "passed",  # whether a class is sure to end no later than another, and is not walked
                               "halted",  # whether the walk of a class has stopped at the horizon, to go on from there
                               "members",  # of a group
                               "left", "taken", "excess",  # see State, [class, member, pipe] of all that a core has to do
                               ))
for kind in (Tables, State, Shown, Mark, Memo, Groups):
    pass_by_address(kind)


@inline
def move(t, cursor, which, old, new):
    """Moves the cursors that depend on loop or axis `which` from class `old` to `new`."""
    of, step = t.depend_cursor, t.depend_step
    for k in range(t.depend_start[U(which)], t.depend_start[U(which + 1)]):
        cursor[U(of[U(k)])] += step[U(k), U(new)] - step[U(k), U(old)]


@inline
def turn_to(t, merge, cursor, a, old, new):
    """Move the cursors of loop `a` from one class of its iterations to another, or into or out of the loop. Where all iterations are
    alike, the cursors have their final position from the beginning (`stand`)."""
    if merge[U(a), FIRST] != merge[U(a), LAST]:
        move(t, cursor, a, old, new)


@inline
def flag_id(start, of, constant, coefficient, register, form):
    """Return the value of a linear form over counters and loop variables."""
    value, first, last = constant[U(form)], start[U(form)], start[U(form + 1)]
    if first < last:  # one, as most have
        value += coefficient[U(first)] * register[U(of[U(first)])]
        for k in range(first + 1, last):
            if of[U(k)] < 0:  # never: what may end early is not made a loop over several at once, which would be long
                break
            value += coefficient[U(k)] * register[U(of[U(k)])]
    return value


@inner
def belongs(s, a, b, count_a, count_b):
    """Return whether cores a and b of a group, of streams with so many cores in it, meet."""
    if count_b >= count_a:
        return s.local[b] // (count_b // count_a) == s.local[a]
    return s.local[a] // (count_a // count_b) == s.local[b]


@inner
def cross_set(t, s, m, members, sizes, target, flag, time):
    """Put a token for each core of stream `target` that belongs to core m, and return ENDED. Put none, and return BLOCKED, where a
    counter is full."""
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
    """Return the time of the last of the tokens that core m waits for, taken; -1 where one has not been put yet."""
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
    s.probed[m] += 1
    pipe = np.int64(t.code[pc - 1, 2] if op == INSTR else c)
    was, end = s.before[m, pipe], s.free[m, pipe]
    issue = s.before[m, 0] + t.costs[0] if pipe == 0 else s.free[m, 0]
    s.spent[m, 0, BUSY] += t.costs[0]
    s.spent[m, 0, QUEUE] += issue - s.before[m, 0] - t.costs[0]
    start, done, which = max(was, issue), end, np.int64(-1)
    if op == INSTR:
        which = t.place[t.work[r], a, 0] + t.entry_of[t.place[t.work[r], a, 1] + s.cursor[m, a]]
        done = end + t.cost[COST * which + LATENCY]
        own = end - start if c == 1 and end == s.floor[m, pipe] else min(t.cost[COST * which + OWN], end - start)
        s.spent[m, pipe, BUSY] += own
        s.spent[m, pipe, MEMORY] += end - start - own
        s.uses[m, which] += 1
    else:
        which = flag_id(t.form_start, t.form_register, t.form_constant[r], t.form_coefficient[r], s.register[m], a)
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
def ended_early(s, steps, now):
    """Return 0, or why the walk of a row must end, which has taken so many more steps and has come to the time `now`."""
    s.progress[1] += steps
    if s.stop[0] != 0:
        return STOPPED
    return TOO_LONG if s.progress[1] > s.progress[2] or now > LATEST // 2 else 0


@inline
def hand_over(free, floor, early, late, pipe, start, latency, granule):
    """Note when an instruction on M or FIXP hands L0C over. It has just taken its pipe from `start`."""
    if granule >= 0:
        free[pipe] = max(free[pipe], floor[pipe])
        early[pipe] = max(early[pipe], start + granule)
        late[pipe] = max(late[pipe], free[pipe] + granule)
    else:
        early[pipe] = max(early[pipe], free[pipe] + latency)
        late[pipe] = max(late[pipe], free[pipe] + latency)


@inline
def reach(free, early, late, pipe):
    """Note that a wait hands L0C over when it ends."""
    early[pipe] = max(early[pipe], free[pipe])
    late[pipe] = max(late[pipe], free[pipe])


@inline
def is_in_step(free, marked, pipes):
    """Return whether each of `pipes` is free as much later than at the mark as the scalar unit, or idle since before the mark.

    A pipe that was free before the scalar unit's time and runs anything after it is free after it: so one that is free when it was has
    done nothing, and will do nothing in the next such iterations. Of others not even what lies behind the scalar unit may differ: probes
    account for it.
    """
    step = free[0] - marked[0]
    for p in range(1, PIPE_COUNT):
        if (pipes >> p) & 1 and free[p] - marked[p] != step and (free[p] != marked[p] or marked[p] >= marked[0]):
            return False
    return True


@inline
def picture_pipes(now, pipe, pipes, granules, queue, done, early, late, floor, starts, turn, out):
    """Return how many numbers of a picture are filled, for the pipes used: see `picture`.

    Starts on a pipe do not fall, so that behind the first that has passed all have, whatever their places in the ring; a 0 ends them.
    """
    n = 0
    for x in range(pipes):
        p = pipe[U(x)]
        out[U(n)] = max(done[U(p)] - now, 0)
        n += 1
        if granules and (p == M or p == FIXP):  # noqa: SIM109 (Numba makes a loop of `in`); nobody else hands L0C over
            out[U(n)] = max(early[U(p)] - now, 0)
            out[U(n + 1)] = max(late[U(p)] - now, 0)
            out[U(n + 2)] = max(floor[U(p)] - now, 0)
            n += 3
        place = turn[U(p)]
        for _ in range(queue):
            place = (place if place > 0 else queue) - 1
            if starts[U(p), U(place)] <= now:
                break
            out[U(n)] = starts[U(p), U(place)] - now
            n += 1
        out[U(n)] = 0
        n += 1
    return n


@inline
def picture_flags(now, flag, plain, flags, hop, bit, until, out, n):
    """Return how many numbers of a picture are filled, of which n were, with those for the flags used: see `picture`.

    A wait ends `hop` after its set at the earliest; of a bit that is not set it counts when it was cleared, and nothing else. Only flags
    behind the `plain` ones bring a floor.
    """
    for x in range(flags):
        value = bit[U(flag[U(x)])]
        wanted, since = max(value + hop - now, 0), -1 - max(-1 - value - now, 0)
        out[U(n + x)] = since if value < 0 else wanted
    n += flags
    for x in range(plain, flags):
        at = flag[U(x)]
        out[U(n + x - plain)] = 0 if bit[U(at)] < 0 else max(until[U(at)] - now, 0)
    return n + flags - plain


@inline
def picture(t, s, m, a, out):
    """Return how many numbers it takes, filled into `out`, to say all that what follows hangs on but `free`, as the scalar unit sees it,
    and but registers: of the pipes and flags of loop `a` (or behind all loops, of a core in all).

    Between iterations of class BODY of a loop. Whatever is yet to come is issued at the scalar unit's time or
    later, and takes the larger of that and the times kept here; so one that has passed is as good as any other: of what holds up sets and
    hand-overs of L0C (`done`, `early`, `late`) and starts (`floor`, and `until`, which only raises one), of the starts that a full queue
    waits for, and of the time at which a bit was cleared, before which no new set may fall. Where each cursor stands follows from the
    classes of the loops around; what the loop neither reads nor changes stays as it is.
    """
    now, w = s.free[m, 0], s.shown
    if w.count[2] >= 0:
        flags_of_row(t, w)
    if w.filled[a] != w.count[1]:
        show_flags(t, w, a)
    n = picture_pipes(now, w.pipe[a], w.pipes[a], t.preset[1] != 0, t.queue[s.stream[m]], s.done[m], s.early[m], s.late[m], s.floor[m],
                      s.starts[m], s.turn[m], out)
    return picture_flags(now, w.flag[a], w.flags[a, 1], w.flags[a, 0], t.costs[1], s.bit[m], s.until[m], out, n)


@inline
def picture_counters(counter, counters, register, out, n):
    """Return how many numbers of a picture are filled, of which n were, with the counters that flag ids go by."""
    for x in range(counters):
        out[U(n + x)] = register[U(counter[U(x)])]
    return n + counters


@inner
def picture_meeting(t, s, m, members, out):
    """Return how many numbers it takes to say all that what follows hangs on for core m of a group but `free` and registers: see `picture`;
    where it stands, and the tokens on their way to it.

    A wait for a token ends `cross` after it was put at the earliest, and a token that is put comes no earlier than the one before it.
    """
    n, now, kinds = picture(t, s, m, s.kind.shape[1], out), s.free[m, 0], s.kind.shape[1]
    for k in range(kinds):
        out[n + k] = s.kind[m, k]
    out[n + kinds] = s.pc[m]
    n += kinds + 1
    for w in range(members):
        for flag in range(s.put.shape[2]):
            got, count = s.got[m, w, flag], s.put[m, w, flag] - s.got[m, w, flag]
            out[n], out[n + 1] = count, max(s.latest[w, m, flag] - now, 0)
            n += 2
            for k in range(count):
                out[n + k] = max(s.ring[m, w, flag, (got + k) % t.costs[5]] + t.costs[2] - now, 0)
            n += count
    return n


@inner
def equal(a, b, count):
    """Return whether two rows begin with the same numbers (all are looked at: several at once, which takes less time than to stop
    early)."""
    other = np.int64(0)
    for k in range(count):
        other |= a[U(k)] ^ b[U(k)]
    return other == 0


@inner
def copy(to, values, count):
    """Copies the begin of a row."""
    for k in range(count):
        to[U(k)] = values[U(k)]


@inner
def epoch_end(s, time):
    """Return when the epoch ends in which `time` lies: the last that is known at the horizon; never behind that, where nothing is held
    back."""
    end = s.horizon[0] if time < s.horizon[0] else np.int64(NEVER)
    e = s.epochs[0] - 1
    while s.epoch_time[e] > time:
        end = s.epoch_time[e]
        e -= 1
    return end


@inner
def rounds(free, pipes, was, times, end):
    """Return how many of `times` rounds can be skipped. All their transfers must start before `end`, the end of the epoch that contains
    `was`.

    A round lasts from `was` to free[0]. A transfer in it starts at `was` or later, and no later than its pipe is free afterwards.
    """
    latest = free[0]
    for p in range(1, PIPE_COUNT):
        if (pipes >> p) & 1:
            latest = max(latest, free[p])
    end = min(end, LATEST)
    if latest >= end:
        return np.int64(0)
    return min(times, (end - 1 - latest) // (free[0] - was)) if free[0] > was else times


@inner
def add(values, by):
    """Adds to a row."""
    for k in range(values.shape[0]):
        values[k] += by


@inner
def later(s, m, k, pipes, pairs, ids, by):
    """Moves the core on by `by` ticks: all of these pipes and pairs of pipes, but pipes that did nothing since mark k. What was told to be
    of no account, because it has passed, is so still."""
    if s.last_held[m] >= s.mark.free[k, 0]:  # by these iterations, or else it is said to be later than it is, which does no harm
        s.last_held[m] += by
    for p in range(PIPE_COUNT):
        if (pipes >> p) & 1 or p == 0:
            if s.free[m, p] != s.mark.free[k, p]:
                s.free[m, p] += by
                s.before[m, p] += by
            s.done[m, p] += by
            s.early[m, p] += by
            s.late[m, p] += by
            s.floor[m, p] += by
            add(s.starts[m, p], by)
    for pair in range(s.bit.shape[1] // ids):
        if (pairs >> pair) & 1:
            for flag in range(pair * ids, pair * ids + ids):
                s.until[m, flag] += by
                s.bit[m, flag] += by if s.bit[m, flag] >= 0 else -by


@inner
def grow(values, marked, times):
    """Add to a table `times` its growth since it was marked, and mark it."""
    for i in range(values.shape[0]):
        for k in range(values.shape[1]):
            values[i, k] += times * (values[i, k] - marked[i, k])
            marked[i, k] = values[i, k]


@inner
def account(s, m, k, times):
    """Add to the accounts of probes what they would note in `times` more such rounds as since mark k (0: nothing), and mark them."""
    grow(s.spent[m], s.mark.spent[k], times)
    grow(s.at[m], s.mark.times[k], times)
    for entry in range(s.uses.shape[1]):
        s.uses[m, entry] += times * (s.uses[m, entry] - s.mark.uses[k, entry])
        s.mark.uses[k, entry] = s.uses[m, entry]


@inner
def go_round(s, m, k, pipes, pairs, ids, times):
    """Move the core on by so many repetitions of what it did since mark k."""
    if times > 0:
        later(s, m, k, pipes, pairs, ids, times * (s.free[m, 0] - s.mark.free[k, 0]))
        for p in range(1, PIPE_COUNT):
            s.left[m, p] -= times * (s.mark.left[k, p] - s.left[m, p])
    if s.at.shape[1] > 0:
        account(s, m, k, times)


@inline
def skip(t, s, m, a, period, left):
    """Return how many of the `left` iterations of loop `a` are skipped, where all goes round as in the `period` of them since the mark."""
    was = s.mark.free[a, 0]
    times = rounds(s.free[m], t.used[a, 0], was, left // period, epoch_end(s, was))
    go_round(s, m, a, t.used[a, 0], t.used[a, 1], t.costs[3], times)
    return times * period


@inline
def leap(t, s, m, a, i):
    """Return the iteration of loop `a` to go on with where i comes next: as far on as all goes round as it did since the mark, which is set
    anew.

    Called where the pipes have stepped since the mark, or it has stood long enough. There is a picture only of what has stepped before.
    """
    k, period = s.mark, i - s.mark.at[a]
    if i == 1 or k.reach[a] == 0:
        k.whole[a], k.reach[a], period = t.used[a, 3], FIRST_REACH, 0
    steady, count = period > 0 and is_in_step(s.free[m], k.free[a], t.used[a, 0]), np.int64(0)
    if steady or k.whole[a] == 1:
        new = k.picture[k.picture.shape[0] - 1]
        count = picture_counters(s.shown.counter[s.stream[m]], s.shown.counters[s.stream[m]], s.register[m], new, picture(t, s, m, a, new))
    if steady and k.whole[a] == 1 and equal(k.picture[k.picture.shape[0] - 1], k.picture[a], count):
        i += skip(t, s, m, a, period, s.count[m, a] - 1 - i)
    elif steady and k.whole[a] == 1 and period < k.reach[a]:
        return i
    else:
        k.whole[a] = 1 if steady or k.whole[a] == 1 else 0
        if period >= k.reach[a]:
            k.reach[a] *= 2
        copy(k.picture[a], k.picture[k.picture.shape[0] - 1], count)
        if s.at.shape[1] > 0:
            account(s, m, a, 0)
    k.at[a] = i
    copy(k.free[a], s.free[m], PIPE_COUNT)
    copy(k.left[a], s.left[m], PIPE_COUNT)
    return i


@inline
def mark_of(s, m, a):
    """Return the number of the mark of core m of a group for loop `a` of core 0."""
    return m * s.count.shape[1] + a


@inner
def enclosing(code, first, pc, register):
    """Return the loop around a place of the code, of a stream that begins at `first`, whose variable is in a register; -1: none."""
    k = pc - 1
    while k >= first:
        if code[k, 0] == END:
            k = np.int64(code[k, 2])
        elif code[k, 0] == LOOP and code[k, 3] == register:
            return np.int64(code[k, 1])
        k -= 1
    return np.int64(-1)


@inner
def turning(t, s, m, k):
    """Return (The loop around where core m stands in which it has gone on since mark k, and in no other, -1 where there is none whose
    iterations are alike; its register)"""
    own = np.int64(-1)
    for j in range(s.register.shape[1]):
        if t.heard[s.stream[m], j] == 1 and s.register[m, j] != s.mark.register[k, j]:
            if own >= 0 or s.register[m, j] < s.mark.register[k, j]:
                return np.int64(-1), own
            own = np.int64(j)
    loop = enclosing(t.code, t.starts[s.stream[m]], s.pc[m], own)
    return loop if loop >= 0 and t.used[loop, 4] < NEVER else np.int64(-1), own


@inner
def in_step(s, a, members):
    """Return whether all cores of a group stand as much later than when loop `a` of core 0 was marked."""
    step = s.free[0, 0] - s.mark.free[a, 0]
    for m in range(members):
        marked = s.mark.free[mark_of(s, m, a)]
        if s.free[m, 0] - marked[0] != step or not is_in_step(s.free[m], marked, np.int64(-1)):
            return False
    return True


@inner
def same_meeting(t, s, a, members):
    """Return whether what follows hangs on the same for all cores of a group, but for the time and their loops, as when loop `a` was
    marked."""
    new = s.mark.picture[s.mark.picture.shape[0] - 1]
    m = 0
    while m < members and equal(new, s.mark.picture[mark_of(s, m, a)], picture_meeting(t, s, m, members, new)):
        m += 1
    return m == members


@inner
def rounds_together(t, s, a, members):
    """Return how many rounds can be skipped of what all cores of a group did since loop `a` of core 0 was marked. They must fit into
    the remaining iterations of their loops (without the last ones) and into the epoch."""
    times, was = np.int64(NEVER), np.int64(NEVER)
    for m in range(members):
        k = mark_of(s, m, a)
        loop, own = turning(t, s, m, k)
        if loop < 0:
            return np.int64(0)
        times = min(times, max(s.count[m, loop] - 2 - s.register[m, own], 0) // (s.register[m, own] - s.mark.register[k, own]))
        was = min(was, s.mark.free[k, 0])
    end = epoch_end(s, was)
    for m in range(members):
        times = rounds(s.free[m], np.int64(-1), s.mark.free[mark_of(s, m, a), 0], times, end)
    return times


@inner
def skip_together(t, s, a, members):
    """Moves all cores of a group on, with what is on its way between them, as far as all goes round as since loop `a` was marked."""
    times, by = rounds_together(t, s, a, members), s.free[0, 0] - s.mark.free[a, 0]
    for m in range(members):
        k = mark_of(s, m, a)
        if times > 0:
            own = turning(t, s, m, k)[1]
            s.register[m, own] += times * (s.register[m, own] - s.mark.register[k, own])
        go_round(s, m, k, np.int64(-1), np.int64(-1), t.costs[3], times)
        for w in range(members):
            add(s.latest[m, w], times * by)
            for flag in range(s.ring.shape[2]):
                add(s.ring[m, w, flag], times * by)


@inner
def meet(t, s, members):
    """Skip the iterations that repeat what all cores of a group did since the mark. The cores have gone on as far as they can, while
    core 0 is about to begin an iteration of the loop for which it paused. Set the mark anew after that, or when it has stood long
    enough."""
    a, k = s.paused[0], s.mark
    i = s.register[0, t.code[s.pc[0] - 1, 3]]
    if i == 1:
        k.reach[a] = FIRST_REACH
    elif in_step(s, a, members) and same_meeting(t, s, a, members):
        skip_together(t, s, a, members)
    elif i - k.at[a] < k.reach[a]:
        return
    else:
        k.reach[a] *= 2
    k.at[a] = s.register[0, t.code[s.pc[0] - 1, 3]]
    for m in range(members):
        n = mark_of(s, m, a)
        picture_meeting(t, s, m, members, k.picture[n])
        copy(k.free[n], s.free[m], PIPE_COUNT)
        copy(k.left[n], s.left[m], PIPE_COUNT)
        copy(k.register[n], s.register[m], s.register.shape[1])
        if s.at.shape[1] > 0:
            account(s, m, n, 0)


@inner
def resolve(t, s, r):
    """Fills what a walk looks up of a row's flag ids: a record of each form, of constant, coefficient and register of its first term, and
    how many it has beside that."""
    form_of = s.form
    for form in range(t.form_start.shape[0] - 1):
        first, last = t.form_start[form], t.form_start[form + 1]
        form_of[4 * form], form_of[4 * form + 3] = t.form_constant[r, form], last - first - 1
        form_of[4 * form + 1], form_of[4 * form + 2] = 0, 0
        if first < last:
            form_of[4 * form + 1], form_of[4 * form + 2] = t.form_coefficient[r, first], t.form_register[first]


@inner
def flags_of_row(t, w):
    """Fills which flags there may be in the row that was begun, for its first picture."""
    x, r, ids, changed = 0, w.count[2], t.costs[3], False
    while x < w.count[0]:
        pair, top = w.pair[x], np.int64(1)
        while x < w.count[0] and w.pair[x] == pair:
            top = max(top, highest(t, r, w.form[x]))
            x += 1
        top = min(top, ids)
        changed = changed or top != w.top[pair]
        w.top[pair] = top
    if changed:
        w.count[1] += 1
    w.count[2] = -1


@inner
def highest(t, r, form):
    """Return the highest flag id that a form may say of a row, and one; all there are where it follows a loop, or falls."""
    value = t.form_constant[r, form]
    for k in range(t.form_start[form], t.form_start[form + 1]):
        counter = counter_in(t, t.form_register[k])
        if counter < 0 or t.form_coefficient[r, k] < 0:
            return t.costs[3]
        value += t.form_coefficient[r, k] * (t.depth[r, counter] - 1)
    return value + 1


@inner
def show_flags(t, w, a):
    """Fills the places of flags of the row which pictures of loop `a` show."""
    n, ids, pairs = np.int64(0), t.costs[3], np.int64(-1) if a == w.flags.shape[0] - 1 else t.used[a, 1]
    for early in range(2):
        for pair in range(w.top.shape[0]):
            if (pairs >> pair) & 1 and (t.preset[1] >> pair) & 1 == early:
                for k in range(w.top[pair]):
                    w.flag[a, n] = pair * ids + k
                    n += 1
        if early == 0:
            w.flags[a, 1] = n
    w.flags[a, 0], w.filled[a] = n, w.count[1]


@inner
def show(t, w):
    """Fills which pipes pictures show, which counters, and by which forms the flags of pairs of pipes go."""
    last, n = w.pipes.shape[0] - 1, np.int64(0)
    for a in range(last + 1):
        w.pipes[a] = 0
        for p in range(PIPE_COUNT):
            if a == last or (t.used[a, 0] >> p) & 1:
                w.pipe[a, w.pipes[a]] = p
                w.pipes[a] += 1
    for stream in range(t.heard.shape[0]):
        w.counters[stream] = 0
        for k in range(t.counter_of.shape[0]):
            if t.heard[stream, t.counter_of[k]] == 1:
                w.counter[stream, w.counters[stream]] = t.counter_of[k]
                w.counters[stream] += 1
    for pair in range(w.top.shape[0]):
        first, w.top[pair] = n, 0
        for pc in range(t.code.shape[0]):
            if t.code[pc, 0] & FLAGS and t.code[pc, 2] == pair * t.costs[3]:
                n = append_new(w.form, first, n, np.int64(t.code[pc, 1]))
        for x in range(first, n):
            w.pair[x] = pair
    w.count[0] = n


@inner
def counter_in(t, register):
    """Return the counter that a register is; -1: none."""
    for k in range(t.depth.shape[1]):
        if t.counter_of[k] == register:
            return np.int64(k)
    return np.int64(-1)


@inner
def append_new(values, first, last, value):
    """Return the end of a list, with the value in it."""
    for k in range(first, last):
        if values[k] == value:
            return last
    if last < values.shape[0]:
        values[last] = value
    return last + 1


@inner
def learn(t, s):
    """Fills what pictures show, and for what is remembered, what the bodies of loops read and change: those that are long, hold no cross
    flag, and whose flags go by counters alone. Where the lists have no room for it a loop is not remembered, and where probes tell none is.
    Once for a state, which serves one program."""
    k = s.memo
    if s.shown.count[0] >= 0:
        return
    show(t, s.shown)
    for pc in range(t.code.shape[0]):
        if t.code[pc, 0] == LOOP:
            a, stop = t.code[pc, 1], np.int64(t.code[pc, 2])
            k.worth[a], k.open[a] = 0, -1
            if s.at.shape[1] == 0 and t.used[a, 2] <= LONG:
                inside, moved, counters = k.count[2], k.count[3], k.count[4]
                if body_of(t, s, a, np.int64(pc), stop):
                    k.worth[a] = 1
                else:
                    k.count[2], k.count[3], k.count[4] = inside, moved, counters


@inner
def body_of(t, s, a, pc, stop):
    """Return whether the body of loop `a`, from pc to its end, can be remembered, with what it reads and changes in the lists."""
    k, first_loop, stream = s.memo, s.cursor.shape[1] - s.count.shape[1], 0
    while stream + 1 < t.starts.shape[0] and t.starts[stream + 1] <= pc:
        stream += 1
    inside, counters = k.count[2], k.count[4]
    first, begin = inside, counters
    for q in range(pc + 1, stop):
        op, x = t.code[q, 0], np.int64(t.code[q, 1])
        if op in (INSTR, LOOP):
            inside = append_new(k.inside, first, inside, x if op == INSTR else first_loop + x)
        elif op in (SET, WAIT, EARLY_SET, EARLY_WAIT):
            for w in range(t.form_start[x], t.form_start[x + 1]):
                if counter_in(t, t.form_register[w]) < 0:
                    return False
                counters = append_new(k.counter, begin, counters, np.int64(t.form_register[w]))
        elif op == ADVANCE:
            if t.heard[stream, t.counter_of[x]] == 1:
                counters = append_new(k.counter, begin, counters, np.int64(t.counter_of[x]))
        elif op != END:
            return False
    if inside > k.inside.shape[0] or inside - first > READ or counters > k.counter.shape[0]:
        return False
    for x in range(first, inside):
        k.moved_of[x, 0] = k.count[3]
        for q in range(pc, stop):
            if t.code[q, 0] == LOOP:
                for d in range(t.depend_start[t.code[q, 1]], t.depend_start[t.code[q, 1] + 1]):
                    if t.depend_cursor[d] == k.inside[x]:
                        if k.count[3] == k.moved.shape[0]:
                            return False
                        k.moved[k.count[3], 0], k.moved[k.count[3], 1] = t.code[q, 1], d
                        k.count[3] += 1
        k.moved_of[x, 1] = k.count[3]
    k.inside_of[a, 0], k.inside_of[a, 1] = first, inside
    k.counter_of[a, 0], k.counter_of[a, 1] = begin, counters
    k.count[2], k.count[4] = inside, counters
    return True


@inline
def sizes_of(t, s, r, m, a):
    """Return a number for the costs and trip counts that loop `a` may meet as its core stands, the same for the same ones of this row; -1
    where no more can be told apart.

    They follow from where its cursors stand, which is looked for among where they stood before.
    """
    k, cursor = s.memo, s.cursor[m]
    first, last, record = k.inside_of[U(a), 0], k.inside_of[U(a), 1], k.stood_last[U(a)]
    while record >= 0:
        other = np.int64(0)
        for x in range(first, last):
            other |= cursor[U(k.inside[U(x)])] ^ k.stood[U(record), U(x - first)]
        if other == 0:
            return k.same[U(record)]
        record = k.before[U(record)]
    return new_sizes(t, s, r, m, a)


@inner
def new_sizes(t, s, r, m, a):
    """Return the number of `sizes_of` where cursors stand as they have not stood yet."""
    k, record, first = s.memo, s.memo.count[5], s.memo.inside_of[a, 0]
    if record == STOOD:
        return np.int64(-1)
    k.count[5] += 1
    for x in range(first, k.inside_of[a, 1]):
        k.stood[record, x - first] = s.cursor[m, k.inside[x]]
    other = k.stood_last[a]
    while other >= 0 and not (k.same[other] == other and same_sizes(t, s, r, a, record, other)):
        other = k.before[other]
    k.same[record] = record if other < 0 else other
    k.before[record], k.stood_last[a], k.newest[record] = k.stood_last[a], record, -1
    return k.same[record]


@inner
def same_sizes(t, s, r, a, one, other):
    """Return whether loop `a` meets the same costs and trip counts from where its cursors stood for one record and for another."""
    k, first = s.memo, s.memo.inside_of[a, 0]
    for x in range(first, k.inside_of[a, 1]):
        p, q = k.stood[one, x - first], k.stood[other, x - first]
        if p != q and not same_from(t, s, r, x, p, q):
            return False
    return True


@inner
def same_from(t, s, r, x, p, q):
    """Return whether the cursor at place x of what bodies of loops read meets the same costs or trip counts from p and from q. It
    compares all classes of the iterations of its loop and of the loops within. Return False where these are very many."""
    k, step, merge, many = s.memo, s.memo.place, t.merge[t.work[r]], 1
    which, sites = k.inside[x], s.cursor.shape[1] - s.count.shape[1]
    step[0] = 0
    for w in range(k.moved_of[x, 0], k.moved_of[x, 1]):
        loop, d, before = k.moved[w, 0], k.moved[w, 1], many
        if merge[loop, FIRST] != merge[loop, LAST]:
            if 3 * many > step.shape[0]:
                return False
            for kind in (FIRST, LAST):
                if merge[loop, kind] == kind:
                    for i in range(before):
                        step[many] = step[i] + t.depend_step[d, kind]
                        many += 1
            for i in range(before):
                step[i] += t.depend_step[d, BODY]
    at = t.place[t.work[r], which, 1] if which < sites else np.int64(0)
    for i in range(many):
        if which < sites:
            if t.entry_of[at + p + step[i]] != t.entry_of[at + q + step[i]]:
                return False
        elif t.trips[r, p + step[i]] != t.trips[r, q + step[i]]:
            return False
    return True


@inline
def stance(t, s, m, a, out):
    """Return how many numbers it takes, filled into `out`, to say all of core m that loop `a` hangs on, or all that it changes, but the
    time: a picture, when pipes are free, counters."""
    k, w, free, register, now = s.memo, s.shown, s.free[m], s.register[m], s.free[m, 0]
    n, pipe = picture(t, s, m, a, out), w.pipe[a]
    for x in range(w.pipes[a]):
        out[U(n + x)] = max(free[U(pipe[U(x)])] - now, 0)
    n += w.pipes[a]
    for x in range(k.counter_of[U(a), 0], k.counter_of[U(a), 1]):
        out[U(n)] = register[U(k.counter[U(x)])]
        n += 1
    return n


@inline
def take(t, s, m, a, values):
    """Puts core m where `stance` says, as of the time at which its scalar unit stands. What was told to have passed is taken to pass now,
    which is the same to all that follows."""
    k, w, now, n, queue, hop = s.memo, s.shown, s.free[m, 0], 0, t.queue[s.stream[m]], t.costs[1]
    bit, until, register, free, done = s.bit[m], s.until[m], s.register[m], s.free[m], s.done[m]
    pipe, pipes, flag, flags, plain = w.pipe[a], w.pipes[a], w.flag[a], w.flags[a, 0], w.flags[a, 1]
    for x in range(pipes):
        p = pipe[U(x)]
        done[U(p)] = now + values[U(n)]
        n += 1
        if t.preset[1] != 0 and (p == M or p == FIXP):  # noqa: SIM109 (see `picture_pipes`)
            s.early[U(m), U(p)], s.late[U(m), U(p)] = now + values[U(n)], now + values[U(n + 1)]
            s.floor[U(m), U(p)] = now + values[U(n + 2)]
            n += 3
        starts, place = s.starts[m, p], queue
        set_all(starts, 0)
        s.turn[U(m), U(p)] = 0
        while values[U(n)] > 0:
            place -= 1
            starts[U(place)] = now + values[U(n)]
            n += 1
        n += 1
    for x in range(flags):
        value = values[U(n + x)]
        bit[U(flag[U(x)])] = value - now if value < 0 else now + value - hop
    n += flags
    for x in range(plain, flags):
        until[U(flag[U(x)])] = now + values[U(n + x - plain)]
    n += flags - plain
    for x in range(pipes):
        if pipe[U(x)] > 0:
            free[U(pipe[U(x)])] = now + values[U(n + x)]
    n += pipes
    for x in range(k.counter_of[U(a), 0], k.counter_of[U(a), 1]):
        register[U(k.counter[U(x)])] = values[U(n)]
        n += 1


@inline
def epoch_of(epoch_time, epochs, time):
    """Return the epoch in which a time lies."""
    e = epochs - 1
    while epoch_time[e] > time:
        e -= 1
    return e


@inline
def sum_of(values, count):
    """Return the sum of the first numbers of a row."""
    total = np.int64(0)
    for k in range(count):
        total += values[U(k)]
    return total


@inline
def recall(t, s, r, m, a, trips):
    """Return whether some core has gone through loop `a` from where core m stands in front of it, which stands behind it now. Else a record
    is begun, which `keep` ends.

    What happens in the loop follows from the costs and trip counts that it may meet (`sizes_of`), from the number of iterations, from how
    often the memory is shared, and from `stance`, to which all that the loop reads and changes belongs.
    """
    k, record, at, now = s.memo, s.memo.count[0], s.memo.count[1], s.free[m, 0]
    if record == RECORDS or at + k.room[0] > LOG:
        return False
    sizes = sizes_of(t, s, r, m, a)
    if sizes < 0:
        return False
    key, e = k.log[at:], epoch_of(s.epoch_time, s.epochs[0], now)
    key[0], key[1], key[2] = trips, s.epoch_active[e, s.stream[m]], s.alike[m] if s.limit[0] < NEVER else 0
    n = 3 + stance(t, s, m, a, key[3:])
    total, found = sum_of(key, n), k.newest[sizes]
    while found >= 0:
        if k.sum[found] == total and k.length[found] == n and equal(key, k.log[k.key[found]:], n):
            return again(t, s, m, a, k.log[k.result[found]:])
        found = k.former[found]
    k.key[record], k.length[record], k.sum[record], k.of[record], k.open[a] = at, n, total, sizes, record
    k.begun[record, 0], k.begun[record, 1] = now, s.last_held[m]
    copy(k.left[record], s.left[m], PIPE_COUNT)
    s.last_held[m] = -1
    k.count[0], k.count[1] = record + 1, at + n
    return False


@inline
def again(t, s, m, a, result):
    """Return whether core m stands behind loop `a` now, as a record says; not where a transfer in it would start in another epoch."""
    now = s.free[m, 0]
    if now + result[1] >= epoch_end(s, now) or (result[2] >= 0 and now >= s.horizon[0]):
        return False
    if result[2] >= 0:
        s.last_held[m] = max(s.last_held[m], now + result[2])
    for p in range(PIPE_COUNT):
        s.left[m, p] -= result[3 + p]
    s.free[m, 0] = now + result[0]
    take(t, s, m, a, result[3 + PIPE_COUNT:])
    return True


@inline
def keep(t, s, m, a):
    """Ends the record of loop `a`, behind which core m stands: how long it took the scalar unit, by when all its transfers have started,
    when the last that was held back did, what it took of what is left of pipes, and `stance`. It is good for nothing where the loop went
    on into another epoch."""
    k = s.memo
    record, at, pipes = k.open[a], k.count[1], t.used[a, 0]
    was, latest, held = k.begun[record, 0], s.free[m, 0], s.last_held[m]
    k.open[a] = -1
    s.last_held[m] = max(held, k.begun[record, 1])
    for p in range(1, PIPE_COUNT):
        if (pipes >> p) & 1:
            latest = max(latest, s.free[m, p])
    if latest >= epoch_end(s, was) or at + k.room[0] > LOG:
        return
    result = k.log[at:]
    result[0], result[1], result[2] = s.free[m, 0] - was, latest - was, held - was if held >= 0 else -1
    for p in range(PIPE_COUNT):
        result[3 + p] = k.left[record, p] - s.left[m, p]
    k.count[1] += 3 + PIPE_COUNT + stance(t, s, m, a, result[3 + PIPE_COUNT:])
    k.result[record], k.former[record], k.newest[k.of[record]] = at, k.newest[k.of[record]], record


@inner
def turn_page(t, s, r):
    """Begins a row: its flag ids are resolved, and nothing is remembered of it."""
    resolve(t, s, r)
    s.shown.count[2] = r
    set_all(s.memo.stood_last, -1)
    s.memo.count[0], s.memo.count[1], s.memo.count[5] = 0, 0, 0


@inline
def over(free, left, taken, excess, limit):
    """Return whether a core cannot end before the limit: some pipe, or the scalar unit so far, is busy up to it."""
    latest = free[0]
    for p in range(1, PIPE_COUNT):
        latest = max(latest, free[p] + left[p] + (excess[p] if left[p] >= taken[p] else 0))
    return latest >= limit


@inline
def iterations(merge, a, n, kind):
    """Return how many of the n iterations of loop `a`, one at least, are of a class."""
    if kind != BODY:
        return np.int64(1)
    return n - (1 if merge[a, LAST] == LAST else 0) - (1 if n > 1 and merge[a, FIRST] == FIRST else 0)


@inner
def total(t, s, r, m, alike, out, shared):
    """Fills how long the work of core m, which stands at its start, keeps each pipe busy, where `alike` cores are at it until it ends;
    adds to `shared` what it takes of the memory with all of them.

    Each class of iterations is gone through once, for as many as there are of it.
    """
    code, place, entry_of, trips, cursor = t.code, t.place[t.work[r]], t.entry_of, t.trips[r], s.cursor[m]
    cost, counter_of, count, kind, weight = t.cost, t.counter_of, s.count[m], s.kind[m], s.weight
    register = s.register[m]
    first_loop, merge, issue, loop = cursor.shape[0] - count.shape[0], t.merge[t.work[r]], t.costs[0], t.costs[6]
    pc, times, scalar = s.pc[m], np.int64(1), np.int64(0)
    set_all(out, 0)
    while True:
        op, a, b = code[pc, 0], code[pc, 1], code[pc, 2]
        if op == INSTR:
            entry = place[a, 0] + entry_of[place[a, 1] + cursor[a]]
            held = cost[U(COST * entry + UNIT)] * alike
            out[b] += times * max(cost[U(COST * entry + OWN)], held)
            shared[b] += times * held
            scalar += times * issue
        elif op == LOOP:
            n = trips[cursor[first_loop + a]]
            if n <= 0:
                pc = b
            else:
                count[a], weight[a] = n, times
                kind[a] = merge[a, LAST if n == 1 else FIRST]
                turn_to(t, merge, cursor, a, OUTSIDE, kind[a])
                times *= iterations(merge, a, n, kind[a])
                scalar += times * loop
        elif op == END:
            was, n, new = kind[a], count[a], np.int64(merge[a, LAST])
            if was == FIRST and iterations(merge, a, n, np.int64(BODY)) > 0:
                new = np.int64(BODY)
            if was in (LAST, new) or n == 1:
                turn_to(t, merge, cursor, a, was, OUTSIDE)
                times = weight[a]
            else:
                kind[a] = new
                turn_to(t, merge, cursor, a, was, new)
                times = weight[a] * iterations(merge, a, n, new)
                scalar += times * loop
                pc = b
        elif op == ADVANCE:
            register[counter_of[a]] += times
        elif op == STOP:
            break
        elif op != PROBE:
            scalar += times * issue
        pc += 1
    out[0] += scalar
    s.pc[m] = pc


@inline
def busy_ticks(cost, entry, alike):
    """Return how long an entry keeps its pipe busy at the least, where so many cores are at it."""
    return max(cost[U(COST * entry + OWN)], cost[U(COST * entry + UNIT)] * alike)


@inner
def follow(t, s, r, m, alike, open_slots, taken, excess, last):
    """Fills for the last operations of core m how long they keep each pipe busy, and how much later at the least all is done than a pipe
    that has these, and nothing else, still to do: counted from the first of them, since a wait in front of it may hold the pipe up; and
    what follows the `last` instruction on each pipe (-1: none is known). Of loops that are open only the last iteration is looked at, which
    they all have, and a buffer counts as one slot.

    `total` has been there: the counters stand as they do at the end, and the core at its stop. What the program does is gone
    through from there back, flags from their waits to their sets; with `open_slots` what gives slots back is passed over, as if there were
    enough of them. `tail` is what follows a pipe that is free, `late` a pipe on which all is done; where L0C is handed over in granules
    `begun` follows the first of the next instruction's and `ended` the last, which holds up the `end` of the one that waits (or its start).
    """
    code, place, entry_of, cursor, register, depth = t.code, t.place[t.work[r]], t.entry_of, s.cursor[m], s.register[m], t.depth[r]
    tail, late, need, first_loop = s.early[m], s.late[m], s.until[m], s.cursor.shape[1] - s.count.shape[1]
    merge, begun, ended, end, held = t.merge[t.work[r]], s.free[m], s.done[m], s.floor[m], s.held[m]
    set_all(tail, 0), set_all(late, 0), set_all(need, 0), set_all(taken, 0), set_all(excess, 0), set_all(last, -1)
    set_all(begun, 0), set_all(ended, 0), set_all(end, 0), set_all(held, 0)
    once = t.opened[t.opened.shape[0] - 1] == 1
    for k in range(depth.shape[0]):
        register[t.counter_of[k]] = 0 if once else register[t.counter_of[k]] % depth[k]
    pc, first, steps = s.pc[m] - 1, t.starts[s.stream[m]], 0
    while pc >= first and steps < FOLLOWED:
        op, a, b, c = code[pc, 0], code[pc, 1], code[pc, 2], code[pc, 3]
        steps += 1
        if op == INSTR:
            entry = place[a, 0] + entry_of[place[a, 1] + cursor[a]]
            own, latency, granule = busy_ticks(t.cost, entry, alike), t.cost[COST * entry + LATENCY], t.cost[COST * entry + GRANULE]
            end[b] = max(tail[b], latency + late[b])
            if c == 1 and granule >= 0:
                end[b] = max(end[b], granule + ended[b])
                tail[b] = max(own + end[b], granule + begun[b])
                begun[b], ended[b] = 0, 0
            else:
                if c == 1:
                    end[b] = max(end[b], latency + max(begun[b], ended[b]))
                tail[b] = own + end[b]
            taken[b] += own
            excess[b] = tail[b] - taken[b]
            last[b] = excess[b] if last[b] < 0 else last[b]
        elif op in (SET, WAIT, EARLY_SET, EARLY_WAIT):
            flag = b + flag_id(t.form_start, t.form_register, t.form_constant[r], t.form_coefficient[r], register, a)
            if flag < b or flag >= b + t.costs[3]:
                break
            if op in (WAIT, EARLY_WAIT):
                if not once or need[flag] == 0:  # of waits without a set between them the later one
                    need[flag], held[flag] = t.costs[1] + tail[c], end[c] if op == EARLY_WAIT else 0
            else:
                if open_slots and (t.preset[0] >> (b // t.costs[3])) & 1:
                    pass
                elif op == SET:
                    tail[c], late[c] = max(tail[c], need[flag]), max(late[c], need[flag])
                else:
                    begun[c], ended[c] = max(begun[c], need[flag]), max(ended[c], held[flag])
                need[flag], held[flag] = 0, 0
        elif op == END:
            n = t.trips[r, cursor[first_loop + a]]
            if n <= 0:
                pc = b
            else:
                s.count[m, a], register[c], s.kind[m, a] = n, n - 1, merge[a, LAST]
                turn_to(t, merge, cursor, a, OUTSIDE, s.kind[m, a])
        elif op == LOOP:
            if register[c] > 0 and t.opened[a] == 0:
                register[c] -= 1
                new = np.int64(merge[a, FIRST if register[c] == 0 else BODY])
                turn_to(t, merge, cursor, a, s.kind[m, a], new)
                s.kind[m, a] = new
                pc = b
            else:
                register[c] = 0
                turn_to(t, merge, cursor, a, s.kind[m, a], OUTSIDE)
        elif op == ADVANCE and not once:
            n = t.counter_of[a]
            register[n] = register[n] - 1 if register[n] > 0 else depth[a] - 1
        pc -= 1


@inner
def lead(t, s, r, m, alike, used, first, ahead):
    """Fills for the first operations of core m, which stands at its start, how long they keep each pipe busy (`used`), when at the
    earliest its `first` instruction starts (-1: none is known), how long pipe M is at work `ahead` of that, and when pipes are free behind
    them, as if there were enough slots; returns when all that is done. Of loops that are open only the first iteration is looked at, which
    they all have, and a buffer counts as one slot.

    The walk's rules without queues and held memory, which only hold things up.
    """
    code, place, entry_of, trips = t.code, t.place[t.work[r]], t.entry_of, t.trips[r]
    cursor, register, depth, merge = s.cursor[m], s.register[m], t.depth[r], t.merge[t.work[r]]
    free, done, early, late, floor, bit, until = s.free[m], s.done[m], s.early[m], s.late[m], s.floor[m], s.bit[m], s.until[m]
    first_loop, issue = s.cursor.shape[1] - s.count.shape[1], t.costs[0]
    set_all(used, 0), set_all(first, -1), set_all(ahead, 0), set_all(bit, -1)
    once = t.opened[t.opened.shape[0] - 1] == 1
    pc, steps, ended = s.pc[m], 0, np.int64(0)
    while steps < FOLLOWED and code[pc, 0] != STOP:
        op, a, b, c = code[pc, 0], code[pc, 1], code[pc, 2], code[pc, 3]
        steps += 1
        if op == INSTR:
            entry = place[a, 0] + entry_of[place[a, 1] + cursor[a]]
            own, latency, granule = busy_ticks(t.cost, entry, alike), t.cost[COST * entry + LATENCY], t.cost[COST * entry + GRANULE]
            free[0] += issue
            start = max(free[b], free[0])
            if c == 1 and granule < 0:
                start = max(start, floor[b])
            if first[b] < 0:
                first[b], ahead[b] = start, used[M]
            free[b] = start + own
            if c == 1:
                hand_over(free, floor, early, late, b, start, latency, granule)
            done[b] = max(done[b], free[b] + latency)
            used[b] += own
            ended = max(ended, done[b])
        elif op in (SET, WAIT, EARLY_SET, EARLY_WAIT):
            free[0] += issue
            flag = b + flag_id(t.form_start, t.form_register, t.form_constant[r], t.form_coefficient[r], register, a)
            if flag < b or flag >= b + t.costs[3]:
                break
            if (t.preset[0] >> (b // t.costs[3])) & 1 == 0:
                if op in (SET, EARLY_SET):
                    if not once or bit[flag] < 0:  # of sets without a wait between them the earlier one
                        bit[flag] = max(free[0], early[c] if op == EARLY_SET else max(free[c], done[c]))
                        until[flag] = max(free[0], late[c])
                else:
                    free[c] = max(free[c], max(free[0], bit[flag] + t.costs[1] if bit[flag] >= 0 else 0))
                    if op == EARLY_WAIT:
                        floor[c] = max(floor[c], until[flag] if bit[flag] >= 0 else 0)
                        reach(free, early, late, c)
                    bit[flag] = -1
        elif op == LOOP:
            n = trips[cursor[first_loop + a]]
            if n <= 0:
                pc = b
            else:
                s.count[m, a], register[c], s.kind[m, a] = n, 0, merge[a, LAST if n == 1 else FIRST]
                free[0] += t.costs[6]
                turn_to(t, merge, cursor, a, OUTSIDE, s.kind[m, a])
        elif op == END:
            register[c] += 1
            new = np.int64(OUTSIDE)
            if register[c] < s.count[m, a] and t.opened[a] == 0:
                new = np.int64(merge[a, LAST if register[c] == s.count[m, a] - 1 else BODY])
                free[0] += t.costs[6]
                pc = b
            if new != s.kind[m, a]:
                turn_to(t, merge, cursor, a, s.kind[m, a], new)
                s.kind[m, a] = new
        elif op == ADVANCE and not once:
            n = t.counter_of[a]
            register[n] = register[n] + 1 if register[n] + 1 < depth[a] else 0
        pc += 1
    return ended


@inline
def flag_of(t, r, form_of, register, form):
    """Return the value of a linear form, as `resolve` has it for the row."""
    value = form_of[U(4 * form)] + form_of[U(4 * form + 1)] * register[U(form_of[U(4 * form + 2)])]
    if form_of[U(4 * form + 3)] > 0:  # more registers than one
        value = flag_id(t.form_start, t.form_register, t.form_constant[r], t.form_coefficient[r], register, form)
    return value


@inline
def sharing(s, m, epoch, active, time):
    """Return how many cores share the memory at a time; `active` before the end of the first epoch, the `epoch` that most times lie in."""
    return active if time < epoch else s.epoch_active[U(epoch_of(s.epoch_time, s.epochs[0], time)), U(s.stream[U(m)])]


@inline
def instruct(t, s, m, entry, now, b, c, free, done, early, late, floor, starts, turn, queue, left, alike, epoch, active):
    """Return the scalar unit's time behind an instruction on pipe b (c 1 where L0C is handed over in granules), by rules 2, 3, 6 and 7; -1,
    and nothing changed, where it would be held back behind the horizon."""
    oldest = turn[U(b)]
    now = max(now + t.costs[0], starts[U(b), U(oldest)])
    cost, first, at = t.cost, U(COST * entry), max(free[U(b)], now)
    own, latency, unit, granule = cost[first], cost[first + U(LATENCY)], cost[first + U(UNIT)], cost[first + U(GRANULE)]
    if c == 1 and granule < 0:
        at = max(at, floor[U(b)])
    busy = own
    if unit > 0:
        held = unit * sharing(s, m, epoch, active, at)
        if held > busy:
            if at >= s.horizon[0]:
                return np.int64(-1)
            busy = held
            s.last_held[U(m)] = max(s.last_held[U(m)], at)
    left[U(b)] -= max(own, unit * alike)
    starts[U(b), U(oldest)] = at
    turn[U(b)] = oldest + 1 if oldest + 1 < queue else 0
    free[U(b)] = at + busy
    if c == 1:
        hand_over(free, floor, early, late, b, at, latency, granule)
    done[U(b)] = max(done[U(b)], free[U(b)] + latency)
    return free[U(b)] if b == 0 else now


@inline
def entry_at(place, entry_of, cursor, site):
    """Return the entry of a site's costs at the position of its cursor."""
    return place[U(site), 0] + entry_of[U(place[U(site), 1] + cursor[U(site)])]


@inline
def no_longer(cost, one, other):
    """Return whether an entry's costs are no more than another's, and L0C is handed over in granules in both or in none."""
    a, b = U(COST * one), U(COST * other)
    mine, its = cost[a + U(GRANULE)], cost[b + U(GRANULE)]
    return one == other or (cost[a] <= cost[b] and cost[a + U(LATENCY)] <= cost[b + U(LATENCY)]
                            and cost[a + U(UNIT)] <= cost[b + U(UNIT)] and mine <= its and (mine < 0) == (its < 0))


@inline
def reaches(t, s, entry, count, now, end, active):
    """Return whether so many equal transfers on a pipe that is free at `end` may start at the horizon and be held back; not for certain."""
    cost, first = t.cost, U(COST * entry)
    own, unit = cost[first], cost[first + U(UNIT)]
    return unit * active > own and max(now, end) + count * (unit * active + t.costs[0] + t.costs[6]) >= s.horizon[0]


@inline
def instruct_often(t, s, m, entry, count, now, b, c, free, done, early, late, floor, starts, turn, queue, left, alike, epoch, active):
    """Return the scalar unit's time behind a loop's `count` iterations of one instruction with equal costs, as of `instruct`; `starts` are
    those of its pipe."""
    oldest, end, issue, cost, first = turn[U(b)], free[U(b)], t.costs[0] + t.costs[6], t.cost, U(COST * entry)
    busy, latency, unit, granule = cost[first], cost[first + U(LATENCY)], cost[first + U(UNIT)], cost[first + U(GRANULE)]
    left[U(b)] -= count * max(busy, unit * alike)
    for _ in range(count):
        now = max(now + issue, starts[U(oldest)])
        at = max(end, now)
        if c == 1 and granule < 0:
            at = max(at, floor[U(b)])
        starts[U(oldest)] = at
        oldest = oldest + 1 if oldest + 1 < queue else 0
        end = at + busy
        if unit > 0:
            held = unit * sharing(s, m, epoch, active, at)
            if held > busy:
                end = at + held
                s.last_held[U(m)] = max(s.last_held[U(m)], at)
        if c == 1:
            free[U(b)] = end
            hand_over(free, floor, early, late, b, at, latency, granule)
            end = free[U(b)]
        if b == 0:
            now = end
    free[U(b)], turn[U(b)] = end, oldest
    done[U(b)] = max(done[U(b)], end + latency)
    return now


@by_address
def walk(t, s, r, m, members, sizes):
    """Walk core m of the group from where it stands. Return ENDED, BLOCKED at a cross flag or paused (call again later), HALTED in
    front of what would be held back behind the horizon, OVER past the limit, or an error."""
    code, place, entry_of, trips = t.flat, t.place[t.work[r]], t.entry_of, t.trips[r]
    free, done, early, late, floor = s.free[m], s.done[m], s.early[m], s.late[m], s.floor[m]
    starts, turn, bit, until = s.starts[m], s.turn[m], s.bit[m], s.until[m]
    cursor, register, count, kind = s.cursor[m], s.register[m], s.count[m], s.kind[m]
    left, taken, excess, alike = s.left[m], s.taken[m], s.excess[m], s.alike[m]
    depth, counter_of, worth, begun = t.depth[r], t.counter_of, s.memo.worth, s.memo.open
    form_of = s.form
    used, marked, marked_at, reach_of = t.used, s.mark.free, s.mark.at, s.mark.reach
    issue, hop, cross, ids, loop = t.costs[0], t.costs[1], t.costs[2], t.costs[3], t.costs[6]
    queue, merge = t.queue[s.stream[m]], t.merge[t.work[r]]
    epoch, active = s.epoch_time[1] if s.epochs[0] > 1 else np.int64(NEVER), s.epoch_active[0, s.stream[m]]
    first_loop = cursor.shape[0] - count.shape[0]
    pc, limit, now = s.pc[m], s.limit[0], free[0]  # `now`: free[0], which is up to date where others look
    steps = np.int64(0)
    while True:
        op, a = code[U(4 * pc)], np.int64(code[U(4 * pc + 1)])
        b, c = np.int64(code[U(4 * pc + 2)]), np.int64(code[U(4 * pc + 3)])
        if op & FLAGS:  # a form, b first bit of the pair, c source of a set, target of a wait; early: from, to or on M or FIXP, in granules
            now += issue
            flag = flag_of(t, r, form_of, register, a)
            if U(flag) >= U(ids):  # or below zero
                return FLAG_RANGE
            flag += b
            if op & SETS:
                time = max(now, free[U(c)], done[U(c)])
                if op & EARLY:
                    time = max(now, early[U(c)])
                    until[U(flag)] = max(now, late[U(c)])
                was = bit[U(flag)]
                if was >= 0 or time < -1 - was:
                    return SET_ON_SET
                bit[U(flag)] = time
            else:
                was = bit[U(flag)]
                if was < 0:
                    return WAIT_WITHOUT_SET
                time = max(max(free[U(c)], now), was + hop)
                free[U(c)] = time
                bit[U(flag)] = -1 - time
                if c == 0:
                    now = time
                if op & EARLY:
                    floor[U(c)] = max(floor[U(c)], until[U(flag)])
                    reach(free, early, late, c)
        elif op & INSTR:  # a site, b pipe, c 1 where L0C is handed over in granules
            entry = entry_at(place, entry_of, cursor, a)
            time = instruct(t, s, m, entry, now, b, c, free, done, early, late, floor, starts, turn, queue, left, alike, epoch, active)
            if time < 0:
                s.pc[m], free[0] = pc, now
                return HALTED
            now = time
        elif op & ADVANCE:  # a counter
            n = register[U(counter_of[U(a)])] + 1
            register[U(counter_of[U(a)])] = n if n < depth[U(a)] else 0
        elif op & LOOP:  # a loop, b its end, c register
            n = trips[U(cursor[U(first_loop + a)])]
            if n <= 0:
                pc = b
            elif code[U(4 * pc + 4)] & INSTR and b == pc + 2 and n <= used[U(a), 2]:
                site, pipe, handed = np.int64(code[U(4 * pc + 5)]), np.int64(code[U(4 * pc + 6)]), np.int64(code[U(4 * pc + 7)])
                at, moved = place[U(site), 0], U(t.depend_start[U(a)])
                even = merge[U(a), FIRST] == merge[U(a), LAST] or t.depend_start[U(a + 1)] == t.depend_start[U(a)]
                position, i = place[U(site), 1] + cursor[U(site)], np.int64(0)
                while i < n:  # where only this instruction can see the loop's variable its cursor need not move
                    many = n if even else (n - 2 if i == 1 and n > 2 else 1)
                    new = np.int64(merge[U(a), LAST if i + many == n else (FIRST if i == 0 else BODY)])
                    entry = at + entry_of[U(position if even else position + t.depend_step[moved, U(new)])]
                    if i == 0 and reaches(t, s, entry, n, now, free[U(pipe)], active):
                        break
                    now = instruct_often(t, s, m, entry, many, now, pipe, handed, free, done, early, late,
                                         floor, starts[U(pipe)], turn, queue, left, alike, epoch, active)
                    i += many
                if i == n:
                    pc = b
                else:  # one by one
                    count[U(a)], register[U(c)] = n, 0
                    kind[U(a)] = merge[U(a), LAST if n == 1 else FIRST]
                    now += loop
                    turn_to(t, merge, cursor, a, OUTSIDE, kind[U(a)])
            else:
                if worth[U(a)] == 1 and n * (b - pc) > used[U(a), 2] * MANY:
                    free[0] = now
                    if recall(t, s, r, m, a, n):
                        pc = b + 1
                        now = free[0]
                        continue
                count[U(a)] = n
                register[U(c)] = 0
                kind[U(a)] = merge[U(a), LAST if n == 1 else FIRST]
                now += loop
                turn_to(t, merge, cursor, a, OUTSIDE, kind[U(a)])
        elif op & END:  # a loop, b its start, c register
            i = register[U(c)] + 1
            free[0] = now
            if i < count[U(a)]:
                if count[U(a)] - i > used[U(a), 2] and (
                        i == 1 or i - marked_at[U(a)] >= reach_of[U(a)] or is_in_step(free, marked[a], used[U(a), 0])):
                    i = leap(t, s, m, a, i)
                    now = free[0]
                register[U(c)] = i
                now += loop
                free[0] = now
                if limit < NEVER and over(free, left, taken, excess, limit):
                    return OVER
                steps += pc - b
                if steps >= LOOK:
                    early_end = ended_early(s, steps, now)
                    if early_end != 0:
                        return early_end
                    steps = np.int64(0)
                new = np.int64(merge[U(a), LAST if i == count[U(a)] - 1 else BODY])
                if new != kind[U(a)]:
                    turn_to(t, merge, cursor, a, kind[U(a)], new)
                    kind[U(a)] = new
                pc = b
                if m == 0 and count[U(a)] - i > used[U(a), 4]:
                    s.pc[m], s.paused[0] = pc + 1, a
                    s.progress[0] += 1
                    s.progress[1] += steps
                    return BLOCKED
            else:
                turn_to(t, merge, cursor, a, kind[U(a)], OUTSIDE)
                if worth[U(a)] == 1 and begun[U(a)] >= 0:
                    keep(t, s, m, a)
        elif op & STOP:
            free[0] = now
            s.ended[m] = 1
            s.progress[0] += 1
            return ENDED
        elif op & PROBE:
            free[0] = now
            probe(t, s, r, m, pc, np.int64(a))
        else:  # CROSS_SET, CROSS_WAIT: a form, b the other stream, c pipe
            free[0] = now
            flag = flag_of(t, r, form_of, register, a)
            if flag < 0 or flag >= t.costs[4]:
                return FLAG_RANGE
            s.pc[m] = pc
            s.progress[1] += steps
            steps = np.int64(0)
            if op & CROSS_SET:
                if cross_set(t, s, m, members, sizes, b, flag, max(now + issue, free[c], done[c])) == BLOCKED:
                    return BLOCKED
                free[0] += issue
            else:
                time = cross_wait(t, s, m, members, sizes, b, flag)
                if time < 0:
                    return BLOCKED
                free[0] += issue
                free[c] = max(max(free[c], free[0]), time + cross)
                reach(free, early, late, c)
            now = free[0]
            s.progress[0] += 1
        pc += 1


@inner
def axis_class(index, extent, head):
    """Return the class of a grid coordinate; the first `head` are FIRST."""
    if index == extent - 1:
        return LAST
    return FIRST if index < head else BODY


@inner
def signature(t, r, stream, core):
    """Return a number that is equal for cores of equal class."""
    value = np.int64(stream)
    rest, w, loops = core, t.work[r], t.merge.shape[1] - t.extent.shape[1]
    for axis in range(t.axis_start[stream + 1] - 1, t.axis_start[stream] - 1, -1):
        n = t.extent[w, axis]
        value = value * 3 + t.merge[w, loops + axis, axis_class(rest % n, n, t.head[w, axis])]
        rest //= n
    return value


@inner
def set_all(values, value):
    """Sets a row to one value (a loop: slices take several times as long to compile)."""
    for k in range(values.shape[0]):
        values[k] = value


@inner
def stand(t, s, r, m, stream, core):
    """Puts member m of a group, a core of a stream, at its start as far as `total` asks: what it does, not when."""
    s.stream[m], s.pc[m] = stream, t.starts[stream]
    cursor, register, base, merge, extent = s.cursor[m], s.register[m], t.cursor_base, t.merge[t.work[r]], t.extent[t.work[r]]
    set_all(register, 0)
    copy(cursor, base, base.shape[0])
    loops, rest = s.count.shape[1], core
    for a in range(loops):
        if merge[a, FIRST] == merge[a, LAST]:
            move(t, cursor, a, OUTSIDE, BODY)
    for axis in range(t.axis_start[stream + 1] - 1, t.axis_start[stream] - 1, -1):
        n = extent[axis]
        at = np.int64(merge[loops + axis, axis_class(rest % n, n, t.head[t.work[r], axis])])
        move(t, cursor, loops + axis, OUTSIDE, at)
        rest //= n


@inner
def begin(t, s, r, m, stream, local, core):
    """Puts core m of a group at the start of its stream."""
    stand(t, s, r, m, stream, core)
    w = t.work[r]
    s.local[m] = local
    s.ended[m] = 0
    s.last_held[m] = -1
    for p in range(PIPE_COUNT):
        s.free[m, p] = t.pipe_head[w, stream, p]
        s.spent[m, p, HEAD] = t.pipe_head[w, stream, p]
        s.early[m, p] = t.pipe_head[w, stream, p]
        s.late[m, p] = t.pipe_head[w, stream, p]
        set_all(s.starts[m, p], 0)
    set_all(s.turn[m], 0)
    set_all(s.floor[m], 0)
    set_all(s.until[m], 0)
    set_all(s.done[m], 0)
    set_all(s.bit[m], -1)
    for p in range(PIPE_COUNT):
        s.before[m, p] = s.free[m, p]


@inner
def left_set(s, m):
    """Return whether a flag of core m is set."""
    found = False
    for k in range(s.bit.shape[1]):
        found = found or s.bit[m, k] >= 0
    return found


@inner
def walk_group(t, s, r, stream_of, core_of, members, sizes, walk):
    """Walk all cores of a group from start to end, in turns. Return ENDED, OVER where one of them has not ended by the limit, or an
    error."""
    local = np.int64(0)
    set_all(s.memo.open, -1)
    for m in range(members):
        local = local + 1 if m > 0 and stream_of[m] == stream_of[m - 1] else 0
        begin(t, s, r, m, stream_of[m], local, core_of[m])
        for w in range(members):
            set_all(s.put[m, w], 0)
            set_all(s.got[m, w], 0)
            set_all(s.latest[m, w], 0)
    left, s.paused[0], s.horizon[0] = members, -1, NEVER
    while left > 0:
        early_end = ended_early(s, members, s.free[0, 0])
        if early_end != 0:
            return early_end
        before = s.progress[0]
        for m in range(members):
            if s.ended[m] == 0 and (m > 0 or s.paused[0] < 0):
                status = walk(t, s, r, m, members, sizes)
                if status < 0 or status == OVER:
                    return status
                left -= s.ended[m]
        if s.progress[0] == before:
            if s.paused[0] < 0:
                return DEADLOCK
            if left == members:
                meet(t, s, members)
            s.paused[0] = -1
    for m in range(members):
        if left_set(s, m):
            return LEFT_SET
        if t.joined[0] == 1:
            for w in range(members):
                for k in range(s.put.shape[2]):
                    if s.put[m, w, k] != s.got[m, w, k]:
                        return LEFT_SET
    return ENDED


@inner
def walk_class(t, s, r, k, m, sizes, walk):
    """Walk the first core of class k, which meets no other, in place m of the state. Begin at its start or where it stopped. Return
    ENDED, HALTED, OVER, or an error."""
    g, open_records = s.groups, s.memo.open
    set_all(open_records, -1)
    if g.halted[k] == 1:  # marks of its loops are another's
        set_all(s.mark.at, 0)
        set_all(s.mark.reach, 0)
    else:
        begin(t, s, r, m, g.stream_of[k, 0], np.int64(0), g.core_of[k, 0])
        s.alike[m] = g.weight[k]
        copy(s.left[m], g.left[k, 0], PIPE_COUNT)
        copy(s.taken[m], g.taken[k, 0], PIPE_COUNT)
        copy(s.excess[m], g.excess[k, 0], PIPE_COUNT)
    status = walk(t, s, r, m, np.int64(1), sizes)
    if status == ENDED and left_set(s, m):
        return LEFT_SET
    for a in range(open_records.shape[0]):
        if open_records[a] >= 0:  # see `recall`
            s.last_held[m] = max(s.last_held[m], s.memo.begun[open_records[a], 1])
    return status


@inner
def core_end(free, done, m):
    """Return when everything on all pipes of core m is done."""
    end = np.int64(0)
    for p in range(PIPE_COUNT):
        end = max(end, max(free[m, p], done[m, p]))
    return end


@inner
def stream_cores(t, r, cores):
    """Return cores of the whole launch (0 or less where it is out of range); `cores` takes those of each stream."""
    total = np.int64(0)
    for stream in range(cores.shape[0]):
        cores[stream] = 1
        for axis in range(t.axis_start[stream], t.axis_start[stream + 1]):
            n = t.extent[t.work[r], axis]
            if n < 1 or n > MAX_CORES or cores[stream] * n > MAX_CORES:
                return np.int64(-1)
            cores[stream] *= n
        total += cores[stream]
    return total


@inner
def lowest(values):
    """Return the least of a row."""
    least = values[0]
    for k in range(1, values.shape[0]):
        least = min(least, values[k])
    return least


@inner
def group_classes(t, r, cores, sizes, stream_of, core_of, key, weight):
    """Return the number of classes of groups, or UNPAIRED.

    Where streams meet, a group is one core of the smallest stream and the cores that belong to it. Otherwise each core is a group of
    its own. Fill the members (class by member), the keys of those that meet, and how many groups each class has.
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
    if t.joined[0] == 0:
        return core_classes(t, r, cores.shape[0], stream_of, core_of, weight)
    classes = 0
    for g in range(groups):
        n = 0
        for j in range(cores.shape[0]):
            for local in range(sizes[j]):
                stream_of[classes, n] = j
                core_of[classes, n] = g * sizes[j] + local
                key[classes, n] = signature(t, r, stream_of[classes, n], core_of[classes, n])
                n += 1
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
def core_classes(t, r, streams, stream_of, core_of, weight):
    """Return the number of classes of cores that do not meet. Fill the first core of each class and how many cores it has. The cores of
    a stream are divided by the classes along its axes, one axis after the other."""
    w, loops, begin = t.work[r], t.merge.shape[1] - t.extent.shape[1], 0
    for stream in range(streams):
        end = begin + 1
        stream_of[begin, 0], core_of[begin, 0], weight[begin] = stream, 0, 1
        for axis in range(t.axis_start[stream], t.axis_start[stream + 1]):
            n, merge = t.extent[w, axis], t.merge[w, loops + axis]
            heads = min(t.head[w, axis], n - 1)
            first, last = heads > 0 and merge[FIRST] == FIRST, merge[LAST] == LAST
            body = n - (heads if first else 0) - (1 if last else 0)
            kinds = (1 if first else 0) + (1 if body > 0 else 0) + (1 if last else 0)
            for k in range(end - 1, begin - 1, -1):  # from the end: classes move up, and none that is still to come is written over
                at, core, many = begin + (k - begin) * kinds, core_of[k, 0] * n, weight[k]
                if first:
                    stream_of[at, 0], core_of[at, 0], weight[at] = stream, core, many * heads
                    at += 1
                if body > 0:
                    stream_of[at, 0], core_of[at, 0], weight[at] = stream, core + (heads if first else 0), many * body
                    at += 1
                if last:
                    stream_of[at, 0], core_of[at, 0], weight[at] = stream, core + n - 1, many
            end = begin + (end - begin) * kinds
        begin = end
    return begin


@inner
def count_classes(t, s, r, cores, sizes):
    """Return the number of classes of groups of cores of a row, or an error (below zero); fills `groups`, and how many cores meet in
    `members`."""
    total, g = stream_cores(t, r, cores), s.groups
    if total < 1:
        return np.int64(CORE_RANGE)
    g.members[0] = total // lowest(cores) if t.joined[0] == 1 else 1
    g.classes[0] = group_classes(t, r, cores, sizes, g.stream_of, g.core_of, g.key, g.weight)
    return g.classes[0]


@inner
def time_row(t, s, r, cores, sizes, walk):
    """Return ticks of a row, or an error (below zero)."""
    g, classes = s.groups, count_classes(t, s, r, cores, sizes)
    if classes < 0:
        return classes
    members = g.members[0]
    for k in range(classes):
        g.stale[k], g.halted[k] = 1, 0
        for m in range(members):
            g.running[k, m] = 1
    s.epoch_time[0] = 0
    for j in range(cores.shape[0]):
        s.epoch_active[0, j] = cores[j]
    s.epochs[0] = 1
    if s.limit[0] < NEVER and floor(t, s, r, classes, members, np.int64(0), s.limit[0]) >= s.limit[0]:
        return np.int64(ABANDONED)
    turn_page(t, s, r)
    now = np.int64(0)
    left = classes * members
    passed = pass_by(t, s, r, classes) if t.joined[0] == 0 and t.joined[1] == 1 and s.at.shape[1] == 0 else np.int64(-1)
    while left > 0:
        status = meeting_classes(t, s, r, classes, sizes, walk) if t.joined[0] == 1 else single_classes(t, s, r, classes, sizes, walk)
        if status < 0:
            return np.int64(status)
        if passed >= 0:
            if g.end[passed, 0] >= s.limit[0]:
                return np.int64(ABANDONED)
            if is_undisturbed(g, classes):
                now = last_end(g, classes)
                return now if now < s.limit[0] else np.int64(ABANDONED)
            walk_passed(g, classes)
            passed = np.int64(-1)
            continue
        now = first_end(g, classes, members)
        if now >= s.limit[0]:
            return np.int64(ABANDONED)
        left -= close_epoch(s, g, classes, members, now)
    return now


@inner
def does_less(t, s, r, k, other, active):
    """Return whether the first core of class k does what that of class `other` does, but for iterations at the end of loops, and no
    instruction takes it longer; and none of its transfers is held back where `active` cores share the memory.

    If so it ends no later, where nothing holds the other back. All that rules 2 to 6 do is to take the larger of times, each plus a number.
    So let iterations be left out. What followed them on a pipe, in the scalar unit or in a queue waits for what was before them in place of
    what was in them, which is no later. A wait meets a set as many turns of its slots before it as ever, which stands no later in the
    program than the one that it met; and sets of one pipe follow each other in time as they do there. That flags go in turns is known of
    programs that emission made.

    Both are gone through once for each class of iterations of the first.
    """
    g, stream, code, place, entry_of, trips = s.groups, s.groups.stream_of[k, 0], t.code, t.place[t.work[r]], t.entry_of, t.trips[r]
    merge, cost, more, less = t.merge[t.work[r]], t.cost, s.cursor[0], s.cursor[1]
    count, most_of, kind, kind_of, first_loop = s.count[1], s.count[0], s.kind[1], s.kind[0], s.cursor.shape[1] - s.count.shape[1]
    if g.stream_of[other, 0] != stream:
        return False
    stand(t, s, r, 0, stream, g.core_of[other, 0])
    stand(t, s, r, 1, stream, g.core_of[k, 0])
    pc = t.starts[stream]
    while True:
        op, a, b = code[pc, 0], np.int64(code[pc, 1]), np.int64(code[pc, 2])
        if op == INSTR:
            one = entry_at(place, entry_of, less, a)
            if cost[U(COST * one + UNIT)] * active > cost[U(COST * one)] or not no_longer(cost, one, entry_at(place, entry_of, more, a)):
                return False
        elif op == LOOP:
            n, most = trips[less[first_loop + a]], trips[more[first_loop + a]]
            if n > most:
                return False
            if n <= 0:
                pc = b
            else:
                count[a], most_of[a] = n, most
                kind[a], kind_of[a] = merge[a, LAST if n == 1 else FIRST], merge[a, LAST if most == 1 else FIRST]
                turn_to(t, merge, less, a, OUTSIDE, kind[a])
                turn_to(t, merge, more, a, OUTSIDE, kind_of[a])
        elif op == END:
            was, n, new = kind[a], count[a], np.int64(merge[a, LAST])
            if was == FIRST and iterations(merge, a, n, np.int64(BODY)) > 0:
                new = np.int64(BODY)
            if was in (LAST, new) or n == 1:
                turn_to(t, merge, less, a, was, OUTSIDE)
                turn_to(t, merge, more, a, kind_of[a], OUTSIDE)
            else:
                of = new if n == most_of[a] else np.int64(BODY)
                turn_to(t, merge, less, a, was, new)
                turn_to(t, merge, more, a, kind_of[a], of)
                kind[a], kind_of[a] = new, of
                pc = b
        elif op == STOP:
            return True
        pc += 1


@inner
def pass_by(t, s, r, classes):
    """Return the class that ends last and that no other class holds back, in a row where other classes are sure to end no later. Those
    need not be walked, and are marked. Return -1 where there are none."""
    g, last, found = s.groups, np.int64(0), False
    set_all(g.passed, 0)
    if classes == 1:
        return np.int64(-1)
    for k in range(classes):
        if g.weight[k] > g.weight[last]:
            last = np.int64(k)
    if not does_less(t, s, r, last, last, s.epoch_active[0, g.stream_of[last, 0]]):
        return np.int64(-1)
    for k in range(classes):
        if k != last:
            if does_less(t, s, r, k, last, np.int64(0)):
                g.passed[k], found = 1, True
            elif does_less(t, s, r, last, k, np.int64(0)) and does_less(t, s, r, k, k, s.epoch_active[0, g.stream_of[k, 0]]):
                g.passed[last], last, found = 1, np.int64(k), True
    for k in range(classes):
        if g.passed[k] == 1:
            g.stale[k], g.end[k, 0] = 0, NEVER
    return last if found else np.int64(-1)


@inner
def is_undisturbed(g, classes):
    """Return whether no transfer of the classes that were walked was held back."""
    held = False
    for k in range(classes):
        held = held or (g.passed[k] == 0 and (g.held[k] >= 0 or g.halted[k] == 1))
    return not held


@inner
def last_end(g, classes):
    """Return when the last of the classes that were walked ends."""
    now = np.int64(0)
    for k in range(classes):
        if g.passed[k] == 0:
            now = max(now, g.end[k, 0])
    return now


@inner
def walk_passed(g, classes):
    """Mark classes for a walk: those that were skipped, and those that have stopped and go on."""
    for k in range(classes):
        g.stale[k] = max(g.passed[k], g.halted[k])


@inner
def first_end(g, classes, members):
    """Return when the first of the cores ends that still run; NEVER where none is known to."""
    now = np.int64(NEVER)
    for k in range(classes):
        for m in range(members):
            if g.running[k, m] == 1:
                now = min(now, g.end[k, m])
    return now


@inner
def meeting_classes(t, s, r, classes, sizes, walk):
    """ENDED, or an error: a group of each class of which more is to be found out, walked from its start, with when its cores end."""
    g = s.groups
    members = g.members[0]
    for k in range(classes):
        if g.stale[k] == 1:
            for m in range(members):
                s.alike[m] = g.weight[k]
                copy(s.left[m], g.left[k, m], PIPE_COUNT)
                copy(s.taken[m], g.taken[k, m], PIPE_COUNT)
                copy(s.excess[m], g.excess[k, m], PIPE_COUNT)
            status = walk_group(t, s, r, g.stream_of[k], g.core_of[k], members, sizes, walk)
            if status < 0:
                return status
            g.held[k] = NEVER if status == OVER else -1
            for m in range(members):
                g.held[k] = max(g.held[k], s.last_held[m])
                g.end[k, m] = NEVER if status == OVER else core_end(s.free, s.done, m)
    return np.int64(ENDED)


@inner
def single_classes(t, s, r, classes, sizes, walk):
    """Return the same where cores do not meet. The last classes come first: they mostly have less to do. When one ends the others stop
    where their transfers go faster from then on, and go on from there when that epoch has begun."""
    g, kept, horizon = s.groups, s.pc.shape[0], np.int64(NEVER)
    for k in range(classes):
        if g.running[k, 0] == 1 and g.stale[k] == 0:
            horizon = min(horizon, g.end[k, 0])
    for k in range(classes - 1, -1, -1):
        if g.stale[k] == 1:
            m = min(k, kept - 1)
            s.horizon[0] = horizon if m < kept - 1 or classes <= kept else NEVER
            status = walk_class(t, s, r, k, m, sizes, walk)
            if status < 0:
                return status
            g.halted[k] = 1 if status == HALTED else 0
            g.held[k] = NEVER if status == OVER else s.last_held[m]
            g.end[k, 0] = core_end(s.free, s.done, m) if status == ENDED else NEVER
            if g.held[k] >= 0:
                horizon = min(horizon, g.end[k, 0])
    return np.int64(ENDED)


@inner
def floor(t, s, r, classes, members, open_slots, limit):
    """Return ticks that a row takes at the least, or some of them that reach the limit: for what keeps some pipe of a core busy, or the
    memory of all, with its slots or however many; below the limit it fills `left`, `taken` and `excess` of classes.

    While a core of a class runs, all of them do. And no more cores share the memory during a transfer than at its start: so
    what all transfers on a pipe hold of it, one after the other, fits into the time. Of the first core, which has no less to do than
    others, it is counted, too, what must come before a pipe's first instructions and after its last.
    """
    least, alone = np.int64(0), t.joined[0] == 0
    for j in range(s.shared.shape[0]):
        set_all(s.shared[j], 0)
    for k in range(classes):
        for m in range(members):
            least = max(least, busiest(t, s, r, k, m))
        if least >= limit:
            return least
        if k == 0 and alone:
            least = max(least, first_core(t, s, r, open_slots))
            if least >= limit:
                return least
    for j in range(s.shared.shape[0]):
        for p in range(PIPE_COUNT):
            least = max(least, s.shared[j, p])
    return least


@inner
def busiest(t, s, r, k, m):
    """Return ticks for which member m of the groups of class k keeps some pipe busy, from where it may first run; fills `left`."""
    g, stream = s.groups, s.groups.stream_of[k, m]
    stand(t, s, r, m, stream, g.core_of[k, m])
    total(t, s, r, m, g.weight[k], g.left[k, m], s.shared[stream])
    set_all(g.excess[k, m], 0)
    least = np.int64(0)
    for p in range(PIPE_COUNT):
        if g.left[k, m, p] > 0:
            least = max(least, t.pipe_head[t.work[r], stream, p] + g.left[k, m, p])
    return least


@inner
def first_core(t, s, r, open_slots):
    """Return ticks that the first core, which `total` has just gone through, takes at the least; fills its `taken` and `excess`."""
    g = s.groups
    follow(t, s, r, np.int64(0), g.weight[0], open_slots, g.taken[0, 0], g.excess[0, 0], s.last)
    begin(t, s, r, np.int64(0), g.stream_of[0, 0], np.int64(0), g.core_of[0, 0])
    least = lead(t, s, r, 0, g.weight[0], s.left[0], s.before[0], s.led)
    for p in range(1, PIPE_COUNT):
        rest = g.left[0, 0, p] - s.left[0, p]
        if g.left[0, 0, p] > 0:
            least = max(least, s.free[0, p] + rest + (g.excess[0, 0, p] if rest >= g.taken[0, 0, p] else max(s.last[p], 0)))
    return least


@inner
def close_epoch(s, g, classes, members, now):
    """Return how many cores of one group of each class end at `now`, with which the next epoch begins; a class of which a transfer was held
    back in it is begun anew."""
    e, ended = s.epochs[0], 0
    s.epoch_time[e] = now
    for j in range(s.epoch_active.shape[1]):
        s.epoch_active[e, j] = s.epoch_active[e - 1, j]
    s.epochs[0] += 1
    for k in range(classes):
        g.stale[k] = 0
        for m in range(members):
            if g.running[k, m] == 1 and g.end[k, m] == now:
                g.running[k, m] = 0
                ended += 1
                s.epoch_active[e, g.stream_of[k, m]] -= g.weight[k]
            if g.running[k, m] == 1 and (g.held[k] >= now or g.halted[k] == 1):
                g.stale[k] = 1
        if g.held[k] >= now:
            g.halted[k] = 0
    return ended


@inner
def alike(t, r, stream):
    """Return how many cores of a stream are of the class of its first."""
    w, cores, loops = t.work[r], np.int64(1), t.merge.shape[1] - t.extent.shape[1]
    for axis in range(t.axis_start[stream], t.axis_start[stream + 1]):
        n = t.extent[w, axis]
        heads = min(t.head[w, axis], n - 1)
        own, same = t.merge[w, loops + axis, axis_class(0, n, t.head[w, axis])], np.int64(0)
        for kind, count in ((FIRST, heads), (BODY, n - 1 - heads), (LAST, 1)):
            if t.merge[w, loops + axis, kind] == own:
                same += count
        cores *= same
    return cores


@inner
def first_of(t, s, r, stream):
    """Fills `left` of the first class and member with the work of the first core of a stream."""
    g = s.groups
    g.stream_of[0, 0], g.core_of[0, 0], g.weight[0] = stream, 0, alike(t, r, stream)
    busiest(t, s, r, 0, 0)


@inner
def ends(t, s, r, stream, before, work, behind):
    """Fills what `firsts` does of a core, which `first_of` has just gone through."""
    g = s.groups
    follow(t, s, r, np.int64(0), g.weight[0], np.int64(1), g.taken[0, 0], g.excess[0, 0], behind)
    begin(t, s, r, np.int64(0), stream, np.int64(0), np.int64(0))
    lead(t, s, r, 0, g.weight[0], g.taken[0, 0], s.before[0], work)
    for p in range(PIPE_COUNT):
        before[p], behind[p] = max(before[p], s.before[0, p]), max(behind[p], 0)


@inner
def core_ticks(t, s, r, cores, sizes, walk):
    """Return the ticks that the first core of a row takes if only cores of its class share the memory, or the limit where it takes that
    long. The result is never more than the ticks of the row. It is 0 where streams meet, or where the walk ends in an error."""
    if t.joined[0] == 1 or stream_cores(t, r, cores) < 1:
        return np.int64(0)
    g = s.groups
    turn_page(t, s, r)
    first_of(t, s, r, np.int64(0))
    follow(t, s, r, np.int64(0), g.weight[0], np.int64(0), g.taken[0, 0], g.excess[0, 0], s.last)
    s.epoch_time[0], s.epochs[0], s.alike[0] = 0, 1, g.weight[0]
    for j in range(cores.shape[0]):
        s.epoch_active[0, j] = g.weight[0]
    copy(s.left[0], g.left[0, 0], PIPE_COUNT)
    copy(s.taken[0], g.taken[0, 0], PIPE_COUNT)
    copy(s.excess[0], g.excess[0, 0], PIPE_COUNT)
    ended = walk_group(t, s, r, g.stream_of[0], g.core_of[0], np.int64(1), sizes, walk)
    if ended == TOO_LONG or ended == STOPPED:  # noqa: SIM109 (Numba makes a loop of `in`)
        return np.int64(ended)
    return s.limit[0] if ended == OVER else core_end(s.free, s.done, 0) if ended == ENDED else np.int64(0)


@inner
def bound(t, s, r, cores, sizes):
    """Return ticks that a row takes at the least, never more than it and rows with more slots take, or some of them that reach the limit;
    or an error."""
    classes = count_classes(t, s, r, cores, sizes)
    return classes if classes < 0 else floor(t, s, r, classes, s.groups.members[0], np.int64(1), s.limit[0])


@inner
def firsts(t, s, r, what, cores, out):
    """Return 0, or an error; fills what is asked of the first core of each stream, which where work is shared out evenly has no less to do
    than any other. WORK: out[stream, pipe], how long it keeps each pipe at work. ENDS: out[3 * stream + (0, 1, 2), pipe], what at the least
    goes by before its first instruction on each pipe, how long pipe M is at work before that, and what follows the end of its last; of
    streams that meet, only when a pipe may run."""
    if stream_cores(t, r, cores) < 1:
        return np.int64(CORE_RANGE if what == WORK else 0)
    for stream in range(cores.shape[0]):
        if what == WORK:
            first_of(t, s, r, stream)
            copy(out[stream], s.groups.left[0, 0], PIPE_COUNT)
        else:
            copy(out[3 * stream], t.pipe_head[t.work[r], stream], PIPE_COUNT)
            if t.joined[0] == 0:
                first_of(t, s, r, stream)
                ends(t, s, r, stream, out[3 * stream], out[3 * stream + 1], out[3 * stream + 2])
    return np.int64(0)


@entry
def find_rows(t, s, what, first, last, cores, sizes, out, status, limits, walk):
    """Fills what is asked of rows first .. last - 1 whose status is still 0, and their status: out[row, i, j].

    TIMES: ticks, out[row, 0, 0]; `s` keeps the groups and epochs of the last. A row is ABANDONED as soon as it is certain that it takes
    `limits[row]` ticks or more. FLOORS and ALONE, as ticks: see `bound`, `core_ticks`. WORK and ENDS: see `firsts`. AGAIN: row `first` is
    walked once more under the epochs that `s` keeps, for what probes see: of its cores a group, the streams of which are out[0, 0] and the
    numbers of which in these are out[0, 1].
    """
    if what == TIMES or what == ALONE:  # noqa: SIM109 (Numba makes a loop of `in`)
        learn(t, s)
    for r in range(first, last):
        if status[r] == 0:
            s.limit[0], s.progress[1] = limits[r], 0
            if what == TIMES:
                found = time_row(t, s, r, cores, sizes, walk)
            elif what == FLOORS:
                found = bound(t, s, r, cores, sizes)
            elif what == ALONE:
                found = core_ticks(t, s, r, cores, sizes, walk)
            elif what == AGAIN:
                turn_page(t, s, r)
                found = np.int64(walk_group(t, s, r, out[0, 0], out[0, 1], np.int64(out.shape[2]), sizes, walk))
            else:
                found = firsts(t, s, r, what, cores, out[r])
            if found < 0:
                status[r] = found
            elif what <= ALONE:
                out[r, 0, 0] = found


def make_state(cores: int, members: int, pairs: int, flag_ids: int, registers: int, loops: int, cursors: int, entries: int, streams: int,
               queue: int, cross_ids: int, cross_count: int, forms: int, places: int = 0, events: int = 0, room=np,
               stop: np.ndarray | None = None, most_steps: int = NEVER) -> State:
    """Return fresh arrays for one thread. `cores` is the largest number of cores of a row, `members` that of cores that meet. For
    `stop` see State. A walk takes at most `most_steps` steps.

    `places` is the code's length for a walk with probes. `room` makes arrays, as NumPy does.
    """
    def zeros(*shape: int) -> np.ndarray:
        return room.zeros(shape, np.int64)

    epochs, uses, most, bits = cores + 2, entries if places else 1, cores + 1, max(1, pairs * flag_ids)
    picture = PIPE_COUNT * (5 + queue) + 2 * bits + registers + loops + 1 + members * cross_ids * (2 + cross_count)
    marks = loops * members
    mark = Mark(at=zeros(loops), reach=zeros(loops), whole=zeros(loops), free=zeros(marks, PIPE_COUNT), left=zeros(marks, PIPE_COUNT),
                picture=zeros(marks + 1, picture), register=zeros(marks, registers),
                spent=zeros(marks, PIPE_COUNT, HEAD + 1), times=zeros(marks, places, 2), uses=zeros(marks, uses))
    shown = Shown(pipe=zeros(loops + 1, PIPE_COUNT), pipes=zeros(loops + 1), flag=zeros(loops + 1, bits), flags=zeros(loops + 1, 2),
                  filled=zeros(loops + 1), counter=zeros(streams, registers), counters=zeros(streams), form=zeros(forms * pairs),
                  pair=zeros(forms * pairs), top=zeros(pairs), count=np.array([-1, 0, -1]))
    record = 3 + PIPE_COUNT * (7 + queue) + 2 * bits + registers
    memo = Memo(worth=zeros(loops), inside=zeros(INSIDE), inside_of=zeros(loops, 2), moved=zeros(2 * INSIDE, 2), moved_of=zeros(INSIDE, 2),
                counter=zeros(INSIDE), counter_of=zeros(loops, 2), open=zeros(loops), count=zeros(6), newest=zeros(STOOD),
                former=zeros(RECORDS), of=zeros(RECORDS), log=room.empty(LOG, np.int64), key=zeros(RECORDS), length=zeros(RECORDS),
                sum=zeros(RECORDS), result=zeros(RECORDS), room=np.array([record]), begun=zeros(RECORDS, 2),
                left=zeros(RECORDS, PIPE_COUNT), place=zeros(PLACES), stood=room.empty((STOOD, READ), np.int64), stood_last=zeros(loops),
                same=zeros(STOOD), before=zeros(STOOD))
    groups = Groups(stream_of=zeros(most, members), core_of=zeros(most, members), key=zeros(most, members), weight=zeros(most),
                    end=zeros(most, members), running=zeros(most, members), held=zeros(most), stale=zeros(most), classes=zeros(1),
                    halted=zeros(most), passed=zeros(most), members=zeros(1), left=zeros(most, members, PIPE_COUNT),
                    taken=zeros(most, members, PIPE_COUNT), excess=zeros(most, members, PIPE_COUNT))
    each = members if places or members > 1 else min(KEPT, most)
    return State(
        pc=zeros(each), free=zeros(each, PIPE_COUNT), done=zeros(each, PIPE_COUNT), bit=zeros(each, bits),
        held=zeros(members, bits), register=zeros(each, registers), count=zeros(each, loops), kind=zeros(each, loops),
        cursor=zeros(each, cursors), last_held=zeros(each), stream=zeros(each),
        local=zeros(each), ended=zeros(each), progress=np.array([0, 0, most_steps]),
        stop=np.zeros(1, np.int64) if stop is None else stop, led=zeros(PIPE_COUNT), last=zeros(PIPE_COUNT),
        ring=zeros(members, members, cross_ids, cross_count), put=zeros(members, members, cross_ids),
        limit=np.array([NEVER]), left=zeros(each, PIPE_COUNT), taken=zeros(each, PIPE_COUNT),
        excess=zeros(each, PIPE_COUNT), alike=zeros(each), weight=zeros(loops),
        shared=zeros(streams, PIPE_COUNT), got=zeros(members, members, cross_ids), latest=zeros(members, members, cross_ids),
        starts=zeros(each, PIPE_COUNT, queue), turn=zeros(each, PIPE_COUNT), early=zeros(each, PIPE_COUNT),
        late=zeros(each, PIPE_COUNT), floor=zeros(each, PIPE_COUNT), until=zeros(each, bits),
        before=zeros(each, PIPE_COUNT), spent=zeros(each, PIPE_COUNT, HEAD + 1), at=zeros(each, places, 2),
        uses=zeros(each, uses), probed=zeros(each), paused=zeros(1), horizon=np.array([NEVER]),
        log=zeros(events, EVENT_COLUMNS + registers), logged=np.array([-1, 0]),
        epoch_time=zeros(epochs), epoch_active=zeros(epochs, streams), epochs=zeros(1), mark=mark, groups=groups, memo=memo, shown=shown,
        form=zeros(4 * forms))
