"""The load clients: Java's perf tools, librdkafka (C), bare sockets, idle connections."""
