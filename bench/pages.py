"""The pages under docs/ that are made from the code: primitives, instructions, holes, keys of machine files, and the tables of
docs/fidelity-details.md.

    python bench/pages.py [primitives instructions ...] [--write]

Without --write the pages are printed. A test holds each page against what this program makes.
"""
from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from aoec.jobs.stages import holes
from aoec.report.words import instructions, primitives
from aoec.report.words.reference import first_sentence, grid
from aoec.search.space.holes import SKETCHES
from bench import machine_keys
from bench.cases import page as fidelity_page

DOCS = Path(__file__).resolve().parents[1] / "docs"
Facts = dict[str, Any]
MADE = "It is made from the code, by `python bench/pages.py --write`."


# ---------------------------------------------------------------- primitives

PRIMITIVES = f"""# The primitives

This page is for those who write or edit schedules. It has each primitive with its fields and a tested example.
{MADE}

A schedule is a list of primitives, one a line ([languages.md](languages.md)). Each turns a func into another of the same meaning, or is
refused with the reason. `aoec schedule g.tir --with g.sched` applies them. `aoec primitives NAME` shows one, and
`aoec primitives --json` has all of this.

A *number or hole* is an expression over integers and holes (`?tm`); a hole stands for a number that a search chooses
([holes.md](holes.md)). Fields without *needed* may be left out. [adding/primitive.md](adding/primitive.md) says how to add a primitive.
"""


def primitives_page() -> str:
    """Return docs/primitives.md."""
    found = primitives.facts()
    table = grid(("primitive", "does"), [[f"[`{f['name']}`](#{f['name']})", first_sentence(f["does"])] for f in found])
    return "\n".join([PRIMITIVES, *table, *[line for f in found for line in primitive(f)]]) + "\n"


def primitive(f: Facts) -> list[str]:
    """Return the section of a primitive."""
    rows = [[f"`{x['name']}`", x["takes"], "needed" if x["needed"] else x["default"]] for x in f["fields"]]
    example = [line for part in primitives.PARTS for line in ("", f"{part}:", "", "```text", *f[part].splitlines(), "```")]
    return ["", f"## {f['name']}", "", f"`{primitives.usage(f)}`", *[line for p in (f["does"], *f["more"]) for line in ("", p)], "",
            *grid(("field", "takes", "default"), rows), *example]


# ---------------------------------------------------------------- instructions

INSTRUCTIONS = f"""# The instructions

This page is for those who read or write programs, and for those who want to know what an instruction costs.
{MADE}

`aoec instructions NAME` shows one with the numbers of its timing and their sources, and `--target` does so for one machine;
`aoec instructions --json` has all of this. What an instruction means is a line of NumPy each in `aoec/target/isa/meaning.py`.

A block is 32 bytes, a fractal 512 bytes (of L0C 16 x 16 elements), a repeat 256 bytes of the widest dtype. A program that breaks a
limit is refused.

## All of them
"""
TIMING = """
## What timing rules may name

Rules are formulas in the machine files, in cycles. *busy* is how long the pipe is taken. The result can be signalled *latency* later. With
unit = 1, *granule* is how long after its start the first granule of L0C is handed over. *memory* is how much longer HBM is held than by
its bytes.

A rule may name the instruction's fields, the terms and numbers below, and these:
"""
GIVEN = {
    "size": "bytes of an element of the source", "dst_size": "bytes of an element of the destination",
    "gm_bytes": "bytes between GM and the core",
    "hbm_bytes": "those of them that cross HBM", "l2_bytes": "those of them that L2 holds",
    "past_l2": "1 where the tensor bypasses L2, else 0",
    "crowding": "how much longer HBM takes as cores read one address", "cores": "cores of the launch",
    "x_at": "byte address of the on-chip operand x in its buffer's first slot", "x_last": "the same in its last slot"}
CARRIED = "carried over from another generation: "


def instructions_page() -> str:
    """Return docs/instructions.md."""
    found, machines = instructions.facts(None), instructions.machines()
    rows = [[f"[`{f['name']}`](#{f['name']})", f["pipe"], instructions.way(f), chips(f["chips"], f["without"]),
             first_sentence(f["does"])] for f in found]
    table = grid(("instruction", "pipe", "from and to", "chips", "does"), rows)
    return "\n".join([INSTRUCTIONS, *table, *[line for f in found for line in instruction(f)], *timing(found, machines)]) + "\n"


def chips(has: Sequence[str], without: Sequence[str]) -> str:
    """Return the chips of a list, or all but those that are not in it, whichever is shorter."""
    if not without:
        return "all"
    return f"all but {named(without)}" if len(without) < len(has) else named(has)


def named(found: Sequence[str]) -> str:
    """Return chips without the word that they share."""
    return ", ".join(name.removeprefix("Ascend") for name in found)


def instruction(f: Facts) -> list[str]:
    """Return the section of an instruction."""
    operands = [[f"`{o['name']}`", *instructions.operand(o)] for o in f["operands"]]
    fields = [[f"`{n['name']}`", instructions.limits(n), n["unit"], instructions.says(n)] for n in f["fields"]]
    limits = [f"- Refused: {text}." for text in f["together"]]
    moved = [f"- Bytes between GM and the core: `{f['gm_bytes']}`."] if f["gm_bytes"] else []
    every = [name for r in f["timing"] for name in r["chips"]]
    which = chips(f["chips"], f["without"])
    return ["", f"## {f['name']}", "", f["does"], "", f"Pipe {f['pipe']}; {instructions.way(f)}; chips: {which}.", "",
            *grid(("operand", "", "lies in"), operands), "", f"Dtypes: {f['dtypes']}.", "",
            *grid(("field", "limits", "counts", "says"), fields),
            "", *limits, *moved, *[line for r in f["timing"] for line in rule(r, every)]]


