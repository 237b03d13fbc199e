"""Tables of many rows at once: operations on columns, noted beforehand (aoec/simulate/encode/tape.py), and what of their results each
row has.

A register is a column of `lanes` numbers. Registers hold int64 or float64 in the same memory: `ints` and `reals` are two views of it.
Imports nothing of aoec.
"""
from __future__ import annotations

from collections import namedtuple

import numpy as np

from . import linked
from .linked import inline, inner
from .structs import pass_by_address

(ADD, SUB, MUL, FLOORDIV, MOD, MIN, MAX, GCD, LESS, LESS_EQUAL, EQUAL, UNEQUAL, AND, OR, ABS,
 REAL_ADD, REAL_SUB, REAL_MUL, REAL_DIV, REAL_FLOORDIV, REAL_MIN, REAL_MAX, REAL_FMIN, REAL_FMAX, REAL_POW, REAL_LESS, REAL_LESS_EQUAL,
 REAL_EQUAL, REAL_UNEQUAL, REAL_ABS, CEIL, FLOOR, RINT, SELECT, TO_REAL, TO_INT) = range(36)
INPUT = -1  # brought from outside, nothing to do
FIRST, BODY, LAST = range(3)
LANES = 64

# how the tables of a program are filled; registers of rows in `code`, of entries in `lane_code`
Plan = namedtuple("Plan", (
    "code", "pool", "constant_at", "constant",  # int32[op, (op, first, last)] into the pool; int32[element, (to, a, b, c)]; as int64 bits
    "input_at",  # int32[hole]: its register
    "extent_at", "head_at", "pipe_head_at",  # int32[axis], int32[axis], int32[stream, pipe]: registers, -1: 1, 1 and 0
    "bad_at",  # int32[1]: not 0 where a size varies in other than the first and last iteration
    "merge_at",  # int32[loop or axis, (first, last)]: not 0 where a size differs there, -1: nowhere
    "trip_start", "trip_axis", "trip_step",  # int32[loop + 1] into what its trip count varies with: loop or axis, and its step
    "trip_base", "trip_at",  # int32[loop]: its first column, less what the classes of narrow loops add to it; register by column
    "group_start",  # int32[site + 1] into the groups: sizes that vary with the same axes
    "group_axis", "axis_which", "axis_step", "axis_full",  # int32[group + 1] into axes: loop or axis, its step in the group and in the site
    "group_origin",  # int32[group, 2]: the first place, in the site and in the group, less what classes add to it
    "group_fields", "group_at",  # how many fields; where in `field_at` [position, field] its registers begin
    "field_at",
    "positions",  # int64[site + 1]: where the positions of each site begin, in those of a row
    "lane_start", "lane_code", "lane_pool", "lane_constant_at", "lane_constant",  # int32[site + 1] into the code
    "in_start", "in_at", "in_group", "in_of",  # int32[site + 1]: what an entry's formulas read: register, group (-1: of the row), field
    # or register of the row
    "out_at",  # int32[site, (busy, latency, unit, granule)]: registers
))

Out = namedtuple("Out", ("extent", "head", "pipe_head", "merge", "trips", "place", "entry_of", "costs", "bad"))
Space = namedtuple("Space", (
    "ints", "reals", "lane_ints", "lane_reals",  # registers of rows and of entries [register, lane]
    "place", "number", "leader", "reached", "many",  # by group: see `number_values`; how many positions are reached, and how many numbers
    "positions", "entries",  # of a place of the program, all that are reached
))

for kind in (Plan, Out, Space):
    pass_by_address(kind)


@inline
def floor_quotient(a, b):
    """Return the quotient rounded down, or 0 where b is 0, as NumPy does."""
    if b == 0:
        return np.int64(0)
    q = np.int64(a / np.float64(b)) if abs(a) < 4503599627370496 and abs(b) < 4503599627370496 else a // b
    return q - 1 if q * b > a and b > 0 or q * b < a and b < 0 else q


@inline
def real_floor_quotient(a, b):
    """Return the quotient of reals rounded down, as NumPy does."""
    if b == 0.0:
        return a / b
    rest = np.fmod(a, b)
    q = (a - rest) / b
    if rest != 0.0 and (b < 0.0) != (rest < 0.0):
        q -= 1.0
    if q == 0.0:
        return 0.0
    low = np.floor(q)
    return low + 1.0 if q - low > 0.5 else low


@inline
def divisor(a, b):
    """Return the greatest common divisor."""
    a, b = abs(a), abs(b)
    while b != 0:
        a, b = b, a % b
    return a


