"""Artifact: a compiled model in one file, `model.aoec`: a zip of plain text and plain arrays.

    manifest.json       what it is: target, precision, inputs and outputs, groups in order with their times
    machine.toml        the machine that it was compiled for, each number with its source
    graph.graph         the graph with layouts and groups
    traces/g3.sched     how each group was scheduled (equal ones once, under the first group's name)
    programs/g3.prog    what runs
    weights/<hash>.npy  constants by the sha256 of their bytes, equal ones once

A model that is compiled for several shapes of its inputs is several artifacts in one file, its gears. Their manifests are in a list, and
their graphs in graphs/0.graph and so on. The names of their schedules and programs begin with the same number. Equal ones are there once.

Equal artifacts are equal bytes. Entries are sorted, and have one fixed date. They are stored without compression, because compressed
bytes differ between zlib builds. There are no times, paths or provenance.
"""
from __future__ import annotations

from pathlib import Path

from aoec.artifact import archive, manifest
from aoec.artifact.compiled import Artifact, Compiled, Port, check, check_gears, digest
from aoec.base.errors import AoecError, CheckError
from aoec.base.files.files import write_whole

__all__ = ["Artifact", "Compiled", "Port", "check", "digest", "load", "load_gears", "made_for", "pack", "write"]
LONGEST = 200  # characters of a name in a manifest


def write(path: str | Path, *gears: Artifact) -> None:
    """Write an artifact, or the gears of one, to a file, whole or not at all. Raise CheckError where its parts contradict each other."""
    for a in gears:
        check(a, constants=False)  # where the file is current its constants have been hashed there, and need not be made
    check_gears(gears)
    if not current(path, *gears):
        for a in gears:
            check(a)
        write_whole(path, lambda f: archive.write(f, manifest.entries(gears)))


def current(path: str | Path, *gears: Artifact) -> bool:
    """Return True where the file holds, byte for byte, what `pack` makes of the gears; their constants are compared by their hashes."""
    if not Path(path).is_file():
        return False
    stored = [{t.name: manifest.Constant.of(t) for t in a.graph.tensors if t.data} for a in gears]
    entries: dict[str, bytes | archive.Hashed] = {}
    for _, c in (item for each in stored for item in sorted(each.items())):  # as when packed: the first of equal ones says what shape
        entries.setdefault(c.entry, c.entry_hash)
    return archive.holds(path, {**entries, **manifest.texts(gears, stored)})


def pack(*gears: Artifact) -> bytes:
    """Return the bytes of the file of an artifact, or of the gears of one."""
    for a in gears:
        check(a)
    return archive.pack(manifest.entries(gears))


def made_for(path: str | Path) -> tuple[str, str]:
    """Return (target, machine hash) for which a file was compiled. Nothing else is read. Both are empty where it is no artifact."""
    try:
        with archive.open_file(path) as entries:
            said = entries.json("manifest.json")
        said = said["gears"][0] if "gears" in said else said
        found = said["target"], said["machine_hash"]
    except (AoecError, OSError, LookupError, TypeError):
        return "", ""
    return found if all(isinstance(word, str) and word.isprintable() and len(word) < LONGEST for word in found) else ("", "")


def load(path: str | Path) -> Artifact:
    """Return the artifact in a file. Raise BackendError where it cannot be read, CheckError or ParseError where it is none or damaged, or
    has gears."""
    first, *others = load_gears(path)
    if others:
        raise CheckError(f"this artifact has {len(others) + 1} gears, and one shape of inputs is wanted here", source=str(path))
    return first


def load_gears(path: str | Path) -> tuple[Artifact, ...]:
    """Return the gears in a file. An artifact for one shape of inputs is its only gear. Errors are those of `load`."""
    with archive.open_file(path) as entries:
        gears = manifest.artifacts(entries)
    for a in gears:
        check(a, str(path))
    check_gears(gears, str(path))
    return gears
