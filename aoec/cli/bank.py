"""`aoec bank`: the words of each of its actions, and what it does. Imports stand in the functions: a list of records needs no machine."""
from __future__ import annotations

import json
import sys
import time
from argparse import Namespace
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from aoec.base.files.files import note, write_text
from aoec.cli import options as words_of
from aoec.cli import values
from aoec.cli.declared import reads, writes

if TYPE_CHECKING:
    from aoec.bank.measurements import Measured
    from aoec.target.machine import Machine


def words(bank: words_of.Parser) -> None:
    """Nothing; the parser has a parser for each action."""
    actions = bank.add_subparsers(title="actions", metavar="ACTION", required=True, dest="action", parser_class=words_of.Parser)

    def add(name: str, text: str, argument: str = "", about: str = "", optional: bool = False,
            target: str = "records of this machine only") -> words_of.Parser:
        p: words_of.Parser = actions.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".", allow_abbrev=False)
        p.page = bank.page
        if argument:
            named = p.add_argument("argument", metavar=argument, help=about or None, nargs="?" if optional else None)
            if argument != "KEY":
                (writes if name == "export" else reads)(named)
        words_of.own_bank(p)
        p.add_argument("--target", metavar="NAME", help=target)
        p.add_argument("--json", action="store_true", help="print as JSON")
        words_of.output(p)
        return p

    key = "the beginning of a record's key, as list shows it"
    for p in (add("list", "list the records, and plans of slices, a line each"),
              add("best", "print the best schedule of a func, or the plan of slices of a subgraph", "KEY", key),
              add("show", "print all that is kept of a func: its text, and each record with its schedule", "KEY", key)):
        _built_in(p)
    p = add("which", "say which record or plan a compile takes, and why not the others", "KEY|MODEL",
            f"{key}; or an ONNX or compiled model")
    words_of.base(p)
    words_of.model_options(p)
    p = add("diff", "say what a second bank, or an export of one, has added, removed and changed", "A", "a bank or an export")
    reads(p.add_argument("other", metavar="B", nargs="?", help="(default: the bank)"))
    add("merge", "take over what is better in another bank", "FILE", "a bank, or an export of one")
    add("import", "take over what is better in an export", "FILE", "a file of JSON lines; - is standard input. A bank is taken too")
    p = add("import-cann", "take CANN's own run-time banks as starting points of searches",
            target="the machine that all records are taken for (default: as the name of each file says)")
    reads(p.add_argument("paths", nargs="+", metavar="FILE|DIR",
                         help="<soc>_<cores>_AiCore_<op>_runtime_kb.json, or folders of them. Give a "
                   "user's own first, as CANN asks them: of equal keys the first stays"))
    p.add_argument("--compare", action="store_true", help="time each beside our default and our best, and count what of our space is "
                   "faster. All times are modelled; it takes some ten seconds a key at the default budget")
    words_of.trials(p, "for each key's search")
    p.set_defaults(kept="what was taken so far is kept in the bank; the same command takes up the rest")
    p.add_argument("--seed", type=values.seed, default=0, metavar="N", help="of the searches (default: 0)")
    add("export", "write all records as JSON lines, sorted, for git", "FILE", "(default: standard output)", True).add_argument(
        "--times", action="store_true", help="say when each was made, which differs from run to run")
    p = add("prune", "list stale records and plans, which no compile takes any more; remove them with --yes")
    p.add_argument("--keep-days", type=values.positive, default=0, metavar="N", help="keep what was made in the last N days")
    p.add_argument("--yes", action="store_true", help="remove it")
    _built_in(add("verify", "time each record again; exit code 1 if one differs. Plans of slices need their models for that"))
    add("stats", "count the records by target")


def _built_in(p: words_of.Parser) -> None:
    p.add_argument("--builtin", action="store_true", help="of the schedules that come with aoec, in place of the bank")


def as_json(facts: Any) -> str:
    return json.dumps(facts, indent=2) + "\n"


def machines(options: Namespace) -> dict[str, Machine]:
    """The machine that --target names, which may be a file, by its own name; `options.target` is that name then."""
    if not options.target:
        return {}
    from aoec.target.machine import load
    machine = load(options.target)
    options.target = machine.name
    return {machine.name: machine}


def run_list(options: Namespace) -> int:
    from aoec.jobs.bank import bank
    text = bank.list_records(bank.records_of(options.bank, options.target, "", options.builtin), options.json,
                             bank.plans_of(options.bank, options.target, "", options.builtin))
    if text:
        write_text(options.output, text)
    else:
        note(bank.nothing(options.bank, options.target, options.builtin))
    return 0


def run_best(options: Namespace) -> int:
    from aoec.jobs.bank import bank
    found = bank.records_of(options.bank, options.target, options.argument, options.builtin)
    if not found and (plans := bank.plans_of(options.bank, options.target, options.argument, options.builtin)):
        write_text(options.output, bank.best_plan(plans, options.argument, options.json))
        return 0
    write_text(options.output, bank.best(found, options.argument, options.json, measured_rows(options)))
    return 0


