"""Plan: how a model is put together, as decisions that can be read, changed and entered again.

A plan says what differs from the rules of fusion, which groups there are, and which of them run in slices. Times in it are what was
modelled when it was written. They are claims: nothing believes them when a plan is entered.
"""
from __future__ import annotations

from dataclasses import dataclass

Slices = tuple[str, str, int]  # the first group, the last group, how many parts


@dataclass(frozen=True, slots=True)
class PlanGroup:
    """A launch by its nodes, in order; `kind` as that of a group of a graph. `takes_ns`: modelled ns of the schedule that it got, of all
    slices where it runs in slices; None where nothing is said."""

    name: str
    kind: str
    nodes: tuple[str, ...]
    takes_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """How the model `name` is put together for the machine `target`.

    `rewrites`: (rule, tensor) of rewrites that were made when the model was imported, each with the tensor that it makes: claims, as times
    are. `declined`: those that are not made. `wide`: sums and norms that are done in fp32 with what needs the whole sum in a
    launch behind. `tails`: norms of groups of channels that are one launch with their factors. `apart`: fusions that are not made, and
    scores in whole fractals, by the names that `fuse` asks for. `nz`: matrices between products that lie in NZ. `groups`: every group of
    the model, before it is cut in slices, in the order in which they run; none: those that fusion makes. `slices`: regions of groups.
    """

    name: str
    target: str
    rewrites: tuple[tuple[str, str], ...] = ()
    declined: tuple[tuple[str, str], ...] = ()
    wide: tuple[str, ...] = ()
    tails: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()
    nz: tuple[str, ...] = ()
    groups: tuple[PlanGroup, ...] = ()
    slices: tuple[Slices, ...] = ()


LISTS = {"wide": "wide", "tail": "tails", "apart": "apart", "nz": "nz"}  # word of a line -> field that holds what its lines name
