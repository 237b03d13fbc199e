"""Manifest: an artifact as entries of an archive, and back; every field of the JSON is checked by type."""
from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import ml_dtypes
import numpy as np

from aoec.artifact import archive
from aoec.artifact.compiled import Artifact, Compiled, Port, elements
from aoec.base.errors import CheckError
from aoec.ir.graph.graph import FEWEST_GEARS, MOST_GEARS, Tensor
from aoec.ir.program import Program
from aoec.ir.schedule import Trace
from aoec.ir.text.parse import parse_graph, parse_program, parse_trace
from aoec.ir.text.show import show
from aoec.ops.run import NUMPY as ELEMENTS
from aoec.ops.words.layout import stored_shape

FORMAT, SEVERAL = 1, 2  # of one artifact, of several gears
MACHINE, GRAPH = "machine.toml", "graph.graph"
TIMES = "modelled"  # every time in an artifact comes from the model machine
NUMPY = {name: np.dtype(name) for name in ("float32", "float16", "float64", "int8", "uint8", "int16", "uint16", "int32", "int64", "bool")}
NUMPY["bfloat16"] = np.dtype(ml_dtypes.bfloat16)
RANK_LIMIT = 32
MOST = 1 << 62  # of a number: ticks and nanoseconds have 64 bits


# ---------------------------------------------------------------- to entries

@dataclass(frozen=True)
class Constant:
    """What a manifest says of a constant, as it is stored."""

    dtype: str  # NumPy's name of it
    shape: tuple[int, ...]
    digest: str

    @classmethod
    def of(cls, t: Tensor) -> Constant:
        """Return a constant of a graph, of which the graph says enough."""
        return cls(np.dtype(ELEMENTS[t.dtype]).name, stored_shape(t), t.data)

    @property
    def entry(self) -> str:
        return f"weights/{self.digest}.npy"

    @property
    def entry_hash(self) -> archive.Hashed:
        """Return the hash of its entry, as far as it is known without the elements."""
        dtype = NUMPY[self.dtype]
        return archive.Hashed(archive.array_header(dtype, self.shape), prod(self.shape) * dtype.itemsize, self.digest)


def entries(gears: Sequence[Artifact]) -> dict[str, bytes | archive.Stored]:
    """Return entry name -> content for checked artifacts."""
    stored = [{t.name: Constant(a.weights[t.name].dtype.name, a.weights[t.name].shape, t.data) for t in a.graph.tensors if t.data}
              for a in gears]
    files: dict[str, bytes | archive.Stored] = dict(texts(gears, stored))
    for a, constants in zip(gears, stored):
        for name, c in sorted(constants.items()):
            if c.entry not in files:
                files[c.entry] = archive.Stored(archive.array_header(NUMPY[c.dtype], c.shape), partial(_elements, a.weights, name))
    return files


def _elements(weights: Mapping[str, np.ndarray], name: str) -> memoryview:
    return elements(weights[name])


def texts(gears: Sequence[Artifact], stored: Sequence[Mapping[str, Constant]]) -> dict[str, bytes]:
    """Return entry name -> bytes of all but the constants, of which `stored` says enough, for each gear."""
    files = _Files()
    several = len(gears) > 1
    said = [_gear_fields(a, constants, files, f"{number}_" * several) for number, (a, constants) in enumerate(zip(gears, stored))]
    if several:
        for number, (a, data) in enumerate(zip(gears, said)):
            data["gear"], data["graph"] = a.gear, f"graphs/{number}.graph"
            files.entries[data["graph"]] = (show(a.graph) + "\n").encode()
        top = {"gears": said}
    else:
        files.entries[GRAPH] = (show(gears[0].graph) + "\n").encode()
        top = said[0]
    if gears[0].machine:
        files.entries[MACHINE] = gears[0].machine.encode()
    facts = {"format": SEVERAL if several else FORMAT, "times": TIMES, **top}
    files.entries["manifest.json"] = (json.dumps(facts, indent=1, sort_keys=True) + "\n").encode()
    return files.entries


def _gear_fields(a: Artifact, stored: Mapping[str, Constant], files: _Files, prefix: str) -> dict[str, Any]:
    """Return the manifest's fields of one gear, except for its graph and name. Its schedules and programs are in the files then."""
    weights = {name: {"file": c.entry, "dtype": c.dtype, "shape": list(c.shape)} for name, c in sorted(stored.items())}
    return {
        "name": a.name, "target": a.target, "machine_hash": a.machine_hash, "model_version": a.model_version, "precision": a.precision,
        "figures": dict(a.figures), "inputs": [_port(p) for p in a.inputs], "outputs": [_port(p) for p in a.outputs],
        "groups": [_group(g, files, prefix) for g in a.groups], "weights": weights, "machine": MACHINE if a.machine else "",
    }


