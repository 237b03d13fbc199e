"""`platform_config` files of CANN become machine files: what is taken over, what is not, what is refused and how."""
from __future__ import annotations

from pathlib import Path

import pytest

from aoec.base.errors import TargetError
from aoec.target.machine import Machine, load
from aoec.target.platform import import_platform

# the form of CANN's files, with figures of the 2201 generation; the SoC is made up
INI = """# [Platform Info configuration begin]
[version]
SoC_version=Ascend910B9-1
AIC_version=AIC-C-220
[SoCInfo]
ai_core_cnt=12
cube_core_cnt=12
vector_core_cnt=24
memory_size=34359738368
l2_size=100663296
[AICoreSpec]
cube_freq=1600
l0_a_size=65536
l0_b_size=65536
l0_c_size=131072
l1_size=524288
fb0_size=2048
fb1_size=1024
bt_size=1024
ub_size=196608
[AICoreMemoryRates]
ddr_rate=32
ddr_read_rate=32
l2_rate=110
l2_read_rate=110
l1_to_l0_a_rate=512
l1_to_l0_b_rate=256
[AICoreintrinsicDtypeMap]
0=Intrinsic_vrec|float16,float32
"""


def imported(folder: Path, text: str) -> tuple[Machine, list[str]]:
    (folder / "chip.ini").write_text(text)
    written, notes = import_platform(folder / "chip.ini")
    (folder / "mine.toml").write_text(written)
    return load(folder / "mine.toml"), notes


def test_a_chip_of_the_2201_generation(tmp_path):
    m, notes = imported(tmp_path, INI)
    assert (m.name, m.clock_mhz, m.cores["aic"].count, m.cores["aiv"].count) == ("Ascend910B9_1_imported", 1600, 12, 24)
    assert (m.memory_bytes, m.l2_size_bytes, m.l2_usable_bytes, m.scopes["FB"].size_bytes) == (1 << 35, 96 << 20, 50 << 20, 3072)
    l1 = m.sources["scopes.L1.size_bytes"]
    assert (l1.source, l1.confidence, l1.unit) == ("platform_config chip.ini l1_size", "official", "B")
    assert m.hbm_bytes_per_s == pytest.approx(32 * 12 * 1.6e9) and m.sources["shared.hbm_bytes_per_s"].confidence == "estimate"
    assert m.timing == load("Ascend910B3").timing
    # rates that 2201's files carry over from 910A
    assert (m.paths["l1_l0a"].bytes_per_cycle, m.paths["l1_l0b"].bytes_per_cycle, m.paths["gm_l1"].bytes_per_cycle) == (256, 128, 78.3)
    assert any("512 and 256" in n and "not taken over" in n for n in notes) and any("estimated" in n for n in notes)


def test_rates_of_reading_stand_for_missing_ones(tmp_path):
    lacking = INI.replace("ddr_rate=32\n", "", 1).replace("l2_rate=110\n", "", 1)
    assert imported(tmp_path, lacking)[0].sources["shared.l2_bytes_per_s"].value == imported(tmp_path, INI)[0].sources[
        "shared.l2_bytes_per_s"].value
    with pytest.raises(TargetError, match="l2_rate: this key is missing"):
        imported(tmp_path, lacking.replace("l2_read_rate=110\n", ""))


def test_a_known_chip_keeps_its_measured_bandwidth(tmp_path):
    m, notes = imported(tmp_path, INI.replace("Ascend910B9-1", "Ascend910B4"))
    known = load("Ascend910B4")
    assert m.name == "Ascend910B4_imported" and m.hbm_bytes_per_s == known.hbm_bytes_per_s and m.clock_mhz == 1600
    assert not any("estimated" in n for n in notes)


def test_another_generation_takes_its_rates(tmp_path):
    rates = {"AIC-C-220": "AIC-C-310", "l1_to_l0_b_rate=256": "l1_to_l0_b_rate=192", "l2_read_rate=110": "l2_read_rate=99"}
    text = INI
    for old, new in rates.items():
        text = text.replace(old, new)
    m, notes = imported(tmp_path, text)
    assert (m.paths["l1_l0a"].bytes_per_cycle, m.paths["l1_l0b"].bytes_per_cycle, m.paths["gm_l1"].l2_bytes_per_cycle) == (512, 192, 99)
    assert m.constants["mmad_head"] == 3 and any("other rates" in n for n in notes)


@pytest.mark.parametrize("old, new, sentence", [
    ("[AICoreSpec]", "[AICoreSpeck]", "[AICoreSpec]: this section is missing; did you mean AICoreSpeck?"),
    ("cube_freq", "cube_frq", "[AICoreSpec] cube_freq: this key is missing or empty; did you mean cube_frq?"),
    ("l1_size=524288", "l1_size=", "[AICoreSpec] l1_size: this key is missing or empty"),
    ("l1_size=524288", "l1_size=1_0", "[AICoreSpec] l1_size: is '1_0' and must be a whole number above zero"),
    ("l1_size=524288", "l1_size=-4", "is '-4' and must be a whole number"),
    ("l1_size=524288", "l1_size=0", "is '0' and must be"),
    ("l1_size=524288", "l1_size=9999999999999999999999", "must be a whole number"),
    ("l1_size=524288", "l1_size=1\nl1_size=2", "no platform_config file: While reading from"),
    ("AIC-C-220", "AIC-C-22O", "[version] AIC_version: is 'AIC-C-22O', a core generation that has no machine here; did you mean AIC-C-220"),
    ("SoC_version=Ascend910B9-1", "SoC_version=9 B", "which cannot be a target's name"),
    ("[version]", "version", "no platform_config file"),
    ("vector_core_cnt", "vec_cnt", "[SoCInfo] vector_core_cnt: this key is missing"),
])
def test_refusals(tmp_path, old, new, sentence):
    assert old in INI
    with pytest.raises(TargetError) as e:
        imported(tmp_path, INI.replace(old, new, 1))
    assert sentence in str(e.value) and "chip.ini" in str(e.value) and "\n" not in str(e.value)


def test_what_is_no_text_or_no_file_is_refused(tmp_path):
    (tmp_path / "chip.ini").write_bytes(b"\xff\xfe")
    for path, sentence in ((tmp_path / "chip.ini", "not UTF-8"), (tmp_path / "none.ini", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(TargetError, match=sentence):
            import_platform(path)
