# capmaas: everything a newcomer needs is `make demo` and `make test`.
#
# Built parts live outside the tree, keyed by lock files and toolchains, so that the second run, and
# the next clone, are quick. CAPMAAS_CACHE moves them; CARGO_TARGET_DIR is honoured: give it to each of
# two clones that are used at the same time.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

CAPMAAS_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/capmaas
export CAPMAAS_CACHE

# How long each fuzz target runs.
SECONDS ?= 600

toolchain = $(shell (rustc -vV; cat Cargo.lock) 2>/dev/null | sha256sum | cut -c1-16)
guest_toolchain = $(shell (rustc -vV; /usr/bin/rustc -vV; cat plugins/Cargo.lock) 2>/dev/null | sha256sum | cut -c1-16)
CARGO_TARGET_DIR ?= $(CAPMAAS_CACHE)/cargo/$(toolchain)
export CARGO_TARGET_DIR
export CAPMAAS_PLUGINS_TARGET_DIR = $(CAPMAAS_CACHE)/plugins/$(guest_toolchain)
export CAPMAAS_BIN = $(CARGO_TARGET_DIR)/debug/capmaas

.PHONY: help setup plugins build control-plane test crash soak fuzz bench bench-provisioning lint crds image-binary demo playground clean-cache

help: ## Show what there is.
	@sed -nE 's/^([a-z-]+):.*## (.*)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 22

setup: ## Check for the tools that are needed; install what Debian has.
	@./setup.sh

plugins: setup ## Build the policy components (about two minutes the first time).
	@plugins/build.sh
	@plugins/build-samples.sh

build: plugins ## Build the controller, the simulator and the harness (about five minutes the first time).
	@echo "building the controller in $(CARGO_TARGET_DIR) (about five minutes when nothing is built yet)"
	@cargo build --locked --workspace --all-targets

control-plane: build ## Build etcd, kube-apiserver, Cluster API, Helm and oras (about fourteen minutes the first time).
	@"$(CARGO_TARGET_DIR)/debug/control-plane" build

test: control-plane ## Run all tests: units, transcripts, properties, simulator, scenarios on a real control plane.
	@# What policies share is tested as a program of this machine; the policies themselves, by their golden cases.
	@CARGO_TARGET_DIR="$(CAPMAAS_PLUGINS_TARGET_DIR)/native" \
		cargo test --locked --manifest-path plugins/Cargo.toml -p settings
	@# Scenarios wait most of the time: many at once cost little.
	@RUST_TEST_THREADS=16 cargo test --locked --workspace

crash: control-plane ## Interrupt five stories at every call of the controller (half an hour). STORY=, BOUNDARY=.
	@"$(CARGO_TARGET_DIR)/debug/crash" $(if $(STORY),--story "$(STORY)") $(if $(BOUNDARY),--boundary "$(BOUNDARY)")

soak: control-plane ## Faults of every sort for half an hour, with 50 machines. MINUTES=30, SEED=.
	@"$(CARGO_TARGET_DIR)/debug/soak" $(if $(MINUTES),--minutes "$(MINUTES)") $(if $(SEED),--seed "$(SEED)")

fuzz: plugins ## Fuzz the parsers. FUZZ=target (all of them otherwise), SECONDS=600 each.
	@command -v cargo-fuzz >/dev/null || { echo "cargo-fuzz is missing: cargo install cargo-fuzz" >&2; exit 1; }
	@# No nightly: the compiler takes the fuzzer's flags when it is told that it may.
	@export RUSTC_BOOTSTRAP=1
	@cargo fuzz build --sanitizer none $(FUZZ)
	@for target in $(or $(FUZZ),$$(cargo fuzz list)); do
		found="$(CAPMAAS_CACHE)/fuzz/$$target"
		mkdir -p "$$found"
		echo "fuzzing $$target for $(SECONDS) seconds"
		cargo fuzz run --sanitizer none "$$target" "$$found" "fuzz/seeds/$$target" -- \
			-max_total_time=$(SECONDS) -rss_limit_mb=2048 -dict=fuzz/maas.dict
	done

bench: control-plane ## Measure policies and provisioning (half an hour). N=10,100,1000, IDLE=300.
	@echo "building optimised programs (about eight minutes the first time)"
	@cargo build --locked --release -p capmaas -p bench
	@mkdir -p target/bench
	@"$(CARGO_TARGET_DIR)/release/bench-policies" --controller "$(CARGO_TARGET_DIR)/release/capmaas" \
		--components plugins/dist --summary target/bench/policies.json
	@"$(CARGO_TARGET_DIR)/release/bench-provisioning" --controller "$(CARGO_TARGET_DIR)/release/capmaas --health-addr=127.0.0.1:0" \
		--crds crds --machines "$(or $(N),10,100,1000)" --idle "$(or $(IDLE),300)" --logs target/bench \
		--together-with target/bench/policies.json --summary target/bench/summary.json

bench-provisioning: control-plane ## Measure any controller. CONTROLLER='command', CRDS=folder, N=100, IDLE=300.
	@cargo build --locked --release -p bench
	@mkdir -p target/bench
	@"$(CARGO_TARGET_DIR)/release/bench-provisioning" --controller "$(CONTROLLER)" --crds "$(CRDS)" \
		--machines "$(or $(N),100)" --idle "$(or $(IDLE),300)" --logs target/bench \
		--summary target/bench/other.json

lint: plugins ## Check the formatting of everything, and the lints of the host workspace.
	@cargo fmt --all --check
	@cargo fmt --all --check --manifest-path plugins/Cargo.toml
	@cargo fmt --check --manifest-path fuzz/Cargo.toml
	@cargo clippy --locked --workspace --all-targets -- -D warnings

crds: build ## Write the CustomResourceDefinitions into crds/.
	@"$(CAPMAAS_BIN)" crds crds

image-binary: plugins ## Build the optimised controller for the image, into target/image.
	@cargo build --locked --release -p capmaas
	@mkdir -p target/image
	@cp "$(CARGO_TARGET_DIR)/release/capmaas" target/image/capmaas

demo: control-plane ## Tell the whole story, from a cluster's birth to its end. INVENTORY=file.yaml, KEEP=1.
	@"$(CARGO_TARGET_DIR)/debug/demo" $(if $(INVENTORY),--inventory "$(INVENTORY)") $(if $(filter 1,$(KEEP)),--keep)

playground: control-plane ## Start control plane, MAAS and controller to try things on. INVENTORY=, SPEED=60, ARGS='-- flags'.
	@exec "$(CARGO_TARGET_DIR)/debug/playground" $(if $(INVENTORY),--inventory "$(INVENTORY)") $(if $(SPEED),--speed "$(SPEED)") $(ARGS)

clean-cache: ## Delete everything that was built, of every version.
	rm -rf "$(CAPMAAS_CACHE)"
