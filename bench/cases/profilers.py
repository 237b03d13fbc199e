"""The contents of L2 before every launch, by the tool of the measurement: the one rule for the memory state of all rows.

A launch finds in L2 the data that earlier launches left there. Between launches of one program nothing else runs, so the program itself
left that data. But msOpProf clears L2 before each launch that it measures in its kernel replay, which is its default. Source:
Ascend/msopprof@d6c29df, docs/zh/user_guide/msopprof_user_guide.md, --replay-mode. "kernel" and "range" clear the data of L2, "application"
does not (also docs/zh/development_guide/architecture.md, replay). So the state depends on the tool, and the tool on the source.
Kernels of a whole model's profile ran among others. Their inputs have just been made, and their weights were last read a run ago.
"""
from __future__ import annotations

import re

from aoec.simulate.timing.state import CLEARED, PREVIOUS_LAUNCH, State
from bench.cases.case import PROFILER_NAMES, Case

# tool -> what it leaves; in a model that follows from the operator (library.py), and where a schedule is stated no row asks for it
PROFILERS: dict[str, State] = dict(zip(PROFILER_NAMES, (CLEARED, PREVIOUS_LAUNCH, PREVIOUS_LAUNCH), strict=True))
# publisher -> the tool that its own text names
USED = {
    "Ascend C best-practice guide": "msopprof",  # every case: "msOpProf", PipeUtilization.csv of the board
    "mirror-cann/asc-devkit": "msopprof",  # READMEs of the samples: "msopprof ./demo"
    "hicann/catlass": "msopprof",  # docs/zh/1_Practice/evaluation/performance_tools.md: "msprof op" for one operator
    "Ascend/msopprof": "msopprof",  # its own samples
}
# files that are profiles of whole models: MindSpore's of training steps, vllm-ascend's of inference, msprof's of a rank
MODELS = re.compile(r"[/:]application_test/|/profiling_analysis_|_alignment_report\.md|/ASCEND_PROFILER_OUTPUT/")


def profiler_of(case: Case) -> str:
    """Return the tool that a case was measured with: as its row says, else as its publisher does, else another."""
    if not case.profiler and MODELS.search(case.source):
        return "model"
    return case.profiler or USED.get(case.publisher, "other")


def state_of(case: Case) -> State:
    """Return the memory state that a case's launches find."""
    return PROFILERS[profiler_of(case)]
