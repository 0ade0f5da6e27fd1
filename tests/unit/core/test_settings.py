"""Where a setting comes from, and what a wrong one says."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.core.errors import CallerError
from penstock.core.settings import SECRETS, Settings, read_settings


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refusal(**given: object) -> str:
    with pytest.raises(CallerError) as caught:
        read_settings(**given)
    return str(caught.value)


def test_without_anything_the_defaults_hold(folder: Path) -> None:
    settings = read_settings()
    assert settings.bootstrap == "127.0.0.1:9092"
    assert settings.database_url is None
    assert (settings.home, settings.state) == (folder / ".penstock", folder / ".penstock/state")


def test_the_file_beats_the_default_the_environment_the_file_and_an_argument_all(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "penstock.toml").write_text("cores = 2\nset_aside_max = 2\nmax_connections = 2\n")
    monkeypatch.setenv("PENSTOCK_SET_ASIDE_MAX", "3")
    monkeypatch.setenv("PENSTOCK_MAX_CONNECTIONS", "3")
    settings = read_settings(max_connections=4)
    assert (settings.cores, settings.set_aside_max, settings.max_connections) == (2, 3, 4)


def test_an_argument_that_is_none_was_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_CORES", "3")
    assert read_settings(cores=None).cores == 3


def test_an_empty_variable_counts_as_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_DATABASE_URL", "")
    monkeypatch.setenv("PENSTOCK_CROES", "")
    assert read_settings().database_url is None


def test_state_follows_home_unless_it_is_set(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setenv("PENSTOCK_HOME", "here")
    assert read_settings().state == folder / "here/state"
    assert read_settings(state="/elsewhere").state == Path("/elsewhere")


def test_a_size_may_carry_a_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_SEGMENT_BYTES", "64 MB")
    assert read_settings().segment_bytes == 67_108_864


def test_an_unknown_variable_is_refused_with_the_nearest_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_BOOTSTRP", "x:1")
    message = "unknown setting PENSTOCK_BOOTSTRP in the environment; did you mean PENSTOCK_BOOTSTRAP?"
    assert refusal().startswith(message)


def test_an_unknown_key_of_the_file_is_refused_with_the_nearest_name(folder: Path) -> None:
    (folder / "penstock.toml").write_text('databaseurl = "x"\n')
    assert refusal().startswith("unknown setting databaseurl in penstock.toml; did you mean database_url?")


def test_a_name_near_to_nothing_is_refused_without_a_suggestion(folder: Path) -> None:
    (folder / "penstock.toml").write_text("zzzz = 1\n")
    assert refusal().startswith("unknown setting zzzz in penstock.toml (setting-unknown)")


@pytest.mark.parametrize(
    ("variable", "value", "reason"),
    [
        ("PENSTOCK_CORES", "many", "valid integer"),
        ("PENSTOCK_CORES", "0", "greater than or equal to 1"),
        ("PENSTOCK_SEGMENT_BYTES", "64 QB", "write for example '64 MB'"),
    ],
)
def test_a_wrong_value_names_setting_place_value_and_reason(
    variable: str, value: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    message = refusal()
    assert message.startswith(f"setting {variable} in the environment cannot be '{value}': ")
    assert reason in message


def test_a_wrong_argument_is_named_as_it_was_typed() -> None:
    assert refusal(set_aside_max=-1).startswith("setting --set-aside-max in the arguments cannot be -1: ")


def test_a_wrong_value_of_the_file_names_the_file(folder: Path) -> None:
    (folder / "penstock.toml").write_text('auto_create_topics = "perhaps"\n')
    assert refusal().startswith("setting auto_create_topics in penstock.toml cannot be 'perhaps': ")


def test_a_file_that_is_no_toml_is_named(folder: Path) -> None:
    (folder / "penstock.toml").write_text("cores = = 2\n")
    assert refusal().startswith(f"{folder / 'penstock.toml'} cannot be read: ")


def test_a_password_shows_nowhere(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_DATABASE_URL", "postgresql://me:hunter2@db/x")
    assert "hunter2" not in repr(read_settings()) + str(read_settings())
    monkeypatch.delenv("PENSTOCK_DATABASE_URL")
    (folder / "penstock.toml").write_text('database_url = ["hunter2"]\n')
    assert "hunter2" not in refusal()


def test_every_secret_is_a_setting_that_hides_itself() -> None:
    hidden = {name for name, field in Settings.model_fields.items() if "SecretStr" in str(field.annotation)}
    assert hidden == SECRETS
