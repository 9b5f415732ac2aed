#!/usr/bin/env bash
# What the build, the demo and the tests need of the machine.
#
#   scripts/deps.sh bench|build|demo|fuzz|package|peers|test
#
# As root on Debian: installs what is missing, Rust by apt where Debian's is new enough,
# else by rustup of a pinned version. Otherwise: says what is missing, and fails only
# when nothing could be built. Asks for commands, not packages, so
# that it is quiet and quick where all is there, on any distribution.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PATH:/usr/sbin:/sbin:${HOME:-/root}/.cargo/bin"
PYTHON=${PYTHON:-/usr/bin/python3}
for_what=${1:-test}

missing=() # Debian packages
need() { command -v "$1" >/dev/null 2>&1 || [ -e "$1" ] || missing+=("$2"); }

need cc gcc
need make make
need /etc/ssl/certs/ca-certificates.crt ca-certificates # cargo fetches over TLS
need /usr/include/stdlib.h libc6-dev
[ "$for_what" != fuzz ] || need c++ g++ # libFuzzer
[ "$for_what" != package ] || need "$PYTHON" python3
if [ "$for_what" = bench ]; then
    need taskset util-linux
    # What the kernels are measured against; there is none for other machines.
    if [ "$(uname -m)" = x86_64 ]; then
        need /usr/include/intel-ipsec-mb.h libipsec-mb-dev
        need dpdk-test-crypto-perf dpdk-dev
        need /usr/share/doc/librte-crypto-ipsec-mb23 librte-crypto-ipsec-mb23
    fi
fi
case $for_what in demo | test)
    need ip iproute2
    need ping iputils-ping
    need ethtool ethtool
    need iperf3 iperf3
    need curl curl
    need "$PYTHON" python3
    need tshark tshark
    ;;
esac
case $for_what in peers | test)
    need softhsm2-util softhsm2
    need linux.uml user-mode-linux
    need cc gcc
    need modprobe kmod
    need ip iproute2
    need ethtool ethtool
    need ping iputils-ping
    need dumpcap wireshark-common
    need tcpdump tcpdump
    need traceroute traceroute
    need wpa_supplicant wpasupplicant
    need unshare util-linux
    need setpriv util-linux
    need "$PYTHON" python3
    ;;
esac
if [ "$for_what" = test ]; then
    # A fresh Debian that systemd runs, for the package.
    need debootstrap debootstrap
    need systemd-nspawn systemd-container
    need nsenter util-linux
    need objcopy binutils
    # Reads a live node, with the rules that are shipped.
    need prometheus prometheus
    need promtool prometheus
    # Routes by BGP.
    need gobgpd gobgpd
    need gobgp gobgpd
    # Servers of ferrule study ipsec-ip-layer, in namespaces alone.
    need vsftpd vsftpd
    need smtpd opensmtpd
    need telnetd inetutils-telnetd
    need inetutils-inetd inetutils-inetd
    "$PYTHON" -c 'import cryptography' 2>/dev/null || missing+=(python3-cryptography)
    "$PYTHON" -c 'import scapy' 2>/dev/null || missing+=(python3-scapy)
    "$PYTHON" -c 'import yaml' 2>/dev/null || missing+=(python3-yaml)
    command -v chromium >/dev/null || command -v google-chrome >/dev/null || missing+=(chromium)
fi

# The toolchain: cargo of at least the workspace's rust-version.
wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
at_least() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]; }
rust_found() {
    local have
    have=$(cargo --version 2>/dev/null | cut -d' ' -f2) && [ -n "$have" ] && at_least "$wanted" "$have"
}
# Debian's own Rust, by the newest of its two package families.
rust_packages() {
    local family version
    for family in "rustc cargo rustfmt rust-clippy" "rustc-web cargo-web rustfmt-web rust-web-clippy"; do
        version=$(apt-cache policy "${family%% *}" 2>/dev/null | sed -n 's/^ *Candidate: //p')
        if [ -n "$version" ] && [ "$version" != "(none)" ] && at_least "$wanted" "$version"; then
            echo "$family"
            return
        fi
    done
}
# rustup's own installer: version and hashes are pinned.
rustup_version=1.28.2
rustup_hash() {
    case $(uname -m) in
    x86_64) echo 20a06e644b0d9bd2fbdbfd52d42540bdde820ea7df86e92e533c073da0cdd43c ;;
    aarch64) echo e3853c5a252fca15252d07cb23a1bdd9377a8c6f3efa01531109281ae47f841c ;;
    esac
}
wasm=wasm32-unknown-unknown # the pure crates are built for it in `make test`
install_rustup() {
    local hash installer
    hash=$(rustup_hash)
    [ -n "$hash" ] || return 1
    installer=$(mktemp -d)/rustup-init
    echo "no Rust $wanted in Debian here: installing it by rustup $rustup_version into" \
        "${CARGO_HOME:-$HOME/.cargo}; \`rustup self uninstall\` takes it away again"
    curl --proto =https --tlsv1.2 -sSfo "$installer" \
        "https://static.rust-lang.org/rustup/archive/$rustup_version/$(uname -m)-unknown-linux-gnu/rustup-init" &&
        echo "$hash  $installer" | sha256sum --check --status &&
        chmod 700 "$installer" &&
        "$installer" -y -q --no-modify-path --profile minimal --default-toolchain "$wanted" \
            --component rustfmt,clippy --target "$wasm"
    local status=$?
    rm -rf "${installer%/*}"
    return $status
}
add_wasm() {
    if [ "$for_what" = test ] && command -v rustup >/dev/null &&
        [ ! -d "$(rustc --print sysroot)/lib/rustlib/$wasm" ]; then
        echo "adding Rust's target $wasm"
        rustup -q target add "$wasm" || true
    fi
}
rust_advice="Rust $wanted or newer: install it with rustup (https://rustup.rs)"

! rust_found || add_wasm
if [ ${#missing[@]} -eq 0 ] && rust_found; then
    exit 0
fi
mapfile -t missing < <(printf '%s\n' "${missing[@]}" | sort -u | sed '/^$/d')

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    [ ${#missing[@]} -eq 0 ] || echo "missing (Debian packages): ${missing[*]}" >&2
    rust_found || { echo "missing: $rust_advice" >&2; exit 3; }
    command -v cc >/dev/null || { echo "a C compiler is needed to build" >&2; exit 3; }
    echo "going on without: what needs them is left out and says so" >&2
    exit 0
fi

export DEBIAN_FRONTEND=noninteractive
apt=(apt-get -y -qq -o DPkg::Lock::Timeout=300)
echo "installing: ${missing[*]:-Rust}"
"${apt[@]}" update
if ! rust_found; then
    read -r -a rust <<<"$(rust_packages)"
    # rustup comes after the packages.
    [ ${#rust[@]} -gt 0 ] || rust=(curl)
    missing+=("${rust[@]}")
fi
# No daemon that a package brings may start, now or at the next boot: it would take ports
# that tests use, and serve whoever can reach the machine.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
fi
services() { find /etc/init.d -type f -printf '%f\n' 2>/dev/null | sort; }
before=$(services)
"${apt[@]}" install --no-install-recommends "${missing[@]}" >/dev/null
for service in $(comm -13 <(echo "$before") <(services)); do
    update-rc.d "$service" disable >/dev/null 2>&1 || true
done
# A rustup that is there is its owner's: which toolchain is the default is not ours to say.
rust_found || command -v rustup >/dev/null || install_rustup || true
hash -r
rust_found || { echo "missing: $rust_advice" >&2; exit 3; }
