# The commands people type. Each sets up what it needs and says so.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# Each test file runs on one worker, which has its own Kafka. More workers than cores are faster but less stable: try WORKERS=4.
WORKERS ?= 2
COVERAGE := --cov --cov-report=term-missing:skip-covered

.PHONY: demo dashboards test lint bench proof setup jar-tool debian clean

demo: setup jar-tool  ## a three-node Kafka with misbehaving consumers, and the agent over it
	$(BIN)/lagwatch demo $(DEMO)

dashboards: setup  ## write grafana/dashboards and the README's tables again
	$(BIN)/python -m grafana.generator

test: setup debian jar-tool  ## every test, against real servers on loopback
	$(BIN)/python -m lagwatch.demo.jars 4.3.1 4.1.2 3.9.2
	$(BIN)/python -m tests.harness.jolokia
	$(BIN)/python -m tests.harness.influxd_build
	$(BIN)/python -m tests.harness.grafana_types
	$(BIN)/python -m tests.harness.cds_archives 4.3.1 4.1.2 3.9.2
	$(BIN)/pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(if $(TEST),,$(COVERAGE)) $(TEST)

lint: setup  ## ruff, mypy, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: setup debian jar-tool  ## speed as ratios measured side by side in one run
	$(BIN)/python -m lagwatch.demo.jars 4.3.1
	$(BIN)/python -m tests.harness.influxd_build
	$(BIN)/pytest tests/bench --timeout=3000 -s $(BENCH)

proof: setup debian jar-tool  ## the proofs that take long; results are kept in docs/evidence.md
	$(BIN)/python -m lagwatch.demo.jars 4.3.1
	$(BIN)/python -m tests.harness.influxd_build
	$(BIN)/pytest tests/proof --timeout=7200 -s $(PROOF)

setup: $(STAMP)

jar-tool: setup  # ensures a tool that downloads Kafka's jars: Maven if present, else the Ivy inside pyspark
	@command -v mvn >/dev/null || $(BIN)/python -c 'import pyspark' 2>/dev/null || { \
	  echo "setup: no Maven here, so pyspark is installed for the Ivy inside it (450 MB, a few minutes, once)"; \
	  $(BIN)/pip install --quiet --disable-pip-version-check -c requirements.lock -e '.[reports]'; }

$(STAMP): pyproject.toml requirements.lock
	@echo "setup: creating $(VENV) and installing the locked packages (about a minute)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "error: Python 3.11 or newer is needed, '$(PYTHON)' is older. Try: make PYTHON=python3.11"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "error: no venv module. Run: apt-get install python3-venv"; exit 1; }
	@$(BIN)/pip install --quiet --disable-pip-version-check -c requirements.lock -e '.[dev]'
	@touch $@

DEBIAN := libfaketime pkg-config gcc

debian:  # packages the tests need beside Python and Java
	@for package in $(DEBIAN); do \
	  dpkg -s $$package >/dev/null 2>&1 && continue; \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "setup: installing Debian's $$package"; \
	    { apt-get install -y -qq $$package >/dev/null 2>&1 || { apt-get update -qq && apt-get install -y -qq $$package >/dev/null; }; } && continue; \
	  fi; \
	  echo "error: $$package is missing. Run: apt-get install $$package"; exit 1; \
	done

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .coverage
