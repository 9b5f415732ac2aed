#!/usr/bin/env bash
# The packet pool under Miri and ThreadSanitizer, then every fuzz target under
# libFuzzer and AddressSanitizer, FERRULE_FUZZ_SECONDS each (default 60), or what
# is named: scripts/fuzz.sh pool, scripts/fuzz.sh node. Needs a nightly toolchain
# with its components miri and rust-src, and cargo-fuzz, and installs them for this
# user if it can. Without them the same targets run on stable, with a mutator that
# knows nothing of coverage: cargo test -p ferrule-fuzz; and the pool's tests count
# what they see: cargo test -p ferrule-pipeline.
#
# An input that fails is in fuzz/artifacts; again on stable with
#   FERRULE_FUZZ_REPLAY=FILE cargo test -p ferrule-fuzz fuzz_TARGET
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${FERRULE_FUZZ_SECONDS:-${FUZZ_SECONDS:-60}}
# A longer input is cut into more operations; they are bounded anyway.
input_max=4096
# In which Miri lets the pool's threads run.
orders=8

# has WHAT: whether the sanitizers' half of the tool chain is there.
has() {
    case $1 in
    nightly) cargo +nightly --version ;;
    miri) cargo +nightly miri --version && [ -d "$(rustc +nightly --print sysroot)/lib/rustlib/src" ] ;;
    cargo-fuzz) cargo fuzz --version ;;
    esac >/dev/null 2>&1
}
# need WHAT HOW: gets it, or says how to.
need() {
    local what=$1
    shift
    has "$what" && return
    if command -v "$1" >/dev/null; then
        echo "installing $what: $*"
        "$@" && has "$what" && return
    fi
    echo "this needs $what: $*" >&2
    [ "$1" != rustup ] || echo "    (rustup is at https://rustup.rs; a distribution's Rust has no nightly)" >&2
    echo "without it, on stable: FERRULE_FUZZ_SECONDS=$seconds cargo test -p ferrule-fuzz -p ferrule-pipeline" >&2
    exit 3
}
# pool: the unsafe code under the packets. Miri looks at each access: that the memory is
# there, that the pointer may reach it under either model of borrowing, that no other
# thread is at it; with several orders of the threads, which it draws by seed, and with
# what weakly ordered memory may show. ThreadSanitizer looks at fewer things in
# thousands of times as many steps.
pool() {
    local model host tests=(-q -p ferrule-pipeline --lib)
    need nightly rustup toolchain install nightly --profile minimal
    need miri rustup component add miri rust-src --toolchain nightly
    for model in "" -Zmiri-tree-borrows; do
        echo "== the packet pool under Miri, ${model:-Stacked Borrows}"
        MIRIFLAGS=$model cargo +nightly miri test "${tests[@]}"
        echo "== its threads in $orders orders"
        MIRIFLAGS="$model -Zmiri-many-seeds=0..$orders" cargo +nightly miri test "${tests[@]}" threads
    done
    echo "== the packet pool under ThreadSanitizer"
    host=$(rustc +nightly -vV | sed -n 's/^host: //p')
    RUSTFLAGS=-Zsanitizer=thread cargo +nightly test --release -Zbuild-std --target "$host" "${tests[@]}"
}
# The AES-GCM kernels against two libraries: every combination of which the tests
# take a sample. It needs no sanitizer.
if [ $# -eq 0 ]; then
    echo "== every length, alignment and size of additional data"
    FERRULE_PROOF=whole cargo test --release -q -p ferrule-crypto --test backends gcm::
fi
if [ $# -eq 0 ] || [ "$*" = pool ]; then
    pool
    [ $# -eq 0 ] || exit 0
fi
need nightly rustup toolchain install nightly --profile minimal
need cargo-fuzz cargo install --locked cargo-fuzz

fuzz=(cargo +nightly fuzz)
targets=("$@")
[ ${#targets[@]} -gt 0 ] || mapfile -t targets < <("${fuzz[@]}" list --fuzz-dir fuzz/libfuzzer)
[ ${#targets[@]} -gt 0 ] || { echo "no fuzz targets" >&2; exit 3; }
# The stable driver's seeds are a better start than nothing.
mkdir -p fuzz/corpus fuzz/artifacts
for target in "${targets[@]}"; do
    if [ -z "$(ls -A "fuzz/corpus/$target" 2>/dev/null)" ]; then
        echo "writing seeds"
        FERRULE_FUZZ_WRITE_SEEDS="$PWD/fuzz/corpus" cargo test -q -p ferrule-fuzz --test fuzz fuzz_ >/dev/null
        break
    fi
done
failed=()
for target in "${targets[@]}"; do
    echo "== $target, $seconds s"
    "${fuzz[@]}" run --fuzz-dir fuzz/libfuzzer --sanitizer address "$target" "fuzz/corpus/$target" -- \
        -max_total_time="$seconds" -max_len="$input_max" -rss_limit_mb=2048 -timeout=60 \
        -artifact_prefix="$PWD/fuzz/artifacts/$target-" || failed+=("$target")
done
echo "${#targets[@]} targets, ${#failed[@]} with findings ${failed[*]}"
[ ${#failed[@]} -eq 0 ]
