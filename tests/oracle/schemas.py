"""The package's JSON schemas, applied by jsonschema, which aoec itself does without."""
from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

from jsonschema import Draft202012Validator


def faults(name: str, said: Any) -> list[str]:
    """What of a document is not as `aoec/report/schemas/<name>.json` says; the schema itself is checked too."""
    return [f"{e.json_path}: {e.message}" for e in _validator(name).iter_errors(said)]


@cache
def _validator(name: str) -> Draft202012Validator:
    """What applies a schema, which is a schema."""
    schema = json.loads((files("aoec.report") / "schemas" / f"{name}.json").read_text("utf-8"))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)
