"""Tests with the Java clients and tools of Apache Kafka; skipped where there is no Java or no jars."""
