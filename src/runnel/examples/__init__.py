"""Examples that do something real from end to end, and check their own results (extra `runnel[pipelines]`).

Owns: `shop`, which is what `runnel demo` and `make run` show. In: a seed and the address of a broker. Out: topics,
tables, a plot, and whether all of it is what plain Python says it must be. Imports `runnel.client`, `runnel.spark` and
`runnel.wire` only, and only the command line imports it: an example uses what any user can use.
"""
