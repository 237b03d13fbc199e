"""The result file of subgraph tuning, in AOE's form."""
from __future__ import annotations

import pytest

from aoec.report.results.opat import Outcome
from aoec.report.results.results import jobs
from aoec.report.results.sgat import Subgraph, Tuning, document, text
from tests.oracle.schemas import faults

# the figures of the sample in CANN's AOE guide, "tuning results" (its percentages: test_opat.py)
ADDED = Subgraph("842f13f4903f72ef" * 4, 12, "g0..g7/4,g9/2", 5.58434, 3.573203, Outcome.ADD)
UPDATED = Subgraph("f" * 64, 3, "g0..g2/3", 4.58434, 2.573203, Outcome.UPDATE)
VAIN = Subgraph("0" * 64, 2, "", 1.0, 1.0, Outcome.UNSATISFIED)


def test_the_file_has_aoes_fields_and_figures() -> None:
    said = document(Tuning("net", (ADDED, UPDATED, VAIN), 12.0, 5.600486, 3.610442))
    assert faults("sgat", said) == []
    of = said[1]["SGAT"]
    assert of["model_performance_improvement"] == "55.11%" and of["times"] == "modelled"
    added, = of["repo_modified_subgraphs"]["add_repo_subgraphs"]
    assert (added["performance_improvement"], added["repo_key"]) == ("56.28%", str(0x842F13F4903F72EF))
    assert of["repo_modified_subgraphs"]["update_repo_subgraphs"][0]["performance_improvement"] == "78.15%"
    assert of["repo_summary"] == {"repo_add_num": 1, "repo_hit_num": 1, "repo_reserved_num": 0, "repo_unsatisfied_num": 1,
                                  "repo_update_num": 1, "total_num": 3}


def test_it_is_read_again_as_files_of_aoe_are() -> None:
    job, = jobs(text(Tuning("net", (ADDED, UPDATED, VAIN), 12.0, 5.600486, 3.610442)), "f.json")
    assert (job.job, job.seconds, job.times, job.result_ms) == ("sgat", 12.0, "modelled", 3.610442)
    assert [(e.mode, e.before_us, e.after_us) for e in job.entries] == [("add", 5584.34, 3573.203), ("update", 4584.34, 2573.203)]


@pytest.mark.parametrize("found", [(), (VAIN,)])
def test_a_job_that_found_nothing_says_so(found: tuple[Subgraph, ...]) -> None:
    said = document(Tuning("net", found, 1.0, 2.0, 2.0))
    assert faults("sgat", said) == []
    assert len(said) == 1 + len(found) and (not found or said[1]["SGAT"]["repo_modified_subgraphs"] == {})
