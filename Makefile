# Everything that a person or a build does with this checkout. `make` alone lists it.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# uv brings certificates of its own, which a proxy that opens TLS does not match; the machine's own set does.
export UV_SYSTEM_CERTS ?= true

# What tests need from Debian; `make test` and `make test-all` install what is missing.
DEBIAN_PACKAGES := postgresql maven zookeeper docker-compose chromium libatomic1 xfsprogs
FURTHER_PACKAGES := mariadb-server gcc libc6-dev
FURTHER_PACKAGES += prometheus libkrb5-dev krb5-kdc krb5-admin-server krb5-user faketime curl

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-10s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

.PHONY: setup
setup: ## make .venv with everything in it (no root, may be run again)
	@tools/setup

.PHONY: demo
demo: setup ## run the main job end to end on real data, print before and after, stop everything
	@. tools/environment; exec python -m demo run

.PHONY: up
up: setup ## the demo's tables with Airflow's UI, left running until Ctrl-C
	@. tools/environment; exec python -m demo up

.PHONY: test
test: setup packages lint ## setup, missing Debian packages, lint and the tests that take minutes; before every change
	@. tools/environment; exec python -m pytest -n 2

.PHONY: test-all
test-all: DEBIAN_PACKAGES += $(FURTHER_PACKAGES)
test-all: setup packages lint ## the same and all other tests: live Hive and Trino (not with LIVE=0), wheel, Spark, Airflow
	@. tools/environment; exec env WHOLE=1 python -m pytest -n 2

.PHONY: packages
packages:
	@tools/debian-packages $(DEBIAN_PACKAGES)

.PHONY: lint
lint: setup ## style, types, the direction of imports, the compose file
	@. tools/environment; tools/lint

.PHONY: advisories
advisories: setup ## compare the locked dependencies with the list of known vulnerabilities, where that can be reached
	@. tools/environment; tools/advisories

.PHONY: dist-spark
dist-spark: setup ## pack code and libraries for Spark's --archives into dist/ (docs/spark.md)
	@tools/dist-spark

.PHONY: bench
bench: setup ## ratios such as stripe copy to plain copy, each measured in one run
	@. tools/environment; for file in benchmarks/*.py; do echo "== $$file"; python "$$file"; done

.PHONY: torture
torture: DEBIAN_PACKAGES += $(FURTHER_PACKAGES)
torture: setup packages ## all of test-all again with many more generated examples and TORTURE_SECONDS at each metastore (slow)
	@. tools/environment; exec env WHOLE=1 HYPOTHESIS_PROFILE=search TORTURE_MUTATIONS=$${TORTURE_MUTATIONS:-10000} TORTURE_SECONDS=$${TORTURE_SECONDS:-120} python -m pytest

.PHONY: docs
docs: setup ## the documents as a site in build/site, every link of it checked
	@. tools/environment; exec env NO_MKDOCS_2_WARNING=1 mkdocs build --strict

.PHONY: clean
clean: ## remove what demo, tests and tools left (not .venv and .tools)
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache spark-warehouse metastore_db derby.log
	find . -name __pycache__ -not -path './.venv/*' -not -path './.tools/*' -prune -exec rm -rf {} +
