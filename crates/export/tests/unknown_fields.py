"""Decodes a Perfetto trace and lists the fields that Perfetto's descriptors do not know.

Usage: unknown_fields.py FILE. Needs `pip install perfetto`.
"""

import sys

from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace import perfetto_trace_pb2


def unknown(message, path):
    """The unknown fields of a message and of all in it, each with its path."""
    for field in UnknownFieldSet(message):
        yield f"{path}: {field.field_number}"
    for field, value in message.ListFields():
        if field.message_type is not None:
            several = value if field.is_repeated else [value]
            for one in several:
                yield from unknown(one, f"{path}.{field.name}")


trace = perfetto_trace_pb2.Trace()
with open(sys.argv[1], "rb") as file:
    trace.ParseFromString(file.read())
found = list(unknown(trace, "trace"))
for line in sorted(set(found)):
    print(line)
print(f"{len(trace.packet)} packets")
if found:
    sys.exit(1)
print("no unknown field")
