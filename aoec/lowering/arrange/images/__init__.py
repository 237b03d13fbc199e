"""Rewriting of work on images before it is put into groups."""
