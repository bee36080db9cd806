# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0

# Every target makes its own environment, from the pinned versions, with nothing but python3 on the machine.
# For torch without CUDA: make test TORCH_INSTALL="torch==2.13.0 --index-url https://download.pytorch.org/whl/cpu"
PYTHON ?= python3
TORCH_INSTALL ?= torch==2.13.0
# Processes that run tests side by side: make test JOBS=0 runs all in this one.
JOBS ?= auto
PYTEST = $(BIN)/python -m pytest --numprocesses $(JOBS) --maxprocesses 8 --dist worksteal

# Tests start many processes, each of which would compile all sources anew.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
READY := .venv/.ready
SITE_READY := .venv/.site-ready

.PHONY: demo test lint slow docs site slides links bench clean
.NOTPARALLEL:

demo: $(READY)
	$(BIN)/pyrogram induce --demo

test: $(READY)
	@$(PYTEST)

slow: $(READY)
	@$(PYTEST) --slow

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@# side by side: the package, and its tests
	$(BIN)/mypy --config-file tests/mypy.ini --cache-dir .mypy_cache/tests \
	    $$(find tests benchmarks -name '*.py' ! -name conftest.py ! -path '*/wrong/*') & tests=$$!; $(BIN)/mypy && wait $$tests

# The pages of public names, from the docstrings, and of priors and inferences, from the models of a test.
docs: $(READY)
	$(BIN)/python docs/make_api.py
	$(BIN)/python docs/make_matrix.py

# A deck of slides for each tutorial, build/slides/*.slides.html. They fetch reveal.js and MathJax when they are shown.
slides: $(READY)
	$(BIN)/python -m nbconvert --to slides --SlidesExporter.reveal_scroll=True --output-dir build/slides tutorials/*.ipynb

# The documentation as a site, in build/site: every warning is an error, a link to nothing among them. Notebooks are not run.
SPHINX = $(BIN)/python -m sphinx --conf-dir docs --doctree-dir build/doctrees --fail-on-warning --keep-going --quiet

site: $(SITE_READY)
	$(SPHINX) --builder html . build/site

# Whether the addresses on the network that the documentation links to are there.
links: $(SITE_READY)
	$(SPHINX) --builder linkcheck . build/links

bench:
	$(PYTHON) benchmarks/run.py

# What builds and tests leave behind. The environments .venv and .venv-bench stay.
clean:
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -path './.venv*' -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install $(TORCH_INSTALL)
	$(BIN)/pip install -c constraints.txt -e '.[dev]'
	touch $@

$(SITE_READY): $(READY)
	$(BIN)/pip install -c constraints.txt -e '.[dev,site]'
	touch $@
