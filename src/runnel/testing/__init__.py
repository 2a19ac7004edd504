"""What users import in their tests: the broker in their own process, the pytest plugin, files that fail on purpose.

May import everything below the command line.
"""
