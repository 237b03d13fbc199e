"""The plan of a model on a device: the place of each tensor, the order of launches, and what runs on the host between them.

Each constant has memory of its own. All other tensors share one arena by the time in which they are alive (arena.py). A view in the graph
has the bytes of another tensor, so a group of kind view does nothing. A tensor that a kernel adds to holds zeros when the run begins, and
no other tensor has its bytes before. Bodies of control flow have a part of the arena of their own. Scales that FIXPIPE reads are stored as
its words of 64 bits. The same constant is also stored in fp32 where another kernel reads that.
"""
from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

from aoec.artifact.compiled import Artifact, Compiled
from aoec.base.errors import CheckError
from aoec.ir.graph.bodies import MAIN, Place, groups_by_place, place
from aoec.ir.graph.graph import OPAQUE, Graph, OpNode, Tensor
from aoec.ir.index import DTYPES
from aoec.jobs.npu.arena import Life, align, place_lives
from aoec.jobs.npu.sources import Sources, WrittenKernel
from aoec.lowering.arrange.views import places
from aoec.ops.words.layout import stored_shape
from aoec.target.isa.scales import DTYPE as WORD

ARENA = "arena"
BEFORE = -1  # the step before the first
VIEW = "view"


@dataclass(frozen=True)
class Spot:
    """Bytes of device memory: the zone (the arena, or a constant by its key), where they begin in it, and how many they are."""

    zone: str
    start: int
    size: int


@dataclass(frozen=True)
class Constant:
    """What lies in a zone: the values of `tensor` in so many bytes. `zero`: as words of scales with this zero point; None: as stored."""

    tensor: str
    size: int
    zero: int | None = None


@dataclass(frozen=True)
class Call:
    """The launch of a kernel: its group, its binary, and where its arguments lie."""

    compiled: Compiled
    written: WrittenKernel
    arguments: tuple[Spot, ...]


@dataclass(frozen=True)
class Calls:
    """Launches that follow each other."""

    calls: tuple[Call, ...]


@dataclass(frozen=True)
class HostStep:
    """A group that runs on the host. `why`: what keeps it from the device; "" where it was made for the host. `view`: it moves nothing."""

    compiled: Compiled
    why: str = ""
    view: bool = False


@dataclass(frozen=True)
class Part:
    """The graph outside of all bodies, or one body. `spots`: tensors on the device; `zeros`: what is filled before each run."""

    steps: tuple[Calls | HostStep, ...]
    spots: Mapping[str, Spot]
    zeros: tuple[Spot, ...]


@dataclass(frozen=True)
class Plan:
    """All parts. `constants`: by zone, what the device has: equal values once, and once more as words."""

    parts: Mapping[Place, Part]
    arena_bytes: int
    constants: Mapping[str, Constant]

    @property
    def constants_bytes(self) -> int:
        """Return bytes of all constants, as they lie."""
        return sum(align(c.size) for c in self.constants.values())

    @property
    def calls(self) -> list[Call]:
        """Return every launch, in order; those of bodies behind the others."""
        return [c for part in self.parts.values() for s in part.steps if isinstance(s, Calls) for c in s.calls]

    @property
    def on_host(self) -> list[HostStep]:
        """Return every group that runs on the host and is no view, in order."""
        return [s for part in self.parts.values() for s in part.steps if isinstance(s, HostStep) and not s.view]


def plan_model(artifact: Artifact, sources: Sources) -> Plan:
    """Return the plan of one gear. Raise CheckError where a tensor does not lie as its kernel needs it."""
    return _Planner(artifact, sources).plan()


@dataclass
class _Owner:
    """What has bytes of its own: a tensor with all its views, or what a kernel works in. `end`: the last byte that anybody reaches."""

    end: int = 0
    first: int | None = None
    last: int = BEFORE
    zeros: list[tuple[int, int]] = field(default_factory=list)  # start, size

    def use(self, at: int, end: int) -> None:
        self.first = at if self.first is None else min(self.first, at)
        self.last, self.end = max(self.last, at), max(self.end, end)


