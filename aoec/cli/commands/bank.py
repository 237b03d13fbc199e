"""`aoec bank`: its actions. Imports stand in functions: a list of records needs no machine."""
from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from aoec.base.files.files import note, write_text
from aoec.cli.command import Command, CommandGroup, as_json
from aoec.options import readers
from aoec.options.exchange import BankAction, BuiltinOption, WhichOptions
from aoec.options.option import File, argument, option, options, redeclare, switch
from aoec.options.shared import BudgetOption, SeedOption

if TYPE_CHECKING:
    from aoec.bank.measurements import Measured
    from aoec.target.machine import Machine

B = TypeVar("B", bound=BankAction)
KEY = "the beginning of a record's key, as list shows it"
SHOWN_EVERY_S = 1.0


@options
class ListOptions(BankAction, BuiltinOption):
    pass


@options
class KeyOptions(BankAction, BuiltinOption):
    key: str = argument("KEY", help=KEY)


@options
class DiffOptions(BankAction):
    first: str = argument("A", file=File.READ, help="a bank or an export")
    other: str | None = argument("B", default=None, file=File.READ, help="(default: the bank)")


@options
class MergeOptions(BankAction):
    file: str = argument("FILE", file=File.READ, help="a bank, or an export of one")


@options
class ImportOptions(BankAction):
    file: str = argument("FILE", file=File.READ, help="a file of JSON lines; - is standard input. A bank is taken too")


@options
class ImportCannOptions(BankAction, BudgetOption, SeedOption):
    paths: Sequence[str] = argument(
        "FILE|DIR", many=True, file=File.READ,
        help="<soc>_<cores>_AiCore_<op>_runtime_kb.json, or folders of them. Give a user's own first, as CANN asks them: of equal keys the "
             "first stays")
    compare: bool = switch(
        "--compare", help="time each beside our default and our best, and count what of our space is faster. All times are modelled; it "
                          "takes some ten seconds a key at the default budget")
    target: str | None = redeclare(
        BankAction, "target", help="the machine that all records are taken for (default: as the name of each file says)")
    budget: int = redeclare(
        BudgetOption, "budget", help="candidates that are tried, for each key's search (default: 2000). What proofs and the choice of a "
                                     "default look at is counted apart")
    seed: int = redeclare(SeedOption, "seed", help="of the searches (default: 0)")

    def left_behind(self) -> str:
        return "what was taken so far is kept in the bank; the same command takes up the rest"


@options
class ExportOptions(BankAction):
    file: str | None = argument("FILE", default=None, file=File.WRITTEN, help="(default: standard output)")
    times: bool = switch("--times", help="say when each was made, which differs from run to run")


@options
class PruneOptions(BankAction):
    keep_days: int = option("--keep-days", default=0, metavar="N", read=readers.positive, help="keep what was made in the last N days")
    yes: bool = switch("--yes", help="remove it")


def load_machine(options: B) -> tuple[B, dict[str, Machine]]:
    """Return the machine that --target names, which may be a file, by its own name; and the options with that name."""
    if not options.target:
        return options, {}
    from aoec.target.machine import load
    machine = load(options.target)
    return replace(options, target=machine.name), {machine.name: machine}


def run_list(options: ListOptions) -> int:
    """Lists records and plans."""
    from aoec.jobs.bank import bank
    path = options.bank_path
    text = bank.list_records(bank.records_of(path, options.target, "", options.builtin), options.json,
                             bank.plans_of(path, options.target, "", options.builtin))
    if text:
        write_text(options.output, text)
    else:
        note(bank.nothing(path, options.target, options.builtin))
    return 0


def run_best(options: KeyOptions) -> int:
    """Writes the best schedule of a func, or the plan of a subgraph or a model."""
    from aoec.jobs.bank import bank
    asked = options.bank_path, options.target, options.key, options.builtin
    found = bank.records_of(*asked)
    if not found and (plans := bank.plans_of(*asked)):
        write_text(options.output, bank.best_plan(plans, options.key, options.json))
        return 0
    write_text(options.output, bank.best(found, options.key, options.json, measured_rows(options)))
    return 0


def run_show(options: KeyOptions) -> int:
    """Writes all that is kept of a func, or of a plan."""
    from aoec.jobs.bank import bank
    asked = options.bank_path, options.target, options.key, options.builtin
    found = bank.records_of(*asked)
    if not found and (plans := bank.plans_of(*asked)):
        write_text(options.output, bank.show_plans(plans, options.key, options.json))
        return 0
    write_text(options.output, bank.show(found, options.key, options.json, measured_rows(options)))
    return 0


def measured_rows(options: KeyOptions) -> tuple[Measured, ...]:
    """Return what devices took, in the user's own bank, for the funcs that are asked for."""
    from aoec.jobs.bank import bank
    return bank.measured_of(options.bank_path, options.target, options.key)


def run_which(options: WhichOptions) -> int:
    """Says which record or plan a compile takes."""
    from aoec.jobs.bank import bank_plans
    from aoec.jobs.bank.bank import measured_of
    from aoec.jobs.bank.bank_which import describe_choices, facts, need_any, read_subject, which
    options, own = load_machine(options)
    model = read_subject(options, own)
    found, plans = which(options, own, model), bank_plans.which(options, own, model)
    need_any(options.subject, [*found, *plans], options.bank_path)
    times = measured_of(options.bank_path, options.target)
    write_text(options.output, as_json(facts(found, times) + bank_plans.facts(plans)) if options.json
               else "\n".join(filter(None, (describe_choices(found, times), bank_plans.describe_plans(plans)))))
    return 0


