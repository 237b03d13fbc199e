"""Results kept in a file by what they depend on: the case, the machine, the model's version and how cases become programs."""
from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from aoec.base.errors import AoecError
from aoec.jobs.version import model_version
from bench.cases.case import Case
from bench.cases.chips import machine_of
from bench.cases.score import Result

FIELDS = ("modelled", "bound_by", "reason", "note", "parts_us", "bound", "unit", "warm")


@lru_cache(maxsize=1)
def builder_version() -> str:
    """Return a hash of the sources that make programs of cases."""
    h = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        if path.stem.startswith(("build", "profilers", "cube", "micro", "text", "graphs", "time", "chips", "heads", "library", "models",
                                 "near", "net", "slices")):
            h.update(path.read_bytes())
    search = Path(__file__).parents[2] / "aoec/search"
    for path in sorted(search.rglob("*.py")):
        h.update(path.read_bytes())
    return h.hexdigest()[:16]


class Kept:
    """A file of JSON lines, or nothing where no path is given."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.found: dict[str, dict[str, object]] = {}
        if path and path.is_file():
            for line in path.read_text("utf-8").splitlines():
                entry = json.loads(line)
                self.found[entry.pop("key")] = entry

    def key(self, case: Case, how: str = "") -> str:
        """Return what a result depends on, hashed; a case without a machine depends on its text alone."""
        try:
            machine = machine_of(case.chip).hash
        except AoecError:
            machine = "none"
        plain = repr(replace(case, line=0, pairs=(), warning="", source=""))
        return hashlib.sha256("|".join((plain, how, machine, model_version(), builder_version())).encode()).hexdigest()[:24]

    def of(self, case: Case, how: str = "") -> Result | None:
        """Return the kept result of a case, if there is one."""
        entry = self.found.get(self.key(case, how)) if self.path else None
        return Result(case, **entry) if entry else None  # type: ignore[arg-type]

    def put(self, result: Result, how: str = "") -> Result:
        """Return the result, which is kept at once."""
        if self.path:
            entry = {name: getattr(result, name) for name in FIELDS}
            entry["parts_us"] = dict(result.parts_us)
            self.found[self.key(result.case, how)] = entry
            with self.path.open("a", encoding="utf-8") as f:
                f.write(json.dumps({"key": self.key(result.case, how), **entry}) + "\n")
        return result
