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

# The parts of `make test-all`, each at most 40 minutes on two cores. Together they are every test.
TESTS_unit := tests/unit tests/conformance tests/security ## every module alone; hostile content
TESTS_model := tests/model ## generated stories and histories against plain tables
TESTS_databases := tests/contract ## SQLite, PostgreSQL, MariaDB, MySQL, PgBouncer
TESTS_crash := tests/crash ## a process killed at each step
TESTS_roles := tests/integration/roles tests/integration/cli tests/integration/bad_input tests/integration/locks
TESTS_roles += tests/integration/rewrite tests/integration/tables tests/integration/mirror tests/integration/test_programs_after_a_restore.py ## several layers at once
TESTS_storage := tests/storage ## HDFS, S3, Ozone, Azure, Google
TESTS_judges := tests/judges tests/torture ## readers that share no code with us; damaged files, little memory
TESTS_airflow := tests/integration/airflow tests/integration/page ## a whole Airflow; the page in a browser
TESTS_spark := tests/integration/spark tests/integration/tables_for_spark ## clusters of Spark 4 and 3.5; hive_acid
TESTS_cluster := tests/cluster ## YARN, Kerberos, the schemas of Kubernetes
TESTS_live := tests/live ## Hive 3.1, 4.1 and 4.2, Trino
TESTS_packaging := tests/packaging ## the wheel with each extra
$(if $(PART),$(if $(TESTS_$(PART)),,$(error PART=$(PART) is no part of make test-all: make lists the parts)))

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-10s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))
	@echo 'The parts of make test-all:'
	@awk '/^TESTS_.* ## / {part = substr($$1, 7); sub(/.* ## /, ""); printf "  PART=%-9s %s\n", part, $$0}' $(firstword $(MAKEFILE_LIST))

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
test-all: setup packages lint ## these and all others, with live Hive and Trino (not with LIVE=0); PART=spark runs one part
	@. tools/environment; exec env WHOLE=1 python -m pytest -n 2 $(TESTS_$(PART))

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
