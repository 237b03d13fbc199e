"""Converts rows of a table of published measurements into cases of bench/fidelity.py.

    python bench/cases/convert.py measured.csv [more.csv] -o bench/cases/published.csv

The table has free text (`shape`, `variant`, `notes`). This module alone reads that text into tile words. A variant may say what it adds
to another one ("+ UnitFlag", "same tile", "as above"). It takes over the words of the row before it of the same operator, shape and
source. A row with words that cannot be read is kept with the words that can. bench/fidelity.py reports the outcome of every case.
"""
from __future__ import annotations

import argparse
import csv
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.cases.case import ALIASES as METRIC_ALIASES
from bench.cases.case import COLUMNS, METRICS
from bench.cases.stated import stated
from bench.cases.variants import words_of
from bench.cases.warnings import warning_of
from bench.cases.words import show_words

Row = dict[str, str]
CASED = ("tile", "micro", "fused", "lib", "e2e")


def convert(rows: Sequence[Row]) -> list[Row]:
    """Return a case for every row of a class that a model of one AI Core can say something of, in order."""
    out: list[Row] = []
    before: dict[tuple[str, ...], Row] = {}
    words: dict[str, dict[str, tuple[int, ...]]] = {}
    for row in rows:
        kind = class_of(row)
        if kind not in CASED:
            continue
        case = plain(row, kind)
        at = (row["chip"], row["op"], base_shape(row["shape"]), row["source"])
        last = before.get(at)
        own = words_of(row["op"], row["shape"], row["variant"], row["notes"], words.get(last["id"]) if last else None)
        known = stated(row["source"], row["shape"], row["variant"])
        own |= {k: v for k, v in known.items() if k not in own and not (k == "mdl" and "norm" in own)}
        if high_level(row, own):
            own["runtime"] = ()
            if "/matmul_high_performance/" in row["source"] and "mdl" not in own:
                own["norm"] = ()  # the steps of the asc-devkit sample before the one that goes over to MDL
        words[case["id"]] = own
        case["tile"] = show_words(own) if kind in ("tile", "micro") else show_words({k: v for k, v in own.items() if k == "cores"})
        before[at] = case
        out.append(case)
    number_pairs(out)
    mixed(out)
    summed(out)
    return out


def high_level(row: Row, words: dict[str, tuple[int, ...]]) -> bool:
    """Return whether a row is of the vendor's high-level Matmul API and says nothing else of its tiling: so are the products of the Ascend
    C guide and of the asc-devkit sample of that API, and their tiling is read at run time unless they say constant."""
    of_it = re.search(r"best-practice guide|/matmul_high_performance/", row["source"]) and row["op"].lower() == "matmul"
    return bool(of_it) and class_of(row) == "tile" and not words.keys() & {"basic", "constant", "mix"}


def summed(cases: Sequence[Row]) -> None:
    """Give results in fp32 to cases in which cores add up parts of k. CANN's API reference shows EnableMultiCoreSplitK with C in fp32."""
    for c in cases:
        if "splitk=" in c["tile"] and "->" not in c["dtype"]:
            c["dtype"] = f"{c['dtype'].rstrip('?')}->fp32"


def mixed(cases: Sequence[Row]) -> None:
    """Put `mix` in place of `runtime` in all cases of a ladder with an IBShare step. Such a ladder is of one kernel, which vector cores
    drive. MatmulConfig has IBShare for the MIX scenario alone."""
    ladders = {c["pair"].partition(":")[0] for c in cases if c["pair"] and "ibshare" in c["tile"].split()}
    for c in cases:
        if c["pair"].partition(":")[0] in ladders and "mix" not in c["tile"].split():
            c["tile"] = c["tile"].replace(" runtime", "") + " mix"


def class_of(row: Row) -> str:
    """Return the first word of the notes: class=tile; ..."""
    found = re.match(r"class=(\w+)", row["notes"].strip())
    return found.group(1) if found else ""


def plain(row: Row, kind: str) -> Row:
    """Return the case without tile words and pairs."""
    metric, value, unit = measured(row)
    operator = re.sub(r"[^a-z0-9_]", "_", row["op"].lower())
    return dict(zip(COLUMNS, (
        row["id"], row["chip"], operator, shape_of(row), dtype_of(row["dtype"]), layout_of(row), "", metric, value, unit, row["source"],
        kind, "", row["confidence"] or "high", warning_of(row), profiler(row))))


def profiler(row: Row) -> str:
    """Return what the variant says of what ran before each launch; else that follows from the source."""
    return "model" if "in-model" in row["variant"] else "other" if "isolated replay" in row["variant"] else ""


def measured(row: Row) -> tuple[str, str, str]:
    """Return (metric, value, unit): of a latency the notes say whether it is a task's or a core's time."""
    metric = METRIC_ALIASES.get(row["metric"], row["metric"])
    unit = "us" if row["unit"] == "us" else row["unit"]
    if metric == "time":
        notes = row["notes"]
        if re.search(r"\bmax (aic|aiv)_time", notes):
            metric = "max_core_time"
        elif re.search(r"\b(mean |avg )?(aic|aiv)_time\b", notes):
            metric = "core_time"
    if metric == "cycles" and "50 MHz" in row["notes"]:
        return "time", f"{float(row['value']) * 0.02:g}", "us"
    return (metric if metric in METRICS else "time"), row["value"], unit


