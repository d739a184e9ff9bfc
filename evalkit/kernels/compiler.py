# mypy: disable-error-code="no-untyped-call"
"""How kernels become machine code. Imported late, for this loads numba.

Every `@kernel` is compiled to a part, which is neither optimised nor made machine code by itself.
What Python calls is an entry: one C function that reads its arguments from an array of words and
calls a part. It is linked with all parts that it needs, optimised once, and kept as object code
that needs nothing but the C library.
"""

import gc
import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import CodeType, FunctionType
from typing import Any

import numba
from llvmlite import binding, ir
from numba.core import cgutils, typed_passes, types, untyped_passes
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import PassManager
from numba.core.imputils import lower_builtin
from numba.core.typing.templates import AbstractTemplate, infer_global
from numba.extending import models, register_model
from numba.np import arrayobj

WORD = ir.IntType(64)
BYTES = ir.IntType(8).as_pointer()
SIZE_OF_HEADER = 40
RESULTS: dict[object, str] = {
    types.int64: "q",
    types.uint64: "Q",
    types.float64: "d",
    types.boolean: "?7x",
}
PASSES = (
    untyped_passes.TranslateByteCode,
    untyped_passes.FixupArgs,
    untyped_passes.IRProcessing,
    untyped_passes.GenericRewrites,
    untyped_passes.ReconstructSSA,
    typed_passes.NopythonTypeInference,
    typed_passes.PreLowerStripPhis,
    typed_passes.InlineOverloads,
    typed_passes.NoPythonSupportedFeatureValidation,
    typed_passes.IRLegalization,
    typed_passes.AnnotateTypes,
    typed_passes.NativeLowering,
    typed_passes.NoPythonBackend,
)
FIELDS = object.__basicsize__ // 8  # words of the head of an object
TUPLE: Any = types.BaseTuple
OF_C = {"numba_ldexp": "ldexp", "numba_frexp": "frexp"}  # as numba calls them
_SIGNATURES: dict[object, Any] = {}
OF_NUMBA = ("numba_", "NRT_", "Py", "_Py", "nrt_")


class _KernelPart(JITCodeLibrary):
    """Code to be linked into that of entries; the engine never sees it."""

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout

    def finalize(self) -> None:
        """Let others link this; they link what it needs, too."""
        self._raise_if_finalized()
        self._finalize_dynamic_globals()
        self._finalized = True

    def _get_module_for_linking(self) -> Any:
        self._ensure_finalized()
        return self._final_module

    def get_pointer_to_function(self, name: str) -> int:
        self._ensure_finalized()
        return 0

    @property
    def codegen(self) -> "_WithoutEnvironments":
        return _WithoutEnvironments(self._codegen)


class _WithoutEnvironments:
    """The code generator, for code without addresses."""

    def __init__(self, codegen: object) -> None:
        self._codegen = codegen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._codegen, name)

    def set_env(self, name: str, environment: object) -> None:
        """Nothing: there is no variable to set."""


class _PartCompiler(CompilerBase):
    """numba's compiler of functions, for parts."""

    def define_pipelines(self) -> list[Any]:
        state = self.state
        state.library = _KernelPart(state.targetctx.codegen(), state.func_id.func_qualname)
        if any(isinstance(each, CodeType) for each in state.func_id.code.co_consts):
            return [DefaultPassBuilder.define_nopython_pipeline(state)]  # a function in a function
        passes = PassManager("kernel")
        for each in PASSES:
            passes.add_pass(each, each.__name__)
        passes.finalize()
        return [passes]


class Callee(types.Dispatcher):
    """A kernel that another one calls. It is compiled once for all constants that it is given."""

    def get_call_type(self, context: Any, args: Sequence[Any], kws: Any) -> Any:
        return super().get_call_type(context, tuple(types.unliteral(each) for each in args), kws)


register_model(Callee)(models.OpaqueModel)


def smallest(*numbers: Any) -> Any:
    """`min` as kernels call it: in place, where numba compiles its own for each pair of types."""
    return min(*numbers)


def largest(*numbers: Any) -> Any:
    """`max` as kernels call it."""
    return max(*numbers)


IN_PLACE = {"min": smallest, "max": largest}


class _Choice(AbstractTemplate):
    """The type of the smallest or largest of some numbers."""

    def generic(self, args: Any, kws: Any) -> Any:
        both = self.context.unify_types(*map(types.unliteral, args))
        is_choice = len(args) > 1 and isinstance(both, types.Number)
        return both(*[both] * len(args)) if is_choice else None


