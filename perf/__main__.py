"""Run every benchmark of this folder, one after the other, each in a process of its own.

python -m perf            all of them
python -m perf broker     only this one
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def main(names: list[str]) -> int:
    known = sorted(path.stem for path in Path(__file__).parent.glob("*.py") if not path.stem.startswith("_"))
    if unknown := sorted(set(names) - set(known)):
        sys.stderr.write(f"error: no benchmark {', '.join(unknown)}\nnext: choose of {', '.join(known)}\n")
        return 2
    failed = [name for name in names or known if not _succeeds(name)]
    sys.stdout.write(f"failed: {', '.join(failed)}\n" if failed else "")
    return 1 if failed else 0


def _succeeds(name: str) -> bool:
    sys.stdout.write(f"== {name}\n")
    sys.stdout.flush()
    return subprocess.run([sys.executable, "-m", f"perf.{name}"], check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