def run_show(options: Namespace) -> int:
    from aoec.jobs.bank import bank
    found = bank.records_of(options.bank, options.target, options.argument, options.builtin)
    if not found and (plans := bank.plans_of(options.bank, options.target, options.argument, options.builtin)):
        write_text(options.output, bank.show_plans(plans, options.argument, options.json))
        return 0
    write_text(options.output, bank.show(found, options.argument, options.json, measured_rows(options)))
    return 0


def measured_rows(options: Namespace) -> tuple[Measured, ...]:
    """What devices took, in the user's own bank, for the funcs that are asked for."""
    from aoec.jobs.bank import bank
    return bank.measured_of(options.bank, options.target, options.argument)


def run_which(options: Namespace) -> int:
    from aoec.jobs.bank import bank_plans
    from aoec.jobs.bank.bank import measured_of
    from aoec.jobs.bank.bank_which import asked, describe_choices, facts, kept, which
    own = machines(options)
    model = asked(options, own)
    found, plans = which(options, own, model), bank_plans.which(options, own, model)
    kept(options.argument, [*found, *plans], options.bank)
    times = measured_of(options.bank, options.target)
    write_text(options.output, as_json(facts(found, times) + bank_plans.facts(plans)) if options.json
               else "\n".join(filter(None, (describe_choices(found, times), bank_plans.describe_plans(plans)))))
    return 0


def run_diff(options: Namespace) -> int:
    from aoec.bank.bank import read_all
    from aoec.jobs.bank.bank_diff import changes, describe_changes, facts, target_of
    found = changes(*([k for k in read_all(str(path)) if options.target in (None, target_of(k))]
                      for path in (options.argument, options.other or options.bank)))
    write_text(options.output, as_json(facts(found)) if options.json else describe_changes(found))
    return 0


def run_take(options: Namespace) -> int:
    from aoec.jobs.bank import bank
    write_text(options.output, bank.take(options.bank, options.argument))
    return 0


def run_import_cann(options: Namespace) -> int:
    from aoec.bank.bank import Bank
    from aoec.jobs import interrupt
    from aoec.jobs.bank import cann_compare, cann_import
    own = next(iter(machines(options).values()), None)
    with interrupt.noted():
        taken = cann_import.take(options.paths, lambda: Bank.open(options.bank), own, so_far("records"))
        seeds = taken.seeds if options.compare else []
        found = list(cann_compare.compared(seeds, options.budget, options.seed, so_far("keys")))
        if options.json:
            write_text(options.output, as_json(cann_import.facts(taken) | {"compared": cann_compare.facts(found)}))
        else:
            write_text(options.output, cann_import.describe_imports(taken, options.bank) + cann_compare.table(found))
    return 0


def so_far(what: str) -> Callable[[int, int], None]:
    """Says on a terminal, now and then, how many are done."""
    shown = 0.0

    def hear(done: int, of: int) -> None:
        nonlocal shown
        if sys.stderr.isatty() and (now := time.monotonic()) - shown > 1:
            shown = now
            print(f"\r{done:,} of {of:,} {what}", end="\r", file=sys.stderr, flush=True)

    return hear


def run_export(options: Namespace) -> int:
    from aoec.jobs.bank import bank
    bank.export(options.bank, options.argument or options.output, options.times)
    return 0


def run_prune(options: Namespace) -> int:
    from aoec.bank.bank import Bank
    from aoec.jobs.bank.bank_care import prune
    own = machines(options)
    text, facts = prune(Bank.open(options.bank, create=False, writable=options.yes), own, options.target, options.keep_days, options.yes)
    write_text(options.output, as_json(facts) if options.json else text)
    return 0


def run_verify(options: Namespace) -> int:
    from aoec.bank.bank import Bank
    from aoec.jobs.bank import bank_plans
    from aoec.jobs.bank.bank import plans_of, records_of
    from aoec.jobs.bank.bank_verify import describe_verified, facts, verified
    own = machines(options)
    bank = None if options.builtin else Bank.open(options.bank, create=False, writable=False)
    found = verified(records_of(options.bank, options.target, "", options.builtin), own, bank.changed_records() if bank else ())
    plans = bank_plans.verified(plans_of(options.bank, options.target, "", options.builtin), own)
    write_text(options.output, as_json(facts(found) + bank_plans.facts(plans)) if options.json else bank_plans.describe_plans(plans)
               + describe_verified(found, bank.count_unmarked() if bank else 0))
    return int(any(v.wrong for v in found))


def run_stats(options: Namespace) -> int:
    from aoec.bank.bank import Bank
    from aoec.jobs.bank.bank_care import stats, stats_told
    own = machines(options)
    facts = stats(Bank.open(options.bank, create=False, writable=False), own, options.target)
    write_text(options.output, as_json(facts) if options.json else stats_told(facts))
    return 0


ACTIONS: dict[str, Callable[[Namespace], int]] = {
    "list": run_list, "best": run_best, "show": run_show, "which": run_which, "diff": run_diff, "merge": run_take, "import": run_take,
    "import-cann": run_import_cann, "export": run_export, "prune": run_prune, "verify": run_verify, "stats": run_stats}
