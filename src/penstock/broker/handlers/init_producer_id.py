"""InitProducerId (22): a number for an idempotent producer.

    0    the number
    1    KIP-219: as 0
    2    KIP-482: compact encoding
    3    KIP-360: the producer tells the number it had
    4    KIP-588: as 3
    5    KIP-890: as 4

Behaviours
    - Every answer holds a number that was never given out, with epoch 0 (L3).
    - A transactional id is refused: transactions are not there yet.
"""

from __future__ import annotations

from penstock.broker.calls import Call
from penstock.broker.handlers.handler import Handler
from penstock.broker.node import Node
from penstock.core.units import ProducerId
from penstock.protocol.apis import KafkaError
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


def answer(node: Node, call: Call, request: InitProducerIdRequest) -> None:
    if request.transactional_id is not None:
        error = KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        node.reply(call, InitProducerIdResponse(error_code=error, producer_epoch=-1))
    else:
        node.take_producer_id(lambda outcome: node.reply(call, _response(outcome)), now=call.now)


def _response(outcome: ProducerId | KafkaError) -> InitProducerIdResponse:
    if isinstance(outcome, KafkaError):
        return InitProducerIdResponse(error_code=outcome, producer_epoch=-1)
    return InitProducerIdResponse(producer_id=outcome)


HANDLER = Handler(InitProducerIdRequest, answer)
