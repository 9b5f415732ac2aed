#!/bin/bash
# Builds the closed forms of the studies' models for their pages: web/report/models.wasm, and
# beside it the sum of the sources that it is of. Both are in the tree; whoever changes the
# sources runs this, and needs Rust's target wasm32-unknown-unknown for it.
set -euo pipefail
cd "$(dirname "$0")/.."
target=wasm32-unknown-unknown
# No path of the machine in what is carried.
export RUSTFLAGS="--remap-path-prefix=$PWD=. --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=cargo"
cargo build --release --target "$target" --manifest-path web/models/Cargo.toml --target-dir target/models
cp "target/models/$target/release/ferrule_models.wasm" web/report/models.wasm
unset RUSTFLAGS
cargo run -q -p xtask -- models > web/report/models.sum
ls -l web/report/models.wasm
