"""The instructions as facts and as text: what `aoec instructions` prints. Fields, limits and dtypes are those of the dictionary
(target/isa/instructions.py), pipes and rules of timing those of the machine files."""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from aoec.base.errors import CheckError
from aoec.base.text import nearest
from aoec.ir.index import Int, variables
from aoec.ir.program import OPTIONAL
from aoec.ir.text.parse import parse_expr
from aoec.ir.text.show import show as shown
from aoec.report.words.instruction_words import DOES, field, together
from aoec.report.words.reference import align_columns, first_sentence, terminal_width
from aoec.target.isa.instructions import INSTRUCTIONS, RELATIONS, Instruction, Operand, check_dtypes, operand_align
from aoec.target.legality.placement import placed_names
from aoec.target.machine import DEFAULT, GIVEN, Machine, load, targets

Facts = dict[str, Any]
RULES = ("busy", "latency", "granule", "memory")  # formulas of a timing
# what formulas call a path's numbers
PATH_NAMES = {"_l2_rate": "l2_bytes_per_cycle", "_rate": "bytes_per_cycle", "_latency": "latency_cycles"}
ASKED = ("fp16", "fp32")  # dtypes by which an alignment is told apart from one element


def machines(target: str | None = None) -> list[Machine]:
    """Return the one machine that is asked for, or all that come with aoec and stand for a chip."""
    return [load(target)] if target else [load(name) for name in targets() if name != "toy"]


def facts(name: str | None, target: str | None = None) -> list[Facts]:
    """Return all instructions, or the one of that name. Raise CheckError with the nearest name where there is none. Chips and rules are
    those of the target, or of every chip."""
    if name is not None and name not in INSTRUCTIONS:
        raise CheckError(f"there is no instruction {name}{nearest(name, INSTRUCTIONS) or '; aoec instructions lists them'}")
    known = machines(target)
    if target and name is None:
        return [_facts(i, known) for i in INSTRUCTIONS.values() if known[0].has(i.name)]
    return [_facts(i, known) for i in (INSTRUCTIONS.values() if name is None else (INSTRUCTIONS[name],))]


def _facts(i: Instruction, known: Sequence[Machine]) -> Facts:
    having = [m for m in known if m.has(i.name)]
    return {"name": i.name, "pipe": i.pipe, "does": DOES[i.name], "operands": [_operand(i, o) for o in i.operands], "dtypes": dtypes(i),
            "fields": [_field(i, n.name, n.low, n.high, n.real) for n in i.numbers],
            "together": [RELATIONS[number] for number in together(i.name, i.fields())],
            "gm_bytes": shown(i.gm_bytes) if i.gm_bytes != Int(0) else None,
            "chips": [m.name for m in having], "without": [m.name for m in known if not m.has(i.name)], "timing": rules(i, having)}


def _operand(i: Instruction, o: Operand) -> Facts:
    align = {scope: {dtype: operand_align(i, o, scope, dtype) for dtype in ASKED} for scope in o.scopes}
    return {"name": o.name, "written": o.writes, "scopes": list(o.scopes),
            "align": {scope: str(min(a.values())) if len(set(a.values())) == 1 else "one element" for scope, a in align.items()}}


def _field(i: Instruction, name: str, low: int, high: int, real: bool) -> Facts:
    unit, says = field(i.name, name)
    limits = {"low": None, "high": None} if real else {"low": low, "high": high}
    return {"name": name, "unit": unit, "says": says, **limits, "optional": name in OPTIONAL}


def dtypes(i: Instruction) -> str:
    """Return what the instruction asks of the dtypes of its operands, in the words of its refusal of dtypes that there are not."""
    try:
        check_dtypes(i, [f"none{at}" for at in range(len(i.operands))])
    except CheckError as e:
        return e.message.removeprefix(f"{i.name} needs ").partition("; it has")[0]
    raise AssertionError(f"{i.name} takes dtypes that there are not")


# ---------------------------------------------------------------- timing

def rules(i: Instruction, having: Sequence[Machine]) -> list[Facts]:
    """Return the different rules of timing of an instruction, each with the chips that have it and the numbers of one of them."""
    groups: dict[tuple[str, ...], list[Machine]] = {}
    for m in having:
        said = m.merged.raw["timing"][i.name]
        groups.setdefault(tuple(said.get(rule, "") for rule in RULES), []).append(m)
    return [_rule(i, dict(zip(RULES, said)), found) for said, found in groups.items()]


def _rule(i: Instruction, said: dict[str, str], found: Sequence[Machine]) -> Facts:
    first = next((m for m in found if m.name == DEFAULT), found[0])
    given = {rule: text for rule, text in said.items() if text}
    terms = _terms(given.values(), first)
    names = sorted(frozenset().union(*(_names(text) for text in (*given.values(), *terms.values()))))
    return {"chips": [m.name for m in found], "numbers_of": first.name, "file": first.merged.origins[f"timing.{i.name}.busy"],
            "formulas": given, "terms": terms, "numbers": [n for name in names for n in numbers(name, first)],
            "given": [n for n in names if n in (*GIVEN, *placed_names(i))]}


