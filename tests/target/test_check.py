"""The checker on programs written by hand: they pass, and with any one flag taken out, address moved or counter wrong they do not."""
from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from aoec.base.errors import AoecError, CapacityError, CheckError
from aoec.ir.index import Int
from aoec.ir.program import Advance, CrossSet, CrossWait, For, Instr, Item, Program, Ref, SetFlag, WaitFlag
from aoec.ir.text.parse import parse_expr, parse_program
from aoec.ir.text.show import show
from aoec.target.legality.check import check
from aoec.target.legality.footprint import box
from aoec.target.legality.hazard import boxes_meet
from aoec.target.machine import load
from tests.oracle.any_order import Broken, run_in_any_order

FOLDER = Path(__file__).parents[1] / "programs"
TOY = load("toy")
NAMES = ("matmul", "vector", "two_streams")
FLAGS = (SetFlag, WaitFlag, CrossSet, CrossWait)


def program(name: str) -> Program:
    return parse_program((FOLDER / f"{name}.prog").read_text("utf-8"), name)


def places(body: tuple[Item, ...], path: tuple[int, ...] = ()):
    """Path and item of everything in a body."""
    for i, item in enumerate(body):
        yield (*path, i), item
        if isinstance(item, For):
            yield from places(item.body, (*path, i))


def put(body: tuple[Item, ...], path: tuple[int, ...], *items: Item) -> tuple[Item, ...]:
    """The body with other items (or none) at a path."""
    i, rest = path[0], path[1:]
    if not rest:
        return body[:i] + items + body[i + 1:]
    return body[:i] + (replace(body[i], body=put(body[i].body, rest, *items)),) + body[i + 1:]


def changed(p: Program, stream: int, path: tuple[int, ...], *items: Item) -> Program:
    streams = list(p.streams)
    streams[stream] = replace(streams[stream], body=put(streams[stream].body, path, *items))
    return replace(p, streams=tuple(streams))


def sites(kinds):
    """(program, stream, path) of every item of those kinds in the programs by hand."""
    out = []
    for name in NAMES:
        for s, stream in enumerate(program(name).streams):
            out += [pytest.param(name, s, path, id=f"{name}-{stream.name}-{show(item)}-{'.'.join(map(str, path))}")
                    for path, item in places(stream.body) if isinstance(item, kinds)]
    return out


def item_at(p: Program, s: int, path: tuple[int, ...]) -> Item:
    return dict(places(p.streams[s].body))[path]


@pytest.mark.parametrize("name", NAMES)
def test_programs_by_hand_pass_quickly(name):
    p = program(name)
    start = time.process_time()
    check(p, TOY)
    assert time.process_time() - start < 1


@pytest.mark.parametrize("name, s, path", sites(FLAGS))
def test_a_program_without_one_of_its_flags_is_refused(name, s, path):
    with pytest.raises(CheckError):
        check(changed(program(name), s, path), TOY)


@pytest.mark.parametrize("name, s, path", sites(FLAGS))
def test_a_flag_of_another_id_is_refused(name, s, path):
    p = program(name)
    item = item_at(p, s, path)
    with pytest.raises(CheckError):
        check(changed(p, s, path, replace(item, id=item.id + 2)), TOY)


@pytest.mark.parametrize("name, s, path", sites(FLAGS))
def test_a_flag_given_twice_is_refused(name, s, path):
    p = program(name)
    item = item_at(p, s, path)
    with pytest.raises(CheckError):
        check(changed(p, s, path, item, item), TOY)


@pytest.mark.parametrize("name, s, path", sites(Advance))
def test_a_counter_that_stands_still_is_refused(name, s, path):
    p = program(name)
    with pytest.raises(CheckError, match=f"counter {item_at(p, s, path).counter} .* is never advanced"):
        check(changed(p, s, path), TOY)


def with_operand(p: Program, s: int, path: tuple[int, ...], name: str, change) -> Program:
    item = item_at(p, s, path)
    return changed(p, s, path, Instr(item.op, tuple((k, change(v) if k == name else v) for k, v in item.fields)))


@pytest.mark.parametrize("name, s, path", sites(Instr))
def test_the_other_slot_is_refused(name, s, path):
    p = program(name)
    for key, value in item_at(p, s, path).fields:
        if isinstance(value, Ref) and value.slot != Int(0):
            with pytest.raises(CheckError):
                check(with_operand(p, s, path, key, lambda r: replace(r, slot=Int(1) - r.slot)), TOY)


