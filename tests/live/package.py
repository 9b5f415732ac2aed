#!/usr/bin/env python3
# time-limit: 240
"""What is handed out: two packings are the same octets, the unit is sound, what is in
the package runs, and it goes without a trace."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib

from rig import TOP, binary, need, run

need("dpkg-deb", "dpkg", "objcopy")
if not shutil.which("getent"):
    sys.exit("needs getent")


def files(folder):
    return sorted(os.path.relpath(os.path.join(at, name), folder)
                  for at, _, names in os.walk(folder) for name in names)


def octets(path):
    with open(path, "rb") as file:
        return file.read()


def packed_twice(folder):
    """The same, whenever, wherever and by whomever it was packed."""
    outs = [os.path.join(folder, name) for name in ("one", "two")]
    for out, mask in zip(outs, ("022", "077")):
        run("sh", "-c", f'umask {mask}; exec "$@"', "-",
            os.path.join(TOP, "scripts", "package.sh"), binary(), out)
    names = files(outs[0])
    assert names == files(outs[1]) and len(names) == 3, names
    for name in names:
        assert octets(os.path.join(outs[0], name)) == octets(os.path.join(outs[1], name)), name
    return os.path.join(outs[0], next(n for n in names if n.endswith(".deb")))


def unpacked(deb, root):
    run("dpkg-deb", "-x", deb, root)
    listed = run("dpkg-deb", "-c", deb).stdout.splitlines()
    assert all(line.split()[1] == "root/root" for line in listed), listed[:5]
    ferrule = os.path.join(root, "usr/bin/ferrule")
    said = run(ferrule, "--version").stdout
    assert run("dpkg-deb", "-f", deb, "Version").stdout.strip() in said, said
    found = files(root)
    for name in ("usr/share/man/man1/ferrule-run.1.gz",
                 "usr/share/bash-completion/completions/ferrule",
                 "usr/share/zsh/vendor-completions/_ferrule",
                 "usr/share/fish/vendor_completions.d/ferrule.fish",
                 "usr/lib/systemd/system/ferrule@.service",
                 "usr/share/doc/ferrule/copyright", "usr/share/doc/ferrule/LICENSE-MIT"):
        assert name in found, f"{name} is not in {found}"
    bill_is_whole(os.path.join(root, "usr/share/doc/ferrule/ferrule.cdx.json"))
    run("bash", "-n", os.path.join(root, "usr/share/bash-completion/completions/ferrule"))


def bill_is_whole(path):
    """Every crate that Cargo compiles for the program, with the checksum of its source."""
    with open(path) as file:
        bill = json.load(file)
    found = {(c["name"], c["version"]): c for c in bill["components"]}
    with open(os.path.join(TOP, "Cargo.lock"), "rb") as file:
        locked = {(p["name"], p["version"]): p for p in tomllib.load(file)["package"]}
    assert set(found) <= set(locked), set(found) - set(locked)
    for key, about in found.items():
        assert about["licenses"], key
        sums = [each["content"] for each in about.get("hashes", [])]
        assert sums == [s for s in [locked[key].get("checksum")] if s], key
    for name in ("aws-lc-sys", "ferrule-dataplane", "serde", "tracing"):
        assert any(key[0] == name for key in found), f"{name} is not in the bill"
    for name in ("proptest", "stateright"):
        assert not any(key[0] == name for key in found), f"{name} is of tests alone"
    refs = {c["bom-ref"] for c in bill["components"]} | {bill["metadata"]["component"]["bom-ref"]}
    for entry in bill["dependencies"]:
        assert {entry["ref"], *entry["dependsOn"]} <= refs, entry["ref"]


def unit_is_sound(root):
    if not shutil.which("systemd-analyze"):
        print("no systemd-analyze: the unit was not looked at")
        return
    unit = os.path.join(root, "usr/lib/systemd/system/ferrule@.service")
    ours = os.path.join(root, "ferrule@.service")
    with open(unit) as file, open(ours, "w") as out:
        out.write(file.read().replace("/usr/bin/ferrule", os.path.join(root, "usr/bin/ferrule")))
    said = run("systemd-analyze", "verify", "--man=no", ours, check=False)
    about = [line for line in said.stderr.splitlines() if "ferrule@" in line]
    assert not about, about
    said = run("systemd-analyze", "security", "--offline=true", "--threshold=45", ours,
               check=False)
    print(said.stdout.splitlines()[-1] if said.stdout else said.stderr)
    assert said.returncode == 0, said.stdout + said.stderr


def installed_and_gone(deb, root):
    """In a root of its own, without its scripts, which would change this machine; those
    are read by a shell, and the last of them is tried on a folder."""
    admin = os.path.join(root, "var/lib/dpkg")
    for folder in ("info", "updates", "triggers"):
        os.makedirs(os.path.join(admin, folder))
    for name in ("status", "available"):
        open(os.path.join(admin, name), "w").close()
    before = files(root)
    scripts = os.path.join(root, "scripts")
    run("dpkg-deb", "-e", deb, scripts)
    for name in ("postinst", "prerm", "postrm"):
        run("sh", "-n", os.path.join(scripts, name))
    shutil.rmtree(scripts)
    # Packed again without them: dpkg would run them in the root, where there is no shell.
    again = os.path.join(root, "again")
    run("dpkg-deb", "-R", deb, again)
    for name in ("postinst", "prerm", "postrm"):
        os.remove(os.path.join(again, "DEBIAN", name))
    bare = os.path.join(root, "bare.deb")
    run("dpkg-deb", "--root-owner-group", "-Znone", "-b", again, bare)
    shutil.rmtree(again)
    dpkg = ["dpkg", f"--root={root}", "--force-depends", "--log=/dev/null"]
    run(*dpkg, "-i", bare)
    os.remove(bare)
    assert os.path.exists(os.path.join(root, "usr/bin/ferrule"))
    assert os.path.isdir(os.path.join(root, "etc/ferrule"))
    run(*dpkg, "--purge", "ferrule")
    left = [f for f in files(root) if f not in before and not f.startswith("var/lib/dpkg/")]
    assert not left, left
    assert not os.path.exists(os.path.join(root, "usr"))
    assert not os.path.exists(os.path.join(root, "etc/ferrule"))


def main():
    folder = tempfile.mkdtemp(prefix="ferrule-package-")
    try:
        deb = packed_twice(folder)
        unpacked(deb, os.path.join(folder, "tree"))
        unit_is_sound(os.path.join(folder, "tree"))
        installed_and_gone(deb, os.path.join(folder, "root"))
    finally:
        shutil.rmtree(folder)
    print("the package is sound")


main()
