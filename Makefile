# Everything that a developer runs. `make` alone lists the targets; each is a line or two.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:
PYTHON := .venv/bin/python
# Those below tests/lint are data: what other people write.
SCRIPTS = .ci/run $(shell find scripts tests files -name '*.sh' -not -path 'tests/lint/*')

include tests/lab/lab.mk

.PHONY: help lab-host setup demo test lint unit pytest test-cuda test-vllm test-vllm-pair test-operate test-fleet test-browser test-bundle test-wheels test-airgap drift kills bench lint-cases cli-docs
help: ## this list
	@echo "make TARGET, as root on Debian 12 for those that boot lab machines:"
	@sed -n 's/^\([a-z-]*\):.*## /  \1\t/p' $(MAKEFILE_LIST) | expand -t 14
	@echo "  lab, lab-down, clean-cache: machines to try things on, their end, the end of the cache"
	@echo "Deploying needs none of them: docs/quickstart.md."

# Says at once what is missing, and what would happen here.
lab-host:
	@missing=; [ "$$(uname)" = Linux ] || missing="Linux (this is $$(uname))"; \
	[ "$$(id -u)" = 0 ] || missing="$${missing:+$$missing and }root (use sudo)"; \
	[ -z "$$missing" ] || { echo "missing: $$missing"; echo "It would install packages and .venv" \
	"(scripts/setup.sh), build a Debian root in ~/.cache/sparkwright-lab, boot machines on a" \
	"network of their own, deploy to them over SSH, and remove them."; exit 1; } >&2

setup: ## make .venv and install what lint, tests and lab need
	@bash scripts/setup.sh </dev/null

demo: lab-host setup ## two lab machines, converged twice and asked; DEMO_FROM=mirror or bundle
	@$(PYTHON) -m tests.e2e.demo </dev/null

test: ## set-up, lint and every test; the last line says how it went and how long it took
	@rc=0; $(MAKE) --no-print-directory lab-host setup lint pytest || rc=$$?; \
	if [ $$rc = 0 ]; then word=passed; else word=FAILED; fi; \
	echo "make test: $$word in $$SECONDS s"; exit $$rc

lint: ## ruff, ruff format --check, mypy --strict, shellcheck
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy
	shellcheck $(SCRIPTS)

# What `make test-fleet` and `make test-operate` run by themselves, on machines of their own.
OWN := tests/fleet $(addprefix tests/operate/test_,bench.py broken.py weights.py)
TESTS := $(PYTHON) -m pytest tests $(OWN:%=--ignore=%)
unit: ## the tests that boot no machine, on all cores, a file on one
	$(TESTS) -m "not lab" -n auto --dist loadfile </dev/null

pytest: unit ## every test without set-up and lint
	$(TESTS) -m lab $(ARGS) </dev/null

test-cuda: setup ## compile CUDA files of llama.cpp for sm_121a with an nvcc 13; needs no GPU
	@$(PYTHON) -m tests.cuda </dev/null

test-vllm: lab-host setup ## a real vLLM (CPU wheels) on a lab machine: twice, asked, and refused
	@$(PYTHON) -m tests.vllm </dev/null

test-airgap: lab-host setup ## machines with no way out: both engines, bad input, a library
	@$(PYTHON) -m tests.airgap $(ARGS) </dev/null

test-wheels: setup ## look into vLLM's real wheels for a Spark; ARGS=--all hashes each (4.3 GB)
	@$(PYTHON) -m tests.wheels $(ARGS) </dev/null

test-vllm-pair: lab-host setup ## a real vLLM on two lab machines, by mp and over Ray; ARGS="mp": one
	@timeout --foreground 3600 $(PYTHON) -m tests.vllm_pair $(ARGS) </dev/null

test-operate: lab-host setup ## status, verify, fit and doctor on healthy and broken machines
	@$(PYTHON) -m tests.operate </dev/null

test-browser: setup ## the page of verify --html in Debian's Chromium, on a phone's and a laptop's width
	@[ -x /usr/bin/chromium ] || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
	apt-get install -yqq --no-install-recommends chromium fonts-dejavu-core >/dev/null; }
	@$(PYTHON) -c 'import playwright' 2>/dev/null || $(PYTHON) -m pip install --quiet \
	--disable-pip-version-check --editable '.[browser]'
	@$(PYTHON) -m pytest tests/browser/*_page.py </dev/null

test-fleet: lab-host setup ## several machines: copies from one to the next, clusters, rollout, lock
	@$(PYTHON) -m tests.fleet </dev/null

test-bundle: setup ## a bundle of real wheels and debs for arm64 (130 MB); ARGS=--vllm: 4.3 GB more
	@$(PYTHON) -m tests.bundle $(ARGS) </dev/null

drift: lab-host setup ## damage converged machines in every way we know; each is named and mended
	@$(PYTHON) -m tests.drift </dev/null

kills: lab-host setup ## kill first converges at random moments, fill disks; one run mends each
	@$(PYTHON) -m tests.kills $(ARGS) </dev/null

cli-docs: ## docs/cli.md, made from the commands' own options
	@$(PYTHON) -m sparkwright.cli_page >docs/cli.md.new && mv docs/cli.md.new docs/cli.md

lint-cases: ## every case of `sparkwright lint`, and the files that it must not block
	@$(PYTHON) -m tests.lint </dev/null

bench: lab-host setup ## speed and size on lab machines, beside Ansible; ARGS="noop push": parts
	@[ -x .venv/bin/ansible-playbook ] || $(PYTHON) -m pip install --quiet \
	--disable-pip-version-check --editable '.[bench]'
	@$(PYTHON) -m benchmarks $(ARGS) </dev/null

lab: lab-host setup
