# SPDX-License-Identifier: Apache-2.0
# Needs python3 (3.11, with venv), pip, Java 17, git, and make. It installs everything else.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.SECONDEXPANSION:
.SUFFIXES:
.DELETE_ON_ERROR:

PYTHON ?= python3
SPARK ?= 4.3
# The Spark lines, oldest first. Lint, types, and the demo use the newest.
LINES := 35 43
NEWEST := $(lastword $(LINES))

XDG_CACHE_HOME ?= $(HOME)/.cache
WHEELHOUSE := $(XDG_CACHE_HOME)/connectors/wheelhouse
UV := .tools/bin/uv
.PRECIOUS: .venv/spark%/.synced $(WHEELHOUSE)/pyspark-%.txt
PACKAGES := $(patsubst %/pyproject.toml,%,$(wildcard connectors-core/pyproject.toml connector-*/pyproject.toml release-tools/pyproject.toml))
CONNECTORS := $(filter connector-%,$(PACKAGES))
# Unit tests of packages that run with Spark, for each line. All other unit tests run once.
LINE_UNIT := $(filter-out release-tools/%,$(wildcard $(PACKAGES:=/tests/unit)))
UNIT := $(filter-out $(LINE_UNIT),$(wildcard tests/unit */tests/unit))
SPARK_TESTS := $(wildcard tests/spark */tests/spark)

WORKFLOWS := $(wildcard .github/workflows/*.yml */.github/workflows/*.yml)
ACTIONS := $(wildcard */.github/actions/*/action.yml)
ISSUE_FORMS := $(filter-out %/config.yml,$(wildcard .github/ISSUE_TEMPLATE/*.yml))

# Only `make test-full` runs tests marked `slow`. PYTEST_ARGS adds your own options.
MARKERS ?= not slow
PYTEST := -m pytest -c pyproject.toml --rootdir . -m '$(MARKERS)' $(PYTEST_ARGS)

BIN = .venv/spark$(NEWEST)/bin
# Python of a line, $(call SPARK_PYTHON,35). Its JVMs map the archive of tools/quick_start.py.
SPARK_PYTHON = PYSPARK_PYTHON=$(CURDIR)/.venv/spark$(1)/bin/python \
	SPARK_SUBMIT_OPTS="-XX:SharedArchiveFile=$(CURDIR)/.venv/spark$(1)/classes.jsa $$SPARK_SUBMIT_OPTS" \
	.venv/spark$(1)/bin/python
# The share of a line in the slow cases that kill or freeze drivers, and in unit tests on which the line has
# hardly any influence (conftest.py), $(call SHARE,43): 1/2.
SHARE = --connector-share $$(printf '%s\n' $(LINES) | sort -r | grep -nx $(1) | cut -d: -f1)/$(words $(LINES))
LINE = $(subst .,,$(SPARK))
# The Spark line in Spark's notation, $(call DOTTED,35): 3.5.
DOTTED = $(shell sed -n 's/^pyspark==\([0-9]*\.[0-9]*\).*/\1/p' requirements/pyspark$(1).txt)
# The pyspark version of each line, such as $(PYSPARK_35).
$(foreach line,$(LINES),$(eval PYSPARK_$(line) := $(shell sed -n 's/^pyspark==\([^ ]*\).*/\1/p' requirements/pyspark$(line).txt)))

export UV_PYTHON_DOWNLOADS := never

.PHONY: help
help: ## show this list
	@awk -F ':.*## ' '/^[a-z0-9%-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

## Environments

.PHONY: env env35 env43 wheelhouse requirements
env: $(LINES:%=env%) ## create or update .venv/spark35 and .venv/spark43
env35: .venv/spark35/.ready
env43: .venv/spark43/.ready

.tools/.ready: requirements/tools.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11) and "expected Python 3.11, found " + sys.version.split()[0] + ": use make PYTHON=/path/to/python3.11")'
	test -x .tools/bin/python || $(PYTHON) -m venv .tools
	.tools/bin/python -m pip install -q --disable-pip-version-check --require-hashes -r $<
	@touch $@

