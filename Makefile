# Everything a developer does here. `make` alone prints what there is.

PYTHON ?=
PORT ?=
ARGS ?=
BIN := .venv/bin
export PYTHON PORT
# What Python has compiled is kept, whoever asks: hundreds of processes start here, and each would compile Airflow anew.
unexport PYTHONDONTWRITEBYTECODE

# All extras but that of Google: its provider brings some hundred packages, which would hold others back.
LOCKED := airflow amazon audit databricks decode kubernetes livy msk openlineage spark

.DEFAULT_GOAL := help
.PHONY: help environment browser demo ui broker sample test faults nightly newest versions soak mutants bench release docs lint lock clean

help: ## print this
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo "  PYTHON=python3.12   the Python to build the environment with (3.11, 3.12 or 3.13)"
	@echo "  ARGS='-k cuts'      more arguments for pytest"
	@echo "  WORKERS=2           how many processes run the tests (4, faults and versions 3, soak 2), each with a broker and a Spark of its own"

environment: ## build .venv from requirements.lock, or do nothing when it is up to date
	@scripts/environment

browser:
	@scripts/browser

demo: environment ## load a real Kafka in time order, on this machine, in a few minutes
	@$(BIN)/python -m demo $(ARGS)

ui: environment ## a real Airflow with the example DAGs and a broker, at http://127.0.0.1:$PORT (8080)
	@$(BIN)/python scripts/ui.py

broker: environment ## a real Kafka at 127.0.0.1:$PORT (9092), until Ctrl-C; its data is kept
	@$(BIN)/python -m broker $(ARGS)

sample: environment ## write 12,000 events of a shop to that Kafka, for the example DAGs (ARGS="--events 3000")
	@$(BIN)/python -m broker.sample $(ARGS)

test: WORKERS ?= 4
test: environment browser ## run every test but those that break things on purpose or take long
	$(BIN)/python -m pytest -m "not fault and not nightly" -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(ARGS)

faults: WORKERS ?= 3
faults: environment ## run the tests that kill processes, stop brokers or take long
	$(BIN)/python -m pytest -m "fault and not versions and not nightly" -n $(WORKERS) --dist loadgroup $(ARGS)

nightly: WORKERS ?= 3
nightly: environment ## run the tests that take long where quicker ones tell most of it
	$(BIN)/python -m pytest -m nightly -n $(WORKERS) --dist loadgroup $(ARGS)

newest: WORKERS ?= 4
newest: ## run the tests with the newest releases of Airflow, its providers, Kafka's client and pyarrow, caps or not
	@scripts/newest $(LOCKED:%=--extra %)
	.cache/newest/bin/python -m pytest -m "not fault and not nightly" -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(ARGS)

versions: WORKERS ?= 3
versions: environment browser ## run some tests with each supported Spark, Airflow, Kafka and table format (ARGS="--only spark --write": see CONTRIBUTING)
	@$(BIN)/python scripts/versions.py --workers $(WORKERS) $(ARGS)

soak: WORKERS ?= 2
soak: environment ## try 10,000 examples of each property, and 200 loads killed at random: hours of them
	@ORDEREDKAFKA_EXAMPLES=10000 ORDEREDKAFKA_KILLED_LOADS=200 $(BIN)/python -m pytest tests/property \
		tests/fault/test_random_kills.py -n $(WORKERS) --timeout 14400 $(ARGS)

mutants: environment ## make wrong products, and see that a test catches each (ARGS="'no sort' floor": only some)
	@$(BIN)/python scripts/mutants.py $(ARGS)

bench: environment ## measure against Spark's connector and kafkarrow (an hour, on a machine that does nothing else)
	@scripts/uv pip install --quiet --no-deps --target .cache/peers kafkarrow==0.1.1 kafkars==0.0.8
	@PYTHONPATH=.cache/peers $(BIN)/python -m benchmarks $(ARGS)

release: environment ## rehearse a release: build, check, install with each Python, and follow the README (RELEASING.md)
	@$(BIN)/python scripts/release.py $(ARGS)

docs: environment ## make a site of README and docs/, in .cache/site
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build $(ARGS)

lint: environment ## check style, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m mypy

lock: ## write requirements.lock anew from pyproject.toml
	scripts/uv pip compile --quiet --universal --no-emit-index-url $(LOCKED:%=--extra %) --group dev pyproject.toml \
		--python-version 3.11 -o requirements.lock --custom-compile-command "make lock"

clean: ## delete the environment and all that was made here
	rm -rf .venv .cache .airflow .demo dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
