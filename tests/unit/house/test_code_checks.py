"""The rules of this code base hold in every file, and each rule can go red."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.code_checks import SourceFile, find_breaches, read_files

ROOT = Path(__file__).resolve().parents[3]


def test_every_file_keeps_the_rules_of_the_code_base() -> None:
    breaches = [
        breach for file in read_files(ROOT, ["src", "tests", "tools", "perf"]) for breach in find_breaches(file)
    ]
    assert not breaches, "\n".join(breaches)


@pytest.mark.parametrize(
    ("path", "text", "breach"),
    [
        ("src/penstock/log/x.py", "import time", "time belongs to core/clock.py"),
        ("src/penstock/log/x.py", "from time import monotonic", "time belongs to core/clock.py"),
        ("src/penstock/log/x.py", "import random", "random belongs to core/clock.py"),
        ("src/penstock/log/x.py", "from secrets import token_bytes", "secrets belongs to core/clock.py"),
        ("src/penstock/log/x.py", "import datetime\ndatetime.datetime.now()", "datetime.datetime.now belongs"),
        ("src/penstock/log/x.py", "from datetime import datetime as d\nd.now()", "datetime.datetime.now belongs"),
        ("src/penstock/log/x.py", "from uuid import uuid4\nuuid4()", "uuid.uuid4 belongs"),
        ("src/penstock/log/x.py", "import os\nos.urandom(4)", "os.urandom belongs"),
        ("src/penstock/log/x.py", "from random import choice", "random.choice belongs to core/clock.py"),
        ("src/penstock/log/x.py", "from random import Random\nRandom()", "random.Random belongs to core/clock.py"),
        ("src/penstock/log/x.py", "import numpy as np\nnp.random.default_rng()", "numpy.random.default_rng belongs"),
        ("tests/unit/test_x.py", "import time\ntime.sleep(1)", "a test must not call time.sleep"),
        ("tests/unit/test_x.py", "from time import sleep\nsleep(0.1)", "a test must not call time.sleep"),
        ("tests/unit/test_x.py", "import asyncio\nasyncio.sleep(0.1)", "a test must not call asyncio.sleep"),
        ("src/penstock/broker/topics.py", "import asyncio", "asyncio belongs to broker/server.py"),
        ("src/penstock/views/x.py", "import socket", "socket belongs to broker/server.py"),
        ("src/penstock/log/x.py", "open('f')", "open opens a file"),
        ("src/penstock/log/x.py", "import os\nos.open('f', 0)", "os.open opens a file"),
        ("src/penstock/log/x.py", "path.read_bytes()", "path.read_bytes opens a file"),
        ("src/penstock/views/proof.py", "import pyarrow", "it must not import pyarrow"),
        ("src/penstock/views/proof.py", "from penstock.views import fold", "it must not import penstock.views.fold"),
        ("src/penstock/views/proof_fold.py", "from penstock.kernels.fold import f", "must not import penstock.kernels"),
        ("tests/e2e/test_x.py", "from penstock.core.units import Offset", "an end-to-end test uses what a user has"),
        ("src/penstock/log/utils.py", "", "the word 'utils' in a file name"),
        ("src/penstock/log/segment_v2.py", "", "the word 'v2' in a file name"),
        ("src/penstock/log/x.py", "class SegmentManager: ...", "the word 'Manager' in the class name"),
        ("src/penstock/log/x.py", "x = 1\n" * 501, "501 lines; at 500"),
        ("src/penstock/log/x.py", "def f():\n" + "    x = 1\n" * 60, "f has 61 lines"),
        ("src/penstock/log/x.py", "assert size > 0", "assert in a source"),
        ("src/penstock/log/x.py", "fail(CallerError, 'no-such-row')", "there is no error 'no-such-row'"),
        ("src/penstock/log/x.py", "fail(CallerError, 'size-unreadable')", "shows value, which this call does not give"),
    ],
)
def test_each_rule_goes_red_on_a_breach(path: str, text: str, breach: str) -> None:
    found = find_breaches(SourceFile.parse(path, text))
    assert len(found) == 1, found
    assert breach in found[0]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("src/penstock/core/clock.py", "import time\ntime.sleep(1)"),
        ("src/penstock/log/x.py", "from random import Random\nRandom(7).choice(names)"),
        ("src/penstock/broker/server.py", "import asyncio"),
        ("tests/unit/test_x.py", "import asyncio\nasyncio.sleep(0)"),
        ("src/penstock/log/x.py", "self.files.open(path)"),
        ("src/penstock/views/proof.py", "import json\nfrom penstock.core.values import Cut"),
        ("src/penstock/views/proof.py", "from penstock.protocol.client import Client"),
        ("src/penstock/log/x.py", "def f():\n" + "    x = 1\n" * 59),
        ("src/penstock/log/x.py", "fail(CallerError, 'size-unreadable', value=value)"),
        ("src/penstock/log/x.py", "ROWS = {\n" + "    1: 1,\n" * 500 + "}"),
        ("src/penstock/log/x.py", "class Renewal: ..."),
    ],
)
def test_what_the_rules_allow_is_left_alone(path: str, text: str) -> None:
    assert find_breaches(SourceFile.parse(path, text)) == []
