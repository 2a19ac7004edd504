"""Runnel: an event-streaming broker that Kafka clients already speak to."""
