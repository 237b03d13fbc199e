"""`aoec deliver --to DIR`: write results in the files that CANN and kernel writers use. The folder is written whole, or not at all."""
from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from aoec.base.errors import CheckError
from aoec.base.files.files import check_new_folder, write_folder
from aoec.base.text import plural
from aoec.cann import fusion_switch, tune_ops
from aoec.cann.op_types import types_of
from aoec.cann.seen import Seen
from aoec.cann.tune_ops import TuneOps
from aoec.jobs.deliver import deliver_records as records
from aoec.jobs.deliver import deliver_words
from aoec.jobs.deliver.deliver_entries import Entry, Source, source
from aoec.jobs.deliver.deliver_gradients import Gradients, is_result, read_gradients
from aoec.jobs.deliver.deliver_keys import Keys, keys, theirs
from aoec.jobs.deliver.deliver_records import Record
from aoec.jobs.deliver.deliver_search import search_schedules
from aoec.jobs.voice import Voice
from aoec.options.exchange import DeliverOptions
from aoec.report import apply
from aoec.report.deliver import Delivery, Line, as_json, kernels_csv, kernels_json, text
from aoec.target.machine import Machine, load

WORTH = 0.01  # of the modelled time that a group could give back at most, for CANN's own tuning to be worth its while
ALONE = 20  # operators of the user's file that are not ours and are listed
WHAT = {
    "deliver.txt": "the table: every group, as which file it is delivered, or why not", "deliver.json": "the same for programs",
    "kernels.csv": "tiles of each kernel in the words of Ascend C (TCubeTiling), CATLASS and Triton, a row a word, with its meaning",
    "kernels.json": "the same for programs", "tune_ops.json": "--tune_ops_file of aoe: operators worth CANN's own tuning",
    "fusion_switch.json": "--fusion_switch_file of atc: makes CANN's grouping nearer to ours",
    "APPLY.md": "what to type, and how to undo it"}


def deliver(model: str, folder: str, options: DeliverOptions) -> str:
    """Write a delivery of a model, compiled or not, or of a bank into a new folder. Return the table, or its JSON."""
    check_new_folder(folder)
    listed, voice = theirs(options), Voice(options.json, bar=False)
    gradients = read_gradients(options.gradient_plan or model) if options.gradient_plan or is_result(model) else None
    if gradients is not None and not options.gradient_plan:
        made, files = deliver_gradients(gradients)
    else:
        found = source(model, options, voice)
        soc = soc_of(found.machine, options.soc)
        made, files = delivery(found, keys(listed, found.entries), soc, options.all, options.tune or 0, gradients)
    write_folder(folder, files)
    voice.say(f"wrote {folder}: {plural(len(files), 'file')}; begin with {folder}/APPLY.md")
    return as_json(made) if options.json else text(made)


def soc_of(machine: Machine, asked: str | None) -> str:
    """Return CANN's name of the chip: what was asked for, else the machine's own. Raise CheckError where that is no chip's."""
    name = asked or machine.name
    if not name.startswith("Ascend") or not name.replace("_", "").isalnum():
        raise CheckError(f"{name} is no SoC of CANN, which names files by it: --soc Ascend910B3, say (npu-smi info tells yours)")
    return name


def deliver_gradients(g: Gradients) -> tuple[Delivery, dict[str, str]]:
    """Return what is delivered of gradient tuning alone, as `delivery` has it."""
    machine = load(g.target)
    alone = {name: what for name, what in WHAT.items() if name in ("deliver.txt", "deliver.json", "APPLY.md")}
    d = Delivery(g.part.name, machine.name, machine.name, count_cores(machine), "", (), files={**g.part.files, **alone}, gradients=g.part,
                 notes=g.part.notes)
    return d, {**g.texts, "deliver.txt": text(d), "deliver.json": as_json(d), "APPLY.md": apply.text(d, ())}


def count_cores(machine: Machine) -> int:
    """Return the cores that CANN counts a chip's records by."""
    return machine.core("aic" if "aic" in machine.cores else "core").count


