"""Named tuples of arrays that kernels take by their address. Imports nothing of aoec.

Numba hands a named tuple from function to function member by member, an array in some seven parts: tables of tens of arrays are hundreds
of arguments in each call, and LLVM, for which fewer arguments are a reason to inline, made one function of nearly all. A struct is stored
once, where a kernel is entered from Python, and goes on as one pointer: that halved the time to compile. Its members cannot be set (what is
in its arrays can). After a change here delete `__pycache__`: Numba looks for changes in the file that defines a kernel only.
"""
from __future__ import annotations

import hashlib

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.imputils import impl_ret_borrowed
from numba.core.typing.templates import AttributeTemplate
from numba.extending import NativeValue, infer_getattr, lower_getattr_generic, models, register_model, typeof_impl, unbox


class Struct(types.Type):
    """The type of a named tuple that is passed by its address; `members`: (name, type) of each."""

    def __init__(self, name, members):
        self.members = members
        said = hashlib.sha256(repr(members).encode()).hexdigest()[:12]
        super().__init__(name=f"{name}_{said}")


@register_model(Struct)
class _StructModel(models.PrimitiveModel):
    def __init__(self, manager, kind):
        parts = [manager.lookup(member).get_value_type() for _, member in kind.members]
        super().__init__(manager, kind, ir.LiteralStructType(parts).as_pointer())


@infer_getattr
class _Member(AttributeTemplate):
    key = Struct

    def generic_resolve(self, kind, name):
        return dict(kind.members).get(name)


@lower_getattr_generic(Struct)
def _load_member(context, builder, kind, value, name):
    place = [n for n, _ in kind.members].index(name)
    loaded = builder.load(cgutils.gep_inbounds(builder, value, 0, place))
    loaded.set_metadata("invariant.load", builder.module.add_metadata([]))
    return impl_ret_borrowed(context, builder, kind.members[place][1], loaded)


@unbox(Struct)
def _store_members(kind, given, c):
    """Store the members on the stack of the caller of a kernel. The origin of the pointer is hidden from LLVM, which otherwise takes a
    load from it for one from memory where nothing has been stored."""
    natives = [c.unbox(member, c.pyapi.tuple_getitem(given, place)) for place, (_, member) in enumerate(kind.members)]
    struct = cgutils.alloca_once(c.builder, ir.LiteralStructType([native.value.type for native in natives]))
    failed = cgutils.false_bit
    for place, native in enumerate(natives):
        c.builder.store(native.value, cgutils.gep_inbounds(c.builder, struct, 0, place))
        failed = c.builder.or_(failed, native.is_error)
    hidden = c.builder.asm(ir.FunctionType(struct.type, [struct.type]), "", "=r,0,~{memory}", [struct], True)

    def give_back():
        for native, (_, member) in zip(natives, kind.members):
            if native.cleanup is not None:
                native.cleanup()
            if c.context.enable_nrt:
                c.context.nrt.decref(c.builder, member, native.value)
    return NativeValue(hidden, is_error=failed, cleanup=give_back)


def pass_by_address(kind):
    """Make kernels take named tuples of this class by their address from now on."""
    @typeof_impl.register(kind)
    def typeof_struct(value, context):
        return Struct(kind.__name__, tuple((name, typeof_impl(member, context)) for name, member in zip(kind._fields, value)))
