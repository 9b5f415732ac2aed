#!/usr/bin/env bash
# Everything that CI runs, in order, each step with its time. The output of a
# step goes to target/test-logs/ and is shown when the step fails. The last line
# says how many tests passed and failed; the exit status is 1 if any failed.
#
# Scripts in tests/peers and tests/live: every executable file is run, two at a
# time, as about half of their time is waiting. Exit 0 is a pass, 77 "cannot be
# tried here" with the reason on the last line (a skip without root; a failure as
# root, where nothing may be left out), all else a failure. Near the top of a
# script "# time-limit: SECONDS" overrides the limit of 300 s, and "# alone: WHY"
# keeps others from running beside it.
set -uo pipefail
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-/usr/bin/python3}
export PYTHON PYTHONDONTWRITEBYTECODE=1 CARGO_TERM_COLOR=never
export PATH="$PATH:/usr/sbin:/sbin:${HOME:-/root}/.cargo/bin"
export FERRULE="$PWD/target/release/ferrule"
logs=target/test-logs
rm -rf "$logs"
mkdir -p "$logs"
# A line for each step: passed, failed, skipped.
counts=$logs/counts
# What failed, in short; said once more at the end, where a long run is looked at.
failures=$logs/failures
: >"$counts"
: >"$failures"

# An interrupted run takes its children with it; they clean up after themselves.
stop() {
    local children
    mapfile -t children < <(jobs -p)
    [ "${#children[@]}" -eq 0 ] || kill -TERM "${children[@]}" 2>/dev/null
    wait
    exit 130
}
trap stop INT TERM

heading() { printf '%-48s ' "$1"; }
count() { echo "$1 $2 $3" >>"$counts"; }
skip() { count 0 0 1; echo "skipped: $1"; }

# step NAME SECONDS COMMAND...: one command, its output in a log. A command that
# counts its own tests (cargo test) adds them, any other counts as one.
step() {
    local name=$1 limit=$2 log start status said
    shift 2
    log="$logs/$(echo "$name" | tr ' /' '__').log"
    heading "$name"
    start=$SECONDS
    timeout --kill-after=20 "$limit" "$@" >"$log" 2>&1 &
    wait $!
    status=$?
    said=$(sed -n 's/^test result: .* \([0-9]*\) passed; \([0-9]*\) failed; \([0-9]*\) ignored;.*/\1 \2 \3/p' "$log" |
        awk '{p += $1; f += $2; i += $3} END {if (NR) print p, f, i}')
    if [ "$status" -eq 77 ] && [ "$(id -u)" != 0 ]; then
        skip "$(tail -n 1 "$log")"
        return
    fi
    local p=1 f=0 i=0
    [ "$status" -eq 0 ] || { p=0 f=1; }
    if [ -n "$said" ]; then
        read -r p f i <<<"$said"
        [ "$status" -eq 0 ] || [ "$f" -gt 0 ] || f=1
    fi
    count "$p" "$f" "$i"
    if [ "$status" -eq 0 ]; then
        echo "ok      $p passed, $((SECONDS - start)) s"
    else
        case $status in
        124 | 137) echo "FAILED  time limit of $limit s" ;;
        77) echo "FAILED  cannot be tried, and as root nothing may be left out" ;;
        *) echo "FAILED  exit $status after $((SECONDS - start)) s" ;;
        esac
        echo "---- $log"
        {
            echo "FAILED  $name, exit $status"
            grep -E -A 2 '^test .* FAILED|panicked at' "$log" || tail -n 12 "$log"
        } | sed '2,$s/^/    /' | head -n 40 >>"$failures"
        # What cargo says of each failed test, or else the end of the output.
        grep -E '^test .* FAILED' "$log" | head -n 30
        awk '/^---- .* stdout ----/ {n = 12} n-- > 0' "$log" | head -n 120 | grep . ||
            tail -n 60 "$log"
        echo "----"
    fi
}

works() { "$@" >/dev/null 2>&1; }

# script FILE: one step. As root it has a mount namespace of its own, with no network
# namespaces and no running nodes in it but those that it makes: those of others do not
# confuse it, and what it leaves behind goes with it.
script() {
    local limit run=("$1")
    limit=$(sed -n '1,15s/^# time-limit: \([0-9]*\).*/\1/p' "$1" | head -n 1)
    case $1 in *.py) run=("$PYTHON" "$1") ;; esac
    if [ "$(id -u)" = 0 ]; then
        run=(unshare --mount sh -c '
            for place in netns ferrule ferrule-lab; do
                mkdir -p /run/$place && mount -t tmpfs -o mode=755 none /run/$place || exit
            done
            exec "$@"' sh "${run[@]}")
    fi
    step "$1" "${limit:-300}" "${run[@]}"
}