def _names(text: str) -> frozenset[str]:
    return variables(parse_expr(text))


def _terms(texts: Iterable[str], machine: Machine) -> dict[str, str]:
    """Return the terms that formulas name, and those that these do."""
    known, out, left = machine.merged.raw.get("terms", {}), dict[str, str](), list(texts)
    while left:
        for name in sorted(_names(left.pop()) & known.keys() - out.keys()):
            out[name] = known[name]
            left.append(known[name])
    return out


def numbers(name: str, machine: Machine) -> list[Facts]:
    """Return the numbers of the machine behind a name of a formula, of a table one for each dtype; none for fields and what is given."""
    places = [f"numbers.{name}", name, *[f"paths.{name.removesuffix(end)}.{key}" for end, key in PATH_NAMES.items() if name.endswith(end)]]
    found = [p for p in places if p in machine.sources][:1] or [p for p in machine.sources if p.startswith(f"tables.{name}.")]
    if not found and name.endswith("_l2_rate"):  # where nothing is said of hits it is the rate of the path
        found = [p for p in (f"paths.{name.removesuffix('_l2_rate')}.bytes_per_cycle",) if p in machine.sources]
    return [{"name": name, "place": p, "value": n.value, "unit": n.unit, "confidence": n.confidence, "source": n.source, "file": n.file}
            for p in found for n in [machine.sources[p]]]


# ---------------------------------------------------------------- text

def show(found: Sequence[Facts]) -> str:
    """Return a line for each instruction."""
    rows = [(f["name"], f["pipe"], way(f), first_sentence(f["does"])) for f in found]
    lines = align_columns([("instruction", "pipe", "from and to", "does"), *rows], terminal_width())
    return "\n".join([*lines, "", "Fields, limits, chips and timing of one: aoec instructions NAME"]) + "\n"


def show_one(f: Facts) -> str:
    """Return an instruction with its operands, fields, limits, chips and timing."""
    parts = [[f"{f['name']} on pipe {f['pipe']}: {f['does']}"], operand_lines(f), field_lines(f), limit_lines(f), chip_lines(f)]
    return "\n\n".join("\n".join(p) for p in (*parts, *[rule_lines(r) for r in f["timing"]]) if p) + "\n"


def way(f: Facts) -> str:
    """Return `L1 -> L0A`: the scopes of the operands that are read, and of the one that is written."""
    read = dict.fromkeys(s for o in f["operands"] if not o["written"] for s in o["scopes"])
    written = [s for o in f["operands"] if o["written"] for s in o["scopes"]]
    return " ".join([*[" + ".join(read)] * bool(read), "->", *written])


def operand_lines(f: Facts) -> list[str]:
    rows = [(f"  {o['name']}", *operand(o)) for o in f["operands"]]
    return ["operands:", *align_columns(rows), f"  dtypes: {f['dtypes']}"]


def operand(o: Facts) -> tuple[str, str]:
    """Return whether an operand is written or read, and where it may lie."""
    places = [f"{scope}, at multiples of {align}" + " bytes" * align.isdigit() for scope, align in o["align"].items()]
    return "written" if o["written"] else "read", " or ".join(places)


def limits(n: Facts) -> str:
    """Return `0 to 4,095`, or what a real is."""
    return "any" if n["low"] is None else f"{n['low']:,} to {n['high']:,}"


def says(n: Facts) -> str:
    """Return the meaning of a field, and whether it may be left out."""
    return n["says"] + "; 0 where it is left out" * n["optional"]


def field_lines(f: Facts) -> list[str]:
    return ["fields:", *align_columns([(f"  {n['name']}", limits(n), n["unit"], says(n)) for n in f["fields"]], terminal_width())]


def limit_lines(f: Facts) -> list[str]:
    out = [f"  refused: {text}" for text in f["together"]]
    return [*(["together:"] if out else []), *out, *([f"bytes between GM and the core: {f['gm_bytes']}"] if f["gm_bytes"] else [])]


def chip_lines(f: Facts) -> list[str]:
    return [f"chips: {', '.join(f['chips']) or 'none of them'}", *([f"not on: {', '.join(f['without'])}"] if f["without"] else [])]


def number_name(n: Facts) -> str:
    """Return the name of a number: the one of formulas, and of a table with the dtype."""
    return n["place"].removeprefix("tables.") if n["place"].startswith("tables.") else n["name"]


def rule_lines(r: Facts) -> list[str]:
    """Return a rule of timing with its terms and its numbers, one source a line."""
    head = f"timing on {', '.join(r['chips'])} ({r['file']}), in cycles:"
    rows = [(f"  {number_name(n)}", f"{n['value']:,} {n['unit']}".rstrip(), n["confidence"], n["source"]) for n in r["numbers"]]
    formulas = [f"  {rule} = {text}" for rule, text in r["formulas"].items()]
    terms = [f"  where {name} = {text}" for name, text in r["terms"].items()]
    return [head, *formulas, *terms, *([f"  numbers of {r['numbers_of']}:", *["  " + x for x in align_columns(rows)]] if rows else [])]


