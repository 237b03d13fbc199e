"""What is said of instructions is true: units are those by which operands grow, relations those that are refused, rules those that are
timed."""
from __future__ import annotations

import random
from itertools import product
from typing import Any

import pytest

from aoec.base.errors import CheckError
from aoec.ir.index import DTYPES, evaluate, substitute, variables
from aoec.ir.text.parse import parse_expr
from aoec.report.words import instructions
from aoec.report.words.instruction_words import DOES, FIELDS, OWN, TOGETHER, field, together
from aoec.target.isa.instructions import INSTRUCTIONS, Instruction, check_dtypes
from aoec.target.legality.footprint import footprints, relation
from aoec.target.machine import load

FACTS = {f["name"]: f for f in instructions.facts(None)}
# dtypes of the operands by the kind of instruction; those of two bytes, but where there are none
DTYPES_OF = {**dict.fromkeys(("copy_gm_ub_at", "vgather"), ("fp16", "fp16", "int32")),
             "mmad": ("fp32", "fp16", "fp16"), "mmad_bias": ("fp32", "fp16", "fp16", "fp32"),
             "fixpipe_nd_scale": ("int8", "int32", "uint64"), "fixpipe_nz_scale": ("int8", "int32", "uint64"),
             "fixpipe_nd": ("fp16", "fp32"), "fixpipe_nz": ("fp16", "fp32"), "copy_l0c_ub": ("fp16", "fp32"), "vconv": ("fp16", "fp32"),
             "vaddreluconv": ("fp16", "fp32", "fp32"), **dict.fromkeys(("vfloor", "vceil", "vrint", "vtrunc"), ("fp32", "fp32")),
             "vand": ("int32",) * 3, "vor": ("int32",) * 3, "vnot": ("int32",) * 2, "vshls": ("int32",) * 2, "vshrs": ("int32",) * 2,
             "vnchwconv": ("fp32", "fp32")}


def dtypes_of(word: Instruction) -> tuple[str, ...]:
    return DTYPES_OF.get(word.name, ("fp16",) * len(word.operands))


def test_every_instruction_and_field_has_words_and_no_other_has() -> None:
    assert set(DOES) == set(INSTRUCTIONS) and OWN.keys() | TOGETHER.keys() <= set(INSTRUCTIONS)
    for name, word in INSTRUCTIONS.items():
        fields = {n.name for n in word.numbers}
        assert all(field(name, f) for f in fields) and OWN.get(name, {}).keys() <= fields
    assert all(any(f in w.fields() for w in INSTRUCTIONS.values()) for f in FIELDS)


LOW = {"dst_stride": 3000, "dst_half": 600, "pitch": 600, "length": 97}  # one more of bytes is no block more


