"""The bank: what it keeps, several processes at once, read-only files, foreign, damaged and hostile ones."""
from __future__ import annotations

import io
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aoec.bank import store
from aoec.bank.bank import LINE_LIMIT_BYTES, Bank, statuses
from aoec.bank.journal import open_journal as opened_journal
from aoec.bank.near import distance, family
from aoec.bank.record import SCHEMA_VERSION, Key, Record, show_record
from aoec.base.errors import BackendError, BankError
from aoec.base.files.bank_place import bank_path, default_path
from tests.bank.first_schema import bank_of_the_first_schema

KEY = Key("f" * 64, "Ascend910B3", "a" * 64, "m1", "cold")
RECORD = Record(KEY, "matmul 64x64x64", "sched matmul {\n  split(loop=m, factor=16)\n}\n", 900, 500, 400, trials=100, searched=100, seed=3,
                search="genetic", tool="aoec 0.1.0", created="2025-11-21T10:00:00Z")


def test_many_are_found_as_each_is(tmp_path):
    bank = Bank.open(tmp_path / "bank.db")
    keys = [replace(KEY, func_key=f"{i:064x}", state=state) for i in range(600) for state in ("cold", "warm")]
    bank.put_all(replace(RECORD, key=k, trials=n) for n, k in enumerate(keys[:1100]))
    asked = [*keys[::2], *keys[5:40], replace(KEY, kind="measured")]
    found = bank.all_of(asked)
    assert found == {k: r for k in asked if (r := bank.best(k))} and len(found) == 550 + 18


def healthy() -> bytes:
    """The bytes of a bank of twenty records."""
    with tempfile.TemporaryDirectory() as folder:
        bank = Bank.open(Path(folder) / "bank.db")
        bank.put_all(replace(RECORD, key=replace(KEY, state=str(i)), trace="x" * 700) for i in range(20))
        return bank.path.read_bytes()


HEALTHY = healthy()


@pytest.fixture
def bank(tmp_path: Path) -> Bank:
    empty = Bank.open(tmp_path / "bank.db")
    empty.put_all([])
    return empty


