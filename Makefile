# The tasks by name. Each is done by a script, so that it works without make just as well.
.DEFAULT_GOAL := help
.PHONY: help run test bench crash operators soak lint lint-fix lint-plants generated db-start db-stop

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## run Oncegate in development mode with a private PostgreSQL
	@./scripts/run

test: ## check everything that must be green, as continuous integration does
	@./scripts/test

bench: ## compare with pgbench and a naive receiver, about five minutes
	@./scripts/bench

crash: ## kill the binary and PostgreSQL under load and compare the ledgers
	@./scripts/crash

operators: ## let people act at the same time, restart and kill, and see that what they decided stands
	@./scripts/operators

soak: ## run the binary for 20 minutes at 300 deliveries a second and report what grows
	@./scripts/soak

lint: ## run the pinned linter
	@./scripts/lint

lint-fix: ## run the pinned linter and let it fix what it can
	@./scripts/lint --fix

lint-plants: ## prove that the linter refuses what its configuration names
	@./scripts/lint-plants

generated: ## check that generated files are up to date
	@./scripts/generated

db-start: ## start a private PostgreSQL for tests by hand and print its address
	@./scripts/postgres start

db-stop: ## stop that PostgreSQL
	@./scripts/postgres stop
