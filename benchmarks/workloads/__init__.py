"""The workloads, by subject. Each module says what it measures; `registry` names them all."""
