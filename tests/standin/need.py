"""What tests of the stand-in need."""
from __future__ import annotations

import shutil

import pytest

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++, which the stand-in compiles kernels with")
