"""The import contracts can fail: one forbidden import for each of them, all found."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tools.pages import ROOT

BREACHES = {
    "pipeline/declare.py": "import penstock.broker.topics\nimport psycopg\n",
    "cli/output.py": "import pyspark\n",
    "log/index.py": "import numpy\n",
    "views/proof_fold.py": "import penstock.kernels\n",
}


def test_every_import_contract_goes_red_on_a_breach(tmp_path: Path) -> None:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for path, line in BREACHES.items():
        file = tmp_path / "src/penstock" / path
        file.write_text(file.read_text(encoding="utf-8") + line, encoding="utf-8")
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    contracts = (ROOT / "pyproject.toml").read_text(encoding="utf-8").count("[[tool.importlinter.contracts]]")
    assert f"Contracts: 0 kept, {contracts} broken." in done.stdout, done.stdout + done.stderr