def test_a_bank_is_made_with_its_folder_by_what_is_written_first(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "bank.db"
    opened, other = Bank.open(path), Bank.open(path)
    assert opened.writable and opened.all() == () and opened.best(KEY) is None and not opened.journal.outcomes("job")
    assert list(tmp_path.iterdir()) == []
    assert other.put(RECORD) == "added" and opened.list() == (RECORD,) and opened.put(RECORD) == "kept"


def test_notes_of_a_search_make_a_bank(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "bank.db"
    notes = opened_journal(path).notes("search")
    notes.close()
    assert Bank.open(path, create=False).list() == ()


def test_put_and_best(bank):
    assert bank.best(KEY) is None
    assert bank.put(RECORD) == "added" and bank.best(KEY) == RECORD and bank.put(RECORD) == "kept"
    assert bank.best(replace(KEY, state="warm")) is None
    assert bank.best(replace(KEY, kind="measured")) is None
    assert Bank.open(bank.path, create=False).list() == (RECORD,)


def test_the_own_bank_is_asked_first_and_the_base_where_that_found_nothing(bank, tmp_path):
    lower = Bank.open(tmp_path / "lower.db")
    keys = [replace(KEY, state=s) for s in ("tuned in both", "in vain here", "in vain in both", "only there")]
    vain = replace(RECORD, ticks=RECORD.default_ticks)
    bank.put_all(replace(r, key=k) for r, k in zip((RECORD, vain, vain), keys))
    lower.put_all(replace(r, key=k) for r, k in zip((replace(RECORD, ticks=400), RECORD, replace(vain, trials=9), RECORD), keys))
    found = bank.over(lower).claims(keys)
    assert [(found[k].ticks, found[k].trials) for k in keys] == [(500, 100), (500, 100), (900, 100), (500, 100)]
    assert set(bank.claims(keys)) == set(keys[:3]) and bank.over(lower).all_of(keys) == bank.all_of(keys)


def test_better_wins_and_effort_is_remembered(bank):
    bank.put(RECORD)
    worse = replace(RECORD, ticks=600, trace="sched other {\n}\n", searched=5000, trials=5000, proof="")
    assert bank.put(worse) == "updated" and bank.best(KEY) == replace(RECORD, searched=5000)
    better = replace(RECORD, ticks=450, trace="sched best {\n}\n", searched=200)
    assert bank.put(better) == "updated" and bank.best(KEY) == replace(better, searched=5000)
    tie = replace(better, trace="sched a {\n}\n", proof="space", verified=True)
    assert bank.put(tie) == "updated" and bank.best(KEY).trace == "sched a {\n}\n"
    assert bank.put(replace(tie, proof="", verified=False)) == "kept" and bank.best(KEY).verified


def test_list_selects_and_sorts(bank):
    keys = [replace(KEY, func_key=c * 64, target=t) for c in "cab" for t in ("toy", "Ascend910B3")]
    bank.put_all(replace(RECORD, key=k) for k in keys)
    assert [r.key for r in bank.list()] == sorted(keys)
    assert [r.key.func_key[0] for r in bank.list(target="toy")] == ["a", "b", "c"]
    assert len(bank.list(func_key="aa")) == 2 and bank.list(func_key="a%") == () and bank.list(kind="measured") == ()


def test_gap_is_above_the_bound():
    assert RECORD.gap == 0.25 and replace(RECORD, bound_ticks=0).gap == float("inf")


def test_export_and_import_are_inverse(bank, tmp_path):
    bank.put_all(replace(RECORD, key=replace(KEY, state=s)) for s in ("warm", "cold", "ütf-8"))
    bank.export(tmp_path / "out.jsonl")
    other = Bank.open(tmp_path / "other.db")
    assert statuses(other.import_(tmp_path / "out.jsonl")) == "3 added"
    assert other.list() == bank.list() and statuses(other.import_(tmp_path / "out.jsonl")) == "3 kept"
    bank.export(tmp_path / "bare.jsonl", times=False)
    assert "2025" not in (tmp_path / "bare.jsonl").read_text() and "2025" in (tmp_path / "out.jsonl").read_text()


def test_import_from_standard_input(bank, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(show_record(RECORD).encode())))
    assert bank.import_("-") == ("added",) and bank.list() == (RECORD,)


WRITER = """
import sys
from dataclasses import replace
from aoec.bank.bank import Bank
from aoec.bank.record import parse_record
me, bank, record = int(sys.argv[1]), Bank.open(sys.argv[2]), parse_record(sys.argv[3])
for i in range(12):
    bank.put(replace(record, key=replace(record.key, func_key=f"{me}-{i}")))
    bank.put(replace(record, key=replace(record.key, func_key="shared"), ticks=800 - 12 * me - i, trace=f"t{me}"))
"""


def test_eight_processes_write_one_bank(tmp_path):
    path = str(tmp_path / "bank.db")
    command = [sys.executable, "-c", WRITER]
    writers = [subprocess.Popen([*command, str(i), path, show_record(RECORD)], stderr=subprocess.PIPE) for i in range(8)]
    assert [(w.communicate()[1], w.returncode) for w in writers] == [(b"", 0)] * 8
    records = {r.key.func_key: r for r in Bank.open(path, create=False).list()}
    assert len(records) == 97 and {f"{m}-{i}" for m in range(8) for i in range(12)} < set(records)
    assert (records["shared"].ticks, records["shared"].trace) == (800 - 84 - 11, "t7")


def test_nothing_is_half_written(bank):
    bank.put(RECORD)
    def records():
        yield replace(RECORD, key=replace(KEY, state="x"))
        raise KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt):
        bank.put_all(records())
    with pytest.raises(BankError, match="bound, tuned and default"):
        bank.put_all([replace(RECORD, key=replace(KEY, state="x")), replace(RECORD, ticks=1000)])
    assert bank.list() == (RECORD,)


