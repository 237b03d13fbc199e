"""Machine files: what loads, what is refused and how, and that the 910B3 gives the cycles that were published for it."""
from __future__ import annotations

from importlib import resources

import pytest

from aoec.base.errors import TargetError
from aoec.base.ticks import TICKS_PER_CYCLE
from aoec.ir.index import variables
from aoec.ir.text.parse import parse_program
from aoec.simulate.encode.tables import TICKS
from aoec.simulate.timing.time import measure
from aoec.target.inherit import read_merged, shipped_machines, shipped_texts
from aoec.target.isa.instructions import INSTRUCTIONS
from aoec.target.machine import CONFIDENCE, load, parse_machine, targets

TOY = (resources.files("aoec.target") / "toy.toml").read_text(encoding="utf-8")


def test_every_machine_has_a_timing_for_every_instruction_that_its_cores_reach():
    for name in targets():
        m = load(name)
        lacks = read_merged(shipped_texts()[shipped_machines()[name]], name).raw.get("lacks", [])
        for i in INSTRUCTIONS.values():
            reached = [c for c in m.cores.values() if i.pipe in c.pipes
                       and all(s == "GM" or s in m.scopes and c.name in m.scopes[s].cores for o in i.operands for s in o.scopes)]
            assert m.has(i.name) == (bool(reached) and i.name not in lacks), i.name
        assert all(n.source and n.confidence in CONFIDENCE for n in m.sources.values())


