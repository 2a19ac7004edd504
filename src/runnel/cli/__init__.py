"""The `runnel` command: thin verbs over the client library and the broker, for people and for scripts.

Owns: arguments, human and JSON output, exit codes. In: a command line. Out: text, or JSON with stable
field names (docs/cli.md), and an exit code: 0 done, 1 failed, 2 wrong usage, 128 + signal when
interrupted. A verb's module is imported when the verb is used, so that `runnel serve` pays for nothing
else. Top of the layers: may import all.
"""
