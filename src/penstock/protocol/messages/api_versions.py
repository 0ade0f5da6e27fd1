"""The messages of API_VERSIONS: made by `tools/messages.py` from `schemas/api_versions.json`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from penstock.protocol.apis import ApiKey
from penstock.protocol.messages import Request, Response


@dataclass(slots=True)
class ApiVersionsRequest(Request):
    API: ClassVar[ApiKey] = ApiKey.API_VERSIONS
    client_software_name: str = ""  # version 3+
    client_software_version: str = ""  # version 3+


@dataclass(slots=True)
class FinalizedFeature:
    name: str = ""  # version 3+
    max_version_level: int = 0  # version 3+
    min_version_level: int = 0  # version 3+


@dataclass(slots=True)
class SupportedFeature:
    name: str = ""  # version 3+
    min_version: int = 0  # version 3+
    max_version: int = 0  # version 3+


@dataclass(slots=True)
class ApiVersion:
    api_key: int = 0
    min_version: int = 0
    max_version: int = 0


@dataclass(slots=True)
class ApiVersionsResponse(Response):
    API: ClassVar[ApiKey] = ApiKey.API_VERSIONS
    error_code: int = 0
    api_keys: list[ApiVersion] = field(default_factory=list)
    throttle_time_ms: int = 0  # version 1+
    supported_features: list[SupportedFeature] = field(default_factory=list)  # version 3+
    finalized_features_epoch: int = -1  # version 3+
    finalized_features: list[FinalizedFeature] = field(default_factory=list)  # version 3+
    zk_migration_ready: bool = False  # version 3+
