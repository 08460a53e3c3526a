"""Compiled: memory that will be needed is fetched ahead.

Processors foresee accesses in small steps, but not those that random numbers choose. A kernel which knows the next ones
asks for them early, and then does not wait.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

# Bytes of a line of the cache. One call fetches one line.
LINE = 64
# LLVM's function for it.
NAME = "llvm.prefetch.p0"


def _fetched(_: Any, array: types.Array, row: types.Integer, column: types.Integer) -> tuple[Any, Any]:
    """Fetch the memory of an entry (row, column) of a matrix into the cache; nothing else changes."""
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = signature.args[0]
        held = context.make_array(kind)(context, builder, arguments[0])
        parts = [builder.mul(each, builder.extract_value(held.strides, i)) for i, each in enumerate(arguments[1:])]
        place = builder.add(*parts)
        byte, number = ir.PointerType(ir.IntType(8)), ir.IntType(32)
        address = builder.gep(builder.bitcast(held.data, byte), [place])
        called = builder.module.globals.get(NAME) or ir.Function(builder.module, ir.FunctionType(
            ir.VoidType(), [byte, number, number, number]), NAME)
        # For a read, into all caches, of data.
        builder.call(called, [address, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.none(array, types.intp, types.intp), generate


prefetch: Any = intrinsic(_fetched)
