"""The Kafka door.

Owns sockets, frames in flight, the order of replies, limits on connections and bytes, and the table of APIs that are
served. Bytes come in from clients; one handler per API (``handlers/``) translates them into a call of one service and
the answer back into bytes. ``app`` assembles a running broker. May import services and everything below.
"""
