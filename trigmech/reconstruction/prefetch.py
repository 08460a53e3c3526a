"""Compiled: memory that will be needed is fetched ahead.

Processors foresee accesses in small steps, but not those that random numbers choose. A kernel which knows the next ones
asks for them early, and then does not wait.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

# Bytes of a line of the cache: what one call fetches.
LINE = 64


def _fetched(_: Any, array: types.Array, row: types.Integer, column: types.Integer) -> tuple[Any, Any]:
    """Fetch the memory of an entry (row, column) of a matrix into the cache; nothing else changes."""
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = signature.args[0]
        held = context.make_array(kind)(context, builder, arguments[0])
        strides = cgutils.unpack_tuple(builder, held.strides, kind.ndim)
        place = builder.add(builder.mul(arguments[1], strides[0]), builder.mul(arguments[2], strides[1]))
        byte, number = ir.PointerType(ir.IntType(8)), ir.IntType(32)
        address = builder.gep(builder.bitcast(held.data, byte), [place])
        called = cgutils.get_or_insert_function(builder.module, ir.FunctionType(
            ir.VoidType(), [byte, number, number, number]), "llvm.prefetch.p0")
        # For a read, into all caches, of data.
        builder.call(called, [address, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.none(array, types.intp, types.intp), generate


prefetch: Any = intrinsic(_fetched)
