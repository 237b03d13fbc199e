"""The structural check of a rule: its names, that each is made once, and that the replacement reads what the pattern has."""
from __future__ import annotations

from collections.abc import Iterator

from aoec.ir.graph.rule import FILLS, KINDS, OF_LISTS, Apply, Chain, Name, Number, Perhaps, Rule, Spread, Term, terms
from aoec.ir.index import DTYPES, FUNCTIONS, Call, Expr, Hole, Read, Var, walk
from aoec.ir.text.places import Places

MOST_LINES, MOST_TERMS = 64, 256  # of a rule


def check_rule(r: Rule, at: Places) -> None:
    """Raise CheckError for a rule that nothing can match or that reads what does not exist. The error states the place where there is a
    text."""
    where = f"rule {r.name}"
    patterns = [(e, f) for e in r.equations for f in e.forms]
    every = [t for _, f in patterns for t in terms(f)] + [t for _, f in r.made for t in terms(f)]
    at.refuse(not r.equations, lambda: f"{where}: it has no pattern; write what is replaced, as in y = relu(x)", r)
    lines = len(r.equations) + len(r.declarations) + len(r.conditions) + len(r.tests) + len(r.made)
    at.refuse(lines > MOST_LINES or len(every) > MOST_TERMS,
              lambda: f"{where}: {lines} lines with {len(every)} terms are too many; up to {MOST_LINES} and {MOST_TERMS}", r)
    kinds = {name: d.kind for d in r.declarations for name in d.names}
    _check_declarations(r, kinds, at, where)
    numbers = {name for name, kind in kinds.items() if kind == "number"}
    tensors = _check_pattern(r, numbers, at, where)
    for d in r.declarations:
        for name in d.names:
            if name not in tensors | numbers:
                raise at.error(f"{where}: {name} is declared and does not occur in the pattern", d, name)
    inner = {e.name for e in r.equations[1:]}
    for name in r.sole:
        if name not in inner:
            raise at.error(f"{where}: alone {name} is none of the tensors that the pattern has between its ends", r, name)
    at.refuse(r.keeps not in ("", r.result, *inner), lambda: f"{where}: keeps {r.keeps} is made by no node of the pattern", r, r.keeps)
    for t in r.tests:
        for name in t.names:
            if name not in tensors:
                raise at.error(f"{where}: when {t.name} asks for {name}, which is no tensor of the pattern", t, name)
    known = numbers | {v for n in _values(r) for v in _names(n, binding=True)}
    for e in r.conditions:
        _check_expression(e, known, at, where, r)
    _check_made(r, tensors, numbers, known, at, where)


def _check_declarations(r: Rule, kinds: dict[str, str], at: Places, where: str) -> None:
    at.unique([(name, d) for d in r.declarations for name in d.names], "tensor", where)
    for d in r.declarations:
        at.check_known(d.kind, (*KINDS, *DTYPES), "kind", where, d)
        wrong = d.kind == "number" and (d.shape is not None or d.constant)
        at.refuse(wrong, lambda: f"{where}: a number has no shape and is a constant", d)
        for item in d.shape or ():
            wrong = isinstance(item, Spread) and item.fill not in ("", "ones")
            at.refuse(wrong, lambda: f"{where}: a shape has sizes and lists of sizes, and no zeros or axes", d)


def _check_pattern(r: Rule, numbers: set[str], at: Places, where: str) -> set[str]:
    """Return the tensors of the pattern."""
    own = at.unique([(e.name, e) for e in r.equations], "tensor", where)
    made, wanted, out = set[str](), {r.result}, set(own)
    for e in r.equations:
        at.refuse(e.name not in wanted, lambda e=e: f"{where}: {e.name} is read by nothing before this line", e)  # type: ignore[misc]
        at.refuse(e.name in numbers, lambda e=e: f"{where}: {e.name} is declared as a number and made of others", e)  # type: ignore[misc]
        made.add(e.name)
        for form in e.forms:
            at.refuse(isinstance(form, Number | Perhaps) or isinstance(form, Name) and form.name in numbers,
                      lambda e=e: f"{where}: {e.name} is no number", e)  # type: ignore[misc]
            _check_term(form, numbers, at, where, e)
            for t in terms(form):
                if isinstance(t, Name) and t.name not in numbers:
                    if t.name in made:
                        raise at.error(f"{where}: {t.name} would be made of itself, or stands before what reads it", e, t.name)
                    wanted.add(t.name)
                    out.add(t.name)
    return out


