"""Puts compiled kernels together: what only other kernels call is compiled once, with the entry that needs it.

Numba optimises each function with all that it calls, makes machine code of it, and then hands the same code to LLVM again with each caller.
Of functions that call each other six deep most of the time goes there. A *part* here is brought into LLVM's language and no further. An
*entry* is linked with all parts that it reaches, each of them once, and LLVM optimises that. Only entries are kept on disk.

The classes of Numba that this takes are not its public interface: `linked.py` imports this file for versions where it was tried.
"""
from __future__ import annotations

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, DefaultPassBuilder, Flags

# passes for what no kernel here has: each goes through all of a function, finds nothing, and then has its uses and definitions found anew
NEEDLESS = frozenset(("WithLifting", "InlineClosureLikes", "RewriteDynamicRaises", "MakeFunctionToJitFunction", "FindLiterallyCalls",
                      "LiteralUnroll", "LiteralPropagationSubPipelinePass", "InlineOverloads", "AnnotateTypes", "DumpParforDiagnostics"))


class _Flags(Flags):
    """Compile options, compared without Python code: Numba compares them for each operation of which it looks up the type."""

    __slots__ = ()

    def __eq__(self, other):
        return _DEFAULTS | self._values == _DEFAULTS | other._values if isinstance(other, Flags) else NotImplemented

    def __hash__(self):
        return _HASH


_DEFAULTS, _HASH = {name: option.default for name, option in Flags.options.items()}, hash(Flags())


class _Unset:
    """Stands for the compiler of machine code where there is none, and so nothing whose environment could be set."""

    @staticmethod
    def set_env(name, env):
        """Do nothing: the environment of a part is never read."""


class Part(JITCodeLibrary):
    """The code of a function that only kernels call, for linking alone."""

    codegen = _Unset

    def finalize(self):
        self._raise_if_finalized()
        self._finalized = True

    def get_pointer_to_function(self, name):
        return 0


class Entry(JITCodeLibrary):
    """The code of a kernel with that of all parts it reaches."""

    def finalize(self):
        self._linking_libraries = _link_order(self._linking_libraries)
        super().finalize()


def _link_order(libraries):
    """Return the libraries and those that parts among them link, each once and behind all that call it: LLVM links what is called
    already."""
    done, order = set(), []

    def visit(library):
        if library not in done:
            done.add(library)
            for other in library._linking_libraries if isinstance(library, Part) else ():
                visit(other)
            order.append(library)
    for library in libraries:
        visit(library)
    return order[::-1]


def compiler(kind):
    """Return a compiler of Numba whose code goes into a library of such a kind."""
    class Linked(Compiler):
        def compile_extra(self, function):
            self.state.library = kind(self.state.targetctx.codegen(), function.__qualname__)
            self.state.library.enable_object_caching()
            self.state.flags = _Flags(self.state.flags)
            return super().compile_extra(function)

        def define_pipelines(self):
            every = DefaultPassBuilder.define_nopython_pipeline(self.state)
            every.passes = [p for p in every.passes if p[0].__name__ not in NEEDLESS]
            every.finalize()
            return [every]
    return Linked
