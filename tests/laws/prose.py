"""What reads badly: sentences of more than 30 words in docstrings and docs, and docstrings of functions that begin with no verb.

    python tests/laws/prose.py [PATH ...]

It prints each with its place, and how many there are. It judges nothing else: a short sentence can be bad, too.
"""
from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
MOST_WORDS = 30  # of a sentence
CODE, DOCS = ("aoec", "kernels", "bench"), ("docs", "README.md", "CONTRIBUTING.md")
SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[\w`(\"'*])|\n\s*\n|\n\s*(?:[-*|]|\d+\.)\s|\n\s{4,}")
# no list of verbs is complete, but these words begin none
NO_VERBS = frozenset((
    "a", "all", "also", "an", "and", "any", "as", "at", "because", "before", "behind", "beside", "both", "but", "by", "each",
    "either", "every", "everything", "for", "from", "how", "if", "in", "into", "it", "its", "neither", "no", "none", "nothing", "of",
    "on", "one", "only", "other", "some", "such", "that", "the", "their", "there", "these", "they", "this", "those", "to", "two",
    "what", "when", "where", "whether", "which", "who", "whose", "why", "with", "without"))


@dataclass(frozen=True)
class Fault:
    """Something that reads badly, at a line of a file."""

    path: Path
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT) if self.path.is_relative_to(ROOT) else self.path}:{self.line}: {self.what}"


def long_sentences(text: str) -> Iterator[tuple[int, int]]:
    """Yield (line within the text, words) of each sentence that is too long. Code between backticks counts as a word."""
    at = 0
    for piece in SENTENCE.split(text):
        at = text.index(piece, at)
        words = len(re.sub(r"`[^`]*`", "code", piece).split())
        if words > MOST_WORDS and not piece.lstrip().startswith("|"):
            yield text.count("\n", 0, at), words
        at += len(piece)


def begins_with_verb(docstring: str) -> bool:
    """Return whether the first word can be a verb."""
    first = docstring.split()[0] if docstring.split() else ""
    return first[:1].isalpha() and first.strip(",;:.").lower() not in NO_VERBS


def faults_of_code(path: Path) -> Iterator[Fault]:
    """Yield what reads badly in the docstrings of a module."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if not isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        text = ast.get_docstring(node, clean=False)
        if text is None:
            continue
        line = node.body[0].lineno
        for below, words in long_sentences(text):
            yield Fault(path, line + below, f"a sentence of {words} words")
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not begins_with_verb(text):
            yield Fault(path, line, f"the docstring of {node.name} begins with no verb: {' '.join(text.split()[:5])}")


def faults_of_page(path: Path) -> Iterator[Fault]:
    """Yield the sentences of a page that are too long; blocks of code and tables are no sentences."""
    text = re.sub(r"```.*?```", lambda m: "\n" * m[0].count("\n"), path.read_text("utf-8"), flags=re.DOTALL)
    text = re.sub(r"^\|.*$", "", text, flags=re.MULTILINE)
    for below, words in long_sentences(text):
        yield Fault(path, 1 + below, f"a sentence of {words} words")


def files(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield the modules and English pages at these places."""
    for path in paths:
        found = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.suffix in (".py", ".md"))
        yield from (p for p in found if not p.name.endswith(".zh.md"))


def main(argv: Sequence[str]) -> int:
    """Print what reads badly. Return 0: it is a list to work on, and no test."""
    paths = [Path(p).resolve() for p in argv] or [ROOT / p for p in (*CODE, *DOCS)]
    found = [f for path in files(paths) for f in (faults_of_page(path) if path.suffix == ".md" else faults_of_code(path))]
    for fault in found:
        print(fault)
    long = sum("sentence" in f.what for f in found)
    print(f"{long:,} sentences of more than {MOST_WORDS} words, {len(found) - long:,} docstrings of functions that begin with no verb")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
