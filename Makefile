# Every target sets up what it needs: `tools/setup` installs what is missing and reports it; it is
# silent if nothing is missing.

CARGO ?= cargo
TARGET := $(or $(CARGO_TARGET_DIR),target)
SOAK_RUNS ?= 10
FUZZ_SECONDS ?= 60
FUZZ_TARGET ?=

.DEFAULT_GOAL := help
.PHONY: help demo test test-hostile bench soak fuzz fmt lint clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s  %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## record a real hang, explain it and draw it (into demo/)
	@tools/setup build
	@tools/page build --if-possible
	@$(CARGO) build --release --locked --package unhitch
	@tools/demo $(TARGET)/release/unhitch

test: ## run all tests, including live ones on this machine's kernel
	@tools/setup test
	@tools/test

test-hostile: ## attack a root recorder as another user; takes three minutes, needs root
	@tools/setup test
	@$(CARGO) test --locked --package unhitch --test hostile -- --nocapture --test-threads=1

bench: ## measure speed and cost, compared with perf; takes twelve minutes
	@tools/setup build
	@$(CARGO) bench --locked --package unhitch --bench speed

soak: ## repeat the live tests SOAK_RUNS times, also under load; compare fifty windows with perf
	@tools/setup test
	@UNHITCH_WINDOWS=50 $(CARGO) test --locked --package unhitch --test table
	@UNHITCH_SOAK=$(SOAK_RUNS) $(CARGO) test --locked --package unhitch --test live -- --test-threads=1

fuzz: ## fuzz every reader for FUZZ_SECONDS (60), or only FUZZ_TARGET
	@FUZZ_SECONDS=$(FUZZ_SECONDS) FUZZ_TARGET=$(FUZZ_TARGET) tools/fuzz

fmt: ## format the code
	@tools/setup lint
	@$(CARGO) fmt --all
	@tools/page format

lint: ## check format, lints, licences and known faults of dependencies
	@tools/setup lint
	@$(CARGO) fmt --all --check
	@$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	@tools/page lint
	@tools/check-dependencies

clean: ## remove build output and the demo
	@$(CARGO) clean
	@rm -rf demo
