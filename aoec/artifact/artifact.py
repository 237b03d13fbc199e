"""Artifact: a compiled model in one file, `model.aoec`: a zip of plain text and plain arrays.

    manifest.json       what it is: target, precision, inputs and outputs, groups in order with their times
    machine.toml        the machine that it was compiled for, each number with its source
    graph.graph         the graph with layouts and groups
    traces/g3.sched     how each group was scheduled (equal ones once, under the first group's name)
    programs/g3.prog    what runs
    weights/<hash>.npy  constants by the sha256 of their bytes, equal ones once

Equal artifacts are equal bytes: entries sorted and stored without compression (whose bytes differ between zlib builds), one
fixed date, no times, paths or provenance.
"""
from __future__ import annotations

from pathlib import Path

from aoec.artifact import archive, manifest
from aoec.artifact.compiled import Artifact, Compiled, Port, check, digest
from aoec.base.files import write_bytes

__all__ = ["Artifact", "Compiled", "Port", "check", "digest", "load", "pack", "write"]


def write(path: str | Path, artifact: Artifact) -> None:
    """Nothing; the file holds the artifact, whole or not at all. CheckError where its parts contradict each other."""
    check(artifact, constants=False)  # where the file is current its constants have been hashed there, and need not be made
    if not current(path, artifact):
        write_bytes(path, pack(artifact))


def current(path: str | Path, artifact: Artifact) -> bool:
    """True where the file holds, byte for byte, what `pack` makes of the artifact; its constants are compared by their hashes."""
    stored = {t.name: manifest.Constant.of(t) for t in artifact.graph.tensors if t.data}
    entries: dict[str, bytes | archive.Hashed] = {}
    for _, c in sorted(stored.items()):  # as when packed: the first of equal ones says what shape
        entries.setdefault(c.entry, c.hashed)
    return archive.holds(path, {**entries, **manifest.texts(artifact, stored)})


def pack(artifact: Artifact) -> bytes:
    """The bytes of the artifact's file."""
    check(artifact)
    return archive.pack(manifest.entries(artifact))


def load(path: str | Path) -> Artifact:
    """The artifact in a file; BackendError where it cannot be read, CheckError or ParseError where it is none or damaged."""
    with archive.open_file(path) as entries:
        artifact = manifest.artifact(entries)
    check(artifact, str(path))
    return artifact