def dtype_of(text: str) -> str:
    """Return a dtype such as fp16, fp32? or int8->bf16. A mixed or unstated one ends in a question mark."""
    text = text.strip()
    found = re.fullmatch(r"(\w+)(?:->(\w+))?(\?)?", text)
    known = ("fp16", "bf16", "fp32", "int8", "uint8", "int32", "int64", "bool")
    if found and found.group(1) in known and (found.group(2) or "fp16") in known:
        return text
    first = next((k for k in known if text.startswith(k)), "mixed")
    return f"{first}?"


def base_shape(text: str) -> str:
    """Return the shape without how often it is read: what rows of one case share."""
    return re.split(r" read | axis|,| \+ dequant", text)[0].strip()


NUMBER = re.compile(r"(\d+(?:\.\d+)?)M\b")


def shape_of(row: Row) -> str:
    """Return the shape in the case format; sizes keep their names, lists of tensors are joined by +."""
    text = NUMBER.sub(lambda m: str(int(float(m.group(1)) * (1 << 20))), row["shape"].replace("~", "="))
    text = re.sub(r"R=S=(\d+)", r"kh=kw=\1", text)
    text = re.sub(r"RxS=(\d+) taps", r"taps=\1", text)
    text = re.sub(r"\bout (\d+)x(\d+)", r"ho=\1 wo=\2", text)
    sizes = re.findall(r"(?:\b[A-Za-z][A-Za-z_/]*\d*=)+\d+\b(?![x\d])", text)
    if sizes and not re.match(r"\d+x", text):
        more = [f"image={m}" for m in re.findall(r"\b(\d+x\d+x\d+)\b", text)] if row["op"].startswith("model") else []
        return " ".join([*[re.sub(r"[/]", "_", s).lower() for s in sizes], *more])
    if row["op"].startswith("model"):
        return "batch=1"
    return tensors_of(row["op"], text)


def tensors_of(op: str, text: str) -> str:
    """Return tensors of inputs joined by +, then the result; words that say how they are used go to the tile."""
    axis = re.search(r"axis ?= ?(\d)", text)
    given, _, result = text.partition("->")
    tensors = re.findall(r"\d+(?:x\d+)*", re.sub(r"\(.*?\)|axis ?= ?\d|read .*|perm \d|, \d+ slots.*", " ", given))
    results = re.findall(r"\d+(?:x\d+)+|\d+", result)
    if op.startswith("reduce") and not results and tensors:
        sizes = tensors[0].split("x")
        at = int(axis.group(1)) if axis else None
        results = ["x".join(s for i, s in enumerate(sizes) if i != at) if at is not None and len(sizes) > 1 else "1"]
    return " + ".join(tensors or ["1"]) + (f" -> {results[0]}" if results else "")


LAYOUTS = (  # what the table says -> operands of a product, a:b
    (r"^A row, B col", "nd:nk"), (r"^A row, B zN", "nd:nz"), (r"^A row, B row|^row/row", "nd:kn"),
    (r"B ND transposed|B n x k|ND\(N,K\)", "nd:nk"),
    (r"B:FRACTAL_NZ|w NZ", "nd:nz"), (r"^FRACTAL_NZ", "nz:nz"), (r"^NC1HWC0", "nc1hwc0"), (r"ND->NZ", "nd:nz"))


def layout_of(row: Row) -> str:
    """Return the layout words of a case; nd where nothing is said."""
    return next((word for pattern, word in LAYOUTS if re.search(pattern, row["layout"])), "nd")


def number_pairs(cases: Sequence[Row]) -> None:
    """Number the pairs. Cases of one source, chip, operator, shape and metric whose words differ are steps of one ladder or sweep."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for c in cases:
        if c["class"] in ("tile", "micro", "fused"):
            passes = "".join(re.findall(r"passes=\d+|shared", c["tile"]))
            groups.setdefault((c["source"], c["chip"], c["operator"], c["shape"], c["metric"], passes), []).append(c)
    for (_, chip, operator, *_), members in groups.items():
        if len(members) > 1:
            name = re.sub(r"[^a-z0-9]+", "_", f"{operator}_{chip}_{members[0]['id']}".lower())
            for step, c in enumerate(members):
                c["pair"] = f"{name}:{step}"


def read_table(paths: Iterable[str]) -> list[Row]:
    """Return the rows of all tables by id."""
    rows: dict[str, Row] = {}
    for path in paths:
        with open(path, encoding="utf-8", newline="") as f:
            rows |= {r["id"]: r for r in csv.DictReader(f)}
    return [rows[k] for k in sorted(rows)]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("tables", nargs="+", metavar="TABLE.csv", help="id, chip, op, shape, dtype, layout, variant, metric, value, ...")
    parser.add_argument("-o", "--output", default="bench/cases/published.csv")
    args = parser.parse_args(argv)
    cases = convert(read_table(args.tables))
    with open(args.output, "w", encoding="utf-8", newline="") as f:
        writer = csv.DictWriter(f, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(cases)
    counts = {k: sum(c["class"] == k for c in cases) for k in CASED}
    print(f"{args.output}: {len(cases)} cases ({', '.join(f'{k} {n}' for k, n in counts.items())})")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
