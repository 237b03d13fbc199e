"""How the text of options is read: each function returns a value, or raises ParseError with what is wrong with the text."""
from __future__ import annotations

import re

from aoec.base.errors import ParseError
from aoec.base.precision import PRECISIONS, SPELLINGS


def positive(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) < 1:
        raise ParseError(f"{text!r} is not a whole number above 0")
    return int(text)


def steps(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,18}", text) or int(text) < 1:
        raise ParseError(f"{text[:40]!r} is not a number of steps, from 1 to 999999999999999999")
    return int(text)


def place_to_run(text: str) -> str:
    """Return the model machine, or a device with its number."""
    if not (found := re.fullmatch(r"model|npu(:[0-9]{1,3})?", text)):
        raise ParseError(f"{text[:40]!r} is not model, npu or npu:N, N the number of a device")
    return text if found[1] or text == "model" else f"{text}:0"


def device_number(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,3}", text):
        raise ParseError(f"{text[:40]!r} is not the number of a device")
    return int(text)


def limit(text: str) -> float:
    if not re.fullmatch(r"[0-9]{1,5}(\.[0-9]{1,6})?", text) or not float(text) > 0:
        raise ParseError(f"{text[:40]!r} is not a number of seconds above 0")
    return float(text)


def cycles(text: str) -> float:
    if not re.fullmatch(r"[0-9]{1,15}(\.[0-9]{1,6})?", text):
        raise ParseError(f"{text!r} is not a number of cycles")
    return float(text)


def events(text: str) -> int:
    if not 1 <= (number := positive(text)) <= 2_000_000:
        raise ParseError(f"{text} events are more than 2000000")
    return number


def seed(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise ParseError(f"{text!r} is not a whole number from 0 to 999999999")
    return int(text)


def mode(text: str) -> str:
    """Return one of PRECISIONS, of its own name or of the vendor's."""
    if text not in (*PRECISIONS, *SPELLINGS):
        raise ParseError(f"{text!r} is not one of {', '.join(PRECISIONS)}, nor ATC's {', '.join(SPELLINGS)}")
    return SPELLINGS.get(text, text)


def input_shape(text: str) -> tuple[str, tuple[int, ...]]:
    name, colon, dims = text.rpartition(":")  # the last colon: names may hold some themselves
    if not (colon and name and re.fullmatch(r"(-1|[1-9][0-9]{0,8})(,(-1|[1-9][0-9]{0,8}))*", dims)):
        raise ParseError(f"{text!r} is not of the form NAME:1,3,224,224")
    return name, tuple(int(d) for d in dims.split(","))


def batches(text: str) -> tuple[int, ...]:
    if not re.fullmatch(r"[1-9][0-9]{0,8}(,[1-9][0-9]{0,8})*", text):
        raise ParseError(f"{text!r} is not of the form 1,8,16")
    return tuple(int(d) for d in text.split(","))


def dims(text: str) -> tuple[tuple[int, ...], ...]:
    try:
        return tuple(batches(gear) for gear in text.split(";"))
    except ParseError:
        raise ParseError(f"{text!r} is not of the form 1,224,224;8,448,448") from None


def budget(text: str) -> int:
    """Return a number of trials."""
    if re.fullmatch(r"[0-9]{1,9}", text):
        return int(text)
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?s", text):
        raise ParseError(f"{text[:40]!r} is a time; --time {text[:40]} is for all searches together, "
                         "--budget counts the trials of each")
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?", text):
        raise ParseError(f"{text[:40]!r} is not from 0 to 999999999, a whole number of trials")
    raise ParseError(f"{text!r} is no number of trials (2000)")


def seconds(text: str) -> float:
    """Return seconds, of 90s or 15m or 2h."""
    match = re.fullmatch(r"([0-9]{1,7}(?:\.[0-9]{1,3})?)([smh])", text)
    if not match or not float(match[1]):
        raise ParseError(f"{text[:40]!r} is no time such as 90s, 15m or 2h")
    return float(match[1]) * {"s": 1, "m": 60, "h": 3600}[match[2]]


def until(text: str) -> dict[str, float]:
    """Return {"gain" or "gap": per cent}. Raise ParseError where the text has another form."""
    if not re.fullmatch(r"(gain|gap)=[0-9]{1,4}(\.[0-9]{1,3})?(,(gain|gap)=[0-9]{1,4}(\.[0-9]{1,3})?)*", text):
        raise ParseError(f"{text!r} is not of the form gain=10 or gain=10,gap=5, in per cent")
    return {kind: float(amount) for kind, _, amount in (part.partition("=") for part in text.split(","))}


def sketch(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,6}", text):
        raise ParseError(f"{text!r} is not the number of a sketch")
    return int(text)


def choices(text: str) -> tuple[str, tuple[int, ...]]:
    match = re.fullmatch(r"\??([A-Za-z_][A-Za-z0-9_]*)=([0-9]{1,12}(?:,[0-9]{1,12})*)", text)
    if not match:
        raise ParseError(f"{text!r} is not of the form tm=64 or tm=64,128")
    return match[1], tuple(dict.fromkeys(map(int, match[2].split(","))))


def state(text: str) -> str:
    """Return one of the named memory states, or one by tensors, as text: whether they are a program's is known where that is read."""
    if text not in ("cold", "previous", "cleared", "cold inputs", "previous launch") \
            and not re.fullmatch(r"\w+=[0-9]{1,15}(,\w+=[0-9]{1,15})*", text):
        raise ParseError(f"{text[:60]!r} is neither cold, previous nor cleared, nor of the form X=4096,Y=512")
    return text


def hole(text: str) -> tuple[str, int]:
    match = re.fullmatch(r"\??([A-Za-z_][A-Za-z0-9_]*)=([0-9]{1,12})", text)
    if not match:
        raise ParseError(f"{text!r} is not of the form tm=64")
    return match[1], int(match[2])


def byte_size(text: str) -> int:
    """Return a size in bytes, with KB, MB or GB of ten's powers or KiB, MiB or GiB of two's behind it if wanted."""
    found = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]{1,6})?) ?(?:([KMG])(i?)B?|B)?", text.strip(), re.IGNORECASE)
    if not found:
        raise ParseError(f"{text[:40]!r} is no size such as 25000000, 25MB or 25MiB")
    scale = (1024 if found[3] else 1000) ** " KMG".index((found[2] or " ").upper())
    if not 1 <= (size := int(float(found[1]) * scale)) < 1 << 50:
        raise ParseError(f"{text[:40]!r} is no size from 1 byte to a petabyte")
    return size


def channels(text: str) -> int:
    if not 1 <= (number := positive(text)) <= 16:
        raise ParseError(f"{text} channels are more than 16")
    return number


def job_names(text: str) -> tuple[str, ...]:
    """Return names in a list, each once, in the order in which they are done: sgat, opat, gdat."""
    names = [name.strip() for name in text.split(",")]
    if len(set(names)) != len(names) or not all(re.fullmatch(r"[a-z]{1,20}", name) for name in names):
        raise ParseError(f"{text[:40]!r} is no list of jobs such as opat or sgat,opat,gdat")
    return tuple(names)