READER = """
import os, sys
sys.path[:0] = [{root!r}]
from tests.bank.test_bank import RECORD, KEY, Bank, BankError
Bank.open({warm!r}).put(RECORD)  # whatever is imported late is imported now: another user may not read this installation
if os.getuid() == 0:
    os.setuid(65534)
bank = Bank.open({path!r})
assert bank.best(KEY) == RECORD and not bank.writable
try:
    bank.put(RECORD)
except BankError as e:
    print(e)
"""


@pytest.mark.parametrize("folder_mode", [0o555, 0o755])
def test_a_read_only_bank_is_read(tmp_path, folder_mode):
    with tempfile.TemporaryDirectory() as name:  # not tmp_path, which other users cannot enter
        folder = Path(name)
        bank = Bank.open(folder / "bank.db")
        bank.put(RECORD)
        bank.path.chmod(0o444)
        folder.chmod(folder_mode)
        code = READER.format(root=str(Path(__file__).parents[2]), path=str(bank.path), warm=str(tmp_path / "warm.db"))
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        folder.chmod(0o755)
    assert out.returncode == 0 and "is read-only" in out.stdout, out.stderr


def test_opened_for_reading_only(bank):
    bank.put(RECORD)
    reader = Bank.open(bank.path, writable=False)
    assert reader.list() == (RECORD,)
    with pytest.raises(BankError, match="read-only"):
        reader.put(RECORD)


def sqlite(path: Path, *statements: str) -> Path:
    with sqlite3.connect(path) as c:
        for s in statements:
            c.execute(s)
    c.close()
    return path


def test_foreign_files_are_refused_and_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("shopping list, with more than sixteen characters")
    foreign = sqlite(tmp_path / "photos.db", "CREATE TABLE photos (name)")
    before = foreign.read_bytes()
    for path, words in [(tmp_path / "notes.txt", "does not begin as an SQLite file"), (foreign, "no aoec bank.*photos"),
                        (tmp_path, "is a directory")]:
        with pytest.raises(BankError, match=words) as e:
            Bank.open(path)
        assert "\n" not in str(e.value)
    assert [t for (t,) in sqlite3.connect(foreign).execute("SELECT name FROM sqlite_master")] == ["photos"]
    assert len(foreign.read_bytes()) == len(before)
    with pytest.raises(BankError, match="no such file"):
        Bank.open(tmp_path / "none.db", create=False)
    (tmp_path / "empty.db").write_bytes(b"")
    with pytest.raises(BankError, match="not a bank"):
        Bank.open(tmp_path / "empty.db", create=False)
    assert Bank.open(tmp_path / "empty.db").list() == ()


def test_later_schemas_are_refused(bank):
    sqlite(bank.path, "UPDATE aoec_bank SET schema_version = 99")
    with pytest.raises(BankError, match="schema version 99"):
        Bank.open(bank.path)


def test_damaged_banks_are_refused_in_one_sentence(bank):
    bank.put_all(replace(RECORD, key=replace(KEY, state=str(i)), trace="x" * 3000) for i in range(40))
    whole = bank.path.read_bytes()
    for damaged in (whole[:5000], whole[:100] + b"\xff" * 4000 + whole[4100:], whole[:8192] + b"\x5a" * 60000 + whole[68192:]):
        bank.path.write_bytes(damaged)
        with pytest.raises(BankError, match=r"damaged|not a bank|no aoec bank") as e:
            Bank.open(bank.path).list()
        assert "\n" not in str(e.value)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.one_of(st.integers(0, 600), st.integers(0, 30000)), st.integers(0, 255)), min_size=1, max_size=40))
def test_damage_anywhere_ends_in_a_sentence(tmp_path_factory, changes):
    path = tmp_path_factory.mktemp("damaged") / "bank.db"
    data = bytearray(HEALTHY)
    for place, value in changes:
        data[place % len(data)] = value
    path.write_bytes(data)
    try:
        bank = Bank.open(path)
        bank.list()
        bank.put(RECORD)
    except BankError as e:
        assert "\n" not in str(e) and "bank" in str(e)