@pytest.mark.parametrize("name, s, path", sites(Instr))
def test_an_operand_past_its_buffer_is_refused(name, s, path):
    p = program(name)
    for key, value in item_at(p, s, path).fields:
        if isinstance(value, Ref):
            for far in (Int(1 << 16), Int(-(1 << 16))):
                with pytest.raises(CheckError, match="touches bytes"):
                    check(with_operand(p, s, path, key, lambda r, far=far: replace(r, offset=r.offset + far)), TOY)
            with pytest.raises(CheckError, match="slot"):
                check(with_operand(p, s, path, key, lambda r: replace(r, slot=r.slot + 2)), TOY)


@pytest.mark.parametrize("name, space, address", [
    ("matmul", "B_L1", 1024), ("matmul", "B_L1", 512), ("vector", "z", 512), ("vector", "y", 1536)])
def test_buffers_that_are_alive_at_once_may_not_share_bytes(name, space, address):
    p = program(name)
    moved = tuple(replace(x, address=Int(address)) if x.name == space else x for x in p.spaces)
    with pytest.raises(CheckError):
        check(replace(p, spaces=moved), TOY)


def test_buffers_that_are_not_alive_at_once_may_share_bytes():
    p = program("two_streams")  # its B is read from L1 once, before the first A comes in
    check(replace(p, spaces=tuple(replace(x, address=Int(0)) if x.name == "B_L1" else x for x in p.spaces)), TOY)
    check(parse_program(SERIAL.format(y=0)), TOY)
    check(parse_program(SERIAL.format(y=512)), TOY)


SERIAL = """program serial for toy {{
  input X: fp16[256]
  output Y: fp16[256]
  output Z: fp16[256]
  space x: fp16 in UB at 0 size 512
  space y: fp16 in UB at {y} size 512
  stream vec aiv {{
    copy_gm_ub(dst=x[0], src=X[0], bursts=1, length=512, src_gap=0, dst_gap=0)
    set(MTE2, MTE3, 0)
    wait(MTE2, MTE3, 0)
    copy_ub_gm(dst=Y[0], src=x[0], bursts=1, length=512, src_gap=0, dst_gap=0)
    set(MTE3, MTE2, 0)
    wait(MTE3, MTE2, 0)
    copy_gm_ub(dst=y[0], src=X[0], bursts=1, length=512, src_gap=0, dst_gap=0)
    set(MTE2, MTE3, 0)
    wait(MTE2, MTE3, 0)
    copy_ub_gm(dst=Z[0], src=y[0], bursts=1, length=512, src_gap=0, dst_gap=0)
  }}
}}
"""


def test_an_instruction_that_is_none_is_quoted_with_the_nearest():
    with pytest.raises(CheckError, match=r"^copy_gm_ib\(dst=x\[0\].*: copy_gm_ib is no instruction; did you mean copy_gm_ub\?"):
        check(parse_program(SERIAL.format(y=512).replace("copy_gm_ub(dst=x", "copy_gm_ib(dst=x")), TOY)


def test_a_buffer_written_over_before_it_is_read_is_refused():
    text = SERIAL.format(y=0).replace("copy_ub_gm(dst=Z[0], src=y[0]", "copy_ub_gm(dst=Z[0], src=x[0]")
    with pytest.raises(CheckError, match="reads x where y was written over it"):
        check(parse_program(text), TOY)


def test_an_iteration_that_stands_for_many_says_nothing_of_the_loop_inside():
    """x is worked out into y in its place, in two halves, five times: of the last time too, the second half is x's until it is its turn."""
    half = "lanes=64, repeat=2, dst_blk=1, {}dst_rep=8{}"
    text = f"""program halves for toy {{
  temp Y: fp32[256]
  space x: fp32 in UB at 0 size 1024
  space y: fp32 in UB at 0 size 1024
  stream vec aiv {{
    for again in 5 {{
      vdup(dst=x[0], scalar=1.0, lanes=64, repeat=4, dst_blk=1, dst_rep=8)
      for part in 2 {{
        vadds(dst=y[part * 128], src=x[part * 128], scalar=1.0, {half.format("src_blk=1, ", ", src_rep=8")})
      }}
    }}
    set(V, MTE3, 0)
    wait(V, MTE3, 0)
    copy_ub_gm(dst=Y[0], src=y[0], bursts=1, length=1024, src_gap=0, dst_gap=0)
  }}
}}
"""
    check(parse_program(text), TOY)
    with pytest.raises(CheckError, match="reads x where y was written over it"):
        check(parse_program(text.replace("src=x[part * 128]", "src=x[0]")), TOY)


