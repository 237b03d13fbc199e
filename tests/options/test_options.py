"""Options: what a command line says and what Python says are the same, help names what there is, and one class says each option."""
from __future__ import annotations

import inspect
import re
import subprocess
import sys
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import aoec
from aoec.base.errors import ParseError
from aoec.cli.command import Command, CommandGroup, VendorOptions, all_commands, command_names
from aoec.cli.parser import parse
from aoec.options.compile import CompileOptions, TuneOptions
from aoec.options.option import Option, default_of, options_of

COMMANDS = {words: command for c in all_commands() for words, command in (
    [((c.name, a.name), a) for a in c.actions] if isinstance(c, CommandGroup) else [((c.name,), c)])}
# of the options of a compile: text -> the value that Python gives for it
VALUES: dict[str, dict[str, Any]] = {
    "--target": {"Ascend310P3": "Ascend310P3"}, "--budget": {"0": 0, "77": 77}, "--seed": {"3": 3}, "--search": {"bayes": "bayes"},
    "--until": {"gain=10,gap=2.5": {"gain": 10.0, "gap": 2.5}}, "--metric": {"throughput": "throughput"}, "--jobs": {"2": 2},
    "--slices": {"auto": "auto", "g1..g3/4": "g1..g3/4"}, "--input-shape": {"x:1,-1": {"x": (1, -1)}}, "--ops": {"a.op": ["a.op"]},
    "--precision": {"bf16": "bf16", "force_fp16": "force_fp16"}, "--dynamic-batch": {"1,8": [1, 8]}, "--report": {"r": Path("r")},
    "--bank": {"b.db": Path("b.db")}, "--from": {"fuse": "fuse"}, "-o": {"m.aoec": Path("m.aoec")}}
SWITCHES = ("--tune", "--robust", "--repeat", "--resume", "--no-host", "--json")


def field_of(word: str) -> str:
    return next(name for name, o in options_of(CompileOptions).items() if word in o.flags)


PAIRS = [(word, text) for word, found in VALUES.items() for text in found]


@given(st.sets(st.sampled_from(PAIRS), max_size=6), st.sets(st.sampled_from(SWITCHES)))
def test_the_command_line_and_python_say_the_same(words: set[tuple[str, str]], switches: set[str]) -> None:
    asked = dict(sorted(words))
    typed = [part for word, text in asked.items() for part in (word, text)]
    command, options = parse(["compile", "m.onnx", *typed, *switches])
    values = {field_of(word): VALUES[word][text] for word, text in asked.items()} | {field_of(word): True for word in switches}
    assert command.name == "compile" and options == CompileOptions("m.onnx", **values)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_field_is_an_option_or_is_said_in_the_docstring(words: tuple[str, ...]) -> None:
    """And what an option does is said."""
    cls = COMMANDS[words].options
    hidden = {f.name for f in fields(cls)} - options_of(cls).keys()
    said = " ".join(c.__doc__ or "" for c in cls.__mro__)
    assert {name for name in hidden if f"`{name}`" not in said and name not in (*cls.hidden, "model", "tune")} == set()
    assert [name for name, o in options_of(cls).items() if not o.help] == []


@pytest.mark.parametrize("words", [w for w, c in COMMANDS.items() if not issubclass(c.options, VendorOptions)], ids=" ".join)
def test_defaults_are_those_of_the_class(words: tuple[str, ...]) -> None:
    """A command with what it needs and nothing else has the defaults of its class."""
    cls = COMMANDS[words].options
    needed: dict[str, Any] = {}
    typed: list[str] = []
    sets = set[str]()
    for name, o in options_of(cls).items():
        must = o.required or not o.flags and default_of(cls, name) is MISSING
        if not must or o.one_of in sets:
            continue
        sets |= {o.one_of} - {""}
        text = o.choices[0] if o.choices else "g0..g1/2" if name == "regions" else "file"
        typed += [*o.flags[-1:], text]
        needed[name] = [text] if o.many else text
    assert parse([*words, *typed])[1] == cls(**needed)


def test_python_has_the_options_of_the_command_line() -> None:
    known = inspect.signature(aoec.compile).parameters
    assert list(known) == list(inspect.signature(CompileOptions).parameters)
    assert known["budget"].default == 2000 and known["model"].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD


@pytest.mark.parametrize("wrong, complaint", [
    ({"search": "bayess"}, "search: 'bayess' is unknown; did you mean bayes"), ({"precision": "fp61"}, "precision: 'fp61' is not one of"),
    ({"slices": "g1-g2"}, "slices: 'g1-g2' is not of the form"), ({"budget": "many"}, "budget: 'many' is no number of trials")])
def test_what_python_gives_wrong_is_one_sentence(wrong: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ParseError, match=f"^{re.escape(complaint)}"):
        CompileOptions("m.onnx", **wrong)


def test_effort_is_a_budget_in_a_word() -> None:
    full = TuneOptions("m.onnx", effort="full")
    assert (full.tune, full.budget, full.until) == (True, 20_000, {"gap": 1.0})
    assert not TuneOptions("m.onnx", effort="none").tune


def test_one_class_says_each_word_of_a_command() -> None:
    for c in COMMANDS.values():
        assert isinstance(c, Command)
        flags = [f for o in options_of(c.options).values() for f in o.flags]
        assert len(flags) == len(set(flags)) and all(isinstance(o, Option) for o in options_of(c.options).values())


def test_a_command_has_the_name_of_its_file() -> None:
    """So that no other has to be loaded for it."""
    assert sorted(command_names()) == sorted(c.name for c in all_commands())
    loaded = ("import sys\nfrom aoec.cli import main\nmain(['doctor'])\n"
              "print(sorted(m for m in sys.modules if m.startswith('aoec.cli.commands.')))")
    done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "['aoec.cli.commands.doctor']"
