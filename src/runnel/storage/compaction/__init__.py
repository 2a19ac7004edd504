"""Log compaction: of the records of a key, only the newest stays.

    planning   what of a log may be cleaned, how dirty it is, and the job that cleans it      (event loop)
    cleaning   the job: read the dirty part into a key map, copy what survives to new files    (child process or thread)
      indexing   the first pass, over the dirty part
      key_map    where the newest record of each key lies, in bounded memory
      filtering  one batch: what is left of it
    swapping   the new files take the place of the old, in memory and on disk; what a crash left of that is finished
    runners    where jobs run, and what travels there and back
    child      the process that runs jobs for a broker
    pace       how fast a job may go, and how it is told to end

The rules are Kafka's (KIP-58, KIP-354, KIP-534): docs/adr/0007-compaction-in-a-child-process.md and docs/formats.md.
"""
