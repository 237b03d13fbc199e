"""aoec from Python: what `aoec compile` and `aoec run` do, with values in place of files.

    session = aoec.compile("model.onnx", tune=True, budget=200)
    (probabilities,) = session.run(None, {"data": image})
"""
from __future__ import annotations

import warnings
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

from aoec.artifact.artifact import load_gears
from aoec.artifact.compiled import Port
from aoec.bank.place import choose_path
from aoec.base.errors import CheckError
from aoec.base.files.files import check_apart, check_folder, check_writable
from aoec.base.precision import SPELLINGS
from aoec.base.regions import parse_slices
from aoec.jobs.compile.begin import compile_model, compile_proto
from aoec.jobs.compile.gears import Dispatch, common_shape
from aoec.jobs.compile.say import Silence
from aoec.jobs.run.run import check_programs, modelled
from aoec.ops import typed

if TYPE_CHECKING:
    from onnx import ModelProto


@dataclass(frozen=True)
class NodeArg:
    """An input or output as onnxruntime describes one: `shape` holds numbers, names, or None for what is not known; `type` is ONNX's, such
    as "tensor(float)"."""

    name: str
    shape: list[int | str | None]
    type: str


@dataclass(frozen=True)
class Gear:
    """One of the shapes of its inputs that a model was compiled for: by the values asked for, such as "8,448,448"; the shapes that it takes
    by input; its modelled times by name."""

    name: str
    shapes: dict[str, tuple[int, ...]]
    modelled: dict[str, float]


class Session:
    """A compiled model that runs on the model machine, as onnxruntime's InferenceSession does: same data, same results.

    `report` holds what the compile said of it, where it was compiled by this program; `gears` what shapes it takes, one or several;
    `modelled` its modelled times by name, of the first of these.
    """

    def __init__(self, path: str | Path, report: Mapping[str, Any] | None = None) -> None:
        """Of a file that `aoec compile` wrote. An AoecError says what is wrong with it."""
        made = load_gears(str(path))
        self._dispatch, self._artifact = Dispatch(made), made[0]
        self.report = dict(report or {})
        self.gears = tuple(Gear(a.gear, {p.name: p.shape for p in a.inputs}, modelled(a)) for a in made)
        self.modelled = self.gears[0].modelled
        if note := check_programs(made, str(path)):
            warnings.warn(note, stacklevel=2)

    @property
    def on_host(self) -> tuple[str, ...]:
        """The operators of the nodes that run on the host, in order, one for each node; of the first gear where there are several."""
        return self._artifact.on_host

    def get_inputs(self) -> list[NodeArg]:
        """The model's inputs, in its order; a dimension in which gears differ has the model's name, or None without one."""
        return [_described(p, common_shape(self._dispatch.gears, False, i)) for i, p in enumerate(self._artifact.inputs)]

    def get_outputs(self) -> list[NodeArg]:
        """The model's outputs, in its order, as its inputs are described."""
        return [_described(p, common_shape(self._dispatch.gears, True, i)) for i, p in enumerate(self._artifact.outputs)]

    def run(self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any], run_options: Any = None) -> list[Any]:
        """The outputs named, or all, of inputs by name; CheckError where a name, shape or dtype is not the model's; of gears, that
        runs which takes the shapes."""
        known = [p.name for p in self._artifact.outputs]
        names = known if output_names is None else list(output_names)
        for name in names:
            if name not in known:
                raise CheckError(f"the model has no output {name}; its outputs are {', '.join(known)}")
        made = self._dispatch.run(input_feed)
        return [made[name] for name in names]


def _described(p: Port, shape: list[int | str | None]) -> NodeArg:
    text = p.dtype if "(" in p.dtype else f"tensor({typed.ELEMENTS.get(p.dtype, p.dtype)})"
    element = typed.tensor(text)
    if element is None or text != p.dtype:
        return NodeArg(p.name, shape, text)
    return NodeArg(p.name, [None if d == "?" else d for d in element[1] or ()], f"tensor({element[0]})")


