"""Every module can be imported where modules that only POSIX systems have are absent."""

from __future__ import annotations

import pkgutil
import subprocess
import sys

import echelon

CODE = """
import importlib, sys, traceback
import distributed  # psutil and locket below it have modules for each system; this one needs what this system has

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name in POSIX_ONLY:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

POSIX_ONLY = {"fcntl", "resource", "pwd", "grp", "termios"}
for name in POSIX_ONLY:
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Absent())
failed = []
for module in sys.argv[1:]:
    try:
        importlib.import_module(module)
    except ImportError:
        failed.append(module)
        traceback.print_exc()
assert not POSIX_ONLY & set(sys.modules), POSIX_ONLY & set(sys.modules)
print(len(sys.argv) - 1, "modules;", "failed:", failed)
sys.exit(bool(failed))
"""


def test_every_module_is_imported_without_what_only_posix_has() -> None:
    modules = sorted(m.name for m in pkgutil.walk_packages(echelon.__path__, "echelon."))
    assert "echelon.runtime.files" in modules
    assert len(modules) > 100
    done = subprocess.run([sys.executable, "-c", CODE, *modules], capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
