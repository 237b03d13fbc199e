"""Rewrites of a draft as data: rules in text files, the engine that applies them, and the law that each is held to (docs/rewrites.md)."""
