"""Open a data directory for a broker: recover the log, read the internal partitions, agree on what there is.

L2   Every topic of the record gets its partitions; one whose folder is gone goes on behind its recorded end.
L5   A damaged internal partition stops the start. A folder that no record knows is removed only if its topic was
     deleted or it holds nothing; else it is left alone and named.
Worst case: every record of the internal partitions is read, some 100,000 a second.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator

from penstock.broker.config import BrokerConfig
from penstock.broker.groups import Groups
from penstock.broker.node import TOPIC_ID_BYTES, Node, create_partition
from penstock.broker.topics import INTERNAL, INTERNAL_IDS, OFFSETS, TOPICS, Topics, cluster_named
from penstock.core.clock import random_bytes
from penstock.core.errors import CorruptError, PenstockError, fail
from penstock.core.files import Files
from penstock.core.units import Offset, PartitionId, TimestampMs
from penstock.core.values import TopicPartition
from penstock.log.limits import LogLimits
from penstock.log.partition import Partition
from penstock.log.reading import ColdRead
from penstock.log.store import Store
from penstock.protocol.batches import Record, build_batch, check_batch, iter_batches, read_records

REPLAY_BYTES = 1024**2


def open_node(config: BrokerConfig, *, files: Files, now_ms: TimestampMs) -> Node:
    """Blocking. Raises `CallerError` where another broker has the folder."""
    store = Store.open(config.data, files=files, limits=LogLimits(segment_bytes=config.segment_bytes))
    topics, groups = Topics(), Groups()
    for name, table in ((TOPICS, topics), (OFFSETS, groups)):
        for record in _records(_internal(store, name)):
            table.apply(record)
    if topics.cluster_id is None:
        _name_cluster(store, topics, now_ms=now_ms)
    strangers = _agree(store, topics, config=config)
    node = Node(config, store=store, topics=topics, groups=groups)
    node.problems.extend(strangers)
    return node


def _internal(store: Store, name: str) -> Partition:
    place = INTERNAL[name]
    if place in store.quarantined:
        raise store.quarantined[place]
    return store.partitions.get(place) or store.create(place, topic_id=INTERNAL_IDS[name])


def _records(partition: Partition) -> Iterator[Record]:
    offset = partition.log_start
    while offset < partition.high_watermark:
        found = partition.read(offset, max_bytes=REPLAY_BYTES)
        for buffer in found.run() if isinstance(found, ColdRead) else found:
            for header, batch in iter_batches(buffer):
                yield from read_records(batch)
                offset = header.next_offset


def _name_cluster(store: Store, topics: Topics, *, now_ms: TimestampMs) -> None:
    """The first start: a name for this cluster, durable before anybody hears it."""
    name = base64.urlsafe_b64encode(random_bytes(TOPIC_ID_BYTES)).decode().rstrip("=")
    record = cluster_named(name, now_ms=now_ms)
    batch = build_batch([record])
    store.partitions[INTERNAL[TOPICS]].append(batch, header=check_batch(batch), into_reserve=True)
    while (round_ := store.take_round()) is not None:
        round_.run()
        for _, error in store.settle(round_).refused:
            raise error
    topics.apply(record)


def _agree(store: Store, topics: Topics, *, config: BrokerConfig) -> list[PenstockError]:
    """Make folders and records say the same; gives what cannot be settled here."""
    strangers = []
    for name, partition in list(store.partitions.items()):
        topic = topics.named(name.topic)
        is_known = topic is not None and topic.id == partition.topic_id and name.partition < topic.partitions
        if is_known or name in INTERNAL.values():
            continue
        if partition.topic_id in topics.deleted_ids or partition.high_watermark == Offset(0):
            store.delete(name)
        else:
            strangers.append(fail(CorruptError, "partition-unknown", partition=name, path=partition.folder))
    for topic in topics:
        for index in map(PartitionId, range(topic.partitions)):
            place = TopicPartition(topic.name, index)
            if place in store.partitions:
                store.partitions[place].segment_bytes = topic.size("segment.bytes", default=config.segment_bytes)
            elif place not in store.quarantined:
                create_partition(store, topic, index, config=config)
    return strangers
