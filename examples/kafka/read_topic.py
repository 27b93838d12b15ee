"""Print the records of a topic of Kafka as JSON, decoded with a descriptor set.

It needs kafka-python and protobuf alone.

python examples/kafka/read_topic.py kafka://USER:PASSWORD@HOST:PORT TOPIC --types FILE [--key RESOURCE]
"""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import kafka
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import MessageToDict
from google.protobuf.message_factory import GetMessageClass

IDLE_MILLISECONDS = 5000


def settings(url: str) -> dict[str, Any]:
    """The settings of a client for a URL such as that in TUTTI_EVENTS."""
    parts = urlsplit(url)
    found: dict[str, Any] = {"bootstrap_servers": parts.netloc.rpartition("@")[2].split(",")}
    if parts.username:
        found |= {
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "SCRAM-SHA-512",
            "sasl_plain_username": unquote(parts.username),
            "sasl_plain_password": unquote(parts.password or ""),
            "group_id": unquote(parts.username),
        }
    return found


def types(file: Path) -> DescriptorPool:
    """The messages of a descriptor set."""
    pool = DescriptorPool()
    for each in FileDescriptorSet.FromString(file.read_bytes()).file:  # a file comes after those that it imports
        pool.Add(each)
    return pool


def records(url: str, topic: str, pool: DescriptorPool, key: str) -> Iterator[dict[str, Any]]:
    """The records of the topic from its beginning, until none comes for a while."""
    consumer = kafka.KafkaConsumer(
        topic,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        consumer_timeout_ms=IDLE_MILLISECONDS,
        **settings(url),
    )
    try:
        for record in consumer:
            headers = {name: value.decode() for name, value in record.headers}
            if key and record.key.decode() != key:
                continue
            message = GetMessageClass(pool.FindMessageTypeByName(headers["ce_type"]))()
            message.ParseFromString(record.value)
            yield {
                "id": headers["ce_id"],
                "type": headers["ce_type"],
                "key": record.key.decode(),
                "value": MessageToDict(message, preserving_proto_field_name=True, descriptor_pool=pool),
            }
    finally:
        consumer.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Print the records of a topic as JSON.")
    parser.add_argument("url")
    parser.add_argument("topic")
    parser.add_argument("--types", type=Path, required=True, help="a descriptor set: buf build protos -o FILE")
    parser.add_argument("--key", default="", help="of this resource alone, such as runs/NAME")
    given = parser.parse_args()
    try:
        for each in records(given.url, given.topic, types(given.types), given.key):
            print(json.dumps(each), flush=True)
    except (OSError, kafka.errors.KafkaError) as error:
        sys.exit(str(error))
