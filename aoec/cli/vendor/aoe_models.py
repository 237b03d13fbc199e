"""What AOE's command line is to tune: a model, all of a directory, or single operators, each with the places that AOE has for it."""
from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from aoec.base.errors import CheckError
from aoec.base.files.files import check_writable, write_bytes
from aoec.cli.vendor.aoe_words import ONNX

if TYPE_CHECKING:
    from aoec.frontend.vendor.singleop import Operator

FRAMEWORKS = {"0": "Caffe", "1": "MindSpore", "3": "TensorFlow"}
SOURCES = ("model", "model_path", "singleop")
Note = Callable[[str], None]


@dataclass(frozen=True)
class Asked:
    """One model to tune: where it is, where AOE would put what is compiled of it, and where the user wants that too; `operator`: what
    the model is still to be made of; `ends`: the outputs of nodes at which it is to end, "" for its own."""

    name: str
    model: Path
    result: Path
    output: Path | None
    operator: Operator | None = None
    ends: str = ""

    @property
    def source(self) -> Path:
        """Return the model that is tuned: itself, or a copy that ends where --out_nodes says."""
        return self.result.parents[2] / f"{self.name}.onnx" if self.ends else self.model

    def tidy(self) -> None:
        """Remove the empty folders among those that were made for the result."""
        with contextlib.suppress(OSError):  # as soon as one does
            for folder in (self.result.parent, *list(self.result.parents)[1:4]):
                folder.rmdir()

    def ready(self) -> None:
        """Make the folder of the result. Write the model of a single operator, and cut a model that is to end early."""
        self.result.parent.mkdir(parents=True, exist_ok=True)
        if self.operator is not None:
            from aoec.frontend.vendor.singleop import model
            write_bytes(self.model, model(self.operator).SerializeToString())
        if self.ends:
            cut_model(self.model, self.ends, self.source)


def asked_for(given: Mapping[str, str], work: Path, stamp: str, note: Note) -> list[Asked]:
    """Return the models to tune. Raise CheckError where there are none, where one is not available, or is named twice."""
    if sum(name in given for name in SOURCES) != 1:
        raise CheckError("give one of --model FILE.onnx, --model_path DIRECTORY and --singleop FILE.json")
    framework = given.get("framework", "5")
    if framework != "5":
        raise CheckError(f"--framework={framework} is {FRAMEWORKS.get(framework, 'none of 0, 1, 3 and 5')}; {ONNX}")
    if "singleop" in given:
        from aoec.frontend.vendor.singleop import read
        described = [(o, job_folder(work, o.label, stamp) / f"{o.label}.onnx") for o in read(given["singleop"])]
        return [_model_to_tune(given, work, stamp, path, note, o) for o, path in described]
    return [_model_to_tune(given, work, stamp, path, note, None) for path in _files(given)]


def _model_to_tune(given: Mapping[str, str], work: Path, stamp: str, model: Path, note: Note, operator: Operator | None) -> Asked:
    result = job_folder(work, model.stem, stamp) / "tunespace" / "result" / f"{model.stem}_{stamp}_tune.aoec"
    return Asked(model.stem, model, result, _output(given, model, note), operator, given.get("out_nodes", ""))


def job_folder(work: Path, name: str, stamp: str) -> Path:
    """Return where AOE keeps what belongs to the tuning of one model."""
    return work / "aoe_workspace" / f"{name}_{stamp}"


def _files(given: Mapping[str, str]) -> list[Path]:
    """Return the models' files."""
    if "model" in given:
        path = Path(given["model"])
        if path.suffix == ".om":
            raise CheckError(f"{path} is compiled already: give --model the ONNX file that it was made from")
        return [path]
    folder = Path(given["model_path"])
    found = sorted(folder.glob("*.onnx")) if folder.is_dir() else []
    if not found:
        raise CheckError(f"--model_path: there are no ONNX models in {folder}" if folder.is_dir() else f"there is no directory {folder}")
    return found


def cut_model(path: Path, ends: str, copy: Path) -> Path:
    """Return a copy of a model that ends at outputs of nodes. Raise CheckError where it could not find its constants."""
    from aoec.frontend.read.ends import ending_at, parse_ends
    from aoec.frontend.read.read import open_model
    from aoec.jobs.compile.models import refers_elsewhere
    if copy.exists() and copy.samefile(path):
        raise CheckError(f"--out_nodes: {copy} is the model itself, which would be lost: give another --output")
    made = ending_at(open_model(path), parse_ends(ends))
    if refers_elsewhere(str(path)) and copy.absolute().parent.resolve() != path.absolute().parent.resolve():
        raise CheckError(f"--out_nodes: constants of {path} lie in files beside it, so --output must be in the same directory")
    write_bytes(copy, made.SerializeToString())
    return copy


def _output(given: Mapping[str, str], model: Path, note: Note) -> Path | None:
    """Return where --output wants the compiled model: never a .om, which CANN would read; a directory for many models and for operators."""
    if "output" not in given:
        return None
    path = Path(given["output"])
    if "model" not in given:
        path = path / f"{model.stem}.aoec"
        path.parent.mkdir(parents=True, exist_ok=True)
    else:
        if path.suffix == ".om":
            note(f"aoe: only atc makes a .om; the compiled model is {as_ours(path)}")
        path = as_ours(path)
    check_writable(path)
    return path


def as_ours(path: Path) -> Path:
    """Return the path of the compiled model for which a vendor's tool would write `path`. `path` may lack its ending."""
    return path.with_suffix(".aoec") if path.suffix in (".om", ".aoec") else path.with_name(path.name + ".aoec")
