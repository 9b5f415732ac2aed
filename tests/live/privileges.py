#!/usr/bin/env python3
# time-limit: 120
"""Once its ports are open a node with `user` is nobody in particular: no
capability, no group, no way back. `apply` opens more ports all the same, by
the companion that kept the right to: a TAP, AF_XDP on a device (the node's
first, or one more), and AF_XDP on another queue of a device that it has."""
import os
import subprocess
import sys

from rig import Rig, eventually, need, run

need("ip", "ping")


# NET_ADMIN, NET_RAW, BPF.
COMPANION_CAPS = 1 << 12 | 1 << 13 | 1 << 39


def status(pid):
    with open(f"/proc/{pid}/status") as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)


def daemon_pid(process):
    """`ip netns exec` becomes the program: same process."""
    return process.pid


def plant(rig):
    """Files of root's in the folder of counters, where somebody else put them."""
    folder = next(rig.path(name) for name in rig.files("") if os.path.isdir(rig.path(name))
                  and "ga" in name)
    victims = [rig.write(name, "root's") for name in ("linked", "pointed-at")]
    planted = [os.path.join(folder, name) for name in ("esp-planted", "esp-pointer")]
    os.link(victims[0], planted[0])
    os.symlink(victims[1], planted[1])
    return folder, victims, planted


def extra(device, queue, address):
    """A port of AF_XDP, and an address at it."""
    # Native, since generic mode forgets the queue on a veth.
    return (f'\n[[port]]\nname = "q{queue}"\ndriver = "af-xdp"\ndevice = "{device}"\n'
            f'queue = {queue}\nmode = "native"\nmtu = 1500\n'
            f'[[interface]]\nport = "q{queue}"\naddress = ["{address}"]\n')


FLOWS = """import socket
for port in range(20000, 20200):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind(("10.8.0.2", port))
    s.sendto(b"flow", ("10.8.0.1", 9))
"""


def queues(rig, good):
    """A device with two queues, one after the other, and one again."""
    two = ("numrxqueues", 2, "numtxqueues", 2)
    run("ip", "link", "add", "many", "netns", rig.ns("ga"), *two, "type", "veth",
        "peer", "name", "many", "netns", rig.ns("hb"), *two)
    for name in ("ga", "hb"):
        rig.do(name, "ip", "link", "set", "many", "up")
    rig.do("hb", "ip", "addr", "add", "10.8.0.2/24", "dev", "many")
    first, second = extra("many", 0, "10.8.0.1/24"), extra("many", 1, "10.8.1.1/24")
    for opens, text in (("q0", good + first), ("q1", good + first + second)):
        rig.write("ga.toml", text)
        said = rig.ask("ga", "apply", rig.path("ga.toml")).stdout
        assert f"ports opened: {opens}" in said, said
    mac = {p["name"]: p["mac"] for p in rig.show("ga")["ports"]}
    assert mac["q0"] == mac["q1"]
    rig.do("hb", "ip", "neigh", "replace", "10.8.0.1", "lladdr", mac["q0"], "dev", "many")

    def received():
        rig.do("hb", sys.executable, "-c", FLOWS)
        counted = {p["name"]: p["rx_packets"] for p in rig.show("ga")["ports"]}
        return counted["q0"], counted["q1"]

    before = received()
    both = received()
    spread = [now - then for now, then in zip(both, before)]
    assert all(n >= 40 for n in spread) and sum(spread) >= 200, f"not by both queues: {spread}"
    # The second queue stays as the first goes and comes back.
    for text, words in ((good + second, "ports closed: q0"),
                        (good + first + second, "ports opened: q0")):
        rig.write("ga.toml", text)
        said = rig.ask("ga", "apply", rig.path("ga.toml")).stdout
        assert words in said, said
    again = received()
    assert again[1] - both[1] >= 40 and again[0] >= 40, (both, again)
    rig.write("ga.toml", good)
    said = rig.ask("ga", "apply", rig.path("ga.toml")).stdout
    assert "ports closed: q0, q1" in said, said
    run("ip", "-n", rig.ns("ga"), "link", "del", "many")


def by_default(rig):
    """A node that names no user: `ferrule`, where that user is there; else root,
    with a remark. `root` by name, without one."""
    with open("/etc/passwd") as file:
        users = [line for line in file if not line.startswith("ferrule:")]
    with_it = "".join(users) + "ferrule:x:64123:64123::/nonexistent:/usr/sbin/nologin\n"
    rig.gateways()
    os.chmod(rig.dir, 0o755)
    for passwd, node, uid, remark in (("".join(users), "", 0, True), (with_it, "", 64123, False),
                                      (with_it, 'user = "root"', 0, False)):
        path = rig.write("passwd", passwd, mode=0o644)
        if node:
            rig.change("ga", r"^\[node\]$", f"[node]\n{node}")
        with open(rig.path("ga.log"), "w") as log:
            command = f"mount --bind {path} /etc/passwd && exec {rig.ferrule} run {rig.path('ga.toml')}"
            process = subprocess.Popen(rig.inside("ga", "sh", "-c", command),
                                       stdout=log, stderr=log)
        rig.processes.append(process)
        eventually("ga answers", lambda: rig.show("ga", check=False) is not None)
        found = status(process.pid)
        assert set(found["Uid"].split()) == {str(uid)}, found["Uid"]
        with open(rig.path("ga.log")) as log:
            assert ("runs as root" in log.read()) == remark
        process.terminate()
        assert process.wait(timeout=5) == 0
        run("chown", "-R", "0:0", rig.path("ga.state"))


with Rig() as rig:
    by_default(rig)
    for driver in ("af-packet", "af-xdp"):
        # Without ports of AF_XDP at the start the memory for them is registered
        # later, by nobody: a pool within the usual limit of 8 MiB, in case that
        # not even root may raise it here.
        small = "buffers = 2048\n" if driver == "af-packet" else ""
        rig.gateways(driver=driver, node=f'user = "nobody"\ndevices = ["extra0", "many"]\n{small}')
        os.chmod(rig.dir, 0o755)
        folder, victims, planted = plant(rig)
        nodes = {name: rig.start(name) for name in ("ga", "gb")}
        rig.ping()
        assert os.stat(folder).st_uid == 65534, "the folder is the node's"
        for victim in victims:
            assert os.stat(victim).st_uid == 0, f"{victim} was given away"
        for path in victims + planted:
            os.unlink(path)
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
        queues(rig, more)
        for key in ("CapPrm", "CapEff"):
            assert int(status(children[0])[key], 16) & ~COMPANION_CAPS == 0, status(children[0])
        foreign = more.replace("extra0", "none0")
        rig.write("bad.toml", foreign)
        refused = rig.ask("ga", "apply", rig.path("bad.toml"), check=False)
        assert refused.returncode == 3 and "not among the devices" in refused.stderr, refused.stderr
        missing = more.replace('driver = "tap"', 'driver = "af-packet"').replace("extra0", "none0")
        rig.write("bad.toml", missing)
        refused = rig.ask("ga", "apply", rig.path("bad.toml"), check=False)
        assert refused.returncode == 3 and "none0" in refused.stderr, refused.stderr
        rig.ping()
        # Gone without a word: the companion tidies up and ends.
        nodes["ga"].kill()
        nodes["ga"].wait()
        eventually("the companion ends", lambda: not os.path.exists(f"/proc/{children[0]}"))
        assert not os.path.exists(rig.socket("ga")), "the socket is still there"
        nodes["gb"].terminate()
        assert nodes["gb"].wait(timeout=5) == 0
        print(f"{driver}: no privileges left; a TAP, AF_XDP and a second queue by the companion")
sys.exit(0)
