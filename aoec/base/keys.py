"""Identity is text: keys are hashes of canonical text."""
from __future__ import annotations

from hashlib import sha256


def digest(text: str) -> str:
    """Return the sha256 of `text`, 64 hex digits."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
