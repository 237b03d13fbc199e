"""Banks as the first schema had them: records without their funcs, in files that no aoec writes any more."""
from __future__ import annotations

import sqlite3
from pathlib import Path

from aoec.bank.record import Record, flat

FIRST_SCHEMA = """
CREATE TABLE aoec_bank (schema_version INTEGER NOT NULL);
CREATE TABLE records (func_key VARCHAR NOT NULL, target VARCHAR NOT NULL, machine_hash VARCHAR NOT NULL, model_version VARCHAR NOT NULL,
 state VARCHAR NOT NULL, kind VARCHAR NOT NULL, label VARCHAR NOT NULL, trace VARCHAR NOT NULL, default_ticks INTEGER NOT NULL,
 ticks INTEGER NOT NULL, bound_ticks INTEGER NOT NULL, trials INTEGER NOT NULL, searched INTEGER NOT NULL, seed INTEGER NOT NULL,
 search VARCHAR NOT NULL, proof VARCHAR NOT NULL, verified BOOLEAN NOT NULL, tool VARCHAR NOT NULL, created VARCHAR NOT NULL,
 PRIMARY KEY (func_key, target, machine_hash, model_version, state, kind));
CREATE TABLE trials ("key" VARCHAR NOT NULL, candidate VARCHAR NOT NULL, ticks INTEGER, PRIMARY KEY ("key", candidate));
INSERT INTO aoec_bank VALUES (1);
PRAGMA application_id = 1634690403;
"""


def bank_of_the_first_schema(path: Path, record: Record) -> Path:
    """The path, where there is such a bank of one record now."""
    with sqlite3.connect(path) as c:
        c.executescript(FIRST_SCHEMA)
        old = {k: v for k, v in flat(record).items() if k != "func"}
        c.execute(f"INSERT INTO records ({', '.join(old)}) VALUES ({', '.join('?' * len(old))})", list(old.values()))
    c.close()
    return path
