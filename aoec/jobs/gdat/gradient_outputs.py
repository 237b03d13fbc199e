"""The files and lines of a gradient tuning job: for AOE, CANN's TensorFlow adapter, MindSpore and PyTorch, and aoec's own."""
from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from aoec.base.files.files import write_text
from aoec.cann import gradient_fusion, split_strategy
from aoec.jobs.gdat.found import GdatFound
from aoec.jobs.gdat.trace_json import show_own
from aoec.report.bucket_caps import caps_line
from aoec.report.ddp_hook import hook_text

FOLDER = "gradients"  # of a run's folder
TRACE, LINES, HOOK = "gradient_trace.json", "strategies.txt", "gradient_buckets.py"  # the hook is imported by its name


def lines_of(found: GdatFound) -> dict[str, str]:
    """Return what to copy, by what takes it. All of them send by all-reduce."""
    segments, whole = found.segments.plan, found.whole.plan
    return {"AOE, by index": split_strategy.by_index(segments), "AOE, by size": split_strategy.by_size(segments, found.trace),
            "MindSpore": split_strategy.mindspore(whole), "PyTorch DDP": caps_line(whole, found.trace)}


def line_notes(found: GdatFound) -> tuple[str, ...]:
    """Return what is to be said of the lines."""
    out = ["indices count gradients in the order in which they are ready; whether a framework counts alike is not tried"]
    if found.segments.plan != found.whole.plan:
        ours, theirs = len(found.whole.plan.ends), len(found.segments.plan.ends)
        out.append(f"AOE's strategies have at most {split_strategy.MOST_SEGMENTS} segments: its lines are of a plan of {theirs:,} buckets, "
                   f"made for that limit and none of bytes, in place of {ours:,}")
    if found.planned.plan.scheme != "all_reduce":
        out.append(f"the plan's scheme is {found.planned.plan.scheme}; the lines to copy are of the best plan by all-reduce")
    if not has_names(found):
        out.append(f"gradients share names, so there is no {HOOK}: DDP's hook knows buckets by the names of parameters")
    elif any(g.name.startswith("gradient ") for g in found.trace.gradients):
        out.append(f"the trace does not name parameters: register() of {HOOK} takes rename=, from these names to the model's")
    return tuple(out)


def files_of(found: GdatFound) -> Mapping[str, str]:
    """Return name -> text of the files that a job writes, or a delivery takes."""
    record = gradient_fusion.record_of(found.trace, found.key)
    hook = {HOOK: hook_text(found.whole.plan, found.trace)} if has_names(found) else {}
    return {TRACE: show_own(found.trace), gradient_fusion.file_name(found.target): gradient_fusion.show_records([record]),
            LINES: lines_text(found), **hook}


def has_names(found: GdatFound) -> bool:
    """Return whether each gradient has a name of its own, by which a hook knows its bucket."""
    return len({g.name for g in found.trace.gradients}) == len(found.trace.gradients)


def lines_text(found: GdatFound) -> str:
    """Return the lines with what takes them, and what is to be said of them."""
    notes = "".join(f"# {n}\n" for n in (*line_notes(found), "communication is modelled; no line has run on an NPU by us"))
    return notes + "".join(f"\n# {name}\n{line}\n" for name, line in lines_of(found).items())


def write_files(found: GdatFound, folder: Path) -> list[str]:
    """Return the paths of the files, written whole into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    out = []
    for name, text in files_of(found).items():
        write_text(folder / name, text)
        out.append(str(folder / name))
    return out