@inner
def run_ints(op, first, last, pool, x, lanes):
    """Run one operation on whole numbers, for all its elements."""
    for k in range(first, last):
        d, a, b = pool[k, 0], pool[k, 1], pool[k, 2]
        if op == ADD:
            for w in range(lanes):
                x[d, w] = x[a, w] + x[b, w]
        elif op == SUB:
            for w in range(lanes):
                x[d, w] = x[a, w] - x[b, w]
        elif op == MUL:
            for w in range(lanes):
                x[d, w] = x[a, w] * x[b, w]
        elif op == FLOORDIV:
            for w in range(lanes):
                x[d, w] = floor_quotient(x[a, w], x[b, w])
        elif op == MOD:
            for w in range(lanes):
                x[d, w] = x[a, w] - x[b, w] * floor_quotient(x[a, w], x[b, w]) if x[b, w] != 0 else 0
        elif op == MIN:
            for w in range(lanes):
                x[d, w] = min(x[a, w], x[b, w])
        elif op == MAX:
            for w in range(lanes):
                x[d, w] = max(x[a, w], x[b, w])
        elif op == GCD:
            for w in range(lanes):
                x[d, w] = divisor(x[a, w], x[b, w])
        elif op == LESS:
            for w in range(lanes):
                x[d, w] = np.int64(x[a, w] < x[b, w])
        elif op == LESS_EQUAL:
            for w in range(lanes):
                x[d, w] = np.int64(x[a, w] <= x[b, w])
        elif op == EQUAL:
            for w in range(lanes):
                x[d, w] = np.int64(x[a, w] == x[b, w])
        elif op == UNEQUAL:
            for w in range(lanes):
                x[d, w] = np.int64(x[a, w] != x[b, w])
        elif op == AND:
            for w in range(lanes):
                x[d, w] = x[a, w] & x[b, w]
        elif op == OR:
            for w in range(lanes):
                x[d, w] = x[a, w] | x[b, w]
        elif op == ABS:
            for w in range(lanes):
                x[d, w] = abs(x[a, w])
        else:  # SELECT
            c = pool[k, 3]
            for w in range(lanes):
                x[d, w] = x[b, w] if x[a, w] != 0 else x[c, w]


@inner
def run_reals(op, first, last, pool, x, y, lanes):
    """Run one operation on reals `y`, or from or to whole numbers `x`, for all its elements."""
    for k in range(first, last):
        d, a, b = pool[k, 0], pool[k, 1], pool[k, 2]
        if op == REAL_ADD:
            for w in range(lanes):
                y[d, w] = y[a, w] + y[b, w]
        elif op == REAL_SUB:
            for w in range(lanes):
                y[d, w] = y[a, w] - y[b, w]
        elif op == REAL_MUL:
            for w in range(lanes):
                y[d, w] = y[a, w] * y[b, w]
        elif op == REAL_DIV:
            for w in range(lanes):
                y[d, w] = y[a, w] / y[b, w]
        elif op == REAL_FLOORDIV:
            for w in range(lanes):
                y[d, w] = real_floor_quotient(y[a, w], y[b, w])
        elif op == REAL_MIN:  # a number that is none comes through
            for w in range(lanes):
                y[d, w] = y[a, w] if y[a, w] < y[b, w] or y[a, w] != y[a, w] else y[b, w]
        elif op == REAL_MAX:
            for w in range(lanes):
                y[d, w] = y[a, w] if y[a, w] > y[b, w] or y[a, w] != y[a, w] else y[b, w]
        elif op == REAL_FMIN:  # a number that is none gives way
            for w in range(lanes):
                y[d, w] = y[a, w] if y[a, w] < y[b, w] or y[b, w] != y[b, w] else y[b, w]
        elif op == REAL_FMAX:
            for w in range(lanes):
                y[d, w] = y[a, w] if y[a, w] > y[b, w] or y[b, w] != y[b, w] else y[b, w]
        elif op == REAL_POW:
            for w in range(lanes):
                y[d, w] = y[a, w] ** y[b, w]
        elif op == REAL_LESS:
            for w in range(lanes):
                x[d, w] = np.int64(y[a, w] < y[b, w])
        elif op == REAL_LESS_EQUAL:
            for w in range(lanes):
                x[d, w] = np.int64(y[a, w] <= y[b, w])
        elif op == REAL_EQUAL:
            for w in range(lanes):
                x[d, w] = np.int64(y[a, w] == y[b, w])
        elif op == REAL_UNEQUAL:
            for w in range(lanes):
                x[d, w] = np.int64(y[a, w] != y[b, w])
        elif op == REAL_ABS:
            for w in range(lanes):
                y[d, w] = abs(y[a, w])
        elif op == CEIL:
            for w in range(lanes):
                y[d, w] = np.ceil(y[a, w])
        elif op == FLOOR:
            for w in range(lanes):
                y[d, w] = np.floor(y[a, w])
        elif op == RINT:
            for w in range(lanes):
                y[d, w] = np.rint(y[a, w])
        elif op == TO_REAL:
            for w in range(lanes):
                y[d, w] = np.float64(x[a, w])
        else:  # TO_INT
            for w in range(lanes):
                x[d, w] = np.int64(y[a, w])