def test_rows_of_one_tensor_may_be_written_by_turns_without_overlap():
    """Column tiles of a row-major matrix interleave in bytes and do not meet; one element wider and they do."""
    text = """program columns for toy {{
  temp T: fp16[16, 32]
  space c: fp16 in UB at 0 size 1024
  space d: fp16 in UB at 1024 size 1024
  stream vec aiv {{
    vdup(dst=c[0], scalar=1.0, lanes=128, repeat=4, dst_blk=1, dst_rep=8)
    set(V, MTE3, 0)
    wait(V, MTE3, 0)
    copy_ub_gm(dst=T[0], src=c[0], bursts=16, length=32, src_gap=0, dst_gap=32)
    copy_gm_ub(dst=d[0], src=T[{start}], bursts=16, length=32, src_gap=32, dst_gap=0)
  }}
}}
"""
    check(parse_program(text.format(start=16)), TOY)
    with pytest.raises(CheckError, match=r"reads T .* MTE2 needs wait\(MTE3, MTE2, id\) before"):
        check(parse_program(text.format(start=15)), TOY)


def test_errors_say_where_what_and_which_flag_helps():
    p = program("matmul")
    path = next(path for path, item in places(p.streams[0].body) if show(item) == "wait(MTE1, M, b)")
    without = changed(p, 0, path)
    setter = next(path for path, item in places(without.streams[0].body) if show(item) == "set(MTE1, M, b)")
    words = (r"^mmad\(.*reads A_L0A \(L0A bytes 0 to 512\) while load_l0a\(.*k0=0.* may not have written it on MTE1: "
             r"M needs wait\(MTE1, M, id\) before, and set\(MTE1, M, id\) after that \(at mc=0.*k0=0")
    with pytest.raises(CheckError, match=words):
        check(changed(without, 0, setter), TOY)


@pytest.mark.parametrize("old, new, error, words", [
    ("depth 2\n  space B_L1", "depth 20\n  space B_L1", CapacityError, "space A_L1 ends at 20,480"),
    ("at 2048 size 2048", "at 2056 size 2048", CheckError, "aligned to 32"),
    ("grid [mc in 2]", "grid [mc in 3]", CapacityError, "wants 3 aic cores of 2"),
    ("set(M, FIXP, c)", "set(M, V, c)", CheckError, "no pipe V"),
    ("set(M, FIXP, c)", "set(M, M, c)", CheckError, "no flag to itself"),
    ("init=k1 + k0 == 0", "init=k1 + zz == 0", CheckError, "zz"),
    ("for k1 in 3", "for mt in 3", CheckError, "mt"),
    ("rows=min(16, 40 - mt*16)", "rows=40", CheckError, "rows is greater than dst_rows"),
    ("src_stride=72", "src_stride=70000", CheckError, "src_stride is 70,000, outside 1..65,535"),
    ("B_L0B: fp16", "B_L0B: fp32", CheckError, "load_l0b"),
    ("dst=A_L0A.b[0]", "dst=B_L0B.b[0]", CheckError, "lies in L0A"),
    ("aic grid", "aiv grid", CheckError, "aiv"),
    ("at 2048 size 2048", "at ?x size 2048", CheckError, "open holes"),
    ("advance(b)", "advance(q)", CheckError, "q"),
    ("for toy {", "for toy {\n  require 1 == 2 \"ones are twos\"", AoecError, "ones are twos"),
])
def test_what_can_be_read_off_the_text(old, new, error, words):
    text = (FOLDER / "matmul.prog").read_text("utf-8")
    if new.startswith("for toy"):
        text = text.replace("  stream", '  require 1 == 2 "ones are twos"\n  stream')
    else:
        assert old in text
        text = text.replace(old, new)
    with pytest.raises(error, match=words):
        check(parse_program(text), TOY)


def test_a_counter_of_waits_ahead_of_the_other_stream_is_refused():
    text = """program ahead for toy {{
  stream a aic {{
    for i in {n} {{
      cross_set(MTE2, b, 0)
    }}
  }}
  stream b aiv {{
    for j in {n} {{
      cross_wait(MTE2, a, 0)
    }}
  }}
}}
"""
    check(parse_program(text.format(n=TOY.cross_count)), TOY)
    for n in (TOY.cross_count + 1, 1000):
        with pytest.raises(CheckError, match=f"may count to .* of {TOY.cross_count}"):
            check(parse_program(text.format(n=n)), TOY)


