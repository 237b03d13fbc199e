"""The command lines of a compile route, filled in for one kernel. What they are stands in routes.toml."""
from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from aoec.base.npu_errors import UnsupportedProduct

ORDER = ("modern", "cce")  # in which routes are tried
CORES = {  # kind of core -> its word in routes.toml; the last of those with a prefix that fits
    "": "core", "KERNEL_TYPE_AICORE": "core", "KERNEL_TYPE_AIV_ONLY": "vector", "KERNEL_TYPE_AIC_ONLY": "cube", "KERNEL_TYPE_MIX": "mixed"}
HALVES = {"dav-c220-cube": "aic", "dav-c220-vec": "aiv"}


@dataclass(frozen=True)
class Files:
    """Where a kernel's files are, and what stands in its command lines. `objects` has one name an architecture of the route."""

    source: str
    out: str
    folder: str = ""
    headers: tuple[str, ...] = ()


@cache
def _table() -> Mapping[str, Any]:
    return tomllib.loads(resources.files("aoec.toolchain").joinpath("routes.toml").read_text("utf-8"))


def kind_of(core_type: str) -> str:
    """Return "core", "cube", "vector" or "mixed", by the core type of a manifest."""
    return next(kind for prefix, kind in reversed(CORES.items()) if core_type.startswith(prefix))


def has_route(route: str, product: int, core_type: str) -> bool:
    """Return whether a route has a command line for kernels of a product and core type."""
    return kind_of(core_type) in _table()[route]["products"].get(str(product), {})


def optional_words(route: str) -> tuple[str, ...]:
    """Return words that a route's compiler may or may not take."""
    return tuple(w for s in _table()[route]["steps"] for w in s.get("optional", ()))


def command_lines(route: str, product: int, core_type: str, name: str, files: Files, accepted: Sequence[str] = ()) -> list[list[str]]:
    """Return the command lines, each with the tool's name first; `accepted`: the optional words that the compiler takes. UnsupportedProduct
    where the route has none for that product and kind of core."""
    if not has_route(route, product, core_type):
        raise UnsupportedProduct(f"the {route} compile route has no command line for {kind_of(core_type)} kernels of product {product}")
    own = _table()[route]["products"][str(product)]
    arches = own[kind_of(core_type)]
    objects = [f"{files.folder}{name}{f'_mix_{HALVES[a]}' if len(arches) > 1 else ''}.o" for a in arches]
    out = []
    for step in _table()[route]["steps"]:
        for arch, made in zip(arches, objects) if step.get("each") or step["tool"] == "bisheng" else [("", "")]:
            half = [w.format(name=name, half=HALVES[arch]) for w in step.get("half", ())] if len(arches) > 1 and arch else []
            lists = {"{headers}": [f"-I{h}" for h in files.headers], "{product}": list(own.get("words", ())), "{half}": half,
                     "{object}": [made] if arch else objects}
            words = [w for word in step["words"]
                     for w in (lists[word] if word in lists else [word.format(arch=arch, source=files.source, out=files.out)])]
            out.append([step["tool"], *(w for w in step.get("optional", ()) if w in accepted), *words])
    return out


def tools_of(route: str) -> tuple[str, ...]:
    """Return the tools that a route starts."""
    return tuple(dict.fromkeys(s["tool"] for s in _table()[route]["steps"]))


def place_files(folder: Path, name: str, headers: Sequence[Path]) -> Files:
    """Return the files of a kernel in a folder of its own."""
    return Files(str(folder / f"{name}.cpp"), str(folder / f"{name}.bin"), f"{folder}/", tuple(map(str, headers)))
