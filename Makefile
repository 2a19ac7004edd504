# Two commands do everything: `make run` and `make test`. `make help` lists the rest.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check -q
ELSEWHERE := echo "for the runnel command in another terminal: . $(BIN)/activate" >&2

.DEFAULT_GOAL := help
.PHONY: help run demo serve test lint types layers docs bench bench-spark bench-decode compat diff fuzz soak soak-spark test-spark clean

help: ## list the verbs
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Runnel needs Python 3.11 or newer (set PYTHON=...)"; exit 1; }
	@echo "making $(VENV) ..."
	@$(PYTHON) -m venv $(VENV)

# A stamp per set of packages: a second run finds it and starts at once.
$(VENV)/.core: $(BIN)/python pyproject.toml constraints.txt
	@echo "installing runnel ..."
	@$(PIP) install -c constraints.txt -e .
	@touch $@

$(VENV)/.pipelines: $(VENV)/.core
	@echo "installing Spark and what the pipelines need: some minutes, the first time ..."
	@$(PIP) install -c constraints.txt -e '.[pipelines]'
	@touch $@

$(VENV)/.dev: $(VENV)/.core
	@echo "installing the test and lint tools ..."
	@$(PIP) install -c constraints.txt -e '.[dev]'
	@touch $@

$(VENV)/.fuzz: $(VENV)/.dev
	@$(PIP) install -c constraints.txt -e '.[fuzz]'
	@touch $@

run: $(VENV)/.pipelines ## a shop from end to end, until Ctrl-C: broker on 127.0.0.1:9092, events, Spark pipeline, results
	@$(ELSEWHERE)
	@$(BIN)/runnel demo --data-dir runnel-data

demo: $(VENV)/.pipelines ## the same once, beside whatever runs, with the result checked: fails if it is not right
	@$(BIN)/runnel demo --once --fresh --port 0 --folder runnel-demo-once

serve: $(VENV)/.core ## only the broker: data in ./runnel-data, Kafka on 127.0.0.1:9092
	@$(ELSEWHERE)
	@$(BIN)/runnel serve

test: $(VENV)/.dev ## run the tests, in WORKERS=2 processes
	@$(BIN)/python -m benchmarks.kafka_jars || echo "the tests that need Java will be skipped"
	@$(BIN)/python -m pytest -m "not slow" -n $(or $(WORKERS),2) --dist loadfile --no-loadscope-reorder

test-spark: $(VENV)/.dev ## every test of the Spark source and sink, beside Spark's own connector
	@$(BIN)/python -m benchmarks.kafka_jars || echo "the tests that need Java will be skipped"
	@$(BIN)/python -m pytest -q tests/spark

lint: $(VENV)/.dev ## ruff: style and common mistakes
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

types: $(VENV)/.dev ## mypy --strict on src
	@$(BIN)/mypy

layers: $(VENV)/.dev ## import-linter: imports point downwards only
	@$(BIN)/lint-imports --no-cache

docs: $(VENV)/.core ## rewrite the pages that are made from tables
	@$(BIN)/python tools/configuration_page.py
	@cd tests && ../$(BIN)/python -m differential.page

bench: $(VENV)/.dev ## measure against Apache Kafka, about 45 minutes (ROWS=startup,latency for a part)
	@$(BIN)/python -m benchmarks --write $(if $(ROWS),--only $(ROWS)) $(ARGS)

bench-spark: $(VENV)/.dev ## measure Spark beside its own Kafka connector, about 30 minutes (ROWS=scan,sink for a part)
	@$(BIN)/python -m benchmarks.spark --write $(if $(ROWS),--only $(ROWS)) $(ARGS)

bench-decode: $(VENV)/.dev ## record batches to Arrow and back on one core, without Spark, a minute
	@$(BIN)/python -m benchmarks.spark.decode --write

compat: $(VENV)/.dev ## every client, tool and framework of the compatibility card, written to docs/compatibility.md
	@$(BIN)/python -m benchmarks.kafka_jars || echo "the Java columns and tools will not run"
	@PYTHONPATH=tests:. $(BIN)/python -m compat $(ARGS)

diff: $(VENV)/.dev ## the same requests to Apache Kafka and to Runnel: SEEDS=100 random sequences, from SEED=1 on
	@$(BIN)/python -m benchmarks.kafka_jars
	@RUNNEL_TEST_SEEDS=$(or $(SEEDS),100) RUNNEL_TEST_SEED=$(or $(SEED),1) $(BIN)/python -m pytest -q tests/differential

soak: $(VENV)/.dev ## SIGKILL a broker under load, KILLS=50 times, and look for every acknowledged record
	@RUNNEL_TEST_KILLS=$(or $(KILLS),50) $(BIN)/python -m pytest -q tests/crash -m slow

soak-spark: $(VENV)/.dev ## SIGKILL Spark's driver, workers, executors and the broker, KILLS=20 times each, and compare the sinks
	@RUNNEL_TEST_KILLS=$(or $(KILLS),20) $(BIN)/python -m pytest -q tests/spark/faults tests/spark/cluster -m slow

fuzz: $(VENV)/.fuzz ## fuzz the decoders with atheris, SECONDS=60 for each target
	@$(BIN)/python -m fuzz.run frames -max_total_time=$(or $(SECONDS),60) -verbosity=0
	@$(BIN)/python -m fuzz.run batches -max_total_time=$(or $(SECONDS),60) -verbosity=0

clean: ## remove the environment, caches, ./runnel-data and what demos left
	rm -rf $(VENV) .mypy_cache .ruff_cache .hypothesis .import_linter_cache .fuzz .pytest_cache runnel-data runnel-demo runnel-demo-once
	find . -name __pycache__ -prune -exec rm -rf {} +