def delivery(found: Source, known: Keys, soc: str, every: bool, trials: int,
             gradients: Gradients | None = None) -> tuple[Delivery, dict[str, str]]:
    """Return (what is delivered, the texts of the folder's files by name). `trials`: of a search among what tilings can say, for each
    group."""
    machine = found.machine
    cores = count_cores(machine)
    more = {e.name: search_schedules(e, machine, trials) if trials else [] for e in found.entries}
    made = records.once([(e, records.record(e, machine, soc, known.found.get(e.name, ()), every, more[e.name])) for e in found.entries])
    total_us = sum(e.all_us for e in found.entries)
    worth = {e.name for e in found.entries if e.kind != "host" and (e.us - e.bound_us) * e.count >= WORTH * total_us}
    listed = tune_list([e for e in found.entries if e.name in worth], known)
    lines = tuple(line(e, r, machine, known.found.get(e.name, ()), e.name in listed) for e, r in made)
    passes = {fusion_switch.UB_FUSIONS[pair] for pair in found.apart if pair in fusion_switch.UB_FUSIONS}
    texts = records.files([r for _, r in made], soc, cores)
    if listed:
        texts["tune_ops.json"] = tune_ops.text(together(listed.values()))
    if passes:
        texts["fusion_switch.json"] = fusion_switch.text(passes)
    named = {name: f"run-time bank, {plural(said_.count(chr(10)), 'record')}" for name, said_ in texts.items() if name not in WHAT}
    named |= {name: what for name, what in WHAT.items() if name in texts or not name.startswith(("tune_ops", "fusion"))}
    shared = known.share(e.name for e, r in made if r.key == records.EXACT)
    part = gradients.part if gradients is not None else None
    named |= part.files if part is not None else {}
    d = Delivery(found.name, machine.name, soc, cores, found.precision, lines, known.source, known.kind, shared, named,
                 list_unmatched(known.alone), tuple(notes(found, passes, listed)), found.figures, part)
    texts |= gradients.texts if gradients is not None else {}
    return d, {**texts, "deliver.txt": text(d), "deliver.json": as_json(d), "kernels.csv": kernels_csv(d), "kernels.json": kernels_json(d),
               "APPLY.md": apply.text(d, found.inputs)}


def line(e: Entry, r: Record, machine: Machine, seen: Sequence[Seen], tune: bool) -> Line:
    """Return an entry with what is delivered of it."""
    values = deliver_words.words(e, records.entry_tiling(e, e.trace, machine), machine)
    rows = tuple((v.words, v.field, "" if v.value is None else str(v.value), v.meaning, v.why) for v in values)
    calls, all_us = sum(s.calls for s in seen if s.duration_us is not None), sum(s.all_us for s in seen)
    bare = Line(e.name, e.what, e.kind, e.count, e.default_us, e.us, e.bound_us, words=deliver_words.facts(values), values=rows, why=r.why,
                theirs=tuple(dict.fromkeys(s.name for s in seen)), theirs_us=all_us / calls if calls else None, tune=tune)
    bare = replace(bare, record_us=r.us)
    if not r.line:
        return bare
    return replace(bare, record=r.op, key=r.key, record_default_us=r.default_us, differs=r.differs, doubt=r.doubt)


def tune_list(worth: Iterable[Entry], known: Keys) -> dict[str, TuneOps]:
    """Return the name of each group that CANN's own tuning takes -> its entry in the list. Entries are names from the user's file, else
    types, for names after CANN's fusions are not known."""
    out = {}
    for e in worth:
        names = dict.fromkeys(s.name for s in known.found.get(e.name, ()) if s.type in tune_ops.TYPES)
        types = () if known.source else tuple(t for op in e.types for t in types_of(op) if t in tune_ops.TYPES)
        if names or types:
            out[e.name] = TuneOps(tuple(names), types)
    return out


def together(listed: Iterable[TuneOps]) -> TuneOps:
    """Return all that is listed, each once."""
    names, types = zip(*((x.names, x.types) for x in listed))
    return TuneOps(*(tuple(dict.fromkeys(w for some in words for w in some)) for words in (names, types)))


def list_unmatched(seen: Sequence[Seen]) -> tuple[tuple[str, str, float | None], ...]:
    """Return the operators of the user's file that none of ours does, longest first."""
    longest = sorted(seen, key=lambda s: -s.all_us)
    return tuple((s.name, s.type, s.duration_us) for s in longest[:ALONE])


def notes(found: Source, passes: set[str], listed: Mapping[str, TuneOps]) -> list[str]:
    """Return what else is to be said of a delivery."""
    out = [f"{said}: no public file tells CANN of that (its own subgraph tuning, aoe --job_type=1, keeps it in a bank of its own form). "
           "Their tilings are those of slices; what CANN asks for are whole operators: deliver the ONNX model for these. "
           "aoec export writes the graph with its slices as an ONNX model, for atc to compile in the model's place"
           for said in found.cut]
    if not any(e.is_faster for e in found.entries):
        out.append("no schedule here is faster than the default one: tune first (aoec compile --tune), and deliver then")
    if passes:
        out.append(f"fusion_switch.json turns off {', '.join(sorted(passes))}: CANN would make one kernel of what are two groups here")
    else:
        out.append("no fusion switch: no documented fusion of CANN makes one kernel of what are two groups here")
    if not listed:
        out.append("no tune_ops.json: no group that CANN's own tuning takes could give back a hundredth of the modelled time")
    return out