def _define_choice(function: Callable[..., Any], compare: Callable[..., Any]) -> None:
    infer_global(function)(type("_Choice", (_Choice,), {}))

    @lower_builtin(function, types.VarArg(types.Number))  # type: ignore[untyped-decorator]
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        both = signature.return_type
        compared = context.get_function(compare, types.boolean(both, both))
        chosen, *others = arguments
        for each in others:
            chosen = builder.select(compared(builder, (each, chosen)), each, chosen)
        return chosen


_define_choice(smallest, operator.lt)
_define_choice(largest, operator.gt)


def make_part(function: FunctionType, *, allocates: bool) -> Any:
    """The numba dispatcher of a kernel; `allocates` as `kernel` takes it.

    Args:
        function: with global names of its own.
    """
    function.__globals__.update({**IN_PLACE, **function.__globals__})
    options: dict[str, Any] = {
        "error_model": "numpy",
        "no_cpython_wrapper": True,
        "no_cfunc_wrapper": True,
        "_nrt": allocates,  # set either way: a part would inherit it from what calls it first
        "pipeline_class": _PartCompiler,
    }
    return numba.njit(**options)(function)


class _Whole(_KernelPart):
    """An entry with all that it calls, optimised, of which nothing but the entry is seen."""

    def finalize(self) -> None:
        module = self._final_module
        for library in _all_needed_by(self):
            module.link_in(library._get_module_for_linking(), preserve=True)
        for symbol in (*module.functions, *module.global_variables):
            if not symbol.is_declaration and symbol.name != self.name:
                symbol.linkage = "internal"
        self._verify_declare_only_symbols()
        module.data_layout = self._codegen._data_layout
        JITCodeLibrary._optimize_final_module(self)
        super().finalize()

    def emit(self) -> bytes:
        for function in self._final_module.functions:
            name = function.name = OF_C.get(function.name, function.name)
            if function.is_declaration and not name.startswith("llvm."):
                if name.startswith(OF_NUMBA) or not binding.address_of_symbol(name):
                    raise NotImplementedError(f"a kernel needs {name!r}, which C does not have")
        return bytes(self._codegen._tm.emit_object(self._final_module))


def _all_needed_by(library: Any) -> list[Any]:
    """What a library calls, and what that calls, each of them once."""
    found: dict[Any, None] = {}
    waiting = [library]
    while waiting:
        for linking_library in waiting.pop()._linking_libraries:
            if linking_library not in found:
                found[linking_library] = None
                waiting.append(linking_library)
    return sorted(
        found, key=lambda each: not isinstance(each, _KernelPart)
    )  # numba's come on request


