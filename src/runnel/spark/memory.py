"""What kernels need of memory and numba does not offer: unaligned loads, a copy, and the CPU's own CRC-32C step.

Each is one machine instruction or one memcpy. Nothing here checks bounds: callers do.
"""

from __future__ import annotations

import platform
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

_I8, _I32, _I64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)


def _pointer(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
    data = make_array(array_type)(context, builder, array).data
    return builder.gep(data, [index])


@intrinsic
def load_u64(typing_context: Any, array: Any, index: Any) -> Any:
    """The eight bytes at `index`, in the machine's order."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _pointer(context, builder, signature.args[0], *arguments)
        return builder.load(builder.bitcast(pointer, _I64.as_pointer()), align=1)

    return types.uint64(array, types.int64), generate


@intrinsic
def copy_bytes(typing_context: Any, target: Any, target_at: Any, source: Any, source_at: Any, count: Any) -> Any:
    """memcpy of `count` bytes."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        to = _pointer(context, builder, signature.args[0], arguments[0], arguments[1])
        source_pointer = _pointer(context, builder, signature.args[2], arguments[2], arguments[3])
        cgutils.raw_memcpy(builder, to, source_pointer, arguments[4], 1)
        return context.get_dummy_value()

    return types.void(target, types.int64, source, types.int64, types.int64), generate


def _instruction(name: str, wide: ir.IntType, narrow: ir.IntType) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        function_type = ir.FunctionType(wide, [wide, narrow])
        function = cgutils.get_or_insert_function(builder.module, function_type, name)
        return builder.call(function, arguments)

    return generate


@intrinsic
def crc_step_u64(typing_context: Any, crc: Any, word: Any) -> Any:
    generate = _instruction("llvm.x86.sse42.crc32.64.64", _I64, _I64)
    return types.uint64(types.uint64, types.uint64), generate


@intrinsic
def crc_step_u8(typing_context: Any, crc: Any, byte: Any) -> Any:
    generate = _instruction("llvm.x86.sse42.crc32.32.8", _I32, _I8)
    return types.uint32(types.uint32, types.uint8), generate


def has_crc_instruction() -> bool:
    return platform.machine() in ("x86_64", "AMD64") and bool(llvm.get_host_cpu_features().get("sse4.2"))
