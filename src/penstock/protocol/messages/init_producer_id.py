"""The messages of INIT_PRODUCER_ID: made by `tools/messages.py` from `schemas/init_producer_id.json`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from penstock.protocol.apis import ApiKey
from penstock.protocol.messages import Request, Response


@dataclass(slots=True)
class InitProducerIdRequest(Request):
    API: ClassVar[ApiKey] = ApiKey.INIT_PRODUCER_ID
    transactional_id: str | None = ""
    transaction_timeout_ms: int = 0
    producer_id: int = -1  # version 3+
    producer_epoch: int = -1  # version 3+


@dataclass(slots=True)
class InitProducerIdResponse(Response):
    API: ClassVar[ApiKey] = ApiKey.INIT_PRODUCER_ID
    throttle_time_ms: int = 0
    error_code: int = 0
    producer_id: int = -1
    producer_epoch: int = 0