# pyspark is published only as a source distribution. It is built once for each user. The file
# next to the wheel contains the wheel's hash, so that every environment is fully verified.
$(WHEELHOUSE)/pyspark-%.txt: | .tools/.ready
	@echo "building the wheel of pyspark $*"
	@rm -rf $(@:.txt=.tmp) && mkdir -p $(@:.txt=.tmp)
	@.tools/bin/python -m pip wheel -q --disable-pip-version-check --no-cache-dir --no-build-isolation \
	  --no-deps --no-binary pyspark --require-hashes --wheel-dir $(@:.txt=.tmp) \
	  -r $$(grep -l '^pyspark==$* ' requirements/pyspark*.txt)
	@hash=$$(.tools/bin/python -m pip hash $(@:.txt=.tmp)/*.whl | tail -n 1) && \
	  mv -f $(@:.txt=.tmp)/*.whl $(@D) && echo "pyspark==$* $$hash" > $@
	@rm -rf $(@:.txt=.tmp)

wheelhouse: $(foreach line,$(LINES),$(WHEELHOUSE)/pyspark-$(PYSPARK_$(line)).txt) ## build pyspark's wheels into the user's cache

.venv/spark%/.synced: requirements/spark%.txt $(WHEELHOUSE)/pyspark-$$(PYSPARK_$$*).txt | .tools/.ready
	test -x $(@D)/bin/python || $(UV) venv -q --python .tools/bin/python $(@D)
	$(UV) pip sync -q --compile-bytecode --python $(@D) --require-hashes --find-links $(WHEELHOUSE) --only-binary pyspark $^
	@echo "preparing Spark's quick start in $(@D)"
	@$(@D)/bin/python tools/quick_start.py $(@D)/classes.jsa 2> $(@D)/quick_start.log || { cat $(@D)/quick_start.log; exit 1; }
	@touch $@

# Editable installs of the packages. Their dependencies come from the requirements.
.venv/spark%/.ready: .venv/spark%/.synced $(PACKAGES:=/pyproject.toml) $(wildcard $(PACKAGES:=/hatch_build.py))
	$(UV) pip install -q --python $(@D) --no-deps --no-build-isolation $(PACKAGES:%=-e ./%)
	@touch $@

# These files must not contain the URL of an index or a path of a machine.
# A PACKAGE keeps all other pins. If it cannot be pinned, base.in stays as it was. It is a text: neither
# make nor the shell runs anything in it.
unexport PACKAGE
COMPILE = $(UV) pip compile -q $(if $(value PACKAGE),,--upgrade) --generate-hashes --python-version 3.11 --no-annotate \
	--no-emit-index-url --no-emit-find-links --custom-compile-command "make requirements"
COMPILE_LINES = for line in $(LINES); do \
	  $(COMPILE) --no-emit-package pyspark requirements/spark$$line.in -o requirements/spark$$line.txt || exit; \
	done
requirements: .tools/.ready ## compile requirements/*.txt from *.in, or add one: make requirements PACKAGE='redis>=6'
ifdef PACKAGE
	before=$$(< requirements/base.in); \
	{ .tools/bin/python tools/requirements.py requirements/base.in '$(subst ','\'',$(value PACKAGE))' && ($(COMPILE_LINES)); } || \
	{ echo "$$before" > requirements/base.in; exit 1; }
else
	$(COMPILE) requirements/tools.in -o requirements/tools.txt
	$(COMPILE_LINES)
endif

## Checks

.PHONY: lint format docs test test-full unit $(LINES:%=lane%)
lint: env$(NEWEST) ## check style, types, imports, repository rules, and plain English
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/python tools/house.py
	$(BIN)/python tools/prose.py
	$(BIN)/check-jsonschema -q --schemafile release-tools/src/connector_release_tools/matrix/schema.json compatibility-matrix.yaml
	$(BIN)/lint-imports
	$(BIN)/release-tools api check
	$(BIN)/mypy $(wildcard $(PACKAGES:=/src))
	$(BIN)/check-jsonschema -q --builtin-schema vendor.github-workflows $(WORKFLOWS)
	$(BIN)/check-jsonschema -q --builtin-schema vendor.github-actions $(ACTIONS)
	$(BIN)/check-jsonschema -q --builtin-schema vendor.dependabot .github/dependabot.yml
	$(BIN)/check-jsonschema -q --builtin-schema vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml
	$(BIN)/check-jsonschema -q --builtin-schema vendor.github-issue-forms $(ISSUE_FORMS)
	$(BIN)/zizmor -q --offline --persona auditor --config .github/zizmor.yml $(WORKFLOWS) $(ACTIONS) .github/dependabot.yml

format: env$(NEWEST) ## format the code and fix what ruff can fix
	$(BIN)/ruff check --fix-only
	$(BIN)/ruff format

docs: env$(NEWEST) ## regenerate the option tables, check the docs, and build build/site
	$(BIN)/python -m tools.docs
	$(BIN)/release-tools api page
	$(BIN)/release-tools docs check
	$(BIN)/release-tools docs build
	$(BIN)/release-tools docs screenshot

# Some tests wait more than they work, so three processes keep two cores busy.
unit: env ## run the tests that need no JVM, those of the core and connectors for both lines
	@for line in $(LINES); do \
	  .venv/spark$$line/bin/python $(PYTEST) -n 3 $(call SHARE,$$line) $(LINE_UNIT) || exit 1; \
	done
	@$(BIN)/python $(PYTEST) -n 3 $(UNIT)

# Two processes for each line, each with its own Spark session: tests mostly wait for Spark, so four
# processes keep two cores busy. A file's tests share a process, and so a server. The output appears
# when the lane ends.
$(LINES:%=lane%): lane%: env%
	@mkdir -p build/test
	@code=0; log=build/test/spark$*.log; \
	$(call SPARK_PYTHON,$*) $(PYTEST) -n 2 --dist loadfile --no-loadscope-reorder $(call SHARE,$*) \
	  --junit-xml build/test/spark$*.xml $(SPARK_TESTS) > $$log 2>&1 < /dev/null || code=$$?; \
	cat $$log; \
	exit $$code

test: lint ## run lint and unit, then the Spark tests on both lines in parallel
	@$(MAKE) --no-print-directory unit
	@$(MAKE) --no-print-directory -j 2 -k $(LINES:%=lane%)

test-full: ## run test, including the slow tests, which build every recorded release again
	@$(MAKE) --no-print-directory test MARKERS='slow or not slow'

## Things to run

.PHONY: wheels demo bench soak matrix
WHEELS = connectors-core $(CONNECTORS)
wheels: .tools/.ready ## build the wheels for users into dist/, for each Spark line, or only some: make wheels ONLY=connectors-core
	$(if $(filter-out $(WHEELS),$(ONLY)),$(error ONLY: expected some of $(WHEELS), found $(ONLY)))
	@rm -rf dist
	@$(if $(filter connectors-core,$(or $(ONLY),$(WHEELS))),$(UV) build -q --wheel --out-dir dist connectors-core)
	@for spark in $(foreach line,$(LINES),$(call DOTTED,$(line))); do for connector in $(filter $(or $(ONLY),%),$(CONNECTORS)); do \
	  CONNECTOR_SPARK=$$spark $(UV) build -q --wheel --out-dir dist $$connector || exit; \
	done; done
	@ls dist/*.whl

demo: env$$(LINE) ## run the flights pipeline on one Spark line, in Python or SQL: make demo SPARK=3.5 JOB=flights_sql DAYS=14
	$(call SPARK_PYTHON,$(LINE)) -m examples.flights $(JOB:%=--job %) $(DAYS:%=--days %)

bench: env$$(LINE) ## run the benchmarks on one Spark line, or only one part: make bench ONLY=kafka
	$(call SPARK_PYTHON,$(LINE)) -m benchmarks $(ONLY:%=--only %)

MINUTES ?= 30
SEED ?= 1
soak: env$$(LINE) ## run pipelines with faults: make soak MINUTES=30 SEED=1 SPARK=3.5 ONLY=epochs (or flights)
	$(call SPARK_PYTHON,$(LINE)) -m benchmarks.soak --minutes $(MINUTES) --seed $(SEED) $(ONLY:%=--only %)

matrix: env$(NEWEST) ## test all cells of the compatibility matrix, each major version with today's core
	$(BIN)/release-tools test --all

## Cleaning

.PHONY: clean distclean
clean: ## remove the output of builds and tests
	rm -rf build dist .hypothesis .import_linter_cache spark-warehouse metastore_db derby.log $(PACKAGES:=/dist)
	find . \( -path ./.venv -o -path ./.tools -o -path ./.git \) -prune -o \
	  \( -name __pycache__ -o -name '.*_cache' \) -prune -exec rm -rf {} +

distclean: clean ## run clean, and remove the environments and the wheelhouse
	rm -rf .venv .tools $(WHEELHOUSE)
