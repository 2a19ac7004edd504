"""The use cases of one broker, asynchronous: produce, fetch, topics, configs, offsets, groups, hosting of machines.

Owns all waiting (long polls, group commit, commits of metadata). Values come in from a door (Kafka, later HTTP and
gRPC), values or Refusals go out; nothing here knows the bytes of a request. May import storage, core and wire.
"""