def compile(model: Union[str, Path, ModelProto], output: str | Path | None = None, *, target: str | None = None, tune: bool = False,
            input_shape: Mapping[str, Sequence[int]] | None = None, dynamic_batch: Sequence[int] = (),
            dynamic_dims: Sequence[Sequence[int]] = (), precision: str = "fp16", budget: int = 2000,
            search: str = "portfolio", seed: int = 0, robust: bool = False, metric: str = "latency", bank: str | Path | None = None,
            verify: bool | None = None, jobs: int = 1, no_host: bool = False, dump: str | Path | None = None,
            repeat: bool = False, frozen: bool = False, resume: bool = False, results: str | Path | None = None,
            only: str | None = None, slices: str = "bank", start: str = "import", report: str | Path | None = None,
            ops: str | Path | Sequence[str | Path] = (), base: str | Path | None = None, embed: str | Path | None = None,
            effort: str | None = None, until: Mapping[str, float] | None = None, events: str | Path | None = None,
            seconds: float | None = None, counts: str | Path | None = None) -> Session:
    """The compiled model, written to `output` (default: `<model>.aoec` in the current folder) and ready to run.

    The options are those of `aoec compile`: `dynamic_batch=[1, 8]`, or `input_shape={"x": (-1, 3, -1, -1)}` with
    `dynamic_dims=[(1, 224, 224), (8, 448, 448)]`, compile for several shapes. `budget` is a number of trials for each group;
    `seconds` in its place is the time of all searches together, and `counts` the file in which such a run said what it searched;
    `until={"gain": 10, "gap": 5}` ends the search of a group as soon as it is so many per cent faster, or so near its bound;
    `ops` are files of operators of your own; `slices` are regions, as "g3..g12/4", "auto", "none", or what the "bank" has kept.
    `model` is an ONNX file, a folder that a dump was written to, or a model at hand. `jobs` above 1 starts processes that import the
    calling script again, which must then do nothing outside `if __name__ == "__main__"`. An AoecError says what is wrong; CheckError where
    values differ from the reference.
    """
    proto = None if isinstance(model, (str, Path)) else model
    name = proto.graph.name or "model" if proto is not None else str(model)
    out = str(output) if output is not None else Path(name).absolute().stem + ".aoec"
    for path in filter(None, (out, embed, events)):
        check_writable(str(path))
    read = [str(p) for p in (None if proto is not None else name, bank, base, counts) if p]
    check_apart([str(p) for p in (out, embed, events) if p], read)
    for folder in filter(None, (dump, report)):
        check_folder(str(folder))
    mode = SPELLINGS.get(precision, precision)
    options = Namespace(
        model=name, output=out, target=target, tune=tune, precision=mode, search=search, seed=seed, robust=robust, metric=metric,
        input_shape=[(n, tuple(s)) for n, s in (input_shape or {}).items()], dynamic_batch=tuple(dynamic_batch),
        dynamic_dims=tuple(map(tuple, dynamic_dims)), bank=choose_path(str(bank) if bank else None), base=str(base or ""), verify=verify,
        budget=("trials", budget), seconds=seconds, counts=str(counts) if counts else None, jobs=jobs,
        dump=str(dump) if dump else None, start=start,
        json=True, no_host=no_host, repeat=repeat, frozen=frozen, resume=resume, results=str(results) if results is not None else None,
        effort=effort, until=tuple((until or {}).items()), events=str(events) if events else None, lowered=None,
        only=only, slices=parse_slices(slices), job="opat", report=str(report) if report else None, embed=str(embed) if embed else None,
        ops=[str(o) for o in ([ops] if isinstance(ops, (str, Path)) else ops)])
    voice = Silence()
    code = compile_proto(proto, options, voice) if proto is not None else compile_model(options, voice)
    if code:
        raise CheckError(f"wrong values: {'; '.join(voice.faults)}")
    return Session(out, voice.facts)
