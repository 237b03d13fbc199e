"""The primitives as facts and as text: what `aoec primitives` prints. All of it is in their files: fields, words, a tested example."""
from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import MISSING, fields
from textwrap import dedent, wrap
from typing import Any

from aoec.base.errors import CheckError
from aoec.base.text import nearest
from aoec.ir.index import Expr
from aoec.ir.text.show import show as shown
from aoec.primitives.primitive import NAMES, Primitive, field_types, primitives
from aoec.report.words.reference import align_columns, first_sentence, terminal_width

Facts = dict[str, Any]
WIDTH = 100  # of the lines of a paragraph
PARTS = ("before", "call", "after")
KINDS = {Expr: "number or hole", str: "name", NAMES: "list of names"}


def facts(name: str | None = None) -> list[Facts]:
    """Return all primitives by name, or the one of that name. Raise CheckError with the nearest name where there is none."""
    words = primitives()
    if name is not None and name not in words:
        raise CheckError(f"there is no primitive {name}{nearest(name, words)}")
    return [_facts(word, words[word]) for word in (words if name is None else (name,))]


def _facts(word: str, primitive: type[Primitive]) -> Facts:
    text, example = taken_apart(inspect.getdoc(primitive) or "")
    return {"name": word, "file": f"aoec/primitives/{word}.py", "does": text[0], "more": text[1:], "fields": _fields(primitive), **example}


def taken_apart(doc: str) -> tuple[list[str], dict[str, str]]:
    """Return (the paragraphs of a docstring, each on one line; its example by its parts)."""
    words, _, example = doc.partition("before:\n")
    before, _, rest = example.partition("\ncall:\n")
    call, _, after = rest.partition("\nafter:\n")
    paragraphs = [" ".join(p.split()) for p in words.strip().split("\n\n")]
    return paragraphs, {part: dedent(text).strip("\n") for part, text in zip(PARTS, (before, call, after))}


def _fields(primitive: type[Primitive]) -> list[Facts]:
    kinds = field_types(primitive)  # type: ignore[arg-type]  # mypy takes the hash of its instances for that of the class
    return [{"name": f.name, "takes": KINDS[kinds[f.name]], "needed": f.default is MISSING, "default": _default(f.default)}
            for f in fields(primitive)]


def _default(value: object) -> str:
    """Return the default of an optional field. Return "" where there is none, and for a field that is needed."""
    return shown(value) if isinstance(value, Expr) else value if isinstance(value, str) else ""


def usage(f: Facts) -> str:
    """Return the call with all of its fields, optional ones in brackets."""
    said = [x["name"] if x["needed"] else f"[{x['name']}]" for x in f["fields"]]
    return f"{f['name']}({', '.join(said)})"


def show(found: Sequence[Facts]) -> str:
    """Return a line for each primitive."""
    rows = [(f["name"], first_sentence(f["does"])) for f in found]
    return "\n".join([*align_columns(rows, terminal_width()), "", "Fields and an example of one: aoec primitives NAME"]) + "\n"


def show_one(f: Facts) -> str:
    """Return a primitive with its fields and its example."""
    rows = [(f"  {x['name']}", x["takes"], "needed" if x["needed"] else f"default: {x['default'] or 'none'}") for x in f["fields"]]
    example = [line for part in PARTS for line in ("", f"{part}:", *[f"  {text}" for text in f[part].splitlines()])]
    return "\n".join([f"{usage(f)}  ({f['file']})", "", *[line for p in (f["does"], *f["more"]) for line in (*wrap(p, WIDTH), "")],
                      "fields:", *align_columns(rows), *example]) + "\n"
