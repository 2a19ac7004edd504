"""Arrow to record batches: the way back of `decode`, with the same kernels' speed.

In: columns of an Arrow batch. Out: bytes of record batches, per partition, CRC included. Reading order: kernels, rows
(Arrow columns as kernels want them), lanes (a batch that fills).
"""
