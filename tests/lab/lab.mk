# Lab by hand; included by the Makefile. PYTHON is the project's own venv.
PYTHON ?= .venv/bin/python
MACHINES ?= 2

.PHONY: lab lab-down clean-cache
lab:
	$(PYTHON) -m tests.lab up --machines $(MACHINES)
lab-down:
	$(PYTHON) -m tests.lab down
clean-cache:
	$(PYTHON) -m tests.lab clean-cache