@inner
def run(code, first, last, pool, x, y, lanes):
    """Run operations of a tape in order, from `first` up to `last`."""
    for k in range(first, last):
        op = code[k, 0]
        if op < REAL_ADD or op == SELECT:
            run_ints(op, code[k, 1], code[k, 2], pool, x, lanes)
        else:
            run_reals(op, code[k, 1], code[k, 2], pool, x, y, lanes)


@inner
def constants(at, values, x):
    """Fills registers that never change."""
    for k in range(at.shape[0]):
        for w in range(x.shape[1]):
            x[at[k], w] = values[k]


@inline
def is_kept_apart(merge, which, kind):
    """Return whether iterations of a class stand for themselves."""
    return kind == BODY or merge[which, kind] == kind


@inner
def number_values(p, s, g, base, lane, merge):
    """Return how many different values the sizes of group g have in a row. Fill the positions that the row's classes reach (`place`, of
    the site, and `number`). Fill `leader` with the first position of the group for each number."""
    first, last, fields, at = p.group_axis[g], p.group_axis[g + 1], p.group_fields[g], p.group_at[g]
    place, number, leader, own = s.place[g - base], s.number[g - base], s.leader[g - base], s.positions
    n = 1
    place[0], own[0] = p.group_origin[g, 0], p.group_origin[g, 1]
    for k in range(first, last):
        which, before = p.axis_which[k], n
        for kind in (LAST, FIRST):
            if is_kept_apart(merge, which, kind):
                for i in range(before):
                    place[n], own[n] = place[i] + kind * p.axis_full[k], own[i] + kind * p.axis_step[k]
                    n += 1
        for i in range(before):
            place[i], own[i] = place[i] + BODY * p.axis_full[k], own[i] + BODY * p.axis_step[k]
    count = 0
    for i in range(n):
        found = -1
        for q in range(count):
            same = True
            for f in range(fields):
                same = same and s.ints[p.field_at[at + own[i] * fields + f], lane] == s.ints[p.field_at[at + leader[q] * fields + f], lane]
            if same:
                found = q
                break
        if found < 0:
            found = count
            leader[count] = own[i]
            count += 1
        number[i] = found
    s.reached[g - base] = n
    return count


@inner
def flush(p, s, site, lanes, out, first):
    """Fills the costs of so many entries of a site, from `first` on."""
    run(p.lane_code, p.lane_start[site], p.lane_start[site + 1], p.lane_pool, s.lane_ints, s.lane_reals, lanes)
    for part in range(4):
        at = p.out_at[site, part]
        for w in range(lanes):
            out.costs[first + w, part] = s.lane_ints[at, w]


@inner
def entries(p, s, out, site, row, lane, at, waiting, start):
    """Return the number of the next entry, or -1 where there is no room, and how many entries still wait. Note the entries of a row's
    site, and price them as soon as LANES of them are there.

    `at` is the number of the row's first entry. `waiting` entries before it have not been priced yet. `start` is the first of the row's
    positions.
    """
    base, stop, count = p.group_start[site], p.group_start[site + 1], 1
    merge, positions, of, counts = out.merge[row], s.positions, s.entries, s.many
    for g in range(base, stop):
        counts[g - base] = number_values(p, s, g, base, lane, merge)
        count *= counts[g - base]
    out.place[row, site, 0], out.place[row, site, 1] = at, start
    n, step = 1, count
    positions[0], of[0] = 0, 0
    for g in range(base, stop):
        step //= counts[g - base]
        own, before = s.reached[g - base], n
        for i in range(own - 1, -1, -1):
            for k in range(before):
                positions[i * before + k] = positions[k] + s.place[g - base, i]
                of[i * before + k] = of[k] + s.number[g - base, i] * step
        n = own * before
    for k in range(n):
        out.entry_of[start + positions[k]] = of[k]
    if at + count > out.costs.shape[0]:
        return np.int64(-1), waiting
    for entry in range(count):
        step = count
        for k in range(p.in_start[site], p.in_start[site + 1]):
            register = p.in_of[k]
            g = p.in_group[k]
            if g >= 0:
                rest = entry
                for j in range(stop - base - 1, g, -1):
                    rest //= counts[j]
                number = rest % counts[g]
                register = p.field_at[p.group_at[base + g] + s.leader[g, number] * p.group_fields[base + g] + register]
            s.lane_ints[p.in_at[k], waiting] = s.ints[register, lane]
        waiting += 1
        if waiting == LANES:
            flush(p, s, site, waiting, out, at + entry + 1 - waiting)
            waiting = np.int64(0)
    return at + count, waiting


