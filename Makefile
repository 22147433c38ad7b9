# Every target does all its own set-up: `tools/setup` installs what is missing, says so, and is silent when nothing is.

CARGO ?= cargo
TARGET := $(or $(CARGO_TARGET_DIR),target)
SOAK_RUNS ?= 10
FUZZ_SECONDS ?= 60
FUZZ_TARGET ?=

.DEFAULT_GOAL := help
.PHONY: help demo test test-hostile bench soak fuzz fmt lint clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s  %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## make a real hang, record it, say why it hung, and draw it (into demo/)
	@tools/setup build
	@tools/page build --if-possible
	@$(CARGO) build --release --locked --package unhitch
	@tools/demo $(TARGET)/release/unhitch

test: ## run every test, live ones on this machine's kernel included
	@tools/setup test
	@tools/test

test-hostile: ## attack a recorder that runs as root, as another user would; some three minutes, needs root
	@tools/setup test
	@$(CARGO) test --locked --package unhitch --test hostile -- --nocapture --test-threads=1

bench: ## measure speed and cost beside perf; some twelve minutes
	@tools/setup build
	@$(CARGO) bench --locked --package unhitch --bench speed

soak: ## repeat the live tests of the lab SOAK_RUNS times, alone and beside a busy process; fifty windows of a build beside perf's reading
	@tools/setup test
	@UNHITCH_WINDOWS=50 $(CARGO) test --locked --package unhitch --test table
	@UNHITCH_SOAK=$(SOAK_RUNS) $(CARGO) test --locked --package unhitch --test live -- --test-threads=1

fuzz: ## fuzz every reader FUZZ_SECONDS (60) long, or FUZZ_TARGET alone
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

clean: ## remove what was built and what the demo left
	@$(CARGO) clean
	@rm -rf demo
