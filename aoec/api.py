"""aoec from Python: what `aoec compile` and `aoec run` do, with values in place of files.

    session = aoec.compile("model.onnx", tune=True, budget=200)
    (probabilities,) = session.run(None, {"data": image})
"""
from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from aoec.artifact.artifact import load_gears
from aoec.artifact.compiled import Artifact, Port
from aoec.base.errors import CheckError
from aoec.jobs.compile.begin import compile_model
from aoec.jobs.compile.gears import Dispatch, common_shape
from aoec.jobs.run.execute import Runner
from aoec.jobs.run.run import check_programs, machine_of, modelled_times
from aoec.jobs.voice import Silence
from aoec.ops import typed
from aoec.options.compile import CompileOptions
from aoec.options.device import MODEL, OnOption
from aoec.options.option import Options
from aoec.options.output_check import check_outputs


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
    `modelled` its modelled times by name, of the first of these. With `on="npu:0"` it runs on that device of this computer, which it holds
    until it is closed: `with aoec.Session("model.aoec", on="npu:0") as session`.
    """

    def __init__(self, path: str | Path, report: Mapping[str, Any] | None = None, on: str = MODEL, limit: float | None = None) -> None:
        """Load a file that `aoec compile` wrote. `on`: "model", "npu" or "npu:N"; `limit`: the most seconds of a kernel on the device. An
        AoecError says what is wrong with the file, or what is missing of the device."""
        made = load_gears(str(path))
        self._artifact, self._held = made[0], ExitStack()
        self.report = dict(report or {})
        self.gears = tuple(Gear(a.gear, {p.name: p.shape for p in a.inputs}, modelled_times(a)) for a in made)
        self.modelled = self.gears[0].modelled
        if note := check_programs(made, str(path)):
            warnings.warn(note, stacklevel=2)
        self._dispatch = Dispatch(made, self._open(str(path), OnOption(on=on, limit=limit)))

    def _open(self, path: str, asked: OnOption) -> Callable[[Artifact], Runner]:
        """Return what runs a gear."""
        if asked.device is None:
            return Runner
        from aoec.jobs.npu.device_runner import DeviceRunner
        from aoec.jobs.npu.open_board import kernel_machine, open_board
        machine = kernel_machine(self._artifact, machine_of(self._artifact, path)[0])
        opened = self._held.enter_context(open_board(asked.device, machine))
        return lambda gear: DeviceRunner(gear, opened.board, machine, opened.release, asked.limit)

    def close(self) -> None:
        """Gives the device back, where it runs on one. It can be called again."""
        self._held.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def on_host(self) -> tuple[str, ...]:
        """Return the operators of the nodes that run on the host, in order, one for each node; of the first gear where there are
        several."""
        return self._artifact.on_host

    def get_inputs(self) -> list[NodeArg]:
        """Return the model's inputs, in its order; a dimension in which gears differ has the model's name, or None without one."""
        return [describe_port(p, common_shape(self._dispatch.gears, False, i)) for i, p in enumerate(self._artifact.inputs)]

    def get_outputs(self) -> list[NodeArg]:
        """Return the model's outputs, in its order, as its inputs are described."""
        return [describe_port(p, common_shape(self._dispatch.gears, True, i)) for i, p in enumerate(self._artifact.outputs)]

    def run(self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any], run_options: Any = None) -> list[Any]:
        """Return the outputs named, or all, of inputs by name; CheckError where a name, shape or dtype is not the model's; of gears, that
        runs which takes the shapes."""
        known = [p.name for p in self._artifact.outputs]
        names = known if output_names is None else list(output_names)
        for name in names:
            if name not in known:
                raise CheckError(f"the model has no output {name}; its outputs are {', '.join(known)}")
        made = self._dispatch.run(input_feed)
        return [made[name] for name in names]


def describe_port(p: Port, shape: list[int | str | None]) -> NodeArg:
    text = p.dtype if "(" in p.dtype else f"tensor({typed.ELEMENTS.get(p.dtype, p.dtype)})"
    element = typed.tensor(text)
    if element is None or text != p.dtype:
        return NodeArg(p.name, shape, text)
    return NodeArg(p.name, [None if d == "?" else d for d in element[1] or ()], f"tensor({element[0]})")


P = ParamSpec("P")
SomeOptions = TypeVar("SomeOptions", bound=Options)
R = TypeVar("R")


def takes(make: Callable[P, SomeOptions]) -> Callable[[Callable[[SomeOptions], R]], Callable[P, R]]:
    """Makes a function of options one that takes the fields of these options, by name and type."""
    def wrap(function: Callable[[SomeOptions], R]) -> Callable[P, R]:
        @wraps(function)
        def call(*words: P.args, **fields: P.kwargs) -> R:
            return function(make(*words, **fields))
        vars(call)["__signature__"] = signature(make).replace(return_annotation="Session")
        return call
    return wrap


@takes(CompileOptions)
def compile(options: CompileOptions) -> Session:
    """Return the compiled model, written to `output` (default: `<model>.aoec` in the current folder) and ready to run.

    The options are those of `aoec compile` (aoec/options/compile.py says what each is): `dynamic_batch=[1, 8]`, or
    `input_shape={"x": (-1, 3, -1, -1)}` with `dynamic_dims=[(1, 224, 224), (8, 448, 448)]`, compile for several shapes. `budget` is a
    number of trials for each group; `seconds` in its place is the time of all searches together, and `counts` the file in which such a run
    said what it searched. `until={"gain": 10, "gap": 5}` ends the search of a group as soon as it is so many per cent faster, or so near
    its bound. `ops` are files of operators of your own. `slices` are regions, as "g3..g12/4", "auto", "none", or what the "bank" has kept.
    `model` is an ONNX file, a folder that a dump was written to, or a model at hand. `jobs` (1 unless given) above 1 starts processes that
    import the calling script again, which must then do nothing outside `if __name__ == "__main__"`. An AoecError says what is wrong;
    CheckError where values differ from the reference.
    """
    options = replace(options, jobs=options.jobs or 1)
    check_outputs(options)
    options.check()
    voice = Silence()
    if compile_model(options, voice):
        raise CheckError(f"wrong values: {'; '.join(voice.faults)}")
    return Session(options.path, voice.facts)
