"""FindCoordinator (10): which broker looks after a group.

    0    one group
    1    KIP-98, KIP-219: the kind of key, throttle time, an error message
    2    as 1
    3    KIP-482: compact encoding
    4    KIP-699: several keys at once
    5    KIP-890: as 4
    6    KIP-932: the kind of share groups

Behaviours
    - It is always this broker. Transactions and share groups are not there yet: their kinds of key are refused.
"""

from __future__ import annotations

from penstock.broker.calls import Call
from penstock.broker.config import NODE_ID
from penstock.broker.handlers.handler import Handler
from penstock.broker.node import Node
from penstock.protocol.apis import KafkaError
from penstock.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

_GROUP = 0


def answer(node: Node, call: Call, request: FindCoordinatorRequest) -> None:
    error, message = KafkaError.NONE, None
    if request.key_type != _GROUP:
        error, message = KafkaError.INVALID_REQUEST, f"there are no coordinators of kind {request.key_type} here"
    place = (-1, "", -1) if error else (NODE_ID, node.config.host, node.config.port)
    keys = request.coordinator_keys
    node.reply(
        call,
        FindCoordinatorResponse(
            error_code=error,
            error_message=message,
            node_id=place[0],
            host=place[1],
            port=place[2],
            coordinators=[Coordinator(key, *place, error_code=error, error_message=message) for key in keys],
        ),
    )


HANDLER = Handler(FindCoordinatorRequest, answer)
