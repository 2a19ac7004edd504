"""The compatibility card: features x clients, Kafka's own tools, and popular users of the protocol.

Owns: the table of features (`features`), who cannot have which (`absent`), how each client's program is built and run
(`columns`), one run of everything (`run`) and the page that shows it (`card`). In: a broker's address. Out: cells.
A cell is decided by a program that uses the client as its users do, and for some features also from outside
(`outside`). Nothing here imports runnel; the broker is a process.
"""
