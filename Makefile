# On a machine with Python 3.11 and make, two commands do everything: `make demo` and `make test`.

PYTHON ?= python3
# One worker more than processors, because some tests wait; the tests of a file share what they make; the slowest tests are listed at the end.
# PYTEST_FLAGS= runs in one process, PYTEST_FLAGS="-k snapshot" selects tests.
PYTEST_FLAGS ?= --numprocesses $(shell expr `getconf _NPROCESSORS_ONLN` + 1) --dist loadfile --no-loadscope-reorder --durations 25
# Scenarios for `make samples`; all by default.
SCENARIOS ?=
# Options of `make bench`, for example BENCH_FLAGS="--size 1000".
BENCH_FLAGS ?=
# Options of `make fuzz`, for example FUZZ_FLAGS="--minutes 60 --seed 2".
FUZZ_FLAGS ?=
# Options of `make forecast-truth`, for example FORECAST_FLAGS="4.4.0-jbod --case second-missing".
FORECAST_FLAGS ?=
# Options of `make scale`, for example SCALE_FLAGS="--parts growth --rounds 1".
SCALE_FLAGS ?=

VENV := .venv
BIN := $(VENV)/bin
RUN := $(BIN)/python -m
PIP_INSTALL := $(RUN) pip install --quiet --constraint constraints.txt --editable
# The one file and the list of components have the time of the last commit, so that the same commit gives the same bytes.
# In sdist and wheels, uv_build sets the same time always.
COMMIT_TIME = SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct)}
CLASSIC := $(wildcard sample_logs/classic-transaction/*/classic-0/00000000000000000000.log)
COGGED = $(shell grep --files-with-matches --fixed-strings '[[[cog' README.md docs/*.md)
NOTEBOOKS = $(wildcard notebooks/*.ipynb)

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help demo demo-spark test thorough quick fuzz check audit-deps fix docs site man samples forecast-truth bench scale notebooks jupyter build wheels pack onefile release constraints clean

help: ## print this list
	@echo "make TARGET, where TARGET is one of"
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | while IFS='|' read -r name what; do \
		printf '  %-14s %s\n' "$$name" "$$what"; done

demo: $(VENV)/core.stamp ## install into .venv, dump the transaction sample, and audit all sample logs
	$(RUN) kforensics dump --print-data-log --files $(CLASSIC)
	$(RUN) kforensics audit --as-of 2026-11-22T01:00 --fail-on never sample_logs/

demo-spark: $(VENV)/spark.stamp ## audit all sample logs as one cluster on Spark, into out/evidence; needs Java 17
	@rm -rf out/evidence
	$(RUN) kforensics audit --engine spark --master 'local[2]' --as-of 2026-11-22T01:00 --fail-on never --output out/evidence sample_logs/

test: $(VENV)/test.stamp ## install the test dependencies, Java included, and run all tests
	@sh scripts/s3_server.sh >/dev/null || true # the script prints the reason
	@sh scripts/chromium.sh $(BIN)/python >/dev/null || true # the script prints the reason
	sh scripts/with_java.sh $(BIN)/python -m pytest $(PYTEST_FLAGS)

thorough: ## run all tests with all their cases, which takes over an hour; before a release
	KFORENSICS_THOROUGH=1 $(MAKE) test

quick: $(VENV)/test.stamp ## run one case of each test that needs neither Java, Spark nor a browser, in a minute
	$(RUN) pytest --quick --numprocesses auto --quiet

fuzz: $(VENV)/test.stamp ## attack with damaged and hostile input for ten minutes, then kill audits at system calls; needs Linux
	$(RUN) lab.fuzz $(FUZZ_FLAGS)
	$(RUN) lab.fuzz.kills

check: $(VENV)/dev.stamp ## check format, lint, types, import contract, security, notebooks and documents
	$(RUN) ruff format --check .
	$(RUN) ruff check .
	$(RUN) mypy
	$(BIN)/lint-imports --no-logo
	$(RUN) bandit --quiet --recursive kforensics cli.py
	$(if $(NOTEBOOKS),$(RUN) nbstripout --verify $(NOTEBOOKS))
	$(BIN)/python scripts/check_docs.py
	$(BIN)/python scripts/check_prose.py

audit-deps: $(VENV)/audit.stamp ## look up all pinned versions in the database of known vulnerabilities; needs a network
	$(RUN) pip_audit --strict --no-deps --disable-pip --requirement constraints.txt

fix: $(VENV)/dev.stamp ## format the code and apply the linter's fixes
	$(RUN) ruff check --fix-only .
	$(RUN) ruff format .
	$(if $(NOTEBOOKS),$(RUN) nbstripout $(NOTEBOOKS))

docs: $(VENV)/dev.stamp ## regenerate the generated parts of the documents
	$(if $(COGGED),$(RUN) cogapp -r $(COGGED))

site: $(VENV)/docs.stamp ## build the documents into out/site, for reading without a network
	@# An announcement of the MkDocs theme, not a warning about the documents.
	NO_MKDOCS_2_WARNING=1 $(RUN) mkdocs build

man: $(VENV)/core.stamp ## write the help as man pages into out/man
	$(BIN)/python scripts/man_pages.py out/man

samples: $(VENV)/core.stamp ## rebuild sample_logs/ with real brokers and dump tools; needs Java 17 (JDK) and Maven
	$(RUN) lab samples $(SCENARIOS)
	$(RUN) lab.damage
	$(RUN) lab.every_record
	$(RUN) lab.golden $(if $(SCENARIOS),$(SCENARIOS) damaged)

forecast-truth: $(VENV)/core.stamp ## start real brokers on doctored log directories and record what they do; takes an hour, needs Java 17 (JDK) and Maven
	$(RUN) lab.forecast $(FORECAST_FLAGS)

bench: $(VENV)/test.stamp ## compare dump, lso, transactions and audit with Kafka's tools, and Spark with a process pool; takes minutes, needs Java 17 (JDK) and Maven
	$(RUN) benchmarks.speed $(BENCH_FLAGS)
	$(RUN) benchmarks.scale --parts bars --rounds 1

scale: $(VENV)/test.stamp ## measure how the audit on Spark scales with data, partitions and splits; takes hours, needs Java 17 (JDK) and Maven
	$(RUN) benchmarks.scale $(SCALE_FLAGS)

notebooks: $(VENV)/test.stamp ## run every notebook from top to bottom
	$(if $(NOTEBOOKS),$(BIN)/jupyter-execute $(NOTEBOOKS),@echo "There is no notebook yet.")

jupyter: $(VENV)/notebook.stamp $(VENV)/spark.stamp ## open JupyterLab on the notebooks
	$(RUN) jupyterlab notebooks

build: $(VENV)/dev.stamp ## build sdist and wheel, with kernels compiled for this platform, into dist/ and check their contents
	rm -rf dist
	$(COMMIT_TIME) PIP_CONSTRAINT=constraints.txt $(RUN) build
	$(BIN)/python scripts/check_dist.py
	@cp dist/*.whl dist/kforensics.zip # spark-submit --py-files does not accept a .whl

wheels: build ## build the wheels for the other platforms too, into dist/other/
	@# The wheel of this machine is in dist/ already; a release must not have it twice.
	set -e; here=$$($(BIN)/python -c 'import platform, sys; print(f"{sys.platform}-{platform.machine()}")'); \
	for platform in linux-x86_64 linux-aarch64 darwin-arm64; do \
		[ "$$platform" != "$$here" ] || continue; \
		$(COMMIT_TIME) PIP_CONSTRAINT=constraints.txt $(RUN) build --wheel --outdir dist/other --config-setting platform=$$platform; done
	$(BIN)/python scripts/check_dist.py

pack: build ## build what a Spark cluster needs into dist/: the package as a zip, and an environment for the workers
	sh scripts/pack_environment.sh $(BIN)/python dist/*.whl dist/environment.tar.gz

onefile: build $(VENV)/release.stamp ## pack kforensics and its dependencies into one file in dist/, for machines with Python alone, and try it
	$(COMMIT_TIME) sh scripts/pack_onefile.sh $(BIN)/python dist/*.whl dist
	KFORENSICS_DIST=dist $(RUN) pytest --quiet tests/test_onefile.py tests/test_first_answer.py

release: wheels onefile ## collect sdist, wheels, the one file, components (SBOM), notes and checksums in out/release, and check them; uploads nothing
	$(COMMIT_TIME) sh scripts/release.sh $(BIN)/python dist out/release
	KFORENSICS_RELEASE=out/release $(RUN) pytest --quiet tests/test_release.py

constraints: $(VENV)/dev.stamp ## update all pinned versions
	$(RUN) uv pip compile --quiet --upgrade --universal --python-version 3.11 --all-extras --no-header --no-annotate \
		--no-emit-package kforensics --output-file constraints.txt pyproject.toml

clean: ## remove everything that make creates, except the lab's jars
	rm -rf $(VENV) dist out .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find kforensics tests lab scripts benchmarks -name __pycache__ -prune -exec rm -rf {} +

$(VENV)/created.stamp: scripts/venv.sh
	@sh scripts/venv.sh $(PYTHON) $(VENV)
	@touch $@

$(VENV)/core.stamp: $(VENV)/created.stamp pyproject.toml constraints.txt
	$(PIP_INSTALL) '.[kernels]'
	@$(RUN) kforensics.parsers.kernels
	@touch $@

$(VENV)/test.stamp $(VENV)/dev.stamp $(VENV)/audit.stamp $(VENV)/docs.stamp $(VENV)/notebook.stamp $(VENV)/release.stamp $(VENV)/spark.stamp: $(VENV)/%.stamp: $(VENV)/created.stamp pyproject.toml constraints.txt
	$(PIP_INSTALL) '.[kernels,$*]'
	@$(RUN) kforensics.parsers.kernels
	@touch $@ $(VENV)/core.stamp
