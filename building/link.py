"""Link all compiled loops into one file loops-LEVEL.so for each level of processor, and write the list of each file.

Usage: link.py [FOLDER]. A C compiler is needed. The default folder is that of `solvers.kernels`. The files need neither
numba nor LLVM. They use five symbols of Python's C interface, which every version since 3.3 has. Their instructions are
those that numba runs: numba compiles and optimizes the module of each loop for the same processor, and only addresses
become relative. An entry `call_NAME(result, slots)` takes the arguments as words of eight bytes, in the order that
numba uses.
"""

import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
from numba import types
from numba.core.registry import cpu_target

from solvers.kernels import build, linked
from solvers.kernels.digests import FOLDER, of_function

NUMBERS = {types.float64: "d", types.int64: "q", types.boolean: "?"}
OPTIONS = ["-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror", "-Wl,-z,relro,-z,now,-s", "-lm"]
ENTRY = """
define i32 @call_{name}(ptr %result, ptr %slots) {{
  %error = alloca ptr
{loads}
  %code = call i32 @loop_{name}({arguments})
  ret i32 %code
}}
declare i32 @loop_{name}({kinds})
"""


def link(file: Path, loops: dict[str, Any], formulas: dict[str, Any], constants: dict[str, Any]) -> None:
    """Link all loops into one shared library, and write its list."""
    library, signatures = llvm.parse_assembly(""), {}
    for name, loop in loops.items():
        [compiled] = loop.overloads.values()
        module = _with_one_entry(compiled.library.get_llvm_str(), compiled.fndesc.llvm_func_name, f"loop_{name}")
        library.triple, library.data_layout = module.triple, module.data_layout
        library.link_in(module)
        library.link_in(llvm.parse_assembly(_entry(name, library.get_function(f"loop_{name}"))))
        signature = compiled.signature
        arguments = [_kind(each) for each in signature.args]
        signatures[name] = {"arguments": arguments, "result": _kind(signature.return_type)}
    for digest, formula in formulas.items():
        library.link_in(_with_one_entry(formula.inspect_llvm(), formula._wrapper_name, f"formula_{digest}"))
    file.with_suffix(".json").write_text(
        json.dumps({"sources": FOLDER, "constants": constants, "loops": signatures}, indent=1)
    )
    with tempfile.TemporaryDirectory() as folder:
        object_file = Path(folder, "loops.o")
        object_file.write_bytes(_object_code(library))
        level = f'-DLEVEL="{file.stem.removeprefix("loops-")}"'
        runtime = Path(__file__).with_name("runtime.c")
        subprocess.run(["cc", level, "-o", file, object_file, runtime, *OPTIONS], check=True)


def _with_one_entry(text: str, entry: str, name: str) -> llvm.ModuleRef:
    """Return the module of a loop whose only visible function is its entry, renamed."""
    module = llvm.parse_assembly(text)
    for symbol in (*module.functions, *module.global_variables):
        if not symbol.is_declaration and symbol.name != entry:
            symbol.linkage = "internal"
    module.get_function(entry).name = name
    return module


def _entry(name: str, loop: llvm.ValueRef) -> str:
    kinds = [str(argument.type) for argument in loop.arguments]
    loads = [
        f"  %at{k} = getelementptr i64, ptr %slots, i64 {k}\n  %slot{k} = load {kind}, ptr %at{k}"
        for k, kind in enumerate(kinds[2:])
    ]
    arguments = ["ptr %result", "ptr %error", *(f"{kind} %slot{k}" for k, kind in enumerate(kinds[2:]))]
    return ENTRY.format(name=name, loads="\n".join(loads), arguments=", ".join(arguments), kinds=", ".join(kinds))


def _kind(kind: types.Type) -> Any:
    if isinstance(kind, types.BaseTuple):
        return [_kind(each) for each in kind]
    if isinstance(kind, types.Array):
        assert kind.layout == "C"
        return {"dtype": str(kind.dtype), "axes": kind.ndim, "readonly": not kind.mutable}
    return None if kind == types.none else NUMBERS[kind]


def _object_code(library: llvm.ModuleRef) -> bytes:
    codegen = cpu_target.target_context.codegen()
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=codegen._get_host_cpu_name(), features=codegen._tm_features, opt=3, reloc="pic", codemodel="default"
    )
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(library, llvm.create_pass_builder(machine, llvm.PipelineTuningOptions()))
    library.verify()
    code: bytes = machine.emit_object(library)
    return code


def link_all(file: Path) -> None:
    """Link all loops and the derivatives of all losses for the processor that numba compiles for."""
    from typing import get_args

    from solvers import kernels
    from solvers.losses import Loss

    derivatives = [kind.derivative for kind in get_args(Loss) if hasattr(kind, "derivative")]
    formulas = {of_function(each): kernels.c_function(each) for each in derivatives}
    defined = (item for module in kernels._modules() for item in vars(module).items())
    constants = {name: value for name, value in defined if name.isupper() and isinstance(value, int | float)}
    link(file, build.ENTRIES, formulas, constants)
    print(f"{file}: {len(build.ENTRIES)} loops and {len(formulas)} formulas, {file.stat().st_size // 1000} kB")


def main() -> None:
    """Link for each level of this machine's architecture, each in a process that compiles for that level."""
    folder = Path(sys.argv[1]) if sys.argv[1:] else Path(linked.__file__).parent
    is_intel = platform.machine() == "x86_64"
    for level in linked.LEVELS:
        if level.startswith("x86") == is_intel:
            with tempfile.TemporaryDirectory() as cache:
                target = {"NUMBA_CPU_NAME": level, "NUMBA_CPU_FEATURES": "", "NUMBA_CACHE_DIR": cache}
                command = [sys.executable, "-P", __file__, "--one", str(linked.file_of(level, folder))]
                subprocess.run(command, check=True, env=os.environ | target)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        link_all(Path(sys.argv[2]))
    else:
        main()