@dataclass
class _Planner:
    artifact: Artifact
    sources: Sources

    def __post_init__(self) -> None:
        graph = self.artifact.graph
        self.graph: Graph = graph
        self.tensors: dict[str, Tensor] = {t.name: t for t in graph.tensors}
        self.nodes: dict[str, OpNode] = {n.name: n for n in graph.nodes}
        self.groups = {g.name: g for g in graph.groups}
        self.places = places(graph)
        self.refusals: dict[str, str] = {}
        self.constants: dict[str, Constant] = {}
        self.constant_of: dict[str, str] = {}

    def plan(self) -> Plan:
        compiled = {c.group: c for c in self.artifact.groups}
        ordered = {at: [compiled[g.name] for g in groups] for at, groups in groups_by_place(self.graph).items()}
        ends: dict[Place, tuple[Iterable[str], Iterable[str]]] = {MAIN: (self.graph.inputs, self.graph.outputs)}
        ends |= {place(b): (b.inputs, b.outputs) for b in self.graph.bodies}
        owners = {at: self.owners(groups, *ends[at]) for at, groups in ordered.items()}
        parts, base = dict[Place, Part](), 0
        for at, groups in ordered.items():
            lives = [Life(name, o.end, o.first or 0, o.last) for name, o in owners[at].items()]
            found, size = place_lives(lives)
            own = {name: Spot(ARENA, base + start, owners[at][name].end) for name, start in found.items()}
            parts[at] = self.part(groups, own, owners[at])
            base += size
        return Plan(parts, base, self.constants)

    # ------------------------------------------------------------ who needs memory, and when

    def kernel_of(self, c: Compiled) -> WrittenKernel | None:
        """Return the kernel of a group that is launched."""
        return None if c.program is None or c.group in self.refusals else self.sources.written.get(id(c.program))

    def home(self, name: str) -> tuple[str, int]:
        """Return (the tensor in whose bytes it lies, at which byte)."""
        return self.places.get(name, (name, 0))

    def owners(self, groups: list[Compiled], inputs: Iterable[str], outputs: Iterable[str]) -> dict[str, _Owner]:
        """Return what needs bytes of the arena, in a part; constants are noted aside."""
        for c in groups:
            if self.kernel_of(c) and (why := self.refusal(c, groups)):
                self.refusals[c.group] = why
        owners: dict[str, _Owner] = {}
        for at, c in enumerate(groups):
            if written := self.kernel_of(c):
                self.use_arguments(owners, at, c, written)
        self.use_outside(owners, groups, inputs, outputs)
        return owners

    def use_arguments(self, owners: dict[str, _Owner], at: int, c: Compiled, written: WrittenKernel) -> None:
        """Note what a launch reads, writes and works in."""
        bound, room = dict(c.bindings), written.facts["reads_on_bytes"]
        for a in written.facts["arguments"]:
            name, start = self.home(bound[a["name"]]) if a["name"] in bound else (f"{c.group}/{a['name']}", 0)
            start, size = self.word_start(a, start), max(a["bytes"], 1)
            if start % a["alignment"]:
                raise CheckError(f"{bound[a['name']]} begins at byte {start} of {name}, and group {c.group} needs a multiple of "
                                 f"{a['alignment']}; compile the model again")
            if name in self.tensors and self.tensors[name].data:
                self.keep_constant(name, a, start + size + room)
                continue
            owner = owners.setdefault(name, _Owner())
            owner.use(at, start + size + room)
            if a["zeros"]:
                owner.zeros.append((start, size))
                owner.use(BEFORE, 0)
            if stored := bound.get(a["name"]):
                owner.end = max(owner.end, start + self.stored_bytes(stored))
                behind = size - self.stored_bytes(stored)
                if behind > 0 and a["role"] == "input":  # as the model machine pads it
                    owner.zeros.append((start + size - behind, behind))
                    owner.use(BEFORE, 0)

    def keep_constant(self, name: str, argument: Mapping[str, Any], end: int) -> None:
        """Note that the device has a constant, as an argument needs it, up to that byte."""
        zone, zero = self.constant_zone(name, argument), zero_of(argument)
        self.constants[zone] = Constant(name, max(end, self.constants[zone].size if zone in self.constants else 0), zero)
        if zero is None:
            self.constant_of[name] = zone

    def constant_zone(self, name: str, argument: Mapping[str, Any]) -> str:
        """Return where a constant lies for an argument: by its hash, words by their zero point too."""
        digest, zero = self.tensors[name].data or "", zero_of(argument)
        return digest if zero is None else f"{digest}/words{zero}"

    def word_start(self, argument: Mapping[str, Any], start: int) -> int:
        """Return the byte at which an argument begins, of the byte as stored: words are wider than the scales that they hold."""
        return start if zero_of(argument) is None else start // DTYPES["fp32"] * DTYPES[WORD]

    def use_outside(self, owners: dict[str, _Owner], groups: list[Compiled], inputs: Iterable[str], outputs: Iterable[str]) -> None:
        """Note when the host writes or reads what is on the device."""
        def use(name: str, at: int) -> None:
            owner, start = self.home(name)
            if name in self.tensors and owner in owners:
                owners[owner].use(at, start + self.stored_bytes(name))
        for name in inputs:
            use(name, BEFORE)
        for at, c in enumerate(groups):
            for name in () if self.kernel_of(c) else self.host_tensors(c):
                use(name, at)
        for name in outputs:
            use(name, len(groups))

    def host_tensors(self, c: Compiled) -> Iterable[str]:
        """Yield what a group on the host reads and makes; nothing of a view, which only lies there."""
        if self.groups[c.group].kind == VIEW:
            return
        for n in (self.nodes[name] for name in self.groups[c.group].nodes):
            yield from (name for name in (*n.inputs, *n.outputs) if name)

    def stored_bytes(self, name: str) -> int:
        t = self.tensors[name]
        return 0 if t.dtype == OPAQUE else prod(stored_shape(t)) * DTYPES[t.dtype]

    def refusal(self, c: Compiled, groups: list[Compiled]) -> str:
        """Return why a group is not launched though it has a kernel, or "". Its scales may not be constants, of which FIXPIPE's words are
        made here. Or its kernel reads zeros behind an input where another tensor is."""
        assert c.program is not None
        bound, facts = dict(c.bindings), self.sources.written[id(c.program)].facts
        for a in facts["arguments"]:
            name = bound.get(a["name"], "")
            if zero_of(a) is not None and not (name and self.tensors[self.home(name)[0]].data):
                return f"FIXPIPE reads the scales {name or a['name']} as words, which are made of constants only, and the model makes these"
            if a["role"] != "input" or not name or self.tensors[name].data or a["bytes"] <= self.stored_bytes(name):
                continue
            longer = any(dict(other.bindings).get(b["name"]) == name and b["role"] == "output" and b["bytes"] > self.stored_bytes(name)
                         for other in groups if other.program is not None and id(other.program) in self.sources.written
                         for b in self.sources.written[id(other.program)].facts["arguments"])
            if name in self.places or longer:
                return f"it reads zeros behind {name}, and on the device something else lies there"
        return ""

    # ------------------------------------------------------------ steps

    def part(self, groups: list[Compiled], own: Mapping[str, Spot], owners: Mapping[str, _Owner]) -> Part:
        spots: dict[str, Spot] = {}
        for name in self.tensors:
            whose, start = self.home(name)
            base = Spot(self.constant_of[whose], 0, 0) if whose in self.constant_of else own.get(whose)
            if base is not None:
                spots[name] = Spot(base.zone, base.start + start, self.stored_bytes(name))
        steps = [self.step(c, spots, own) for c in groups]
        joined: list[Calls | HostStep] = []
        for s in steps:
            if isinstance(s, Call):
                last = joined.pop() if joined and isinstance(joined[-1], Calls) else None
                joined.append(Calls((*(last.calls if isinstance(last, Calls) else ()), s)))
            elif s is not None:
                joined.append(s)
        zeros = [Spot(ARENA, own[name].start + at, size) for name, o in owners.items() for at, size in o.zeros]
        return Part(tuple(joined), spots, tuple(join_spots(zeros)))

    def step(self, c: Compiled, spots: Mapping[str, Spot], own: Mapping[str, Spot]) -> Call | HostStep | None:
        """Return what a group becomes. Return None for a view whose bytes are on the device."""
        if (written := self.kernel_of(c)) is None:
            if self.groups[c.group].kind == VIEW:
                made = [o for name in self.groups[c.group].nodes for o in self.nodes[name].outputs]
                return None if all(o in spots for o in made) else HostStep(c, view=True)
            return HostStep(c, self.refusals.get(c.group) or self.sources.refused.get(id(c.program), ""))
        bound, arguments = dict(c.bindings), []
        for a in written.facts["arguments"]:
            if zero_of(a) is not None:
                name, start = self.home(bound[a["name"]])
                arguments.append(Spot(self.constant_zone(name, a), self.word_start(a, start), a["bytes"]))
                continue
            base = spots[bound[a["name"]]] if a["name"] in bound else own[f"{c.group}/{a['name']}"]
            arguments.append(Spot(base.zone, base.start, a["bytes"]))
        return Call(c, written, tuple(arguments))


def zero_of(argument: Mapping[str, Any]) -> int | None:
    """Return the zero point of an argument of a manifest that holds words of scales. Return None for all others."""
    words = argument.get("scale_words")
    return None if words is None else int(words["zero"])


def join_spots(spots: Iterable[Spot]) -> list[Spot]:
    """Return spots in the arena in order, with neighbours joined. Neighbours have no room for another tensor between them."""
    out: list[Spot] = []
    for s in sorted(set(spots), key=lambda s: (s.start, s.size)):
        if out and align(out[-1].start + out[-1].size) >= s.start:
            first = out.pop()
            s = Spot(s.zone, first.start, max(first.start + first.size, s.start + s.size) - first.start)
        out.append(s)
    return out
