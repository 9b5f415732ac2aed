#!/usr/bin/env bash
# Every fuzz target under AddressSanitizer, FUZZ_SECONDS each (default 60), or
# those named: scripts/fuzz.sh node. Needs a nightly toolchain and cargo-fuzz.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${FUZZ_SECONDS:-60}
[ -f fuzz/Cargo.toml ] || { echo "no fuzz/ in this tree" >&2; exit 3; }
cargo +nightly --version >/dev/null 2>&1 ||
    { echo "a nightly toolchain is needed: rustup toolchain install nightly" >&2; exit 3; }
cargo fuzz --version >/dev/null 2>&1 || cargo install --locked cargo-fuzz
targets=("$@")
[ ${#targets[@]} -gt 0 ] || mapfile -t targets < <(cargo +nightly fuzz list)
[ ${#targets[@]} -gt 0 ] || { echo "no fuzz targets" >&2; exit 3; }
failed=0
for target in "${targets[@]}"; do
    echo "== $target, $seconds s"
    cargo +nightly fuzz run "$target" -- -max_total_time="$seconds" -rss_limit_mb=2048 || failed=$((failed + 1))
done
echo "${#targets[@]} targets, $failed with findings"
[ $failed -eq 0 ]
