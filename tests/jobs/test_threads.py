"""Threads of one process at one bank: they work side by side, and a sound bank is never called damaged."""
from __future__ import annotations

import gc
import os
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import aoec
from aoec.bank.bank import Bank
from aoec.bank.place import choose_path, path_of
from aoec.bank.store import HEADER
from aoec.base.errors import BackendError, BankError
from aoec.base.files import files
from aoec.base.process.garbage import seldom_collected
from tests.bank.test_bank import KEY, RECORD
from tests.jobs.small import layers


def together(*work: Callable[[], object]) -> list[str]:
    """What went wrong in threads that begin at once."""
    wrong, begin = list[str](), threading.Barrier(len(work))

    def run(one: Callable[[], object]) -> None:
        begin.wait()
        try:
            one()
        except Exception as e:
            wrong.append(f"{type(e).__name__}: {e}")

    threads = [threading.Thread(target=run, args=(one,)) for one in work]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return wrong


def test_threads_tune_into_one_bank_that_is_not_there_yet(tmp_path: Path) -> None:
    """It ends with what each would have found alone, and so do the models."""
    def tune(width: int, bank: str) -> None:
        aoec.compile(layers(32, width), tmp_path / f"{bank}{width}.aoec", bank=tmp_path / bank, base="none", tune=True, budget=8,
                     verify=False)

    widths = (48, 64)
    assert together(*[lambda w=w: tune(w, "shared.db") for w in widths]) == []  # type: ignore[misc]
    for width in widths:
        tune(width, "alone.db")
        assert (tmp_path / f"shared.db{width}.aoec").read_bytes() == (tmp_path / f"alone.db{width}.aoec").read_bytes()
    assert list(Bank.open(tmp_path / "shared.db").lines(False)) == list(Bank.open(tmp_path / "alone.db").lines(False))


def test_threads_read_and_write_one_open_bank(tmp_path: Path) -> None:
    """One that is not there, one that is, and a copy in memory of one that cannot be written."""
    bank = Bank.open(tmp_path / "b.db")
    many = [replace(RECORD, key=replace(KEY, state=str(i))) for i in range(40)]

    def both(part: int) -> None:
        for r in many[part::4]:
            bank.list()
            bank.put(r)
            assert bank.best(r.key) is not None

    assert together(*[lambda p=p: bank.list() for p in range(8)]) == []  # type: ignore[misc]
    assert together(*[lambda p=p: both(p) for p in range(4)]) == []  # type: ignore[misc]
    assert len(bank.list()) == 40
    reader = Bank.open(tmp_path / "b.db", create=False, writable=False)
    assert together(*[lambda: [reader.list() for _ in range(20)]] * 4) == []


def test_only_damaged_bytes_are_called_damaged_and_no_advice_loses_them(tmp_path: Path) -> None:
    bank = Bank.open(tmp_path / "b.db")
    bank.put_all(replace(RECORD, key=replace(KEY, state=str(i)), trace="x" * 3000) for i in range(40))
    with pytest.raises(BankError) as e, bank._store.reading() as c:
        c.exec_driver_sql("BEGIN")  # a fault of ours, as two threads on one connection were
    assert "is damaged" not in str(e.value) and "nothing in it was changed" in str(e.value)
    with pytest.raises(BankError) as e, bank._store.writing() as c:
        c.exec_driver_sql("SELECT nothing FROM nowhere")
    assert "is damaged" not in str(e.value) and len(bank.list()) == 40
    with sqlite3.connect(bank.path) as c:
        c.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        c.execute("DELETE FROM aoec_bank")
    with pytest.raises(BankError, match=r"is damaged .it says no schema version.*Keep the file") as e:
        Bank.open(bank.path)
    assert "move it away" not in str(e.value)
    whole = bank.path.read_bytes()
    for page in range(1, len(whole) // 4096):
        bank.path.write_bytes(whole[:4096 * page] + bytes(4096) + whole[4096 * (page + 1):])
        with pytest.raises(BankError) as e:
            Bank.open(bank.path, create=False).list()
        assert "schema version None" not in str(e.value) and "move it away" not in str(e.value)


def test_a_bank_s_address_is_its_path_or_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No folder is made of its scheme."""
    monkeypatch.chdir(tmp_path)
    assert [str(path_of(n)) for n in ("sqlite:////x/b.db", "sqlite:///b.db", "a:b.db", "C.db")] == ["/x/b.db", "b.db", "a:b.db", "C.db"]
    monkeypatch.setenv("TUNE_BANK_PATH", f"sqlite:///{tmp_path}/env.db")
    assert choose_path(None) == tmp_path / "env.db"
    aoec.compile(layers(32, 48), tmp_path / "a.aoec", bank=f"sqlite:///{tmp_path}/b.db", base="none")
    assert (tmp_path / "b.db").read_bytes().startswith(HEADER)
    with pytest.raises(BackendError, match="it is read here, and would be lost"):  # the bank, by the name of the output
        aoec.compile(layers(32, 48), tmp_path / "b.db", bank=tmp_path / "b.db", base="none")
    for name in ("sqlite://", "postgresql://host/db", "file:///x/b.db", "s3://bucket/b.db"):
        with pytest.raises(BankError, match="is an address"):
            choose_path(name)
    for check in (files.check_writable, files.check_folder):
        with pytest.raises(BackendError, match="is an address"):
            check("s3://bucket/out")
    assert sorted(os.listdir(tmp_path)) == ["a.aoec", "b.db"]


def test_what_a_thread_sets_for_the_process_is_as_before_behind() -> None:
    """The mask of new files, and when garbage is looked for: of two threads that overlap neither keeps what the other had set."""
    mask, threshold = files._umask(), gc.get_threshold()

    def collect() -> None:
        for _ in range(300):
            with seldom_collected():
                pass

    assert together(*[lambda: [files._umask() for _ in range(300)]] * 4, *[collect] * 4) == []
    assert (files._umask(), gc.get_threshold()) == (mask, threshold) and not files._MASK.locked()
