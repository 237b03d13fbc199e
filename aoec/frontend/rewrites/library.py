"""Rules in files: those of aoec beside this module, one file a subject, and the user's own. A text is parsed once and kept by content."""
from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256
from importlib.resources import files

from aoec.base.errors import CheckError
from aoec.base.files.files import read_text
from aoec.base.files.memo import Memo, cache_folder
from aoec.base.text import nearest
from aoec.frontend.rewrites.conditions import CONDITIONS
from aoec.frontend.rewrites.match import attributes_of
from aoec.ir.graph.rule import Apply, Rule, terms
from aoec.ir.text.flat import flat, noun
from aoec.ir.text.show import show
from aoec.ops import OPS

FOLDER, SUFFIX = "aoec.frontend.rewrites", ".rules"
LIMIT_CHARACTERS, LIMIT_RULES = 1 << 18, 200  # of a user's file
# what says how a text is read and kept
MAKERS = (("aoec.grammars", ("rewrite.lark", "index.lark", "common.lark")), ("aoec.ir.graph", ("rule.py",)),
          ("aoec.ir.text", ("flat.py", "build_rules.py")))


def subjects() -> tuple[str, ...]:
    """Return the names of aoec's own files of rules, sorted."""
    return tuple(sorted(p.name.removesuffix(SUFFIX) for p in files(FOLDER).iterdir() if p.name.endswith(SUFFIX)))


@lru_cache(maxsize=64)
def rules(subject: str) -> tuple[Rule, ...]:
    """Return the rules of one of aoec's own files."""
    text = files(FOLDER).joinpath(subject + SUFFIX).read_text("utf-8")
    memo = Memo(cache_folder() / "rules", _version())
    kept = memo.get(text)
    if kept is not None:
        try:
            return tuple(noun(rows) for rows in kept)
        except (ValueError, TypeError, LookupError, AttributeError):
            pass
    found = read(text, subject + SUFFIX)
    memo.put([flat(r) for r in found], text)
    return found


@lru_cache(maxsize=1)
def _version() -> str:
    texts = [files(package).joinpath(name).read_bytes() for package, names in MAKERS for name in names]
    return sha256(b"\0".join(texts)).hexdigest()[:16]


def read(text: str, source: str = "") -> tuple[Rule, ...]:
    """Return the rules that a text says, whose words are in the dictionary; ParseError or CheckError, with the place where there is one."""
    from aoec.ir.text.parse import parse_rules
    if len(text) > LIMIT_CHARACTERS:
        raise CheckError(f"{len(text):,} characters of rules are too many; the limit is {LIMIT_CHARACTERS:,}", source=source)
    found = parse_rules(text, source)
    if not 0 < len(found) <= LIMIT_RULES:
        raise CheckError(f"it has {len(found):,} rules; give 1 to {LIMIT_RULES:,}", source=source)
    for r in found:
        if fault := fault_of(r):
            raise CheckError(f"rule {r.name}: {fault}", text, *_place(text, r.name), source)
    return found


def read_files(paths: Sequence[str]) -> list[tuple[str, tuple[Rule, ...]]]:
    """Return (path, rules) of a user's files. Raise an AoecError where one is no such file, or two rules have one name."""
    out, names = [], set[str]()
    for path in paths:
        found = read(read_text(path), path)
        for r in found:
            if r.name in names or r.name in _names():
                raise CheckError(f"rule {r.name} is in another file too, or is one of aoec's own; give it a name of its own", source=path)
            names.add(r.name)
        out.append((path, found))
    return out


def digest_rules(rules: Sequence[Rule]) -> str:
    """Return the sha256, in hex, of the rules' canonical text. Return "" where there are none."""
    return sha256("\n".join(map(show, rules)).encode()).hexdigest() if rules else ""


@lru_cache(maxsize=1)
def _names() -> frozenset[str]:
    return frozenset(r.name for subject in subjects() for r in rules(subject))


def fault_of(r: Rule) -> str:
    """Return what of a rule no dictionary knows, as a sentence. Return "" where all is known."""
    every = [t for e in r.equations for f in e.forms for t in terms(f)] + [t for _, f in r.made for t in terms(f)]
    for t in every:
        if isinstance(t, Apply):
            if t.op not in OPS:
                return f"operator {t.op} is not in the dictionary{nearest(t.op, OPS)}"
            for name, _ in t.attributes:
                if name not in attributes_of(t.op):
                    return f"operator {t.op} has no attribute {name}{nearest(name, attributes_of(t.op))}"
    for test in r.tests:
        if test.name not in CONDITIONS:
            return f"unknown condition {test.name}{nearest(test.name, CONDITIONS)}"
    return ""


def _place(text: str, name: str) -> tuple[int, int]:
    """Return line and column, from 1, of the line that begins a rule; 0, 0 where none does."""
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if words[:1] == ["rule"] and words[1:2] and words[1].strip('"') == name:
            return number, line.index("rule") + 1
    return 0, 0
