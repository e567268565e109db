# One virtual environment in the checkout; a stamp file keeps the second `make` instant.
PYTHON ?= python3
VENV   := .venv
STAMP  := $(VENV)/.installed
BIN    := $(VENV)/bin
JOBS   ?= 2
# Rendering is headless, and one thread per process: two OpenMP threads on two busy cores are many times slower.
export MUJOCO_GL ?= egl
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1
export MKL_NUM_THREADS ?= 1

.PHONY: setup demo test test-full lint types bench gen fuzz clean

setup: $(STAMP)
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e ".[train,view,dev]"
	touch $@

demo: setup        ## verify the shipped submissions for real; ends with scores and a page
	$(BIN)/python -m rle demo --out demo

test: setup        ## the whole fast suite
	$(BIN)/python -m pytest -n $(JOBS) --dist loadgroup -m "not slow and not gpu" tests

test-full: setup   ## everything, long batteries included
	$(BIN)/python -m pytest -n $(JOBS) --dist loadgroup -m "not gpu" tests

lint: setup        ## style, types and generated text
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/ty check
	$(BIN)/python -m rle gen --check

gen: setup         ## rewrite the generated text (cards, schema, tables)
	$(BIN)/python -m rle gen

bench: setup       ## speed and memory as ratios; prints tables
	for b in benchmarks/*.py; do case $$b in *cuda*|*/__init__.py|*/common.py) ;; *) $(BIN)/python $$b || exit 1;; esac; done

fuzz: setup        ## 20,000 mutations of each kind of artifact (RLE_FUZZ=N for another number)
	$(BIN)/python -m pytest -n $(JOBS) -m slow tests/attacks/test_fuzz.py

clean:
	rm -rf demo results build dist .pytest_cache .ruff_cache
