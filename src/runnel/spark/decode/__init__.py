"""Record batches to Arrow: compiled kernels that walk bytes, and the few lines around them that know Kafka's rules.

In: the bytes of a Fetch reply or of a segment, an offset range, the aborted transactions. Out: Arrow record batches of
the wanted columns. Every length that the bytes claim is checked before it is used; what is wrong is `Malformed`.

Reading order: kernels (bytes), chunk (batches, compression, transactions), columns (Arrow arrays).
"""
