#!/usr/bin/env python3
# time-limit: 120
"""Once its ports are open a node with `user` is nobody in particular: no
capability, no group, no way back. `apply` opens more ports all the same, by
the companion that kept the right to."""
import os
import sys

from rig import Rig, need

need("ip", "ping")


def status(pid):
    with open(f"/proc/{pid}/status") as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)


def daemon_pid(process):
    """`ip netns exec` becomes the program: same process."""
    return process.pid


with Rig() as rig:
    for driver in ("af-packet", "af-xdp"):
        rig.gateways(driver=driver, node='user = "nobody"\n')
        os.chmod(rig.dir, 0o755)
        nodes = {name: rig.start(name) for name in ("ga", "gb")}
        rig.ping()
        found = status(daemon_pid(nodes["ga"]))
        assert set(found["Uid"].split()) == {"65534"}, found["Uid"]
        assert found["Groups"].strip() == "", found["Groups"]
        for caps in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
            assert int(found[caps], 16) == 0, (caps, found[caps])
        assert found["NoNewPrivs"] == "1"
        children = open(f"/proc/{nodes['ga'].pid}/task/{nodes['ga'].pid}/children").read().split()
        assert len(children) == 1 and status(children[0])["Uid"].split()[0] == "0", children

        with open(rig.path("ga.toml")) as file:
            good = file.read()
        more = good + '\n[[port]]\nname = "extra"\ndriver = "tap"\ndevice = "extra0"\nmtu = 1400\n'
        more += '[[interface]]\nname = "extra"\nport = "extra"\naddress = ["10.7.0.1/24"]\n'
        rig.write("ga.toml", more)
        said = rig.ask("ga", "apply", rig.path("ga.toml")).stdout
        assert "ports opened: extra" in said, said
        rig.do("ga", "ip", "addr", "add", "10.7.0.2/24", "dev", "extra0")
        rig.do("ga", "ip", "link", "set", "extra0", "up")
        assert rig.ping(where="ga", to="10.7.0.1") == 3
        missing = more.replace('driver = "tap"', 'driver = "af-packet"').replace("extra0", "none0")
        rig.write("bad.toml", missing)
        refused = rig.ask("ga", "apply", rig.path("bad.toml"), check=False)
        assert refused.returncode == 3 and "none0" in refused.stderr, refused.stderr
        rig.ping()
        # Gone without a word: the companion tidies up and ends.
        nodes["ga"].kill()
        nodes["ga"].wait()
        from rig import eventually
        eventually("the companion ends", lambda: not os.path.exists(f"/proc/{children[0]}"))
        assert not os.path.exists(rig.socket("ga")), "the socket is still there"
        nodes["gb"].terminate()
        assert nodes["gb"].wait(timeout=5) == 0
        print(f"{driver}: no privileges left, a port opened by the companion")
sys.exit(0)