def run_diff(options: DiffOptions) -> int:
    """Says how two banks differ."""
    from aoec.bank.bank import read_all
    from aoec.jobs.bank.bank_diff import changes, describe_changes, facts, target_of
    found = changes(*([k for k in read_all(str(path)) if options.target in (None, target_of(k))]
                      for path in (options.first, options.other or options.bank_path)))
    write_text(options.output, as_json(facts(found)) if options.json else describe_changes(found))
    return 0


def run_take(options: MergeOptions | ImportOptions) -> int:
    """Takes over what is better in another bank."""
    from aoec.jobs.bank import bank
    write_text(options.output, bank.take(options.bank_path, options.file))
    return 0


def run_import_cann(options: ImportCannOptions) -> int:
    """Takes CANN's run-time banks, and compares them where that is asked for."""
    from aoec.bank.bank import Bank
    from aoec.jobs import interrupt
    from aoec.jobs.bank import cann_compare, cann_import
    options, machines = load_machine(options)
    own, path = next(iter(machines.values()), None), options.bank_path
    with interrupt.note_interrupts():
        taken = cann_import.take(options.paths, lambda: Bank.open(path), own, show_count("records"))
        seeds = taken.seeds if options.compare else []
        found = list(cann_compare.compare_seeds(seeds, ("trials", options.budget), options.seed, show_count("keys")))
        if options.json:
            write_text(options.output, as_json(cann_import.facts(taken) | {"compared": cann_compare.facts(found)}))
        else:
            write_text(options.output, cann_import.describe_imports(taken, path) + cann_compare.table(found))
    return 0


def show_count(what: str) -> Callable[[int, int], None]:
    """Return a function that says on a terminal, now and then, how many are done."""
    shown = 0.0

    def hear(done: int, of: int) -> None:
        nonlocal shown
        if sys.stderr.isatty() and (now := time.monotonic()) - shown > SHOWN_EVERY_S:
            shown = now
            print(f"\r{done:,} of {of:,} {what}", end="\r", file=sys.stderr, flush=True)

    return hear


def run_export(options: ExportOptions) -> int:
    """Writes all records as lines of JSON."""
    from aoec.jobs.bank import bank
    bank.export(options.bank_path, str(options.file or options.output), options.times)
    return 0


def run_prune(options: PruneOptions) -> int:
    """Lists stale records, or removes them."""
    from aoec.bank.bank import Bank
    from aoec.jobs.bank.bank_care import prune
    options, own = load_machine(options)
    bank = Bank.open(options.bank_path, create=False, writable=options.yes)
    text, facts = prune(bank, own, options.target, options.keep_days, options.yes)
    write_text(options.output, as_json(facts) if options.json else text)
    return 0


def run_verify(options: ListOptions) -> int:
    """Times each record again."""
    from aoec.bank.bank import Bank
    from aoec.jobs.bank import bank_plans
    from aoec.jobs.bank.bank import plans_of, records_of
    from aoec.jobs.bank.bank_verify import describe_verified, facts, verify_records
    options, own = load_machine(options)
    path = options.bank_path
    bank = None if options.builtin else Bank.open(path, create=False, writable=False)
    found = verify_records(records_of(path, options.target, "", options.builtin), own, bank.changed_records() if bank else ())
    plans = bank_plans.check_plans(plans_of(path, options.target, "", options.builtin), own)
    write_text(options.output, as_json(facts(found) + bank_plans.facts(plans)) if options.json else bank_plans.describe_plans(plans)
               + describe_verified(found, bank.count_unmarked() if bank else 0))
    return int(any(v.wrong for v in found) or any(x.state == "illegal" for x in plans))


def run_stats(options: BankAction) -> int:
    """Counts the records by machine."""
    from aoec.bank.bank import Bank
    from aoec.jobs.bank.bank_care import stats, stats_told
    options, own = load_machine(options)
    facts = stats(Bank.open(options.bank_path, create=False, writable=False), own, options.target)
    write_text(options.output, as_json(facts) if options.json else stats_told(facts))
    return 0


COMMAND = CommandGroup("bank", "look into a knowledge bank, check and clean it, exchange records", (
    Command("list", "list the records, and plans of slices and of models, a line each", ListOptions, run_list),
    Command("best", "print the best schedule of a func, or the plan of a subgraph (slices) or of a model", KeyOptions, run_best),
    Command("show", "print all that is kept of a func: its text, and each record with its schedule; or of a plan", KeyOptions, run_show),
    Command("which", "say which record or plan a compile takes, and why not the others", WhichOptions, run_which),
    Command("diff", "say what a second bank, or an export of one, has added, removed and changed", DiffOptions, run_diff),
    Command("merge", "take over what is better in another bank", MergeOptions, run_take),
    Command("import", "take over what is better in an export", ImportOptions, run_take),
    Command("import-cann", "take CANN's own run-time banks as starting points of searches", ImportCannOptions, run_import_cann),
    Command("export", "write all records as JSON lines, sorted, for git", ExportOptions, run_export),
    Command("prune", "list stale records and plans, which no compile takes any more; remove them with --yes", PruneOptions, run_prune),
    Command("verify", "time each record again; exit code 1 if one differs. Plans need their models for that", ListOptions,
            run_verify),
    Command("stats", "count the records by target", BankAction, run_stats)), "deploy", 320, "aoec bank list")
