"""The faults: one small change each of the kind that a tired person makes, and the tests that must notice it."""
from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """`old` stands exactly once in `file`; with `new` in its place one of `tests` must fail."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


FAULTS = (
    Fault("aside-file-not-renamed", "aoec/base/files.py", "os.replace(aside, path)", "pass", ("tests/base/test_files.py",)),
    Fault("short-array-accepted", "aoec/base/arrays.py", "len(data) != size_bytes", "False", ("tests/base/test_arrays.py",)),
    Fault("house-door-open", "tests/laws/test_house.py", 'if there == "kernels" and here != "simulate":', "if False:",
          ("tests/laws/test_house.py",)),
    Fault("pad-counted-once", "aoec/jobs/operators.py", '2 * s["pad"]', 's["pad"]', ("tests/cli/test_operators.py",)),
    Fault("space-row-carry-lost", "aoec/search/grid.py", "np.divmod(carry + digit, len(values))", "np.divmod(carry, len(values))",
          ("tests/search/test_strategies.py", "tests/laws/test_search_laws.py")),
    Fault("search-tie-to-the-later", "aoec/search/run.py", "rank(candidate) < rank(best)", "rank(candidate) > rank(best)",
          ("tests/search/test_strategies.py", "tests/laws/test_search_laws.py")),
    Fault("search-budget-off-by-one", "aoec/search/run.py", "result.trials >= limit", "result.trials > limit",
          ("tests/search/test_strategies.py", "tests/laws/test_search_laws.py")),
    Fault("bayes-asks-for-the-worst", "aoec/search/bayes.py", 'kind="stable")', 'kind="stable")[::-1]',
          ("tests/search/test_strategies.py", "tests/laws/test_search_laws.py")),
    Fault("bank-last-writer-wins", "aoec/bank/record.py", "best, other = sorted((a, b), key=_order)", "best, other = b, a",
          ("tests/bank/test_bank.py", "tests/laws/test_bank_laws.py")),
    Fault("bank-transaction-deferred", "aoec/bank/store.py", '"BEGIN IMMEDIATE" if', '"BEGIN" if',
          ("tests/bank/test_bank.py", "tests/laws/test_bank_laws.py")),
    Fault("artifact-order-of-making", "aoec/artifact/archive.py", "for name in sorted(entries):", "for name in entries:",
          ("tests/artifact/test_artifact.py",)),
    Fault("artifact-weight-unchecked", "aoec/artifact/compiled.py", "if digest(a.weights[name]) != data]", "if False]",
          ("tests/artifact/test_artifact.py",)),
    Fault("table-gap-of-the-default", "aoec/report/table.py", "self.tuned_us / self.bound_us - 1 if",
          "(self.default_us or 0) / self.bound_us - 1 if",
          ("tests/report/test_table.py",)),
    Fault("half-ties-not-to-even", "kernels/tile.py", "np.uint32(size + np.uint32(0xC8000FFF) + odd)",
          "np.uint32(size + np.uint32(0xC8000FFF) + np.uint32(1))", ("tests/target/test_half.py",)),
    Fault("timeline-flag-hop-dropped", "kernels/timeline.py", "s.bit[m, b + flag] + hop)", "s.bit[m, b + flag])",
          ("tests/laws/test_time_laws.py",)),
    Fault("timeline-last-iteration-off-by-one", "kernels/timeline.py",
          "kind = LAST if i == s.count[m, a] - 1 else BODY",
          "kind = LAST if i >= s.count[m, a] - 2 else BODY", ("tests/laws/test_time_laws.py",)),
    Fault("timeline-set-before-transfer-is-done", "kernels/timeline.py", "time = max(free[0], free[c], done[c])",
          "time = max(free[0], free[c])", ("tests/laws/test_time_laws.py",)),
    Fault("timeline-tail-core-merged", "kernels/timeline.py", "    if index == extent - 1:\n        return LAST",
          "    if index == extent:\n        return LAST", ("tests/laws/test_time_laws.py",)),
    Fault("split-tail-not-clamped", "aoec/primitives/split.py", "minimum(factor, n.extent - Var(outer) * factor)", "factor",
          ("tests/primitives/test_docstrings.py", "tests/primitives/test_schedules.py")),
)
