"""The same requests to Apache Kafka and to Runnel; replies compared field by field."""
