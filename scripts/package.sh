#!/usr/bin/env bash
# A Debian package and a tarball of the same tree, in target/package/.
#
#   scripts/package.sh                builds ferrule and packs it
#   scripts/package.sh twice          does so in two folders: all files are the same
#   scripts/package.sh FERRULE OUT    packs a program that was built, into a folder
#
# dpkg-deb makes the package where it is: it is on every Debian, needs no root and takes
# times from SOURCE_DATE_EPOCH. Elsewhere there is the tarball alone.
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C TZ=UTC
umask 022
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
export SOURCE_DATE_EPOCH
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
machine=$(uname -m)

# build TARGET: the program, without a path of this machine in it.
build() {
    local cargo=${CARGO_HOME:-$HOME/.cargo}
    RUSTFLAGS="--remap-path-prefix=$PWD/$1=/target --remap-path-prefix=$PWD=/ferrule --remap-path-prefix=$cargo=/cargo" \
        CFLAGS="-ffile-prefix-map=$PWD/$1=/target -ffile-prefix-map=$PWD=/ferrule -ffile-prefix-map=$cargo=/cargo" \
        cargo build --locked --profile dist --bin ferrule --target-dir "$1"
}

# install_tree FERRULE ROOT
install_tree() {
    local doc=$2/usr/share/doc/ferrule
    install -D "$1" "$2/usr/bin/ferrule"
    objcopy --strip-all "$2/usr/bin/ferrule"
    "$1" man "$2/usr/share/man/man1"
    gzip -9n "$2"/usr/share/man/man1/*
    mkdir -p "$2"/usr/share/bash-completion/completions \
        "$2"/usr/share/zsh/vendor-completions "$2"/usr/share/fish/vendor_completions.d
    "$1" completions bash >"$2/usr/share/bash-completion/completions/ferrule"
    "$1" completions zsh >"$2/usr/share/zsh/vendor-completions/_ferrule"
    "$1" completions fish >"$2/usr/share/fish/vendor_completions.d/ferrule.fish"
    install -Dm644 packaging/ferrule@.service "$2/usr/lib/systemd/system/ferrule@.service"
    install -Dm644 packaging/sysusers.conf "$2/usr/lib/sysusers.d/ferrule.conf"
    mkdir -p "$doc/examples" "$doc/monitoring"
    install -m644 packaging/debian/copyright LICENSE-* README.md CHANGELOG.md docs/*.md "$doc"
    install -Dm644 -t "$doc/howto" docs/howto/*.md
    install -m644 docs/ferrule.schema.json "$doc"
    install -m644 examples/*.toml examples/*.yaml "$doc/examples"
    install -m755 examples/*.sh "$doc/examples"
    install -Dm644 -t "$doc/examples/topologies" topologies/*.toml
    install -m644 packaging/monitoring/* "$doc/monitoring"
    "${PYTHON:-/usr/bin/python3}" scripts/sbom.py >"$doc/ferrule.cdx.json"
    # Stripped of the rest, so that a debugger finds lines and names.
    mkdir -p "$2-symbols/usr/lib/debug/usr/bin"
    objcopy --only-keep-debug "$1" "$2-symbols/usr/lib/debug/usr/bin/ferrule.debug"
}

# tarball TREE FILE
tarball() {
    tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
        --format=gnu -C "$1" -c . | gzip -9n >"$2"
}

# debian TREE FILE: adds DEBIAN/ to the tree.
debian() {
    local control=$1/DEBIAN libc
    libc=$(objdump -T "$1/usr/bin/ferrule" | sed -n 's/.*GLIBC_\([0-9.]*\).*/\1/p' | sort -Vu | tail -n 1)
    install -d -m755 "$1/etc/ferrule" "$control"
    install -m755 packaging/debian/{postinst,prerm,postrm} "$control"
    cat >"$control/control" <<CONTROL
Package: ferrule
Version: $version
Architecture: $(dpkg --print-architecture)
Maintainer: the Ferrule authors <ferrule@localhost>
Section: net
Priority: optional
Installed-Size: $(du -sk --apparent-size "$1/usr" | cut -f1)
Depends: libc6 (>= $libc), libgcc-s1
Recommends: systemd
Suggests: iproute2, tshark
Description: IPsec, MACsec and MPLS gateway in user space
 Private traffic, encrypted, across an MPLS provider: a node for real
 interfaces, a laboratory in virtual time, and tests of throughput.
CONTROL
    (cd "$1" && find etc usr -type f -print0 | sort -z | xargs -0 md5sum) >"$control/md5sums"
    dpkg-deb --root-owner-group -Zxz --build "$1" "$2" >/dev/null
}

# pack FERRULE OUT
pack() {
    local ferrule tree name=ferrule-$version-$machine
    ferrule=$(realpath "$1")
    mkdir -p "$2"
    tree=$(mktemp -d)
    install_tree "$ferrule" "$tree/root"
    tarball "$tree/root" "$2/$name.tar.gz"
    tarball "$tree/root-symbols" "$2/$name-symbols.tar.gz"
    if command -v dpkg-deb >/dev/null; then
        debian "$tree/root" "$2/ferrule_${version}_$(dpkg --print-architecture).deb"
    fi
    rm -rf "$tree"
}

case ${1:-} in
'')
    build target/package/build
    pack target/package/build/dist/ferrule target/package
    ;;
twice)
    for folder in target/package target/package-again; do
        build "$folder/build"
        pack "$folder/build/dist/ferrule" "$folder"
    done
    for file in target/package/ferrule*; do
        cmp "$file" "target/package-again/${file##*/}"
    done
    echo "both builds are the same"
    ;;
*) pack "$1" "$2" ;;
esac
[ $# -eq 2 ] || sha256sum target/package/ferrule*