@inner
def rows_of(p, s, out, row, lane):
    """Fills of a row all but its sites."""
    merge = out.merge[row]
    for k in range(merge.shape[0]):
        merge[k, FIRST] = FIRST if p.merge_at[k, 0] >= 0 and s.ints[p.merge_at[k, 0], lane] != 0 else BODY
        merge[k, BODY] = BODY
        merge[k, LAST] = LAST if p.merge_at[k, 1] >= 0 and s.ints[p.merge_at[k, 1], lane] != 0 else BODY
    for k in range(out.extent.shape[1]):
        out.extent[row, k] = s.ints[p.extent_at[k], lane] if p.extent_at[k] >= 0 else 0
        out.head[row, k] = s.ints[p.head_at[k], lane] if p.head_at[k] >= 0 else 1
    for stream in range(out.pipe_head.shape[1]):
        for pipe in range(out.pipe_head.shape[2]):
            at = p.pipe_head_at[stream, pipe]
            out.pipe_head[row, stream, pipe] = s.ints[at, lane] if at >= 0 else 0
    out.bad[row] = s.ints[p.bad_at[0], lane] if p.bad_at[0] >= 0 else 0
    for loop in range(p.trip_base.shape[0]):
        n, positions = 1, s.positions
        positions[0] = p.trip_base[loop]
        for k in range(p.trip_start[loop], p.trip_start[loop + 1]):
            before = n
            for kind in (LAST, FIRST):
                if is_kept_apart(merge, p.trip_axis[k], kind):
                    for i in range(before):
                        positions[n] = positions[i] + kind * p.trip_step[k]
                        n += 1
            for i in range(before):
                positions[i] += BODY * p.trip_step[k]
        for i in range(n):
            if p.trip_at[positions[i]] >= 0:
                out.trips[row, positions[i]] = s.ints[p.trip_at[positions[i]], lane]


@linked.entry
def replay(code, pool, x, y):
    """Run all operations of a tape, for LANES columns."""
    run(code, np.int64(0), code.shape[0], pool, x, y, x.shape[1])


@linked.entry
def fill_ints(code, pool, constant_at, constant, input_at, out_at, given, x, out):
    """Fills out[row, result] with what a tape of whole numbers gives of given[input, row]; `x`: room for its registers."""
    constants(constant_at, constant, x)
    for first in range(0, given.shape[1], LANES):
        lanes = min(LANES, given.shape[1] - first)
        for k in range(input_at.shape[0]):
            for w in range(lanes):
                x[input_at[k], w] = given[k, first + w]
        for k in range(code.shape[0]):
            run_ints(code[k, 0], code[k, 1], code[k, 2], pool, x, lanes)
        for k in range(out_at.shape[0]):
            for w in range(lanes):
                out[first + w, k] = x[out_at[k], w]


@linked.entry
def fill(p, s, given, out):
    """Return entries that are filled, or -1 where there is no room for all: the tables of rows with such values of their holes [row,
    hole]."""
    used = np.int64(0)
    sites, each = p.positions.shape[0] - 1, p.positions[p.positions.shape[0] - 1]
    constants(p.constant_at, p.constant, s.ints)
    constants(p.lane_constant_at, p.lane_constant, s.lane_ints)
    for first in range(0, given.shape[0], LANES):
        lanes = min(LANES, given.shape[0] - first)
        for k in range(p.input_at.shape[0]):
            for w in range(lanes):
                s.ints[p.input_at[k], w] = given[first + w, k]
        run(p.code, np.int64(0), p.code.shape[0], p.pool, s.ints, s.reals, lanes)
        for w in range(lanes):
            rows_of(p, s, out, first + w, w)
        for site in range(sites):
            waiting = np.int64(0)
            for w in range(lanes):
                used, waiting = entries(p, s, out, site, first + w, w, used, waiting, (first + w) * each + p.positions[site])
                if used < 0:
                    return used
            if waiting > 0:
                flush(p, s, site, waiting, out, used - waiting)
    return used
