"""Hashes of the meaning of Python sources: equal for sources that differ in names, places, prose or types alone.

Each function, method, class and statement of a module is a *unit*. Its syntax tree is written down without docstrings, messages,
annotations and positions. Local names become numbers. A name of the project stands for the unit that it names. So a unit's hash depends
on the hashes of all units that it refers to (colour refinement, as in Weisfeiler and Leman's test of graphs). The hash of the sources
is that of all units in any order.

Types are not known here. So an attribute or keyword is identified by everything in the project that has its name. The hash may
therefore differ after a change that only renames an attribute. Assertions are left out as well, and so is a text of three words in a
row without signs.
"""
from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b

INIT = ".__init__"  # how the name of a package's source ends
Ref = tuple[str, str]  # (module, name) of a unit; ("", name) of all members of that name
PROSE = re.compile(r"[A-Za-z]{2,} [A-Za-z]+ [A-Za-z]{2,}")  # three words in a row ...
CODE = re.compile(r"[\[\]{}=*+$<>]")  # ... and nothing that formulas have
DROPPED = (ast.Import, ast.ImportFrom, ast.Assert, ast.Pass)
SILENT = ("ctx", "type_comment", "annotation", "returns", "kind")  # fields of syntax trees


@dataclass
class Unit:
    """A piece of a module: its tokens, among them the units it refers to. `name` is "" where nothing can refer to it."""

    module: str
    name: str
    tokens: list[str | Ref] = field(default_factory=list)


def hash_sources(sources: Mapping[str, str], modules: Iterable[str] | None = None) -> str:
    """Return 16 hex digits for sources by module name, or for some of the modules with all that these import. A package's name ends in
    ".__init__". Raise SyntaxError where a text is not Python."""
    scopes = _read_scopes(sources)
    chosen = scopes if modules is None else _reach(scopes, modules)
    return _hash(sorted(_refine(list(_read_units(chosen)))))


def imported_by(sources: Mapping[str, str], modules: Iterable[str]) -> set[str]:
    """Return the names of those sources that are among the modules, or are imported by one of these, directly or not."""
    found = _reach(_read_scopes(sources), modules)
    return {name for name in sources if name.removesuffix(INIT) in found}


def _read_scopes(sources: Mapping[str, str]) -> dict[str, _Scope]:
    named = ((name, name.removesuffix(INIT), text) for name, text in sources.items())
    return {module: _Scope(module, name != module, ast.parse(text)) for name, module, text in named}


def _reach(scopes: Mapping[str, _Scope], modules: Iterable[str]) -> dict[str, _Scope]:
    """Return the scopes of modules and of all that they import, sorted by name."""
    open_, found = [m.removesuffix(INIT) for m in modules], set[str]()
    while open_:
        name = open_.pop()
        if name in found or name not in scopes:
            continue
        found.add(name)
        open_ += [m for module, inner in scopes[name].imported.values() for m in (module, f"{module}.{inner}")]
    return {name: scopes[name] for name in sorted(found)}


def _read_units(scopes: Mapping[str, _Scope]) -> Iterator[Unit]:
    """Yield the units of all modules, their names resolved among these."""
    members = {m for s in scopes.values() for m in s.members}
    for name, scope in scopes.items():
        part, last = 0, None  # of a statement that defines several names, the place of each
        for unit_name, node in scope.statements:
            part, last = part + 1 if node is last else 0, node
            yield from _units_of(Unit(name, unit_name, [f"part {part}"] if part else []), node, _Names(scopes, scope, members))


# ---------------------------------------------------------------- names of modules

class _Scope:
    """The statements of a module that count, and what its names are."""

    def __init__(self, module: str, is_package: bool, tree: ast.Module) -> None:
        self.module = module
        self.package = module if is_package else module.rpartition(".")[0]
        self.statements: list[tuple[str, ast.stmt]] = []  # (name or "", statement)
        self.imported: dict[str, tuple[str, str]] = {}  # name -> (module, name there or "" for the module itself)
        self.defined: set[str] = set()
        self.members: set[str] = set()  # names of methods, fields, attributes of self and arguments
        for node in _flat(tree.body):
            self._add(node)
        for inner in ast.walk(tree):
            if isinstance(inner, (ast.Import, ast.ImportFrom)):
                self._import(inner)
            elif isinstance(inner, ast.ClassDef):
                self.members.update(_names_of(inner.body))
            elif isinstance(inner, ast.arg):
                self.members.add(inner.arg)
            elif isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store):
                self.members.add(inner.attr)

    def _add(self, node: ast.stmt) -> None:
        names = _names_of([node])
        self.defined.update(names)
        if isinstance(node, DROPPED) or _is_text(node) or names == ["__all__"]:
            return
        self.statements += [(name, node) for name in names or [""]]

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        if isinstance(node, ast.Import):
            for a in node.names:
                self.imported[a.asname or a.name.partition(".")[0]] = (a.name if a.asname else a.name.partition(".")[0], "")
            return
        above = self.package.split(".")[:len(self.package.split(".")) - node.level + 1] if node.level else []
        base = ".".join([*above, *([node.module] if node.module else [])])
        for a in node.names:
            self.imported[a.asname or a.name] = (base, a.name)


