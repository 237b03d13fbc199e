"""Messages in protobuf's text form, without a schema: what CANN's compiler writes its graphs as."""
from __future__ import annotations

import re
from dataclasses import dataclass, field

from aoec.base.errors import ParseError

DEPTH_LIMIT = 64
BLANK = r"(?:[\s,;]|\#[^\n]*+)*+"
TEXT = r"""(?:"(?:[^"\\\n]|\\.)*+"|'(?:[^'\\\n]|\\.)*+')"""
VALUE = rf"(?:[-+]?\.?\d[\w.+-]*+|[-+]?[A-Za-z_][\w.]*+|{TEXT}(?:{BLANK}{TEXT})*+)"
LIST = rf"\[(?:{BLANK}{VALUE})*+{BLANK}\]"
FIELD = re.compile(rf"{BLANK}(?:(?P<close>[}}>])|(?P<name>[A-Za-z_][\w.]*+){BLANK}"
                   rf"(?::?{BLANK}(?P<open>[{{<])|:{BLANK}(?P<value>{VALUE})|:{BLANK}(?P<list>{LIST})))")
BLANKS, VALUES, TEXTS = re.compile(BLANK), re.compile(VALUE), re.compile(TEXT)
ESCAPE = re.compile(rb"\\([0-7]{1,3}|x[0-9a-fA-F]{1,2}|.)")
NAMED = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}
CLOSES = {"{": "}", "<": ">"}


@dataclass
class Message:
    """The fields of a message by name, each with its values in order: texts of scalars, or messages."""

    scalars: dict[str, list[str]] = field(default_factory=dict)
    messages: dict[str, list[Message]] = field(default_factory=dict)

    def text(self, name: str) -> str:
        """Return the last value of a scalar, as protobuf has it. Return "" where there is none."""
        return self.scalars.get(name, [""])[-1]

    def texts(self, name: str) -> list[str]:
        return self.scalars.get(name, [])

    def all(self, name: str) -> list[Message]:
        return self.messages.get(name, [])


def parse(text: str, source: str = "") -> Message:
    """Return the message that a text says. Raise ParseError, with the place, where it is none."""
    return _Reader(text, source).message()


class _Reader:
    """A text with what of it is being read: messages in messages are a stack, for a file may hold any depth of them."""

    def __init__(self, text: str, source: str) -> None:
        self.text, self.source = text, source
        self.stack: list[tuple[Message, str]] = [(Message(), "")]

    def message(self) -> Message:
        """Return all of the text."""
        at = 0
        while found := FIELD.match(self.text, at):
            kind = str(found.lastgroup)
            if kind == "close":
                self.close(found)
            elif kind == "open":
                self.open(found)
            else:
                self.stack[-1][0].scalars.setdefault(found["name"], []).extend(values(found[kind]))
            at = found.end()
        at += len(BLANKS.match(self.text, at)[0])  # type: ignore[index]  # it matches nothing, too
        if at < len(self.text):
            raise self.error(at, "expected a field, as in name: value or name { ... }")
        if len(self.stack) > 1:
            raise self.error(at, f"the text ends inside {len(self.stack) - 1} messages: it is cut off")
        return self.stack[0][0]

    def open(self, found: re.Match[str]) -> None:
        """Begin a message inside the innermost open one. Raise an error where too many are open."""
        if len(self.stack) > DEPTH_LIMIT:
            raise self.error(found.start("open"), f"more than {DEPTH_LIMIT} messages in each other")
        inner = Message()
        self.stack[-1][0].messages.setdefault(found["name"], []).append(inner)
        self.stack.append((inner, CLOSES[found["open"]]))

    def close(self, found: re.Match[str]) -> None:
        """End the innermost message. Raise an error where the bracket does not close it."""
        if found["close"] != self.stack[-1][1]:
            raise self.error(found.start("close"), f"{found['close']} closes no message")
        self.stack.pop()

    def error(self, at: int, message: str) -> ParseError:
        line = self.text.count("\n", 0, at) + 1
        return ParseError(message, self.text, line, at - self.text.rfind("\n", 0, at), self.source)


def values(said: str) -> list[str]:
    """Return the values of a scalar, or of a list of them: words and numbers as they are written, texts whole."""
    if said[0] == "[":
        return [v for m in VALUES.finditer(said, 1) for v in values(m[0])]
    return ["".join(plain(m[0][1:-1]) for m in TEXTS.finditer(said))] if said[0] in "\"'" else [said]


def plain(quoted: str) -> str:
    """Return the value of a quoted text. Bytes that are no UTF-8 are replaced."""
    return ESCAPE.sub(_unescape, quoted.encode()).decode("utf-8", "replace") if "\\" in quoted else quoted


def _unescape(m: re.Match[bytes]) -> bytes:
    said = m[1]
    if said[:1].isdigit():
        return bytes([int(said, 8) & 255])
    if said[:1] == b"x" and len(said) > 1:
        return bytes([int(said[1:], 16)])
    return NAMED.get(said, said)