class _Files:
    """Entries so far; equal texts share the first one's name, and a noun is worded once."""

    def __init__(self) -> None:
        self.entries: dict[str, bytes] = {}
        self._names: dict[tuple[str, str], str] = {}
        self._known: dict[int, str] = {}  # by identity, of nouns that the gears hold meanwhile

    def add(self, noun: Trace | Program | None, folder: str, name: str, suffix: str) -> str | None:
        """Return the name of the entry that holds the noun's text."""
        if noun is None:
            return None
        if id(noun) not in self._known:
            text = show(noun) + "\n"
            entry = self._names.setdefault((folder, text), f"{folder}/{name}.{suffix}")
            self.entries[entry] = text.encode()
            self._known[id(noun)] = entry
        return self._known[id(noun)]


def _group(g: Compiled, files: _Files, prefix: str) -> dict[str, Any]:
    entry = prefix + g.group
    return {
        "name": g.group, "label": g.label, "func_key": g.func_key, "trace": files.add(g.trace, "traces", entry, "sched"),
        "program": files.add(g.program, "programs", entry, "prog"), "bindings": [list(b) for b in g.bindings],
        "default_ticks": g.default_ticks, "ticks": g.ticks, "bound_ticks": g.bound_ticks,
    }


def _port(p: Port) -> dict[str, Any]:
    return {"name": p.name, "tensor": p.tensor, "dtype": p.dtype, "shape": list(p.shape), **({"dims": list(p.dims)} if p.dims else {})}


# ---------------------------------------------------------------- from entries

class Fields:
    """A JSON object whose fields are taken by name and type; what is missing, wrong or left over is a CheckError."""

    def __init__(self, value: object, where: str, source: str) -> None:
        self.where, self.source = where, source
        if not isinstance(value, dict):
            raise self.wrong("it is no object")
        self._left = dict(value)

    def wrong(self, what: str) -> CheckError:
        return CheckError(f"the manifest of this artifact is not one: at {self.where}, {what}", source=self.source)

    def take(self, name: str, *kinds: type) -> Any:
        value = self._left.pop(name, self)
        if value is self or type(value) not in kinds:
            raise self.wrong(f"{name} is missing" if value is self else f"{name} cannot be {str(value)[:40]!r}")
        return value

    def text(self, name: str) -> str:
        return self.take(name, str)

    def number(self, name: str) -> int:
        value: int = self.take(name, int)
        if not 0 <= value < MOST:
            raise self.wrong(f"{name} cannot be {value}")
        return value

    def shape(self, name: str) -> tuple[int, ...]:
        value = self.take(name, list)
        if len(value) > RANK_LIMIT or not all(type(e) is int and 0 <= e < 1 << 48 for e in value):
            raise self.wrong(f"{name} is no shape")
        return tuple(value)

    def words(self, name: str) -> tuple[str, ...]:
        """Return a list of texts; none where the field is missing."""
        value = self.take(name, list) if name in self._left else []
        if len(value) > RANK_LIMIT or not all(type(e) is str for e in value):
            raise self.wrong(f"{name} is no list of names")
        return tuple(value)

    def each(self, name: str) -> list[Fields]:
        return [Fields(v, f"{name}[{i}]", self.source) for i, v in enumerate(self.take(name, list))]

    def names(self) -> list[str]:
        """Return the fields that were not taken yet."""
        return sorted(self._left)

    def take_object(self, name: str) -> dict[str, Any]:
        value: dict[str, Any] = self.take(name, dict)
        return value

    def end(self) -> None:
        if self._left:
            raise self.wrong(f"{self.names()[0][:40]!r} is not known")


def artifacts(files: archive.Entries) -> tuple[Artifact, ...]:
    """Return the gears in an archive. Raise CheckError or ParseError where an entry is not what it should be."""
    top = Fields(files.json("manifest.json"), "the top", files.source)
    if (version := top.number("format")) not in (FORMAT, SEVERAL):
        raise top.wrong(f"format is {version}, and this aoec reads the formats {FORMAT} and {SEVERAL}")
    if top.text("times") != TIMES:
        raise top.wrong("times are not modelled")
    each = [top] if version == FORMAT else top.each("gears")
    if version == SEVERAL and not FEWEST_GEARS <= len(each) <= MOST_GEARS:
        raise top.wrong(f"there are {len(each)} gears, of at least {FEWEST_GEARS} and at most {MOST_GEARS}")
    source, data_of = _Sources(files), dict[str, memoryview]()
    out = tuple(_artifact(f, files, source, data_of, version == SEVERAL) for f in each)
    top.end()
    files.check_all_used()
    return out