@contextmanager
def _uncollected() -> Iterator[None]:
    """No search for garbage: numba makes objects by the million, which live until the end."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def _typed_once() -> Iterator[None]:
    """What an operator gives for some types is found once; numba tries all its forms at each use.

    Only what numba generates itself: code of overloads differs by the flags of who calls.
    """
    find = types.BaseFunction.get_call_type

    def find_once(self: Any, context: Any, args: Any, kws: Any) -> Any:
        use = (self, context, args)
        signature = None if kws else _SIGNATURES.get(use)
        if signature is None:
            signature = find(self, context, args, kws)
            if not kws and self.get_impl_key(signature) == self.typing_key:
                _SIGNATURES[use] = signature
        return signature

    types.BaseFunction.get_call_type = find_once  # type: ignore[method-assign]
    try:
        yield
    finally:
        types.BaseFunction.get_call_type = find  # type: ignore[method-assign]


@global_compiler_lock  # type: ignore[untyped-decorator]
@_uncollected()
@_typed_once()
def compile_entry(part: Any, arguments: Sequence[object], name: str) -> tuple[bytes, bytes]:
    """Object code of one function `int32 name(int64 *words)`, and what it gives back.

    Args:
        part: the numba dispatcher of the kernel.
        arguments: of a call, for their types.
    Returns:
        The format of its results, as `struct` reads them from `words[1:]`, and the code. Where
        the function does not return 0, `words[0]` is the address of an error.
    Raises:
        NotImplementedError: the code would call what C does not have.
    """
    signature = tuple(numba.typeof(each) for each in arguments)
    part.compile(signature)
    compiled = part.overloads[signature]
    context = compiled.target_context
    whole = _Whole(context.codegen(), name)
    whole.add_linking_library(compiled.library)
    module = whole.create_ir_module(name)
    _define_memory(module)
    _define_entry(module, context, compiled, name)
    whole.add_ir_module(module)
    whole.finalize()
    results = "".join(RESULTS[each] for each in _results_of(compiled.signature))
    return results.encode(), whole.emit()


def _results_of(signature: Any) -> list[Any]:
    result = signature.return_type
    if isinstance(result, TUPLE):
        return list(result.types)
    return [] if result == types.none else [result]


def _define_entry(module: Any, context: Any, compiled: Any, name: str) -> None:
    function = ir.Function(module, ir.FunctionType(ir.IntType(32), [WORD.as_pointer()]), name)
    builder = ir.IRBuilder(function.append_basic_block())
    (words,) = function.args
    reader = _Reader(context, builder, words)
    signature = compiled.signature
    arguments = [reader.read(each) for each in signature.args]
    called = context.declare_function(module, compiled.fndesc)
    status, result = context.call_conv.call_function(
        builder, called, signature.return_type, signature.args, arguments
    )
    with builder.if_then(status.is_error):
        builder.store(builder.ptrtoint(status.excinfoptr, WORD), words)
        builder.ret(status.code)
    kinds = _results_of(signature)
    results = cgutils.unpack_tuple(builder, result) if len(kinds) > 1 else [result]
    for number, kind in enumerate(kinds):
        place = builder.gep(words, [WORD(1 + number)])
        place = builder.bitcast(place, context.get_data_type(kind).as_pointer())
        context.pack_value(builder, kind, results[number], place)
    builder.ret(ir.IntType(32)(0))


class _Reader:
    """Reads one argument after the other from the words of a call."""

    def __init__(self, context: Any, builder: Any, words: Any) -> None:
        self._context, self._builder, self._words = context, builder, words
        self._place = 0

    def read(self, kind: Any) -> Any:
        """The value of one argument, as numba's functions take it."""
        if isinstance(kind, types.Array):
            return self._read_array(kind)
        if isinstance(kind, TUPLE):
            parts = [self.read(each) for each in kind.types]
            return self._context.make_tuple(self._builder, kind, parts)
        self._place += 1
        place = self._builder.gep(self._words, [WORD(self._place)])
        place = self._builder.bitcast(place, self._context.get_data_type(kind).as_pointer())
        return self._context.unpack_value(self._builder, kind, place)

    def _read_array(self, kind: Any) -> Any:
        """Out of the array object, of which NumPy publishes how it begins.

        Source:
            NumPy C-API, `PyArrayObject_fields`: head, data, dimensions, shape.
        """
        context, builder = self._context, self._builder
        record = self.read(types.CPointer(types.CPointer(types.int64)))
        fields = [builder.load(builder.gep(record, [WORD(FIELDS + each)])) for each in (0, 2)]
        shape = [builder.load(builder.gep(fields[1], [WORD(axis)])) for axis in range(kind.ndim)]
        item_size = WORD(context.get_abi_sizeof(context.get_data_type(kind.dtype)))
        strides = [item_size]
        for size in reversed(shape[1:]):
            strides.insert(0, builder.mul(strides[0], size))
        array = arrayobj.make_array(kind)(context, builder)
        arrayobj.populate_array(
            array,
            data=builder.bitcast(fields[0], array.data.type),
            shape=shape,
            strides=strides,
            itemsize=item_size,
            meminfo=None,
        )
        return array._getvalue()


def _define_memory(module: Any) -> None:
    """The two functions by which numba's arrays come and go, on the memory of C."""
    bits = ir.IntType(32)
    make = ir.Function(module, ir.FunctionType(BYTES, [WORD, bits]), "NRT_MemInfo_alloc_aligned")
    malloc = ir.Function(module, ir.FunctionType(BYTES, [WORD]), "malloc")
    builder = ir.IRBuilder(make.append_basic_block())
    n_bytes, alignment = make.args[0], builder.zext(make.args[1], WORD)
    n_more = builder.add(alignment, WORD(SIZE_OF_HEADER))
    header = builder.call(malloc, [builder.add(n_bytes, n_more)])
    with builder.if_then(builder.icmp_unsigned("==", header, ir.Constant(BYTES, None))):
        builder.ret(header)
    end = builder.add(builder.ptrtoint(header, WORD), n_more)
    begin = builder.and_(builder.sub(end, WORD(1)), builder.neg(alignment))
    fields = builder.bitcast(header, WORD.as_pointer())
    # references, destructor, its argument, data, size: `_meminfo_struct_type` of numba
    for number, value in enumerate([WORD(1), WORD(0), WORD(0), begin, n_bytes]):
        builder.store(value, builder.gep(fields, [WORD(number)]))
    builder.ret(header)

    drop = ir.Function(module, ir.FunctionType(ir.VoidType(), [BYTES]), "NRT_MemInfo_call_dtor")
    free = ir.Function(module, drop.function_type, "free")
    builder = ir.IRBuilder(drop.append_basic_block())
    builder.call(free, drop.args)
    builder.ret_void()
