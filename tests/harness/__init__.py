"""What the tests with real processes share: starting a broker, raw Kafka frames, a cutting proxy, awaited conditions.

Goes in: settings, bytes, conditions. Comes out: addresses, decoded replies. Imports nothing of Runnel, so that
the broker is judged by code that it does not share.
"""
