"""Prints the records of topics, decoded by Confluent's own client, which asks the registry for each schema.

Usage: consume.py BROKER REGISTRY COUNT TOPIC...
A line has the topic, the key, and the value; the value of a tombstone is null. A key without a frame is a text.
"""
import json
import sys

from confluent_kafka import Consumer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

broker, registry, count, *topics = sys.argv[1:]
client = SchemaRegistryClient({"url": registry})
avro = AvroDeserializer(client)
as_json = JSONDeserializer(None, schema_registry_client=client)


def decoded(topic, field, data):
    if data is None:
        return None
    if field == MessageField.KEY and data[:1] != b"\0":
        return data.decode()
    schema = client.get_schema(int.from_bytes(data[1:5], "big"))
    decode = as_json if schema.schema_type == "JSON" else avro
    return decode(data, SerializationContext(topic, field))


consumer = Consumer(
    {"bootstrap.servers": broker, "group.id": f"consume-{topics[0]}", "auto.offset.reset": "earliest"}
)
consumer.subscribe(topics)
for _ in range(int(count)):
    record = consumer.poll(30)
    if record is None or record.error():
        sys.exit(f"no record: {record and record.error()}")
    topic = record.topic()
    key = decoded(topic, MessageField.KEY, record.key())
    value = decoded(topic, MessageField.VALUE, record.value())
    line = {"topic": topic, "key": key, "value": value}
    print(json.dumps(line), flush=True)
consumer.close()
