"""Names of a source: those of the program where C++ can have them, each given to one thing."""
from __future__ import annotations

import re
from collections.abc import Iterable

from aoec.ascendc.calls import table
from aoec.ascendc.expressions import CPP_TYPES, HELPERS
from aoec.target.isa.instructions import INSTRUCTIONS

KEYWORDS = frozenset([
    "alignas", "alignof", "and", "and_eq", "asm", "auto", "bitand", "bitor", "bool", "break", "case", "catch", "char", "class", "compl",
    "concept", "const", "constexpr", "const_cast", "continue", "decltype", "default", "delete", "do", "double", "dynamic_cast", "else",
    "enum", "explicit", "export", "extern", "false", "float", "for", "friend", "goto", "if", "inline", "int", "long", "mutable",
    "namespace", "new", "noexcept", "not", "not_eq", "nullptr", "operator", "or", "or_eq", "private", "protected", "public", "register",
    "reinterpret_cast", "requires", "return", "short", "signed", "sizeof", "static", "static_assert", "static_cast", "struct", "switch",
    "template", "this", "throw", "true", "try", "typedef", "typeid", "typename", "union", "unsigned", "using", "virtual", "void",
    "volatile", "wchar_t", "while", "xor", "xor_eq", "main", "std"])
OURS = frozenset([
    "AscendC", "aoec", "half", "bfloat16_t", "block", "pipe", "PipeBarrier", "SetFlag", "WaitFlag", "GetBlockIdx", "InitSocState",
    "LocalTensor", "GlobalTensor", "TPosition", "TPipe", "TBuf", "HardEvent", "GM_ADDR", "SetAtomicAdd", "Muls", "Brcb", "Select",
    "Compare", "Compares", "CrossCoreSetFlag", "CrossCoreWaitFlag"])


class Names:
    """C++ names by what they stand for, in the order in which they are asked for."""

    def __init__(self) -> None:
        calls = {word for row in table().calls.values() for word in re.findall(r"\w+", row.call)}
        self.taken = {*KEYWORDS, *OURS, *calls, *CPP_TYPES.values(), *HELPERS, *INSTRUCTIONS}
        self.known: dict[tuple[str, str], str] = {}

    def name(self, kind: str, word: str) -> str:
        """Return the name of the thing of this kind and word; the same for the same."""
        if (kind, word) not in self.known:
            self.known[kind, word] = self._free(word)
        return self.known[kind, word]

    def _free(self, word: str) -> str:
        plain = re.sub(r"_+", "_", re.sub(r"\W", "_", word, flags=re.ASCII)).strip("_") or "x"
        plain = plain if plain[0].isalpha() else f"x{plain}"
        found = next(n for n in _number_names(plain) if n not in self.taken)
        self.taken.add(found)
        return found


def _number_names(word: str) -> Iterable[str]:
    yield word
    number = 2
    while True:
        yield f"{word}_{number}"
        number += 1
