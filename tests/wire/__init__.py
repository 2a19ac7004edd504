"""Tests of the wire layer: bytes in, values out, held equal to kio, kafka-python, aiokafka and librdkafka."""
