"""The messages of FIND_COORDINATOR: made by `tools/messages.py` from `schemas/find_coordinator.json`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from penstock.protocol.apis import ApiKey
from penstock.protocol.messages import Request, Response


@dataclass(slots=True)
class FindCoordinatorRequest(Request):
    API: ClassVar[ApiKey] = ApiKey.FIND_COORDINATOR
    key: str = ""  # version 0-3
    key_type: int = 0  # version 1+
    coordinator_keys: list[str] = field(default_factory=list)  # version 4+


@dataclass(slots=True)
class Coordinator:
    key: str = ""  # version 4+
    node_id: int = 0  # version 4+
    host: str = ""  # version 4+
    port: int = 0  # version 4+
    error_code: int = 0  # version 4+
    error_message: str | None = ""  # version 4+


@dataclass(slots=True)
class FindCoordinatorResponse(Response):
    API: ClassVar[ApiKey] = ApiKey.FIND_COORDINATOR
    throttle_time_ms: int = 0  # version 1+
    error_code: int = 0  # version 0-3
    error_message: str | None = ""  # version 1-3
    node_id: int = 0  # version 0-3
    host: str = ""  # version 0-3
    port: int = 0  # version 0-3
    coordinators: list[Coordinator] = field(default_factory=list)  # version 4+
