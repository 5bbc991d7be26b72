# GNU make 3.81 or newer. The README has the three commands for Windows.
PYTHON   ?= python3
LAB_ARGS ?=

VENV := .venv
BIN  := $(VENV)/bin
FULL := $(VENV)/full.stamp
LIGHT := $(VENV)/light.stamp
# An environment that has torch and Triton serves `make lab-light` as well.
ANY  := $(if $(wildcard $(FULL)),$(FULL),$(LIGHT))
OLD  := .venv-oldest
LITE := .venv-lite

.PHONY: help lab lab-light test lint demo notebooks bench animation format test-oldest slides site lite \
	pyodide-dist

help:
	@echo "make lab          open the course in JupyterLab (installs what it needs first)"
	@echo "make lab-light    the same without torch and Triton"
	@echo "make test         run every test and every notebook"
	@echo "make demo         four demonstrations in the terminal"
	@echo "make notebooks    run the notebooks again and store their outputs"
	@echo "make bench        time naive, tiled and PyTorch attention on this CPU"
	@echo "make animation    draw the README's picture again"
	@echo "make format       format and lint; make lint only looks"
	@echo "make test-oldest  the NumPy part on the oldest supported versions"
	@echo "make slides       slides that need no kernel and no network: _site/slides (needs npm)"
	@echo "make site         pages and printed handouts: _site/index.html (needs npm)"
	@echo "make lite         the course in a browser tab, nothing installed: _site/lite"

# Importing the font manager builds matplotlib's font cache now, not in a reader's first figure.
define install
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -r $(1)
	$(BIN)/python -m pip install --no-deps -e .
	$(BIN)/python -c "import matplotlib.font_manager"
	touch $@
endef

$(FULL): requirements.lock requirements-light.lock pyproject.toml
	$(call install,requirements.lock)

$(LIGHT): requirements-light.lock pyproject.toml
	$(call install,requirements-light.lock)

lab: $(FULL)
	$(BIN)/jupyter lab notebooks $(LAB_ARGS)

lab-light: $(ANY)
	$(BIN)/jupyter lab notebooks $(LAB_ARGS)

test: $(FULL)
	$(BIN)/python -m pytest tests -n 2
	$(BIN)/python -m pytest --nbval notebooks -n 2

lint: $(FULL)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python tools/notebooks.py --check

demo: $(ANY)
	$(BIN)/python -m flashlib

notebooks: $(FULL)
	$(BIN)/python tools/notebooks.py

bench: $(FULL)
	$(BIN)/python -m flashlib.bench cpu

animation: $(FULL)
	$(BIN)/python tools/readme_animation.py

format: $(FULL)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# NumPy 2.0 has wheels up to Python 3.12: make test-oldest PYTHON=python3.11
$(OLD)/oldest.stamp: pyproject.toml Makefile
	$(PYTHON) -m venv $(OLD)
	$(OLD)/bin/python -m pip install "numpy==2.0.*" "matplotlib==3.8.*" "pyparsing<3.2" \
		tqdm hypothesis pytest pytest-xdist
	$(OLD)/bin/python -m pip install --no-deps -e .
	touch $@

test-oldest: $(OLD)/oldest.stamp
	$(OLD)/bin/python -m pytest tests -n 2 --ignore-glob "tests/test_*browser.py"

# Slides and pages load scripts and fonts from files beside them; npm brings those files.
slides: $(ANY)
	$(BIN)/python tools/pages.py slides

site: $(ANY)
	$(BIN)/python tools/pages.py site

$(LITE)/lite.stamp: requirements-lite.lock
	$(PYTHON) -m venv $(LITE)
	$(LITE)/bin/python -m pip install -r requirements-lite.lock
	touch $@

# The readers' browsers take Pyodide from its CDN. To need no other host:
#   make lite PYODIDE_DIST=folder    with an unpacked Pyodide 0.27.7 release
lite: $(LITE)/lite.stamp
	$(LITE)/bin/python tools/lite.py

# A release with what the course needs and no more, from npm and PyPI: _site/.cache/pyodide
pyodide-dist: $(LITE)/lite.stamp
	$(LITE)/bin/python tools/lite.py --make-dist _site/.cache/pyodide
