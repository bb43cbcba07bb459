# Every target sets up what it needs. `make demo` and `make test` are all that a newcomer has to know.
# Bytecode is compiled when a module is first imported: most modules that are installed never are.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: install demo test test-all test-faults coverage lint format docs site bench lock fuzz clean

install: $(STAMP)

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --no-compile --editable \
		".[configspace,dashboard,networks,pandas,plot,postgresql,ray,sklearn]" --group dev --group docs
	touch $@

demo: install
	$(BIN)/python -m bmbo.demo --report build/demo.html

# The quick tests, in two processes. The tests of one file stay in one process, where they share what they compile.
# Compiling takes most of the time, so XLA optimises less. `make test-all` compiles as users do.
test: install
	XLA_FLAGS="--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true" \
		$(BIN)/python -m pytest -n 2 --dist loadfile

# All tests but the faults: also applications, servers, examples in processes, peers. Shows the coverage.
test-all: install
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not faults" --cov=bmbo --cov-report=term

# What the quick tests cover, line by line.
coverage: install
	$(BIN)/python -m pytest -n 2 --dist loadfile --cov=bmbo --cov-report=term-missing:skip-covered

# Kills and disturbs planners and workers at random moments, on every storage, for half an hour.
# `python -m tests.faults --kills 1000 --report docs/results/faults.md` does the same for a night.
test-faults: install
	$(BIN)/python -m pytest -m faults

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

format: install
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# The tables of the surrogates in docs/results, made anew (about 25 minutes on two cores).
docs: install
	$(BIN)/python benchmarks/surrogate_table.py --out docs/results/surrogate_table.md
	$(BIN)/python benchmarks/calibration.py --out docs/results/calibration.md --out-svg docs/figures/calibration.svg

# The site of the documentation, in build/site. A warning, such as a link that leads nowhere, is an error.
site: install
	$(BIN)/mkdocs build --strict

# Peers take part where they are installed: see benchmarks/README.md.
bench: install
	$(BIN)/python benchmarks/suggest_speed.py --hmc
	$(BIN)/python benchmarks/alternating_search_cost.py
	$(BIN)/python benchmarks/ledger_throughput.py

# The versions that CI looks up among known vulnerabilities.
lock: install
	$(BIN)/python .ci/lock.py requirements-lock.txt

# Ten thousand cases of bad input, about ten minutes, and docs/results/bad_input.md.
fuzz: install
	$(BIN)/python -m tests.fuzz --cases 10000

clean:
	rm -rf $(VENV) .coverage .pytest_cache .ruff_cache .hypothesis