def test_rows_written_by_others_are_checked(bank):
    bank.put(RECORD)
    sqlite(bank.path, "UPDATE records SET ticks = 'fast'")
    with pytest.raises(BankError, match=r"holds a record that is none .field ticks cannot be 'fast'"):
        bank.best(KEY)


def test_a_busy_bank_says_so(bank, monkeypatch):
    monkeypatch.setattr("aoec.bank.store.BUSY_SECONDS", 0.05)
    other = sqlite3.connect(bank.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(BankError, match="busy"):
        bank.put(RECORD)
    assert bank.list() == ()
    other.execute("ROLLBACK")
    assert bank.put(RECORD) == "added"


GOOD = json.loads(show_record(RECORD))


@pytest.mark.parametrize(("line", "words"), [
    ("{", "not JSON"), ("[1]", "a JSON object"), ("[" * 5000, "not JSON"), ("NaN", "not JSON"),
    (json.dumps(GOOD | {"extra": 1}), "wrong here: extra"),
    (json.dumps({k: v for k, v in GOOD.items() if k != "seed"}), "wrong here: seed"),
    (json.dumps(GOOD | {"ticks": 1.5}), "field ticks"), (json.dumps(GOOD | {"ticks": True}), "field ticks"),
    (json.dumps(GOOD | {"ticks": -1}), "field ticks"), (json.dumps(GOOD | {"trials": 2**70}), "field trials"),
    (json.dumps(GOOD | {"ticks": 300}), "bound, tuned and default"), (json.dumps(GOOD | {"ticks": 901}), "bound, tuned and default"),
    (json.dumps(GOOD | {"kind": "guessed"}), "field kind"), (json.dumps(GOOD | {"proof": "trust me"}), "field proof"),
    (json.dumps(GOOD | {"verified": 1}), "field verified"), (json.dumps(GOOD | {"created": "yesterday"}), "field created"),
    (json.dumps(GOOD | {"trace": ""}), "field trace"), (json.dumps(GOOD | {"trace": "x" * 300_000}), "field trace"),
    (json.dumps(GOOD | {"label": "\x1b[2J"}), "field label"), (json.dumps(GOOD | {"func_key": None}), "field func_key"),
    (json.dumps(GOOD | {"label": "\ud800"}), "field label"),
    (json.dumps(GOOD | {"trace": "sched m { split( }"}), "trace:1:"), (json.dumps(GOOD | {"trace": "rm -rf"}), "trace:1:1"),
    (json.dumps(GOOD | {"trace": "sched m {\n  split(loop=m, factor=?t in [1, 2])\n}\n"}), r"its trace leaves \?t open"),
    ("x" * (LINE_LIMIT_BYTES + 1), "longer than"), ("\udcff", "invalid start byte"),
])
def test_hostile_lines_are_refused_with_their_number(bank, tmp_path, line, words):
    bad = tmp_path / "bad.jsonl"
    bad.write_bytes((show_record(replace(RECORD, label="new")) + "\n\n" + line + "\n").encode("utf-8", "surrogateescape"))
    with pytest.raises(BankError, match=f"bad.jsonl:3: .*{words}.*nothing was imported") as e:
        bank.import_(bad)
    assert "\n" not in str(e.value) and bank.list() == ()


def test_import_of_a_missing_file(bank, tmp_path):
    with pytest.raises(BackendError, match="cannot read"):
        bank.import_(tmp_path / "none.jsonl")


def test_default_path_is_in_the_users_data_directory(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_path().name == "bank.db" and "aoec" in default_path().parts


@pytest.fixture
def first_schema(tmp_path: Path) -> Path:
    """A bank as the first schema had it, with one record."""
    return bank_of_the_first_schema(tmp_path / "first.db", RECORD)


def test_a_bank_of_the_first_schema_is_read_as_it_is_and_migrated_when_it_is_written(first_schema):
    before = first_schema.read_bytes()
    assert Bank.open(first_schema, writable=False).list() == (RECORD,) and first_schema.read_bytes() == before
    bank = Bank.open(first_schema)
    assert bank.list() == (RECORD,) and bank.put(replace(RECORD, func="func f(A: fp16[8]) -> () {}")) == "updated"
    assert len(Bank.open(first_schema).of_families([family("func f(A: fp16[9]) -> () {}")])) == 1
    assert sqlite3.connect(first_schema).execute("SELECT schema_version FROM aoec_bank").fetchone() == (SCHEMA_VERSION,)


def test_a_migration_is_whole_or_not_at_all(first_schema, monkeypatch):
    before = first_schema.read_bytes()
    monkeypatch.setitem(store.MIGRATIONS, 1, (*store.MIGRATIONS[1][:1], "CREATE nonsense"))
    with pytest.raises(BankError, match="nonsense"):
        Bank.open(first_schema)
    monkeypatch.undo()
    assert Bank.open(first_schema, writable=False).list() == (RECORD,) and len(before) == len(first_schema.read_bytes())


def test_lines_of_the_first_schema_are_read_and_later_ones_refused(bank, tmp_path):
    old = {k: v for k, v in json.loads(show_record(RECORD)).items() if k not in ("func", "schema")}
    (tmp_path / "old.jsonl").write_text(json.dumps(old) + "\n")
    assert bank.import_(tmp_path / "old.jsonl") == ("added",) and bank.list() == (RECORD,)
    (tmp_path / "new.jsonl").write_text(json.dumps(json.loads(show_record(RECORD)) | {"schema": 99}) + "\n")
    with pytest.raises(BankError, match="schema 99 is beyond this aoec"):
        bank.import_(tmp_path / "new.jsonl")


def test_families_are_of_texts_that_differ_in_sizes_alone():
    one, other = "A: fp16[64, 8] * 0.125", "A: fp16[128, 8] * 0.5"
    assert family(one) == family(other) != family(one.replace("fp16", "fp32")) and family("") == ""
    assert distance(one, one) == 0 < distance(one, "A: fp16[65, 8] * 0.125") < distance(one, other)


def test_what_was_kept_for_the_time_being_gives_way(bank):
    """To what a search ends with, even where that is slower; not where the bank has learned better since."""
    before, kept, final = (replace(RECORD, ticks=t, trace=f"sched t{t} {{\n}}\n") for t in (800, 450, 600))
    told = []
    bank.put(before)
    bank.put(kept)
    assert bank.best(KEY) == replace(kept, searched=100)
    bank.put_all([final], (before, bank.best(KEY)), lambda c, held: told.append(held))
    assert bank.best(KEY) == final and told == [final]
    bank.put(kept)
    bank.put_all([final], (None, before), lambda c, held: told.append(held))
    assert bank.best(KEY) == kept and told[1:] == [kept]


def test_a_bank_that_is_gone_is_made_again(bank):
    """A user moves it away, or another folder is the current one, while it is held open."""
    bank.put(RECORD)
    for beside in bank.path.parent.iterdir():
        beside.unlink()
    assert bank.list() == () and not bank.path.exists()
    notes = bank.journal.notes("search")
    notes.close()
    assert bank.put(RECORD) == "added" and bank.list() == (RECORD,)


def test_a_bank_in_a_folder_that_may_not_be_looked_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stat, hidden = os.stat, tmp_path / "hidden" / "b.db"

    def denied(path: object, **more: object) -> os.stat_result:
        if str(path) == str(hidden):
            raise PermissionError(13, "Permission denied", str(path))
        return stat(path, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "stat", denied)
    assert bank_path(str(hidden)) == hidden
    with pytest.raises(BankError, match=r"cannot open bank .*b\.db: permission denied"):
        Bank.open(hidden)