def _flat(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements, those under a module's `if TYPE_CHECKING` left out."""
    for node in body:
        if not (isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"):
            yield node


def _names_of(body: Iterable[ast.stmt]) -> list[str]:
    """Return the names that statements define, in order."""
    out: list[str] = []
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            out.append(node.name)
        elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            out += [n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    return out


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


class _Names:
    """What a name of a module is: a unit of the project, or a name of somebody else's."""

    def __init__(self, scopes: Mapping[str, _Scope], scope: _Scope, members: set[str]) -> None:
        self.scopes, self.scope, self.members = scopes, scope, members

    def of(self, name: str) -> str | Ref:
        """Return what a name that is not local means."""
        return self._in(self.scope, name, 0)

    def _in(self, scope: _Scope, name: str, depth: int) -> str | Ref:
        if name in scope.defined:
            return scope.module, name
        if name not in scope.imported or depth > 9:
            return name
        module, inner = scope.imported[name]
        if not inner or f"{module}.{inner}" in self.scopes:
            return f"{module}.{inner}".rstrip(".") if f"{module}.{inner}".rstrip(".") not in self.scopes else "module"
        return self._in(self.scopes[module], inner, depth + 1) if module in self.scopes else f"{module}.{inner}"

    def attribute(self, value: ast.expr, name: str) -> str | Ref:
        """Return what an attribute means: a name of a module, a member of the project's classes, or a name of somebody else's."""
        if isinstance(value, ast.Name) and value.id in self.scope.imported:
            module, inner = self.scope.imported[value.id]
            whole = f"{module}.{inner}".rstrip(".")
            if whole in self.scopes:
                return self._in(self.scopes[whole], name, 0)
        return ("", name) if name in self.members else name


# ---------------------------------------------------------------- what a unit says

def _units_of(unit: Unit, node: ast.AST, names: _Names) -> Iterator[Unit]:
    """Yield the unit of a statement; of a class, one for each method and field too, which others know by their names alone."""
    if not isinstance(node, ast.ClassDef):
        _Writer(unit, names).write(node)
        yield unit
        yield from _arguments_of(node, (unit.module, unit.name))
        return
    writer = _Writer(unit, names)
    writer.say("class", *node.bases, *node.keywords, *node.decorator_list)
    at = 0
    for inner in node.body:
        if isinstance(inner, ast.Pass) or _is_text(inner):
            continue
        of_inner = _names_of([inner])
        member = Unit("", of_inner[0] if of_inner else "", ["member", (unit.module, unit.name)])
        if isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            before = len(member.tokens)
            _Writer(member, names).write(inner)
            unit.tokens += ["method" if not inner.name.startswith("__") else inner.name, *member.tokens[before:]]
            yield from _arguments_of(inner, ("", inner.name))
        else:
            member.tokens.append(f"field {at}")
            value = getattr(inner, "value", None) if of_inner else inner
            writer.say("field", *([value] if value else []))
            at += 1
        yield member
    yield unit


def _arguments_of(node: ast.AST, function: Ref) -> Iterator[Unit]:
    """Yield a unit for each argument of a function, which keywords name."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        for at, a in enumerate((*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)):
            yield Unit("", a.arg, ["argument", str(at), function])


class _Writer:
    """Writes a syntax tree as tokens."""

    def __init__(self, unit: Unit, names: _Names) -> None:
        self.out, self.names = unit.tokens, names
        self.local: dict[str, int] = {}
        self.bound: set[ast.AST] = set()  # what lies in functions whose names have numbers

    def say(self, word: str, *nodes: ast.AST) -> None:
        self.out.append(f"({word}")
        for n in nodes:
            self.write(n)
        self.out.append(")")

    def write(self, node: ast.AST) -> None:
        kind = type(node)
        method = getattr(_Writer, "_" + kind.__name__, None)
        if method is not None:
            method(self, node)
        elif kind not in DROPPED and not _is_text(node):
            self.out.append(f"({kind.__name__}")
            for name in kind._fields:
                if name not in SILENT:
                    self._field(getattr(node, name))
            self.out.append(")")

    def _field(self, value: object) -> None:
        if isinstance(value, ast.AST):
            self.write(value)
        elif isinstance(value, list):
            for v in value:
                self._field(v)
            self.out.append(",")
        elif value is not None:
            self.out.append(repr(value))

    # ------------------------------------------------------------ functions: their names are nobody's business but of those who call them

    def _FunctionDef(self, node: ast.FunctionDef) -> None:
        if node.name in self.local:  # within another one
            self._name(node.name)
        self._bind(node)
        self.say("def", node.args, *node.decorator_list, *node.body)

    _AsyncFunctionDef = _FunctionDef

    def _Lambda(self, node: ast.Lambda) -> None:
        self._bind(node)
        self.say("lambda", node.args, node.body)

    def _bind(self, function: ast.AST) -> None:
        """Number the names that a function binds, in the order in which they are met."""
        if function in self.bound:
            return
        inner = list(ast.walk(function))
        self.bound.update(inner)
        shared = {name for n in inner if isinstance(n, ast.Global) for name in n.names}
        for n in inner:
            name = n.arg if isinstance(n, ast.arg) else n.id if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) else \
                n.name if isinstance(n, (ast.FunctionDef, ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and n is not function else None
            if name and name not in shared:
                self.local.setdefault(name, len(self.local))

    def _ClassDef(self, node: ast.ClassDef) -> None:
        self.say("class", *node.bases, *node.keywords, *node.decorator_list, *node.body)

    def _arguments(self, node: ast.arguments) -> None:
        self.say("arguments", *node.posonlyargs, *node.args)
        self.say("star", *([node.vararg] if node.vararg else []), *node.kwonlyargs)
        self.say("stars", *([node.kwarg] if node.kwarg else []))
        self.say("defaults", *node.defaults, *(d if d is not None else ast.Constant("required") for d in node.kw_defaults))

    def _arg(self, node: ast.arg) -> None:
        self._name(node.arg)

    def _comprehension(self, node: ast.comprehension) -> None:
        for n in ast.walk(node.target):
            if isinstance(n, ast.Name):
                self.local.setdefault(n.id, len(self.local))
        self.say("for", node.target, node.iter, *node.ifs)

    def _generator(self, node: ast.GeneratorExp | ast.ListComp | ast.SetComp) -> None:
        self.say(type(node).__name__, *node.generators, node.elt)

    _GeneratorExp = _ListComp = _SetComp = _generator

    def _DictComp(self, node: ast.DictComp) -> None:
        self.say("DictComp", *node.generators, node.key, node.value)

    # ------------------------------------------------------------ names

    def _name(self, name: str) -> None:
        self.out.append(f"local {self.local[name]}" if name in self.local else self.names.of(name))

    def _Name(self, node: ast.Name) -> None:
        self._name(node.id)

    def _Attribute(self, node: ast.Attribute) -> None:
        self.out.append("(.")
        self.write(node.value)
        self.out.append(self.names.attribute(node.value, node.attr))
        self.out.append(")")

    def _keyword(self, node: ast.keyword) -> None:
        self.out.append("(=")
        self.out.append(("", node.arg) if node.arg in self.names.members else str(node.arg))  # type: ignore[arg-type]
        self.write(node.value)
        self.out.append(")")

    def _AnnAssign(self, node: ast.AnnAssign) -> None:
        """Write an annotated assignment without its type. A field without a value is still a field."""
        self.say("Assign", node.target, *([node.value] if node.value else []))

    def _Assign(self, node: ast.Assign) -> None:
        self.say("Assign", *node.targets, node.value)

    # ------------------------------------------------------------ prose

    def _Raise(self, node: ast.Raise) -> None:
        """Write the class of the error that is raised, without its message."""
        call = node.exc
        self.say("raise", *([call.func if isinstance(call, ast.Call) else call] if call else []))

    def _Constant(self, node: ast.Constant) -> None:
        self.out.append("prose" if isinstance(node.value, str) and _is_prose(node.value) else repr(node.value))

    def _JoinedStr(self, node: ast.JoinedStr) -> None:
        if _is_prose("".join(str(v.value) if isinstance(v, ast.Constant) else "x" for v in node.values)):
            self.out.append("prose")
        else:
            self.say("text", *node.values)


def _is_prose(text: str) -> bool:
    return bool(PROSE.search(text)) and not CODE.search(text)


# ---------------------------------------------------------------- hashes

def _hash(tokens: Iterable[str]) -> str:
    return blake2b("\x00".join(tokens).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _first(unit: Unit) -> str:
    """Return the hash of a unit in which all that it refers to is equal."""
    return _hash(t if isinstance(t, str) else "ref" for t in unit.tokens)


def _refine(units: list[Unit]) -> list[str]:
    """Return a hash of each unit that depends on those of all units it refers to: refined until no more units are told apart."""
    of_ref: dict[Ref, list[int]] = defaultdict(list)
    for at, u in enumerate(units):
        if u.name:
            of_ref[u.module, u.name].append(at)
    hashes, count = [_first(u) for u in units], 0
    while (now := len(set(hashes))) > count:
        count = now
        known = {ref: _hash(sorted({hashes[at] for at in places})) for ref, places in of_ref.items()}
        hashes = [_hash((hashes[at], *(known.get(t, "none") for t in u.tokens if not isinstance(t, str)))) for at, u in enumerate(units)]
    return hashes
