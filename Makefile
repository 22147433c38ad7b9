# Every target sets up what it needs: `tools/setup` installs what is missing and reports it; it is
# silent if nothing is missing.

CARGO ?= cargo
TARGET := $(or $(CARGO_TARGET_DIR),target)
APPS ?=
SOAK_RUNS ?= 10
FUZZ_SECONDS ?= 60
FUZZ_TARGET ?=
PREFIX ?= /usr/local
DESTDIR ?=
STATIC := $(shell uname -m)-unknown-linux-musl

.DEFAULT_GOAL := help
.PHONY: help static install package test-package demo test test-hostile test-kernels test-lttng test-service test-apps test-quiet python test-fleet bench soak fuzz fmt lint audit clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s  %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

static: ## build one static program that runs on any Linux of this machine's architecture
	@tools/setup static
	@tools/page build --if-possible
	@$(CARGO) build --release --locked --package unhitch --target $(STATIC)
	@echo $(TARGET)/$(STATIC)/release/unhitch

install: ## install what `make static` built, below PREFIX (/usr/local), with unit and manual
	@test -x $(TARGET)/$(STATIC)/release/unhitch || { echo "install: run make static first" >&2; exit 1; }
	@tools/install $(TARGET)/$(STATIC)/release/unhitch $(PREFIX) $(DESTDIR)

package: ## make the .deb, the .rpm and the .zip for Windows, in target/package
	@tools/setup package
	@$(MAKE) --no-print-directory static
	@tools/package $(TARGET)/$(STATIC)/release/unhitch

test-package: package ## install, run, upgrade and remove the .deb in a clean Debian without network
	@tools/setup package-test
	@tools/test-package $(TARGET)/$(STATIC)/release/unhitch

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

test-kernels: ## record and explain hangs under other kernels, in QEMU; takes half an hour
	@tools/setup kernels
	@$(MAKE) --no-print-directory static
	@tools/test-kernels $(TARGET)/$(STATIC)/release/unhitch $(KERNELS)

test-lttng: ## record hangs with LTTng and with us at once, in QEMU, and compare; takes a quarter of an hour
	@tools/setup lttng
	@$(MAKE) --no-print-directory static
	@tools/test-lttng $(TARGET)/$(STATIC)/release/unhitch

test-service: ## boot Debian with the .deb in QEMU: hangs, keys, floods, kills; takes half an hour
	@tools/setup package
	@tools/setup service
	@$(MAKE) --no-print-directory static
	@ONLY=deb tools/package $(TARGET)/$(STATIC)/release/unhitch
	@tools/test-service "$$(ls -t $(TARGET)/package/unhitch_*.deb | head -n 1)"

test-apps: ## make real programs hang, record and explain it; takes an hour, needs root
	@tools/setup build
	@$(CARGO) build --release --locked --package unhitch
	@tools/test-apps $(TARGET)/release/unhitch $(APPS)

test-quiet: ## record programs at work for MINUTES (5) each, and list every stall that is told of them
	@tools/setup build
	@$(CARGO) build --release --locked --package unhitch
	@tools/test-apps $(TARGET)/release/unhitch --quiet $(or $(MINUTES),5) $(APPS)

python: ## build the Python package and test its wheel in an environment of its own
	@tools/setup build
	@tools/python test

test-fleet: ## 2,000 synthetic recordings of a fleet, on this machine and on Spark
	@tools/setup build
	@tools/python fleet

bench: ## measure speed and cost, compared with perf; takes twelve minutes
	@tools/setup build
	@$(CARGO) bench --locked --package unhitch --bench speed

soak: ## repeat the live tests SOAK_RUNS times, also under load; 500 answers, fifty windows against perf
	@tools/setup test
	@UNHITCH_WINDOWS=50 $(CARGO) test --locked --package unhitch --test table
	@UNHITCH_TRUTH=20 $(CARGO) test --locked --package unhitch --test truth
	@UNHITCH_SOAK=$(SOAK_RUNS) $(CARGO) test --locked --package unhitch --test live -- --test-threads=1
	@UNHITCH_SOAK=$(SOAK_RUNS) $(CARGO) test --locked --package unhitch --test always_on -- --nocapture --test-threads=1
	@UNHITCH_SOAK=20 $(CARGO) test --locked --package unhitch-agent --test session

fuzz: ## fuzz every reader for FUZZ_SECONDS (60), or only FUZZ_TARGET
	@FUZZ_SECONDS=$(FUZZ_SECONDS) FUZZ_TARGET=$(FUZZ_TARGET) tools/fuzz

fmt: ## format the code
	@tools/setup lint
	@$(CARGO) fmt --all
	@tools/page format

lint: ## check format and lints
	@tools/setup lint
	@$(CARGO) fmt --all --check
	@$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	@tools/page lint

audit: ## check licences, sources and known faults of dependencies, and the workflows
	@tools/setup audit
	@tools/check-dependencies
	@tools/check-workflows

clean: ## remove build output and the demo
	@$(CARGO) clean
	@rm -rf demo
