#!/usr/bin/env bash
# Every fuzz target under libFuzzer and AddressSanitizer, FERRULE_FUZZ_SECONDS
# each (default 60), or those named: scripts/fuzz.sh node. Needs a nightly
# toolchain and cargo-fuzz, and installs them for this user if it can. Without
# them the same targets run on stable, with a mutator that knows nothing of
# coverage: cargo test -p ferrule-fuzz.
#
# An input that fails is in fuzz/artifacts; again on stable with
#   FERRULE_FUZZ_REPLAY=FILE cargo test -p ferrule-fuzz fuzz_TARGET
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${FERRULE_FUZZ_SECONDS:-${FUZZ_SECONDS:-60}}
# A longer input is cut into more operations; they are bounded anyway.
input_max=4096

# has WHAT: whether the sanitizers' half of the tool chain is there.
has() {
    case $1 in
    nightly) cargo +nightly --version ;;
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
    echo "fuzzing with sanitizers needs $what: $*" >&2
    [ "$1" != rustup ] || echo "    (rustup is at https://rustup.rs; a distribution's Rust has no nightly)" >&2
    echo "without it: FERRULE_FUZZ_SECONDS=$seconds cargo test -p ferrule-fuzz runs the same targets on stable" >&2
    exit 3
}
# The AES-GCM kernels against two libraries: every combination of which the tests
# take a sample. It needs no sanitizer.
if [ $# -eq 0 ]; then
    echo "== every length, alignment and size of additional data"
    FERRULE_PROOF=whole cargo test --release -q -p ferrule-crypto --test backends gcm::
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