def _check_term(term: Term, numbers: set[str], at: Places, where: str, place: object) -> None:
    """Refuse numbers where there is nothing to count together, and lists of unknown kinds."""
    for t in terms(term):
        if isinstance(t, Chain):
            plain = [p for p in t.parts if not isinstance(p, Number | Perhaps) and not (isinstance(p, Name) and p.name in numbers)]
            free = [p for p in t.parts if isinstance(p, Perhaps) or isinstance(p, Name) and p.name in numbers]
            at.refuse(not plain or len(free) > 1,
                      lambda t=t: f"{where}: a {'product' if t.op == '*' else 'sum'} needs a tensor, and one number by name at most", place)  # type: ignore[misc,union-attr]
        if isinstance(t, Apply):
            at.refuse(any(isinstance(a, Perhaps) for a in t.args), lambda: f"{where}: ?NAME stands among factors or terms alone", place)
            at.unique([(name, place) for name, _ in t.attributes], "attribute", where)
            for _, value in t.attributes:
                for item in value if isinstance(value, tuple) else ():
                    if isinstance(item, Spread):
                        at.refuse(bool(item.fill) and item.fill not in FILLS,
                                  lambda i=item: f"{where}: unknown list {i.fill}; known: {', '.join(FILLS)}", place, item.fill)  # type: ignore[misc]


def _values(r: Rule) -> Iterator[object]:
    """Yield all of a pattern that names sizes and numbers."""
    for d in r.declarations:
        yield from d.shape or ()
    for e in r.equations:
        for t in (t for f in e.forms for t in terms(f)):
            if isinstance(t, Apply):
                for _, value in t.attributes:
                    yield from value if isinstance(value, tuple) else (value,)
            if isinstance(t, Perhaps):
                yield Var(t.name)


def _names(value: object, binding: bool = False) -> set[str]:
    """Return the names in a value; with `binding` those that it can give a value: itself, and what is multiplied in it."""
    if isinstance(value, Spread):
        return set() if value.fill not in ("", "ones") and binding else {value.name, *([value.wide] if value.wide and not binding else [])}
    return {e.name for e in walk(value) if isinstance(e, Var)} if isinstance(value, Expr) else set()


def _check_expression(value: object, known: set[str], at: Places, where: str, place: object) -> None:
    if isinstance(value, Expr):
        for e in walk(value):
            wrong = isinstance(e, Hole | Read) or not isinstance(e, Expr) or isinstance(e, Call) and e.fn not in (*FUNCTIONS, *OF_LISTS)
            at.refuse(wrong, lambda: f"{where}: a condition is arithmetic on sizes and numbers", place)
    for name in sorted(_names(value) - known):
        raise at.error(f"{where}: {name} has no value in the pattern", place, name)


def _check_made(r: Rule, tensors: set[str], numbers: set[str], known: set[str], at: Places, where: str) -> None:
    readable = tensors - {r.result}
    at.refuse(not r.made or r.made[-1][0] != r.result, lambda: f"{where}: the last line of the replacement makes {r.result}", r)
    for name, term in r.made:
        if name in readable | numbers:
            raise at.error(f"{where}: {name} is made twice; give the replacement's own tensors other names", r, name)
        _check_term(term, numbers, at, where, r)
        for t in terms(term):
            if isinstance(t, Name) and t.name not in readable | numbers:
                raise at.error(f"{where}: the replacement reads {t.name}, which is no tensor of the pattern", r, t.name)
            if isinstance(t, Perhaps):
                at.refuse(True, lambda: f"{where}: ?NAME is of patterns; the replacement names the number as NAME", r)
            at.refuse(isinstance(t, Number) and t.near, lambda: f"{where}: the replacement has exact numbers", r)
            for _, value in t.attributes if isinstance(t, Apply) else ():
                for item in value if isinstance(value, tuple) else (value,):
                    _check_expression(item, known, at, where, r)
        readable.add(name)
