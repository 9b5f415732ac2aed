#!/usr/bin/env python3
# time-limit: 120
"""One node that runs is found without `--node`, wherever its socket lies; several are
listed with the words to type; of a node that was killed nothing is in the way."""
import os
import subprocess
import sys

from rig import Rig, eventually, need

need("ip", "unshare", "mount")

# Other nodes of this machine are none of ours: /run/ferrule is this test's own.
if "FERRULE_FIND_ALONE" not in os.environ:
    os.makedirs("/run/ferrule", exist_ok=True)
    environment = {**os.environ, "FERRULE_FIND_ALONE": "yes"}
    inner = 'mount -t tmpfs none /run/ferrule && exec "$0" "$@"'
    os.execvpe("unshare", ["unshare", "--mount", "sh", "-c", inner, sys.executable, __file__],
               environment)


def show(rig, *which):
    return subprocess.run([rig.ferrule, "show", "ports", *which], capture_output=True, text=True)


with Rig() as rig:
    os.chmod(rig.dir, 0o711)
    rig.gateways(node='user = "nobody"\n')
    none = show(rig)
    assert none.returncode == 3 and "no node runs here" in none.stderr, none
    nodes = {name: rig.start(name) for name in ("ga",)}
    found = show(rig)
    assert found.returncode == 0 and "lan" in found.stdout, found
    assert show(rig, "--node", "ga").returncode == 0
    other = show(rig, "--node", "gx")
    assert other.returncode == 3 and "--node ga" in other.stderr, other
    nodes["gb"] = rig.start("gb")
    several = show(rig)
    assert several.returncode == 3 and "--node ga or --node gb" in several.stderr, several
    assert show(rig, "--node", "gb").returncode == 0
    # A clean stop leaves nothing, also of a node that may not write there any more.
    entries = sorted(os.listdir("/run/ferrule"))
    assert [e.split("@")[0] for e in entries] == ["ga", "gb"], entries
    nodes["ga"].terminate()
    assert nodes["ga"].wait(timeout=5) == 0
    eventually("its entry is gone", lambda: len(os.listdir("/run/ferrule")) == 1)
    assert show(rig).returncode == 0, "gb alone"
    # An entry that leads nowhere is passed over, and taken away by whoever starts next.
    os.symlink(rig.path("nobody.socket"), "/run/ferrule/old@1.sock")
    assert show(rig).returncode == 0
    rig.start("ga")
    assert "old@1.sock" not in os.listdir("/run/ferrule")
    print("found without a word; two of them: by name; gone ones are passed over")