def _artifact(f: Fields, files: archive.Entries, source: _Sources, data_of: dict[str, memoryview], several: bool) -> Artifact:
    """Return one gear."""
    graph = _entry(f, "graph", "graphs/") if several else GRAPH
    out = Artifact(
        f.text("name"), f.text("target"), f.text("machine_hash"), f.text("model_version"), f.text("precision"),
        source.noun(parse_graph, graph), tuple(_read_port(p) for p in f.each("inputs")), tuple(_read_port(p) for p in f.each("outputs")),
        tuple(_read_group(g, source) for g in f.each("groups")), _read_weights(f.take_object("weights"), files, data_of),
        _read_figures(Fields(f.take_object("figures"), "figures", files.source)), _machine(f, files), f.text("gear") if several else "")
    f.end()
    return out


def _machine(top: Fields, files: archive.Entries) -> str:
    """Return the machine file in an archive. Return "" where there is none."""
    name = top.text("machine")
    if name not in ("", MACHINE):
        raise top.wrong(f"machine cannot be {name[:40]!r}")
    return files.text(MACHINE) if name else ""


class _Sources:
    """Nouns by entry name, each text parsed once."""

    def __init__(self, files: archive.Entries) -> None:
        self._files = files
        self._nouns: dict[str, Any] = {}

    def noun(self, parse: Callable[[str, str], Any], name: str | None) -> Any:
        if name is None:
            return None
        if name not in self._nouns:
            self._nouns[name] = parse(self._files.text(name), f"{self._files.source}:{name}")
        return self._nouns[name]


def _read_port(f: Fields) -> Port:
    port = Port(f.text("name"), f.text("tensor"), f.text("dtype"), f.shape("shape"), f.words("dims"))
    f.end()
    if port.dims and len(port.dims) != len(port.shape):
        raise f.wrong("dims are not as many as the shape has")
    return port


def _read_group(f: Fields, source: _Sources) -> Compiled:
    traces, programs = (_entry(f, name, folder) for name, folder in (("trace", "traces/"), ("program", "programs/")))
    group = Compiled(
        f.text("name"), f.text("label"), f.text("func_key"), source.noun(parse_trace, traces), source.noun(parse_program, programs),
        _read_bindings(f), f.number("default_ticks"), f.number("ticks"), f.number("bound_ticks"))
    f.end()
    return group


def _entry(f: Fields, name: str, folder: str) -> str | None:
    """Return the entry that a field names, in its own folder."""
    value: str | None = f.take(name, str, type(None))
    if value is not None and not value.startswith(folder):
        raise f.wrong(f"{name} cannot be {value[:40]!r}")
    return value


def _read_bindings(f: Fields) -> tuple[tuple[str, str], ...]:
    pairs = f.take("bindings", list)
    if not all(isinstance(p, list) and len(p) == 2 and all(isinstance(n, str) for n in p) for p in pairs):
        raise f.wrong("bindings are pairs of names")
    return tuple((p, g) for p, g in pairs)


def _read_figures(f: Fields) -> tuple[tuple[str, int], ...]:
    return tuple((name, f.number(name)) for name in f.names())


def _read_weights(data: Mapping[str, Any], files: archive.Entries, data_of: dict[str, memoryview]) -> dict[str, np.ndarray]:
    """Return constants by tensor name; those of one entry share its memory (`data_of`), so that a small file cannot fill a large one."""
    out = {}
    for name, value in data.items():
        f = Fields(value, f"weights.{name[:40]}", files.source)
        entry, dtype, shape = _entry(f, "file", "weights/"), f.text("dtype"), f.shape("shape")
        f.end()
        if dtype not in NUMPY or entry is None:
            raise f.wrong(f"dtype cannot be {dtype[:40]!r}")
        if entry not in data_of:
            data_of[entry] = archive.array_bytes(files.data(entry), entry)
        out[name] = np.frombuffer(data_of[entry], NUMPY[dtype].newbyteorder("<")).reshape(shape)
    return out
