"""Log compaction: of the records of a key, only the newest stays.

    planning   what of a log may be cleaned, how dirty it is, and the job that cleans it      (event loop)
    cleaning   the job: read the dirty part into a key map, copy what survives to new files    (child process or thread)
      key_map    the newest batch of each key, in bounded memory
      filtering  one batch: which of its records survive, and the batch that is left
    swapping   the new files take the place of the old, in memory and on disk; what a crash left of that is finished
    child      the process that runs jobs for a broker

The rules are Kafka's (KIP-58, KIP-354, KIP-534): docs/adr/0007-compaction-in-a-child-process.md and docs/formats.md.
"""