def test_ascend910b3():
    m = load()
    assert (m.name, m.cores["aic"].count, m.cores["aiv"].count, m.clock_mhz, m.flag_ids) == ("Ascend910B3", 20, 40, 1800, 6)
    sizes = {s.name: s.size_bytes // 1024 for s in m.scopes.values()}
    assert sizes == {"L1": 512, "L0A": 64, "L0B": 64, "L0C": 128, "UB": 192, "BT": 1, "FB": 7}
    assert m.hbm_bytes_per_cycle == pytest.approx(861.1, abs=0.1)
    assert m.launch_us(1) == pytest.approx(0.73) and m.launch_us(60, 2) == pytest.approx(4.5)


def test_ticks_are_those_of_the_timeline():
    assert load("Ascend910B3").us_per_tick == 1 / (1800 * TICKS) and TICKS == TICKS_PER_CYCLE


def test_names_are_found_in_any_case():
    assert load("ascend910b3") is load("Ascend910B3")


@pytest.mark.parametrize("name, sentence", [
    ("Ascend910B9", "target Ascend910B9 is unknown; did you mean Ascend910B4?"),
    ("toi", "did you mean toy?"),
    ("zzz", "known: Ascend"),
    ("none/here.toml", "none/here.toml: cannot read this machine file: No such file"),
])
def test_unknown_targets(name, sentence):
    with pytest.raises(TargetError, match=sentence.replace("?", r"\?")):
        load(name)


NUMBER = '{value = 1, source = "made up", confidence = "estimate"}'


@pytest.mark.parametrize("old, new, sentence", [
    ('name = "toy"', 'name = "a toy"', "name: must be a name"),
    ('name = "toy"', "name = ", "not TOML"),
    ("hop_cycles", "hop_cycle", "flags: unknown key hop_cycle; did you mean hop_cycles?"),
    ("[scalar]\nissue_cycles = " + NUMBER, "", "scalar: this table is missing"),
    ("issue_cycles = " + NUMBER, "", "scalar.issue_cycles: this table is missing"),
    ("issue_cycles = " + NUMBER, "issue_cycles = 1", "scalar.issue_cycles: must be a table"),
    ("issue_cycles = " + NUMBER, 'issue_cycles = {value = 1, source = "", confidence = "estimate"}', "needs a `source` and a `confidence`"),
    ("issue_cycles = " + NUMBER, 'issue_cycles = {value = 1, source = "x", confidence = "sure"}', "a `confidence` of official, measured"),
    ("issue_cycles = " + NUMBER, 'issue_cycles = {value = -1, source = "x", confidence = "estimate"}', "is -1 and must be at least 0"),
    ("issue_cycles = " + NUMBER, 'issue_cycles = {value = nan, source = "x", confidence = "estimate"}', "needs a finite `value`"),
    ("issue_cycles = " + NUMBER, 'issue_cycles = {valu = 1, source = "x", confidence = "official"}', "key valu; did you mean value?"),
    ("ids = {value = 4,", "ids = {value = 4.5,", "flags.ids: is 4.5 and must be a whole number"),
    ("hop_cycles = {value = 2,", "hop_cycles = {value = 0,", "flags.hop_cycles: must be above zero"),
    ("[cores.aiv]", "[cores.aix]", "unknown core kind aix; did you mean ai"),
    ('pipes = ["S", "V", "MTE2", "MTE3"]', 'pipes = ["V"]', "pipes must be a list"),
    ("UB = {core", "UBB = {core", "unknown scope UBB; did you mean UB?"),
    ('UB = {core = "aiv"', 'UB = {core = "core"', "core is 'core'; one of aic, aiv is needed"),
    ("l2_usable_bytes = {value = 32768", "l2_usable_bytes = {value = 99999", "is 99,999 and more than the 65,536 of l2_size_bytes"),
    ("vadd = ", "vaddd = ", "timing: unknown key vaddd; did you mean vadd?"),
    ('vadd = {busy = "head + repeat"}\n', "", "timing.vadd: this table is missing"),
    ('vadd = {busy = "head + repeat"}', 'vadd = {latency = "1"}', "timing.vadd: needs a formula `busy`"),
    ('vadd = {busy = "head + repeat"}', "vadd = {busy = 3}", "must be a formula in quotes"),
    ('vadd = {busy = "head + repeat"}', 'vadd = {busy = "head + repeats"}', "timing.vadd.busy: unknown name repeats; did you mean repeat?"),
    ('vadd = {busy = "head + repeat"}', 'vadd = {busy = "head + "}', "timing.vadd.busy:1:"),
    ("fp16 = {value = 16", "half = {value = 16", "tables.kf: unknown key half"),
])
def test_broken_files(old, new, sentence):
    assert TOY.count(old) >= 1
    with pytest.raises(TargetError) as e:
        parse_machine(TOY.replace(old, new, 1), "toy.toml")
    assert "toy.toml" in str(e.value) and sentence in str(e.value)


def test_a_file_of_ones_own(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(TOY.replace('name = "toy"', 'name = "mine"'), encoding="utf-8")
    assert load(path).name == "mine" and load(str(path)).scopes == load("toy").scopes


def test_the_hash_is_of_the_content():
    toy = load("toy").hash
    assert parse_machine(TOY + "\n# a comment").hash == toy
    assert parse_machine(TOY.replace("made up", "invented")).hash == toy
    assert parse_machine(TOY.replace("head = {value = 5", "head = {value = 6")).hash != toy


HEAD = """program p for Ascend910B3 {
  input A: fp16[1048576]
  temp Y: fp32[16384]
  space A1: fp16 in L1 at 0 size 262144
  space A0: fp16 in L0A at 0 size 65536
  space B0: fp16 in L0B at 0 size 65536
  space C: fp32 in L0C at 0 size 65536
  stream s aic grid [c in 1] {
"""
MMAD = "mmad(dst=C[0], a=A0[0], b=B0[0], m=128, n=128, k=128, init=1)\n"
ND2NZ = "copy_gm_l1_nd2nz(dst=A1[0], src=A[0], rows=128, cols=128, src_stride=4096, dst_rows=128)\n"
FIXPIPE = "fixpipe_nd(dst=Y[0], src=C[0], m=128, n=128, src_rows=128, dst_stride=128, relu=0)\n"
LOADS = ("for i in 8 {\n load_l0a(dst=A0[0], src=A1[0], repeat=8, src_stride=1, dst_gap=0, transpose=0)\n"
         " load_l0b(dst=B0[0], src=A1[0], repeat=8, src_stride=1, dst_gap=0, transpose=0)\n}\n")
COPY = "copy_gm_l1(dst=A1[0], src=A[0], bursts=1, length=8192, src_gap=0, dst_gap=0)\n"


def cycles(body, pipe=None):
    m = measure(parse_program(HEAD + body + "  }\n}\n"), load(), (("A", 1 << 21),) if "nd2nz" in body else ())
    return m.busy_cycles[pipe] if pipe else m.cycles


@pytest.mark.parametrize("body, pipe, published, tolerance", [
    (MMAD, None, 575 + 5, 0.001),  # alone, and its issue
    (MMAD * 10, "M", 10 * 521, 0.001),  # back to back: 512 and a head of 9
    (ND2NZ * 2, "MTE2", 871, 0.01),  # 256 rows of 256 bytes from L2
    (FIXPIPE, "FIXP", 817.4, 0.01),
    (FIXPIPE, None, 855.9 + 5, 0.01),
    (LOADS, "MTE1", 421, 0.01),  # one slot of L1: MTE2 does not fill another meanwhile
    (COPY, "MTE2", 3346, 0.01),  # 256 KB from HBM
])
def test_published_cycles(body, pipe, published, tolerance):
    """vTriton perfbound/calibration on a 910B3, one core (hardware measurements published with that project)."""
    assert cycles(body, pipe) == pytest.approx(published, rel=tolerance)


def test_a_term_stands_for_its_formula_and_a_misspelt_one_is_refused():
    changed = TOY.replace('vadd = {busy = "head + repeat"}', 'vadd = {busy = "both"}')
    changed += '\n[terms]\none = "repeat * 2"\nboth = "one + src0_at // 32"\n'
    assert variables(parse_machine(changed).cost("vadd").busy) == {"repeat", "src0_at"}
    with pytest.raises(TargetError, match="unknown name bth; did you mean both"):
        parse_machine(changed.replace('busy = "both"', 'busy = "bth"'))
    with pytest.raises(TargetError, match="unknown name src_at; did you mean src"):
        parse_machine(changed.replace("src0_at", "src_at"))


@pytest.mark.parametrize("terms, sentence", [
    ("".join(f't{i} = "t{i + 1} + t{i + 1}"\n' for i in range(60)) + 't60 = "repeat"\n', "words long with its terms in place"),
    ('t0 = "t1 + 1"\nt1 = "t0 + 1"\n', "nested too deeply, or a term stands for itself"),
    (f't0 = "{"1 + " * 4000}1"\n', "a formula has at most 8,192"),
    ("".join(f't{i} = "{"max(0," * 90}t{i + 1}{")" * 90}"\n' for i in range(40)) + 't40 = "repeat"\n', "nested too deeply"),
])
def test_terms_that_grow_beyond_measure_are_refused(terms, sentence):
    text = TOY.replace('vadd = {busy = "head + repeat"}', 'vadd = {busy = "t0"}') + f"\n[terms]\n{terms}"
    with pytest.raises(TargetError, match=sentence):
        parse_machine(text)


def test_terms_are_a_table():
    with pytest.raises(TargetError, match="terms: must be a table"):
        parse_machine("terms = 3\n" + TOY)
