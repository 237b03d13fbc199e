"""Gears: the model that takes the shapes that are fed, of those that one file holds."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from aoec.artifact.compiled import Artifact
from aoec.base.errors import CheckError
from aoec.jobs.run.execute import Runner, check_names, describe_port
from aoec.ops.run import NUMPY

SHOWN = 8  # gears in a sentence


class Dispatch:
    """A model with gears, which runs the gear that fits the inputs. Each gear is prepared when it first runs, and is kept. `make`: makes
    the runner of a gear, by default the model machine."""

    def __init__(self, gears: Sequence[Artifact], make: Callable[[Artifact], Runner] = Runner) -> None:
        self.gears, self.make = tuple(gears), make
        self.runners: dict[int, Runner] = {}

    def run(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """Return output name -> value, by the model's own names and dtypes. Raise CheckError where the feeds are no gear's inputs."""
        gear = pick(self.gears, feeds)
        if id(gear) not in self.runners:
            self.runners[id(gear)] = self.make(gear)
        return self.runners[id(gear)].run(feeds)


def pick(gears: Sequence[Artifact], feeds: Mapping[str, Any]) -> Artifact:
    """Return the gear that takes feeds of these shapes; the only one where there is no choice. Raise CheckError that names them where none
    does."""
    if len(gears) == 1:
        return gears[0]
    check_names(gears[0].inputs, feeds)
    given = {name: tuple(np.shape(x)) for name, x in feeds.items()}
    for gear in gears:
        if all(given[p.name] == p.shape for p in gear.inputs if p.dtype in NUMPY):
            return gear
    shapes = ", ".join(f"{p.name}{list(given[p.name])}" for p in gears[0].inputs if p.dtype in NUMPY)
    raise CheckError(f"no gear of this model takes {shapes}; its gears are {list_gears(gears)}")


def find_gear(gears: Sequence[Artifact], name: str) -> Artifact:
    """Return the gear of that name. Raise CheckError that says which there are."""
    for gear in gears:
        if gear.gear == name:
            return gear
    raise CheckError(f"this model has no gear {name}; its gears are {list_gears(gears)}" if len(gears) > 1 else
                     f"this model is compiled for one shape of its inputs and has no gear {name}")


def list_gears(gears: Sequence[Artifact]) -> str:
    """Return the gears with the shapes of what varies, in words."""
    varying = {p.name for g in gears for p, first in zip(g.inputs, gears[0].inputs) if p.shape != first.shape}
    words = [f"{g.gear} ({', '.join(p.name + ' ' + describe_port(p) for p in g.inputs if p.name in varying)})" for g in gears[:SHOWN]]
    return "; ".join(words) + (f" and {len(gears) - SHOWN} more" if len(gears) > SHOWN else "")


def common_shape(gears: Sequence[Artifact], output: bool, place: int) -> list[int | str | None]:
    """Return the shape of the model's input or output at this place. A dimension is a number; where the gears differ it is the model's name
    of it, or None without a name."""
    ports = [(g.outputs if output else g.inputs)[place] for g in gears]
    if len({len(p.shape) for p in ports}) > 1:
        return []
    names = ports[0].dims or ("",) * len(ports[0].shape)
    each = zip(names, zip(*[p.shape for p in ports]))
    return [sizes[0] if len(set(sizes)) == 1 else name or None for name, sizes in each]
