"""A lattice: the ways to run a model as a row of launches. Each path from its first to its last place is one way."""
from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

Pieces = tuple[tuple[str, int], ...]  # parts of tensors in memory, each with its bytes


@dataclass(frozen=True)
class Launch:
    """One launch. Launches of equal `work` take equal times from equal states of L2. `reads` and `makes`: (operand of the func, the parts
    of memory where it lies)."""

    work: str
    reads: tuple[tuple[str, Pieces], ...]
    makes: tuple[tuple[str, Pieces], ...]

    @cached_property
    def touches(self) -> dict[str, int]:
        """Return what the launch reads and makes, in the order in which it becomes the most recent in L2."""
        return {piece: size for _, pieces in (*self.reads, *self.makes) for piece, size in pieces}

    @cached_property
    def readers(self) -> dict[str, list[str]]:
        """Return part of memory -> the operands that read it."""
        out: dict[str, list[str]] = {}
        for name, pieces in self.reads:
            for piece, _ in pieces:
                out.setdefault(piece, []).append(name)
        return out


@dataclass(frozen=True)
class Edge:
    """A step from a place to a later one: a launch, or none where nothing runs on the AI Core. `leaves`: what becomes the most recent in L2
    without a launch, as a result of the host does."""

    start: int
    end: int
    launch: Launch | None = None
    leaves: Pieces = ()

    @cached_property
    def touches(self) -> dict[str, int]:
        """Return what the step touches of memory, in order."""
        return self.launch.touches if self.launch else dict(self.leaves)


@dataclass(frozen=True)
class Lattice:
    """Places 0 to `places` - 1 and the edges between them, each from a lower to a higher one. ValueError where an edge goes elsewhere."""

    places: int
    edges: tuple[Edge, ...]

    def __post_init__(self) -> None:
        for e in self.edges:
            if not 0 <= e.start < e.end < self.places:
                raise ValueError(f"an edge goes from {e.start} to {e.end}, of {self.places} places")

    @cached_property
    def outgoing(self) -> list[list[int]]:
        """Return place -> its edges, by their numbers."""
        out: list[list[int]] = [[] for _ in range(self.places)]
        for number, e in enumerate(self.edges):
            out[e.start].append(number)
        return out

    @cached_property
    def touched_before(self) -> list[int]:
        """Return place -> the most bytes that a path from the first place to it touches."""
        most = [0] * self.places
        for place in range(self.places):
            for number in self.outgoing[place]:
                e = self.edges[number]
                most[e.end] = max(most[e.end], most[place] + sum(e.touches.values()))
        return most

    @cached_property
    def last_touch(self) -> dict[str, int]:
        """Return part of memory -> the most bytes that a path touches before a step touches it for the last time."""
        out: dict[str, int] = {}
        for e in self.edges:
            for piece in e.touches:
                out[piece] = max(out.get(piece, 0), self.touched_before[e.start])
        return out

    @cached_property
    def touched_later(self) -> list[frozenset[str]]:
        """Return place -> what a step on some path from it touches."""
        out: list[frozenset[str]] = [frozenset()] * self.places
        for place in range(self.places - 1, -1, -1):
            found = [out[self.edges[n].end].union(self.edges[n].touches) for n in self.outgoing[place]]
            out[place] = frozenset().union(*found) if len(found) != 1 else found[0]
        return out

    def count_paths(self) -> int:
        """Return how many rows of launches there are."""
        ways = [0] * self.places
        ways[0] = 1
        for place in range(self.places):
            for number in self.outgoing[place]:
                ways[self.edges[number].end] += ways[place]
        return ways[-1]

    def rows(self, place: int = 0) -> list[tuple[int, ...]]:
        """Return all rows of edges from a place to the last one: of small lattices."""
        if place == self.places - 1:
            return [()]
        return [(n, *rest) for n in self.outgoing[place] for rest in self.rows(self.edges[n].end)]
