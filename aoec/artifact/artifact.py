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
    write_bytes(path, pack(artifact))


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
