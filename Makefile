# The entry points. Each one gets what it needs first (scripts/deps.sh): as root
# on Debian it installs, otherwise it says what is missing.

# rustup's toolchain is often not in the PATH of root or of a CI job.
export PATH := $(PATH):$(HOME)/.cargo/bin
# Debian's own interpreter: it is the one that has Debian's python3-cryptography.
export PYTHON ?= /usr/bin/python3

.PHONY: help book build demo package test bench fuzz soak

help:
	@echo 'make build   ferrule as it is handed out: target/dist/ferrule'
	@echo 'make demo    two sites joined across an MPLS provider: plain, MACsec, ESP, real traffic'
	@echo 'make package Debian package and tarball of it in target/package/'
	@echo 'make book    docs/ as pages in target/book/ (mdBook, which it installs for this tree)'
	@echo 'make test    everything that CI runs'
	@echo 'make soak    1,000 seeds of two ten-node networks under all impairments: every promise holds'
	@echo 'make bench   ratios: AES-GCM over Intel'\''s library, whole graph over bare AEAD, forwarding, AF_XDP'
	@echo 'make fuzz    packet pool under Miri, fuzz targets under sanitizers (nightly; FERRULE_FUZZ_SECONDS=60 each)'
	@echo
	@echo 'Afterwards target/dist/ferrule --help has the rest.'

build:
	@scripts/deps.sh build
	cargo build --profile dist --bin ferrule

demo:
	@scripts/deps.sh demo
	cargo build --profile dist --bin ferrule
	target/dist/ferrule demo

package:
	@scripts/deps.sh package
	@scripts/package.sh

# The version is pinned; an mdbook in the PATH is taken as it is.
book:
	@scripts/deps.sh build
	@command -v mdbook >/dev/null || [ -x target/tools/bin/mdbook ] || \
	    cargo install mdbook --version 0.5.4 --locked --root target/tools
	PATH="$$PATH:$$PWD/target/tools/bin" mdbook build
	@echo 'file://'"$$PWD"'/target/book/index.html'

test:
	@scripts/deps.sh test
	@scripts/test.sh

bench:
	@scripts/deps.sh bench
	cargo bench -q --workspace --bench '*'

fuzz:
	@scripts/deps.sh fuzz
	@scripts/fuzz.sh

soak:
	@scripts/deps.sh build
	cargo build --release --bin ferrule
	target/release/ferrule lab run ten-nodes --check --seeds 1000
	FERRULE_SEEDS=1000 cargo test -q -p ferrule-lab --test check check_holds_every_invariant_over_a_sample_of_seeds
