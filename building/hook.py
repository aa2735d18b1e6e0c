"""Add the linked loops to a wheel for this platform. `make wheel` enables this step of the build."""

import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class LinkedLoops(BuildHookInterface[Any]):
    """The step of a wheel's build that compiles the loops. It needs numba and a C compiler."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Link the loops, and tag the wheel with the platform and the oldest glibc that has every symbol they use."""
        if version == "editable":
            return
        folder = Path(self.root, "build", "loops")
        shutil.rmtree(folder, ignore_errors=True)  # files of an earlier build, or of another architecture
        folder.mkdir(parents=True)
        linker = [sys.executable, "-P", str(Path(self.root, "building", "link.py")), str(folder)]
        subprocess.run(linker, check=True, env=os.environ | {"PYTHONPATH": self.root})
        for file in folder.iterdir():
            build_data["force_include"][str(file)] = f"solvers/kernels/{file.name}"
        glibc_versions = {
            int(minor) for file in folder.glob("*.so") for minor in re.findall(rb"GLIBC_2\.(\d+)", file.read_bytes())
        }
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-manylinux_2_{max(glibc_versions)}_{platform.machine()}"