# beside FILE: the same in the background; what it says is printed when it is done.
beside() {
    (
        trap stop INT TERM
        script "$1" >"$logs/said.$BASHPID"
        cat "$logs/said.$BASHPID"
        rm "$logs/said.$BASHPID"
    ) &
}

# scripts DIR: every executable in it.
scripts() {
    local file alone=() running=0
    for file in "$1"/*; do
        if [ ! -f "$file" ] || [ ! -x "$file" ]; then
            continue
        fi
        if sed -n 1,15p "$file" | grep -q '^# alone: '; then
            alone+=("$file")
            continue
        fi
        if [ "$running" -eq 2 ]; then
            wait -n
            running=$((running - 1))
        fi
        beside "$file"
        running=$((running + 1))
    done
    wait
    for file in "${alone[@]}"; do
        script "$file"
    done
}

# In a function, so that the script is read whole before it runs: it may be edited
# meanwhile.
main() {
    # The crates that must run without an operating system.
    pure=(base wire crypto pipeline dataplane control formulas overhead node report tester)
    wasm=wasm32-unknown-unknown

    echo "== style"
    if works cargo fmt --version; then
        step "format" 120 cargo fmt --all --check
    else
        heading "format"; skip "no rustfmt"
    fi
    if works cargo clippy --version; then
        step "clippy" 900 cargo clippy --workspace --all-targets -- -D warnings
    else
        heading "clippy"; skip "no clippy"
    fi
    if works cargo deny --version; then
        step "licences, bans, sources" 120 cargo deny check licenses bans sources
        if works timeout 60 cargo deny fetch db; then
            step "advisories" 120 cargo deny check --disable-fetch advisories
        else
            echo "note: RustSec's advisories cannot be had here and were not looked at"
        fi
    else
        echo "note: licences, sources and advisories of dependencies were not looked at"
        echo "      (cargo install --locked cargo-deny; deny.toml)"
    fi
    if [ -d "$(rustc --print sysroot)/lib/rustlib/$wasm" ]; then
        step "pure crates build without an OS" 600 cargo check --target "$wasm" "${pure[@]/#/-pferrule-}"
        step "models of the studies' pages build" 120 cargo check --target "$wasm" \
            --manifest-path web/models/Cargo.toml --target-dir target/models
    else
        echo "note: the build of the pure crates for $wasm was not run (rustup target add $wasm);"
        echo "      crates/xtask checks their sources and dependencies for uses of the OS instead"
    fi

    echo "== tests"
    # The fuzz targets get their time in a step of their own.
    step "workspace" 1200 env FERRULE_FUZZ_SECONDS=0.05 cargo test --workspace --no-fail-fast
    step "fuzz targets, 5 s each, the node 30 s" 600 \
        env FERRULE_FUZZ_SECONDS=5 cargo test --workspace --no-fail-fast --test fuzz
    # In one go: while the program's last crate is built on one core, the other has work.
    # `cargo test --release --workspace vectors` runs the same, and builds every other
    # test binary with it, which the step above does in the dev profile.
    optimized=(--release -p ferrule -p ferrule-node)
    step "release build" 900 cargo build "${optimized[@]}" --bin ferrule --test vectors
    step "vectors, release" 900 cargo test "${optimized[@]}" --test vectors
    grep -hE '^vectors' "$logs"/vectors*.log | sed 's/^/    /'

    echo "== other implementations"
    step "captures against their sidecars" 120 "$PYTHON" vectors/verify.py
    step "MACsec frames against their oracle" 120 \
        "$PYTHON" crates/dataplane/src/macsec/tests/oracle.py --check
    scripts tests/peers

    echo "== live"
    scripts tests/live

    local passed failed skipped
    read -r passed failed skipped < <(awk '{p += $1; f += $2; s += $3} END {print p, f, s}' "$counts")
    echo
    cat "$failures"
    echo "took $((SECONDS / 60)) min $((SECONDS % 60)) s; logs in $logs"
    if [ "$skipped" -gt 0 ]; then
        echo "$passed passed, $failed failed, $skipped skipped"
    else
        echo "$passed passed, $failed failed"
    fi
    [ "$failed" -eq 0 ]
}

main
