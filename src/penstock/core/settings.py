"""What a user may set, and where it is read from: command line, then environment, then `penstock.toml`, then default.

An unknown key of the file, or an unknown variable whose name starts with PENSTOCK_, is refused and the nearest known
name is offered: a misspelt setting must not pass as its default. A password shows nowhere, neither in an error nor in a
`repr`. `docs/reference/settings.md` is generated from the fields below.
Limit: the file is looked for in the current folder alone. Worst case: reading takes 0.1 s, nearly all of it an import.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from penstock.core.errors import CallerError, PenstockError, fail
from penstock.core.units import parse_bytes

PREFIX = "PENSTOCK_"
SETTINGS_FILE = Path("penstock.toml")
SECRETS = frozenset({"database_url"})


def _size(value: object) -> object:
    try:
        return parse_bytes(value) if isinstance(value, str) else value
    except CallerError as error:
        raise ValueError(error.next_step) from error


def _folder(value: Path) -> Path:
    return value.expanduser().absolute()


Size = Annotated[int, BeforeValidator(_size)]
Folder = Annotated[Path, AfterValidator(_folder)]


class Settings(BaseSettings):
    """Every setting with its default; values never change after they are read."""

    model_config: ClassVar[SettingsConfigDict] = SettingsConfigDict(
        env_prefix=PREFIX, env_ignore_empty=True, extra="forbid", frozen=True, validate_default=True
    )

    bootstrap: str = Field(
        "127.0.0.1:9092", min_length=3, description="where the log is: host:port, several with commas between"
    )
    database_url: SecretStr | None = Field(
        None, description="the Postgres that keeps the views; unset means an embedded one under `home`"
    )
    home: Folder = Field(Path(".penstock"), description="the folder of all data: log, embedded Postgres, state, tokens")
    state: Folder = Field(
        default_factory=lambda read: read["home"] / "state",
        description="the folder of what operators remember; unset means `state` under `home`",
    )

    listen: str = Field("127.0.0.1:9092", description="where the broker accepts connections; port 0 picks a free one")
    auto_create_topics: bool = Field(default=True, description="make a topic when a client first asks for it")
    default_partitions: int = Field(
        1, ge=1, le=10_000, description="partitions of a topic that is made without a number"
    )
    segment_bytes: Size = Field(1024**3, ge=1024, le=2**31 - 1, description="a log file is closed at this size")
    max_message_bytes: Size = Field(
        1_048_588, ge=1024, le=2**31 - 1, description="the largest record batch that a topic takes"
    )
    max_request_bytes: Size = Field(
        100 * 1024**2, ge=1024, le=2**31 - 1, description="the largest request that the broker reads"
    )
    max_connections: int = Field(1000, ge=1, description="open connections at which the broker refuses the next")

    batch_records_max: int = Field(100_000, ge=1, description="the most records that one micro-batch takes")
    set_aside_max: int = Field(
        100, ge=0, description="the most records of a batch that are rejected because a function raised on them"
    )
    cores: int | None = Field(None, ge=1, description="cores that Spark uses on this machine; unset means all")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings, InitSettingsSource(settings_cls, init_kwargs=_file_values())


def read_settings(**given: object) -> Settings:
    """Read all settings; `given` are those of the command line, where None means not given.

    >>> read_settings(listen="127.0.0.1:0", cores=None).listen
    '127.0.0.1:0'
    """
    chosen = {name: value for name, value in given.items() if value is not None}
    _check_names(_environment(), where="the environment")
    _check_names(_file_values(), where=str(SETTINGS_FILE))
    try:
        return Settings(**chosen)  # type: ignore[arg-type]  # pydantic checks them one by one
    except ValidationError as error:
        raise _unreadable(error, given=chosen) from None


def _environment() -> dict[str, str]:
    """Our variables by the setting they name; an empty one counts as unset."""
    return {
        name.upper().removeprefix(PREFIX).lower(): value
        for name, value in os.environ.items()
        if name.upper().startswith(PREFIX) and value
    }


def _file_values() -> dict[str, object]:
    try:
        return tomllib.loads(SETTINGS_FILE.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise fail(CallerError, "settings-file-unreadable", path=SETTINGS_FILE.absolute(), reason=error) from error


def _check_names(names: Iterable[str], *, where: str) -> None:
    for name in names:
        if name not in Settings.model_fields:
            near = difflib.get_close_matches(name, Settings.model_fields, n=1)
            hint = f"; did you mean {_spelt(near[0], where=where)}?" if near else ""
            raise fail(CallerError, "setting-unknown", name=_spelt(name, where=where), where=where, hint=hint)


def _unreadable(error: ValidationError, *, given: Mapping[str, object]) -> PenstockError:
    first = error.errors(include_url=False)[0]
    name = str(first["loc"][0])
    where = _source_of(name, given=given)
    value = "***" if name in SECRETS else first["input"]
    spelt = _spelt(name, where=where)
    return fail(
        CallerError,
        "setting-unreadable",
        name=spelt,
        where=where,
        value=value,
        reason=first["msg"].removeprefix("Value error, "),
    )


def _source_of(name: str, *, given: Mapping[str, object]) -> str:
    if name in given:
        return "the arguments"
    return "the environment" if name in _environment() else str(SETTINGS_FILE)


def _spelt(name: str, *, where: str) -> str:
    """The name as the user typed it there."""
    if where == "the environment":
        return PREFIX + name.upper()
    return "--" + name.replace("_", "-") if where == "the arguments" else name
