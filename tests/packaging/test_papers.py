"""What stands beside the code says what is so: licence, changelog, how to contribute, the page of a package index, the Dockerfile."""
from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from aoec.simulate.compile_kernels import PARTS

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
APACHE_2 = "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"  # SHA-256 of apache.org's LICENSE-2.0.txt
KEEP_A_CHANGELOG = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security", "Known limits"}  # the last is ours


def text(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def test_the_licence_is_apaches_and_pyproject_names_it() -> None:
    assert hashlib.sha256((ROOT / "LICENSE").read_bytes()).hexdigest() == APACHE_2
    assert PROJECT["license"] == "Apache-2.0" and PROJECT["license-files"] == ["LICENSE"]
    assert not [c for c in PROJECT["classifiers"] if c.startswith("License ::")]  # a licence expression stands alone


def test_the_changelog_has_an_entry_for_this_version() -> None:
    heads = re.findall(r"^## \[(.+?)\](?: - \d{4}-\d\d-\d\d)?$", text("CHANGELOG.md"), re.MULTILINE)
    assert len(heads) == text("CHANGELOG.md").count("\n## ")
    assert heads[0] == "Unreleased" and heads[1] == PROJECT["version"]
    versions = [tuple(map(int, h.split("."))) for h in heads[1:]]
    assert versions == sorted(versions, reverse=True)
    assert set(re.findall(r"^### (.+)$", text("CHANGELOG.md"), re.MULTILINE)) <= KEEP_A_CHANGELOG


def test_counts_of_the_changelog_are_those_of_the_pages() -> None:
    entry = text("CHANGELOG.md").partition("## [0.1.0]")[2].partition("\n## ")[0]
    (counts,) = re.findall(r"^- (\S+) tests: (\S+) passed, (\S+) known, (\S+) refused", text("docs/operators.md"), re.MULTILINE)
    assert "of ONNX's {} backend tests {} pass, {} differ in a known way and {} are refused".format(*counts) in entry
    for words in ("55 published measurements", "the median error is 6 %"):
        assert words in " ".join(entry.split()) and words in " ".join(text("README.md").split())


PATH = r"(?:^|[\s`])((?:[\w.-]+/)+[\w.-]*|[A-Z]+(?:\.zh)?\.md)(?=[`\s.,:)]|$)"
PATHS = [(page, name) for page in ("CONTRIBUTING.md", "docs/package.md")
         for name in re.findall(PATH, re.sub(r"`aoec [^`]*`", "", text(page)))]


@pytest.mark.parametrize("page, name", dict.fromkeys(PATHS))
def test_a_page_names_what_is_there(page: str, name: str) -> None:
    made = (".venv/bin/python", "APPLY.md")  # by make, and by aoec deliver
    assert name in made or (ROOT / name.rstrip(".")).exists()


def test_commands_of_contributing_are_there() -> None:
    lines = [line for block in re.findall(r"```sh\n(.*?)```", text("CONTRIBUTING.md"), re.DOTALL) for line in block.splitlines()]
    goals = set(re.findall(r"^([\w-]+):", text("Makefile"), re.MULTILINE))
    named = {line.split()[1] for line in lines if line.startswith("make ")}
    named |= set(re.findall(r"`make ([a-z-]+)[^`]*`", text("CONTRIBUTING.md")))
    assert len(named) > 5 and named <= goals
    for program, options in re.findall(r"python (bench/\S+\.py)(.*)", "\n".join(lines)):
        assert all(f'"{option}"' in text(program) for option in re.findall(r"--[a-z-]+", options)), (program, options)
    assert '"--bless"' in text("tests/conftest.py") and 'add_argument("names"' in text("tests/mutants/__main__.py")


def without_links(page: str) -> str:
    """The words of a page in one line, of links what is read of them."""
    return " ".join(re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", page).split())


def test_the_page_of_a_package_index_says_what_the_readme_says() -> None:
    """Paragraph by paragraph, but for its last section; so it needs no links."""
    page, readme = text(PROJECT["readme"]), without_links(text("README.md"))
    body = page.partition("\n\n")[2].partition("## Where to read more")[0]
    paragraphs = [p for p in body.split("\n\n") if not p.startswith("#")]
    assert len(paragraphs) > 10 and [p for p in paragraphs if without_links(p) not in readme] == []
    assert "](" not in page


# ---------------------------------------------------------------- Dockerfile

DOCKERFILE = text("Dockerfile")
STEPS = [line.partition(" ")[::2] for line in DOCKERFILE.splitlines() if line and not line.startswith("#")]


def copied() -> list[tuple[str, str]]:
    """(source, destination) of each COPY."""
    return [(source, words[-1]) for step, rest in STEPS if step == "COPY" for words in [rest.split()] for source in words[:-1]]


def test_an_image_is_built_of_what_is_there_as_a_user_of_its_own() -> None:
    assert len(copied()) > 5 and all((ROOT / source).exists() for source, _ in copied())
    ignored = text(".dockerignore").split()
    assert not [source for source, _ in copied() if source.split("/")[0] in ignored]
    assert [rest for step, rest in STEPS if step == "USER"] == ["aoec"] and STEPS[-1] == ("ENTRYPOINT", '["aoec"]')
    (image,) = [rest for step, rest in STEPS if step == "FROM"]
    assert f"Programming Language :: Python :: {image.removeprefix('python:').removesuffix('-slim')}" in PROJECT["classifiers"]


def test_an_image_takes_only_what_the_lock_says_and_compiles_all_kernels() -> None:
    installs = [rest for step, rest in STEPS if step == "RUN" and "pip install" in rest]
    assert len(installs) == 2 and "--require-hashes --only-binary :all: -r locks/run.txt" in installs[0]
    assert installs[1].endswith("--no-deps --no-build-isolation .")
    (compiles,) = [rest for step, rest in STEPS if step == "RUN" and "compile_kernels" in rest]
    assert compiles.split()[-len(PARTS):] == list(PARTS)


def test_commands_of_the_dockerfile_are_those_of_the_readme() -> None:
    commands = re.findall(r"^#   (docker .*)$", DOCKERFILE, re.MULTILINE)
    assert len(commands) == 2
    for readme in ("README.md", "README.zh.md"):
        assert re.findall(r"^(docker .*)$", text(readme), re.MULTILINE) == commands
    (argument,) = [rest.partition("=")[0] for step, rest in STEPS if step == "ARG"]
    assert f"--build-arg {argument}=" in commands[0]
    (volume,) = [rest for step, rest in STEPS if step == "VOLUME"]
    assert f"-v aoec:{volume} " in commands[1]
    assert ':/work"' in commands[1] and ("WORKDIR", "/work") in STEPS


def test_what_an_image_copies_is_enough_to_install(tmp_path: Path) -> None:
    for source, destination in copied():
        target = tmp_path / "src" / destination / ("" if not destination.endswith("./") else Path(source).name)
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / source, target)
    words = ["-m", "pip", "install", "-q", "--no-index", "--no-deps", "--no-build-isolation", "--target", str(tmp_path / "site"), "."]
    subprocess.run([sys.executable, *words], cwd=tmp_path / "src", check=True, capture_output=True)
    code = "import aoec, aoec.cli; print(aoec.__file__); aoec.cli.main(['targets'])"
    done = subprocess.run([sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path / 'site')!r}); {code}"],
                          capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.startswith(str(tmp_path / "site" / "aoec")) and "Ascend950PR" in done.stdout
