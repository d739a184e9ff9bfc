# mypy: disable-error-code="no-untyped-call"
"""How an `@kernel` is compiled that another one calls: its caller optimises it and keeps the code.

By itself it is neither optimised nor made machine code. Imported late, for this loads numba.
"""

from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder


class _Part(JITCodeLibrary):
    """Code to be linked into that of kernels; the engine never sees it."""

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        """Nothing: the caller's module is optimised with this one in it."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True

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


class PartCompiler(CompilerBase):
    """numba's compiler of functions, for parts."""

    def define_pipelines(self) -> list[Any]:
        state = self.state
        state.library = _Part(state.targetctx.codegen(), state.func_id.func_qualname)
        return [DefaultPassBuilder.define_nopython_pipeline(state)]