def test_a_flag_set_again_before_its_wait_has_surely_run_is_refused():
    """Two sets in a row of one bit hang real parts; that a wait stands between them in the text does not mean that it ran."""
    text = """program twice for toy {{
  stream vec aiv {{
    for i in {n} {{
      set(MTE2, V, 0)
      wait(MTE2, V, 0){back}
    }}
  }}
}}
"""
    back = "\n      set(V, MTE2, 0)\n      wait(V, MTE2, 0)"
    check(parse_program(text.format(n=1, back="")), TOY)
    check(parse_program(text.format(n=5, back=back)), TOY)
    late = parse_program(text.format(n=2, back=""))
    with pytest.raises(CheckError, match=r"flag 0 is set again while the wait for it may not have run: MTE2 must first learn from V"):
        check(late, TOY)
    with pytest.raises(Broken, match="set twice"):
        for seed in range(20):
            run_in_any_order(late, {}, seed)


# ---------------------------------------------------------------- programs from strangers

def first_copy(offset: str) -> Program:
    """A program whose first instruction begins elsewhere in what it reads."""
    p = program("vector")
    stream, path, item = next((s, path, i) for s, st in enumerate(p.streams) for path, i in places(st.body) if isinstance(i, Instr))
    src = replace(item["src"], offset=parse_expr(offset))
    return changed(p, stream, path, replace(item, fields=tuple((k, src if k == "src" else v) for k, v in item.fields)))


@pytest.mark.parametrize("offset", ["9223372036854775807", "9223372036854775744", "4611686018427387904", "2305843009213693952", "-1",
                                    "9223372036854775807 * 2 + 2", "9223372036854775807 * 9223372036854775807",
                                    "min(0, 9223372036854775807 * 16)", "0 * (4611686018427387904 * core * 2 + 9223372036854775807 + 1)"])
def test_offsets_that_wrap_in_64_bits_are_refused(offset):
    with pytest.raises(CheckError, match=r"touches bytes|does not fit 64 bits"):
        check(first_copy(offset), TOY)


@pytest.mark.parametrize("expression", ["64 // 0", "64 % 0", "ceildiv(64, 0)", "64 // (1 - 1)", "select(0 == 1, 1, 2 % (3 - 3))",
                                        "min(1, 9223372036854775807 * 16)"])
def test_what_is_no_number_is_refused(expression):
    """As an offset, and wherever a program has a number."""
    with pytest.raises(CheckError, match=r"divides by zero|does not fit 64 bits"):
        check(first_copy(expression), TOY)
    plain = "program p for toy {{ input X: fp16[{}] space S: fp16 in UB at {} size {} depth {} stream s aiv grid [c in {}] " \
            "counters [n depth {}] {{ for i in {} {{ advance(n) set(MTE2, V, {}) wait(MTE2, V, {}) }} }} }}"
    good = ["64", "0", "1024", "2", "1", "2", "1", "0", "0"]
    check(parse_program(plain.format(*good)), TOY)
    for i in range(len(good)):
        with pytest.raises(CheckError, match=r"divides by zero|does not fit 64 bits"):
            check(parse_program(plain.format(*good[:i], expression, *good[i + 1:])), TOY)


@pytest.mark.parametrize("body", [
    "for i0 in 1000000000000000000 { } ",
    "".join(f"for i{k} in 1000000000 {{ " for k in range(40)) + "} " * 40,
    "for i in 1000000000000000000 { advance(n) }"])
def test_loops_that_never_end_are_proved_or_refused_at_once(body):
    text = f"program p for toy {{ stream s aiv grid [c in 1] counters [n depth 1000000007] {{ {body} for z in 1 {{ advance(n) }} }} }}"
    begun = time.monotonic()
    try:
        check(parse_program(text), TOY)
    except CheckError as e:
        assert "too large to be proved" in str(e)
    assert time.monotonic() - begun < 20


def test_boxes_meet_where_they_share_a_byte():
    """Against sets of bytes; and of 2^31 runs at once."""
    rng = np.random.default_rng(0)
    for _ in range(3000):
        made = [box(*map(int, (rng.integers(1, 9), rng.integers(0, 20), rng.integers(1, 7), rng.integers(0, 40))))[0] for _ in range(2)]
        bytes_ = [{b.start + i * b.stride + k for i in range(b.runs) for k in range(b.length)} for b in made]
        assert boxes_meet(*made) == boxes_meet(*made[::-1]) == bool(bytes_[0] & bytes_[1])
    begun = time.monotonic()
    many, few = box(1, 4, 2**31)[0], box(2, 8, 100, 2**20)[0]
    assert boxes_meet(many, few) and boxes_meet(few, many) and not boxes_meet(many, box(2, 8, 100, 2**20 + 1)[0])
    assert time.monotonic() - begun < 5
