"""ApiVersions (18): which APIs and versions this broker speaks.

    0    the table
    1    KIP-219: throttle time
    2    as 1
    3    KIP-482, KIP-511: compact encoding, the client's name and version
    4    KIP-1022: features whose least version is 0

Behaviours
    - The table is made of the handlers that there are; nothing else is offered, and no feature is.
    - The header of the answer is never in the compact encoding, for a client that does not know yet what we speak.
    - A version that we do not know is answered in version 0 with error 35 and the table, so that the client can choose.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from penstock.broker.calls import Call
from penstock.broker.handlers.handler import Handler
from penstock.broker.node import Node
from penstock.protocol.apis import VERSIONS, ApiKey, KafkaError, Versions
from penstock.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")
_NAMED_FROM = 3


def answer(node: Node, call: Call, request: ApiVersionsRequest) -> None:
    named = _SOFTWARE.fullmatch(request.client_software_name) and _SOFTWARE.fullmatch(request.client_software_version)
    if call.version >= _NAMED_FROM and not named:
        node.reply(call, ApiVersionsResponse(error_code=KafkaError.INVALID_REQUEST))
    else:
        node.reply(call, ApiVersionsResponse(api_keys=table(VERSIONS)))


def table(versions: Mapping[ApiKey, Versions]) -> list[ApiVersion]:
    return [ApiVersion(key, known.advertised_first, known.last) for key, known in sorted(versions.items())]


def unknown_version() -> ApiVersionsResponse:
    """What a client of the future is told, in version 0."""
    return ApiVersionsResponse(error_code=KafkaError.UNSUPPORTED_VERSION, api_keys=table(VERSIONS))


HANDLER = Handler(ApiVersionsRequest, answer)
