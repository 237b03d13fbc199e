"""What is shown of scheduled funcs and programs, by hand."""
from __future__ import annotations

import pytest

from aoec.ir.text.parse import parse_func, parse_program
from aoec.ir.text.show import show
from aoec.ir.text.simplify import simplify, without_single


def shown(text: str, loops: str = "i in 4; j in min(512 - i * 128, 128)") -> str:
    """A number of an instruction as it is shown within loops."""
    heads = [f"for {loop} {{" for loop in loops.split("; ")]
    program = parse_program(f"""program p for toy {{
      stream s core grid [g in 2] counters [c depth 2] {{ {" ".join(heads)} add(n={text}) {"}" * len(heads)} }}
    }}""", "p")
    return next(line.strip()[6:-1] for line in show(simplify(program)).splitlines() if "add(" in line)


@pytest.mark.parametrize("text, wanted", [
    ("min(min(512 - i * 128, 128) - 64, 128)", "64"),
    ("min(500 - i * 128, 128)", "min(500 - i * 128, 128)"),  # the last is cut
    ("min(500 - i * 128, 128) - min(500 - i * 128, 128)", "0"),
    ("ceildiv(min(500 - i * 128, 128), 128)", "1"),
    ("max(i, 3)", "3"), ("max(i, 2)", "max(i, 2)"),
    ("j % 128", "j"), ("(i * 128 + j) // 128", "i"), ("(i * 128 + j) // 64", "i * 2 + j // 64"), ("j // 1 + i * 1 + 0", "i + j"),
    ("select(i < 4, 7, 9)", "7"), ("select(i < 3, 7, 9)", "select(i < 3, 7, 9)"),
    ("i < 4 and j < 3", "j < 3"), ("i < 3 and j < 128", "i < 3"), ("i < 3 and j > 127", "0"),
    ("i >= 0 or j == 2", "1"), ("not(g > 1)", "1"),
    ("(c + g) // 3", "0"), ("(c + g) // 2", "(c + g) // 2"), ("abs(i)", "abs(i)"),
])
def test_what_ranges_decide(text: str, wanted: str) -> None:
    assert shown(text) == wanted


def test_a_number_between_loops_of_unknown_or_no_iterations() -> None:
    assert shown("max(j, 0)", "i in 4; j in i * 5 // (i + 1)") == "j"
    assert shown("j + 0 * i", "i in 0; j in 7") == "j"
    assert shown("min(j, 9223372036854775807)", "i in 4; j in 9223372036854775807") == "min(j, 9223372036854775807)"


ONCE = """program p for toy {
  stream s core grid [g in 1, h in 2] {
    for flag in 1 {
      set(V, MTE2, flag)
    }
    for a in 1 {
      for b in min(2 - h, 1) {
        for k in 4 {
          for d in 1 {
            add(n=a + b + k + d + g + h)
          }
        }
      }
    }
  }
}"""


def test_a_loop_that_runs_once_stays_and_its_variable_goes() -> None:
    assert show(simplify(parse_program(ONCE, "p"))) == (
        ONCE.replace("a + b + k + d + g + h", "h + k").replace("min(2 - h, 1)", "1").replace("MTE2, flag", "MTE2, 0"))


def test_short_programs_keep_the_first_loop_of_a_nest() -> None:
    assert show(without_single(parse_program(ONCE, "p"))) == """program p for toy {
  stream s core grid [h in 2] {
    set(V, MTE2, 0)
    for a in 1 {
      for k in 4 {
        add(n=h + k)
      }
    }
  }
}"""


FUNC = """func f(X: fp32[512]) -> (Y: fp32[512]) {
  local X_UB: fp32[64] in UB
  for o in 4 core {
    for s in ceildiv(min(512 - o * 128, 128), 64) {
      for c in min(min(512 - o * 128, 128) - s * 64, 64) tensor {
        load: X_UB[c] = X[o * 128 + s * 64 + c] as copy
      }
      for i in min(min(512 - o * 128, 128) - s * 64, 64) tensor {
        y: Y[o * 128 + s * 64 + i] = X_UB[i] as copy
      }
    }
  }
}"""


def test_a_func_that_is_finished_is_shown_with_its_loops() -> None:
    assert show(simplify(parse_func(FUNC, "f"))) == FUNC.replace("ceildiv(min(512 - o * 128, 128), 64)", "2")
    cube = FUNC.replace("in UB", "in L1")
    assert show(simplify(parse_func(cube, "f"))) == (
        cube.replace("ceildiv(min(512 - o * 128, 128), 64)", "2").replace("min(min(512 - o * 128, 128) - s * 64, 64)", "64"))


@pytest.mark.parametrize("old, new", [("] as copy\n      }\n    }", "]\n      }\n    }"), ("in 4 core", "in ?n core")])
def test_what_is_unfinished_or_open_is_shown_as_it_is(old: str, new: str) -> None:
    func = parse_func(FUNC.replace(old, new, 1), "f")
    assert show(func) != FUNC and simplify(func) == func
