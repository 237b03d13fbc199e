"""Machine files that extend others: what is overridden, what is taken away, whose each number is, and what is refused."""
from __future__ import annotations

import tomllib

import pytest

from aoec.base.errors import TargetError
from aoec.target.inherit import LIMIT_BYTES, read_merged, shipped_texts, show_machine_file
from aoec.target.machine import load, parse_machine, targets

SIX = '{value = 6, source = "a bench of ours", confidence = "measured"}'


def child(text: str, parent: str = "toy") -> str:
    return f'name = "mine"\nextends = "{parent}"\n{text}'


def test_a_number_is_overridden_whole_and_says_whose_it_is():
    m, toy = parse_machine(child(f"numbers.head = {SIX}\n"), "mine.toml"), load("toy")
    assert (m.name, m.constants["head"], toy.constants["head"]) == ("mine", 6, 5)
    assert (m.sources["numbers.head"].confidence, m.sources["numbers.head"].file) == ("measured", "mine.toml")
    assert m.sources["flags.ids"].file == "toy.toml" and m.sources["flags.ids"] == toy.sources["flags.ids"]
    assert m.scopes == toy.scopes and m.hash != toy.hash


def test_a_formula_is_overridden_and_the_other_of_its_instruction_stays():
    m, toy = parse_machine(child('timing.mmad.busy = "head + m * n * k"\n')), load("toy")
    assert m.timing["mmad"].busy != toy.timing["mmad"].busy and m.timing["mmad"].latency == toy.timing["mmad"].latency
    assert m.timing["mmad_bias"] == toy.timing["mmad_bias"]


def test_the_hash_is_of_the_merged_numbers():
    same = parse_machine(shipped_texts()["toy"].replace("head = {value = 5", "head = {value = 6"))
    assert parse_machine(f'name = "toy"\nextends = "toy"\nnumbers.head = {SIX}\n').hash == same.hash


def test_a_chip_is_short_and_its_family_says_the_rest():
    chip, m = tomllib.loads(shipped_texts()["ascend910b3"]), load("Ascend910B3")
    assert "timing" not in chip and "numbers" not in chip
    assert {n.file for n in m.sources.values()} == {"ascend910b3.toml", "family_2201.toml"}


def test_files_extend_files_by_relative_paths(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "base.toml").write_text(child(f"numbers.head = {SIX}\n"))
    (tmp_path / "deep" / "mine.toml").write_text(child("", "../base.toml").replace("mine", "deeper"))
    m = load(tmp_path / "deep" / "mine.toml")
    assert (m.name, m.constants["head"]) == ("deeper", 6) and m.sources["numbers.head"].file.endswith("base.toml")


def test_a_later_parent_overrides_an_earlier_one(tmp_path):
    for name, value in (("a", 7), ("b", 8)):
        (tmp_path / f"{name}.toml").write_text(f"numbers.head = {SIX.replace('6', str(value), 1)}\n")
    (tmp_path / "mine.toml").write_text('name = "mine"\nextends = ["toy", "a.toml", "b.toml"]\n')
    assert load(tmp_path / "mine.toml").constants["head"] == 8


def test_what_is_dropped_is_gone():
    merged = read_merged('extends = "toy"\ndrops = ["scopes.FB", "timing.vadd.busy"]\n', "mine")
    assert "FB" not in merged.raw["scopes"] and merged.raw["timing"]["vadd"] == {} and "L1" in merged.raw["scopes"]
    assert not [p for p in merged.origins if p.startswith("scopes.FB")]


def test_numbers_of_another_generation_are_believed_less():
    raw = read_merged(f'extends = "family_2201"\ncarries_as = "inferred"\nnumbers.mmad_head = {SIX}\n', "mine").raw
    sure = raw["numbers"]["bus_bytes"]
    assert sure["confidence"] == "inferred" and sure["source"].startswith("carried over from another generation: asc-devkit")
    assert raw["launch"]["stream_us"]["confidence"] == "estimate"  # what is believed less already stays so
    assert raw["numbers"]["mmad_head"]["confidence"] == "measured"  # its own


@pytest.mark.parametrize("text, sentence", [
    (child("", "family_2210"), "mine.toml: extends: family_2210 is unknown; did you mean family_2201?"),
    (child("", "Ascend910b33"), "did you mean Ascend910B3?"),
    (child("", "none.toml"), "none.toml: cannot read this machine file: No such file"),
    ('extends = 3\n', "mine.toml: extends: must be a name or path"),
    (child('drops = ["scopes.FC"]\n'), "nothing that this file extends has scopes.FC; did you mean scopes.FB?"),
    (child('drops = "scopes.FB"\n'), "drops: must be a list of places"),
    (child('carries_as = "sure"\n'), "carries_as: is 'sure'; one of official"),
    (child("numbers = 3\n"), "mine.toml: numbers: is a table in the file that this one extends"),
    (child("numbers.head = 3\n"), 'numbers.head: is a table in the file that this one extends, a number with its source; write it as '
                                    'head = {value = 3, source = "...", confidence = "estimate"}'),
    (child('timing.vadd.busy = "heed"\n'), "mine.toml: timing.vadd.busy: unknown name heed; did you mean head?"),
    (child("numbers.head = {value = 3}\n"), "mine.toml: numbers.head: needs a `source`"),
    (child("flags.idz = " + SIX), "mine.toml: flags: unknown key idz; did you mean ids?"),
])
def test_refusals_name_the_file_and_the_nearest_name(tmp_path, monkeypatch, text, sentence):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text(text)
    with pytest.raises(TargetError) as e:
        load("mine.toml")
    assert sentence in str(e.value)


def test_a_file_that_extends_itself_is_refused(tmp_path):
    (tmp_path / "a.toml").write_text(child("", "b.toml"))
    (tmp_path / "b.toml").write_text(child("", "./a.toml"))
    with pytest.raises(TargetError, match=r"a\.toml extends itself, by way of"):
        load(tmp_path / "a.toml")


def test_a_text_without_a_place_extends_no_path():
    with pytest.raises(TargetError, match="is a path, and this text is no file"):
        parse_machine(child("", "base.toml"))


def test_a_huge_file_is_refused(tmp_path):
    (tmp_path / "big.toml").write_text("#" * (LIMIT_BYTES + 1))
    with pytest.raises(TargetError, match="it is larger than 1,048,576 bytes"):
        load(tmp_path / "big.toml")


@pytest.mark.parametrize("name", targets())
def test_a_machine_is_one_text(name):
    m = load(name)
    again = parse_machine(m.text)
    assert again.hash == m.hash and again.text == m.text and again.timing == m.timing
    assert {k: (n.value, n.source, n.confidence) for k, n in again.sources.items()} == {
        k: (n.value, n.source, n.confidence) for k, n in m.sources.items()}


def test_any_source_survives_the_text():
    words = 'a "quote", \\ and \x7f\t\x01 é 😀'
    raw = read_merged('extends = "toy"\n', "mine").raw
    raw["numbers"]["head"]["source"] = words
    assert tomllib.loads(show_machine_file(raw)) == raw