def rule(r: Facts, every: Sequence[str]) -> list[str]:
    """Return the lines of a rule of timing: its chips, its file, its formulas."""
    which = chips(r["chips"], [name for name in every if name not in r["chips"]])
    where = "" if which == "all" else f" ({which})"
    return [f"- Timing{where}, of `{r['file']}`: " + "; ".join(f"{name} `{text}`" for name, text in r["formulas"].items())]


def timing(found: Sequence[Facts], machines: Sequence[Any]) -> list[str]:
    """Return what stands behind the names of rules: what is given, terms, numbers with their sources."""
    terms = {name: text for f in found for r in f["timing"] for name, text in r["terms"].items()}
    names = sorted({n["name"] for f in found for r in f["timing"] for n in r["numbers"]})
    return [TIMING, *grid(("name", "is"), [[f"`{name}`", text] for name, text in GIVEN.items()]), "", "### Terms", "",
            *grid(("term", "stands for"), [[f"`{name}`", f"`{text}`"] for name, text in sorted(terms.items())]), "", "### Numbers", "",
            "Each number has a confidence: official, measured, inferred or estimate. *carried over*: found on another core generation, and "
            "believed as an estimate. Names of chips are without *Ascend*.", "",
            *grid(("number", "value", "confidence and chips", "source"), [row for name in names for row in numbers(name, machines)])]


def numbers(name: str, machines: Sequence[Any]) -> list[list[str]]:
    """Return a row for each value and source of a number, with the chips that have it."""
    groups: dict[tuple[str, str, str], dict[str, list[str]]] = {}
    for m in machines:
        for n in instructions.numbers(name, m):
            told = "carried over" if n["source"].startswith(CARRIED) else n["confidence"]
            key = instructions.number_name(n), f"{n['value']:,} {n['unit']}".rstrip(), n["source"].replace(CARRIED, "")
            groups.setdefault(key, {}).setdefault(told, []).append(m.name)
    alike: dict[tuple[str, str, str], list[str]] = {}  # dtypes of a table that say the same
    for (called, value, source), of in groups.items():
        alike.setdefault((value, believed(of, [m.name for m in machines]), source), []).append(called)
    return [[", ".join(f"`{c}`" for c in called), *row] for row, called in alike.items()]


def believed(of: Mapping[str, Sequence[str]], every: Sequence[str]) -> str:
    """Return each confidence with its chips, the fewest first; of all chips the last are the others."""
    order = sorted(of.items(), key=lambda item: (len(item[1]), item[0]))
    said = [f"{told}: {chips(has, [name for name in every if name not in has])}" for told, has in order]
    if len(of) > 1 and sum(map(len, of.values())) == len(every):
        said[-1] = f"{order[-1][0]}: the others"
    return "; ".join(said)


# ---------------------------------------------------------------- holes

HOLES = f"""# The holes of sketches

This page is for those who read or restrict a search space. It says what each hole decides.
{MADE}

A sketch is a schedule with holes, and a search chooses their values ([search.md](search.md)). `aoec search g.tir --space` shows the holes
of one func with their choices, and what each constraint leaves. `--pin`, `--exclude` and `--where` restrict them
([research.md](research.md)). `aoec holes NAME` shows one, and `aoec holes --json` has all of this.

A hole is a field of a [primitive](primitives.md); the table names it. A sketch has only some of the holes of its kind:
`aoec search --space` says which. *vendor*: no search lays the hole out; it comes from the vendor's own tilings.

## Kinds of sketches
"""


def holes_page() -> str:
    """Return docs/holes.md."""
    found = holes.facts(None)
    kinds = [[name, f"`aoec/search/sketches/{file}`", funcs] for name, (file, funcs) in SKETCHES.items()]
    lines = [HOLES, *grid(("sketches", "laid out by", "for"), kinds)]
    for name in SKETCHES:
        rows = [[f"`?{f['name']}`", f"[`{f['primitive']}`](primitives.md#{f['primitive']})", f["unit"], s["decides"],
                 "vendor" * s["vendor_only"]] for f in found for s in f["sketches"] if s["sketch"] == name]
        lines += ["", f"## Holes of {name} sketches", "", *grid(("hole", "field of", "counts", "decides", ""), rows)]
    return "\n".join(lines) + "\n"


PAGES: Mapping[str, Callable[[], str]] = {
    "primitives": primitives_page, "instructions": instructions_page, "holes": holes_page, "machine-keys": machine_keys.page,
    "fidelity-details": fidelity_page.details}


def main() -> int:
    p = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    p.add_argument("pages", nargs="*", metavar="PAGE", help=f"of {', '.join(PAGES)} (default: all)")
    p.add_argument("--write", action="store_true", help="write them under docs/")
    options = p.parse_args()
    if unknown := [name for name in options.pages if name not in PAGES]:
        p.error(f"there is no page {unknown[0]}; there is {', '.join(PAGES)}")
    for name in options.pages or PAGES:
        text = PAGES[name]()
        if options.write:
            (DOCS / f"{name}.md").write_text(text, "utf-8")
        else:
            print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
