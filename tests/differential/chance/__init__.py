"""Random sequences of requests, the same to both brokers, from a seed."""
