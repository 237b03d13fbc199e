"""What tests of the stand-in need."""
from __future__ import annotations

import shutil
import sys

import pytest

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None or sys.platform != "linux",
                                    reason="there is no g++ on Linux here, which the stand-in compiles kernels with")