def apart(word: Instruction, which: str) -> dict[str, int]:
    """Return fields of two runs or repeats, of a length that is asked of one, far enough apart that the last one ends last."""
    given = {"bursts": 1 if which == "length" else 2, "repeat": 2, "extent": 2, "m": 2, "n": 64 if "scale" in word.fields() else 32,
             "src_rows": 2, "rows": 2, "cols": 1, "length": 32, "lanes": 8}
    fields = {n.name: given.get(n.name, 64 if n.name.endswith(("_rep", "_stride", "_half", "pitch")) else n.low) for n in word.numbers}
    if which.endswith("_blk") and "lanes" in fields:  # one whole repeat
        fields |= {"lanes": 256 // max(DTYPES[d] for d in dtypes_of(word)), "repeat": 1}
    return fields


def bytes_of(unit: str, name: str, size: int) -> int:
    """Return bytes of what a field counts."""
    fractal = 256 * size if name == "copy_l0c_ub" else 512
    return {"bytes": 1, "blocks": 32, "fractals": fractal, "elements": size, "eights of elements": 8 * size}[unit]


STRIDES = [(name, n.name) for name, word in INSTRUCTIONS.items() for n in word.numbers
           if n.name.endswith(("_gap", "_rep", "_blk", "_stride", "_half", "pitch")) or n.name == "length"]


@pytest.mark.parametrize("name, which", STRIDES)
def test_a_field_counts_what_is_said(name: str, which: str) -> None:
    """Check where the last of some runs or repeats ends. One field says how far apart they are, or how long. By one more of it the end
    moves by what the field counts."""
    word, dtypes = INSTRUCTIONS[name], dtypes_of(INSTRUCTIONS[name])
    check_dtypes(word, list(dtypes))
    fields, low = apart(word, which), LOW.get(which, 600 if which.endswith("_rep") else 40)
    ends = [[max((b.stop for b in boxes), default=0) for boxes in footprints(name, fields | {which: value}, dtypes)]
            for value in (low, low + 1)]
    moved = {at: b - a for at, (a, b) in enumerate(zip(*ends)) if a != b}
    steps = {moved[at] / bytes_of(field(name, which)[0], name, DTYPES[dtypes[at]]) for at in moved}
    more = 7 if which.endswith("_blk") else 15 if name == "vnchwconv" and which.endswith("_stride") else 1  # blocks or rows before the last
    assert steps and steps <= {more, more // 2}  # of fp16 beside fp32 half as many blocks, of fp32 half as many rows, make a repeat


@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_relations_are_those_that_fields_can_break(name: str) -> None:
    word, draw = INSTRUCTIONS[name], random.Random(name)
    choices = {n.name: [v for v in (n.low, 0, 1, 2, 3, 16, 64, 128) if n.low <= v <= n.high] for n in word.numbers if not n.real}
    seen: set[int] = set()
    for _ in range(600):
        dtypes = tuple(draw.choice(("fp16", "fp32", "int8", "int32")) for _ in word.operands)
        seen.add(relation(name, {f: draw.choice(values) for f, values in choices.items()}, dtypes))
    assert seen - {0} == set(together(name, word.fields()))


def test_dtypes_are_said_as_real_ones_are_refused() -> None:
    for name, word in INSTRUCTIONS.items():
        refused = [said for dtypes in product(("int64", "bool", "fp16"), repeat=len(word.operands)) if (said := refusal(word, dtypes))]
        assert all(said.startswith(f"{name} needs {FACTS[name]['dtypes']}; it has ") for said in refused)
        assert refused or name == "vdup"  # which writes any of these


def refusal(word: Instruction, dtypes: tuple[str, ...]) -> str:
    try:
        check_dtypes(word, list(dtypes))
    except CheckError as e:
        return e.message
    return ""


@pytest.mark.parametrize("name, without", [
    ("copy_gm_l1_nd2nz", {"Ascend310", "Ascend310P3", "Ascend910A"}), ("fixpipe_nd", {"Ascend310", "Ascend310P3", "Ascend910A"}),
    ("copy_gm_l1", set()), ("vreducev2", {"Ascend310", "Ascend910A"})])
def test_chips_are_those_that_have_it(name: str, without: set[str]) -> None:
    assert set(FACTS[name]["without"]) == without and len(FACTS[name]["chips"]) == len(instructions.machines()) - len(without)


@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_rules_with_the_terms_and_numbers_that_are_shown_give_the_times_that_are_modelled(name: str) -> None:
    draw = random.Random(name)
    for rule in FACTS[name]["timing"]:
        machine = load(rule["numbers_of"])
        timing = machine.cost(name)
        for formula, text in rule["formulas"].items():
            expr = parse_expr(text)
            for _ in rule["terms"]:
                expr = substitute(expr, {term: parse_expr(said) for term, said in rule["terms"].items()})
            wanted = getattr(timing, formula)
            named = {n["name"]: n["value"] for n in rule["numbers"] if not n["place"].startswith("tables.")}
            tables = {n["name"]: n["value"] for n in rule["numbers"] if n["place"].endswith(".fp16")}
            env: dict[str, Any] = {v: draw.randint(1, 64) for v in sorted(variables(expr) | variables(wanted))}
            theirs = {k: v for k, v in machine.constants.items() if k in env}
            theirs |= {t: by_dtype["fp16"] for t, by_dtype in machine.tables.items() if t in env and "fp16" in by_dtype}
            assert variables(expr) == variables(wanted)
            assert evaluate(expr, env | named | tables) == evaluate(wanted, env | theirs)
