"""The messages of DELETE_TOPICS: made by `tools/messages.py` from `schemas/delete_topics.json`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from penstock.protocol.apis import ApiKey
from penstock.protocol.messages import NO_UUID, Request, Response


@dataclass(slots=True)
class DeleteTopicsRequestTopic:
    name: str | None = None  # version 6
    topic_id: bytes = NO_UUID  # version 6


@dataclass(slots=True)
class DeleteTopicsRequest(Request):
    API: ClassVar[ApiKey] = ApiKey.DELETE_TOPICS
    topics: list[DeleteTopicsRequestTopic] = field(default_factory=list)  # version 6
    topic_names: list[str] = field(default_factory=list)  # version 1-5
    timeout_ms: int = 0


@dataclass(slots=True)
class DeleteTopicsResponseTopic:
    name: str | None = ""
    topic_id: bytes = NO_UUID  # version 6
    error_code: int = 0
    error_message: str | None = None  # version 5+


@dataclass(slots=True)
class DeleteTopicsResponse(Response):
    API: ClassVar[ApiKey] = ApiKey.DELETE_TOPICS
    throttle_time_ms: int = 0
    responses: list[DeleteTopicsResponseTopic] = field(default_factory=list)
