"""A pipeline file is found out before anything runs: what it declares, or what is wrong with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.core.errors import CallerError
from penstock.pipeline.load import load_pipeline

DECLARED = 'from penstock import Pipeline\npipeline = Pipeline("loaded")\n'


def written(folder: Path, text: str) -> Path:
    path = folder / "loaded_by_test.py"
    path.write_text(text)
    return path


@pytest.mark.parametrize("more", ["", "same = pipeline\n", "import json\n"])
def test_one_pipeline_is_found_under_however_many_names(tmp_path: Path, more: str) -> None:
    assert load_pipeline(written(tmp_path, DECLARED + more)).name == "loaded"


@pytest.mark.parametrize(
    ("text", "code", "told"),
    [
        ("def broken(:\n", "pipeline-file-broken", "line 1: SyntaxError"),
        ("x = 1\nx = {}['gold']\n", "pipeline-file-broken", "line 2: KeyError: 'gold'"),
        ("import sys\nsys.exit('no model')\n", "pipeline-file-broken", "line 2: SystemExit: no model"),
        ("x = 1\n", "pipeline-not-one", "declares 0 pipelines"),
        (DECLARED + 'other = Pipeline("other")\n', "pipeline-not-one", "declares 2 pipelines"),
    ],
)
def test_a_file_that_is_no_pipeline_is_told_with_its_line(tmp_path: Path, text: str, code: str, told: str) -> None:
    with pytest.raises(CallerError) as refused:
        load_pipeline(written(tmp_path, text))
    assert refused.value.code == code
    assert told in refused.value.message
