"""Runnel measured against Apache Kafka on one machine: `python -m benchmarks`. docs/benchmarks.md says how and what."""
