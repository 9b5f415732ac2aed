#!/usr/bin/env python3
# time-limit: 240
"""A device that is deleted is shown as gone at once; when it is made again its port is
opened again, by the companion where the node is nobody in particular: AF_XDP, AF_PACKET,
TAP. And frames that a port cannot take are explained in words."""
import json
import os
import re
import subprocess
import sys
import time

from rig import Rig, eventually, need, run

need("ip", "ping", "ethtool")


def port(rig, name, of="ga"):
    return next(p for p in rig.show(of)["ports"] if p["name"] == name)


def events(rig, message, **fields):
    with open(rig.path("ga.log")) as file:
        lines = [json.loads(line) for line in file if line.startswith("{")]
    return [e for e in lines if e["message"] == message
            and all(e.get(key) == value for key, value in fields.items())]


def make_lan(rig):
    """The veth between ha and ga, as the rig made it."""
    run("ip", "link", "add", "eth0", "netns", rig.ns("ha"), "type", "veth",
        "peer", "name", "lan", "netns", rig.ns("ga"))
    rig.do("ha", "ip", "link", "set", "eth0", "up")
    rig.do("ha", "ip", "addr", "add", "10.0.1.2/24", "dev", "eth0")
    rig.do("ha", "ip", "route", "add", "10.0.2.0/24", "via", "10.0.1.1")
    rig.do("ga", "ip", "link", "set", "lan", "up")


def metric(rig, name):
    """A value that Prometheus would read, from within the node's namespace."""
    text = rig.do("ga", sys.executable, "-c",
                  "import urllib.request as u; "
                  "print(u.urlopen('http://127.0.0.1:9100/metrics', timeout=5).read().decode())").stdout
    return re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE).group(1)


def answered(rig):
    """Soon, that is: what was sent before the port was open again is lost, and the far end's
    address is another one."""
    eventually("a ping is answered", lambda: rig.ping(count=1, wait=1, check=False))
    rig.ping(wait=5)


def a_veth_made_again(rig, driver, user):
    rig.gateways(driver=driver, node=f'log = "json"\nuser = "{user}"\n')
    open(rig.path("ga.log"), "w").close()
    nodes = [rig.start(name) for name in ("ga", "gb")]
    rig.ping()
    eventually("the port is up", lambda: port(rig, "lan")["up"])
    before = port(rig, "lan")
    assert not before["gone"]
    for _ in range(3):
        told = len(events(rig, "port-down", port="lan", why="its device is gone"))
        again = len(events(rig, "port-reopened", port="lan"))
        rig.do("ga", "ip", "link", "del", "lan")
        eventually("the port is shown as gone", lambda: port(rig, "lan")["gone"], 2)
        assert not port(rig, "lan")["up"]
        assert "gone" in rig.ask("ga", "show", "ports").stdout
        eventually("it is told", lambda: len(events(rig, "port-down", port="lan",
                                                    why="its device is gone")) == told + 1)
        eventually("nobody behind it is known any more", lambda: "lan" not in rig.ask(
            "ga", "show", "neighbours").stdout, 2)
        # Another change is no problem meanwhile.
        rig.ask("ga", "apply", rig.path("ga.toml"))
        make_lan(rig)
        eventually("the port is open again",
                   lambda: len(events(rig, "port-reopened", port="lan")) == again + 1)
        eventually("it is up again", lambda: port(rig, "lan")["up"])
        assert not port(rig, "lan")["gone"]
        answered(rig)
    after = port(rig, "lan")
    assert after["rx_packets"] > before["rx_packets"], "what was counted before is kept"
    assert after["mac"] != before["mac"], "the new device's address"
    # In one breath: nobody may have seen it gone.
    again = len(events(rig, "port-reopened", port="lan"))
    rig.do("ga", "ip", "link", "del", "lan")
    make_lan(rig)
    eventually("open again", lambda: len(events(rig, "port-reopened", port="lan")) > again)
    # From the far side: the address that the host had before is not sent to any more.
    eventually("the host is found anew",
               lambda: rig.ping(count=1, wait=1, where="hb", to="10.0.1.2", check=False))
    answered(rig)
    # To another namespace and back: the same device, with the same index.
    again = len(events(rig, "port-reopened", port="lan"))
    rig.do("ga", "ip", "link", "set", "lan", "netns", rig.ns("hb"))
    eventually("it is gone", lambda: port(rig, "lan")["gone"], 2)
    rig.do("hb", "ip", "link", "set", "lan", "netns", rig.ns("ga"))
    time.sleep(0.3)
    assert port(rig, "lan")["gone"], "it is there, and down"
    rig.do("ga", "ip", "link", "set", "lan", "up")
    eventually("open again", lambda: len(events(rig, "port-reopened", port="lan")) > again)
    answered(rig)
    for node in nodes:
        node.terminate()
        assert node.wait(timeout=5) == 0
    print(f"{driver} as {user}: made again 5 times, every ping answered afterwards")


def a_tap_made_again(rig):
    rig.gateways(node='log = "json"\nuser = "nobody"\nmetrics = "127.0.0.1:9100"\n',
                 extra='\n[[port]]\nname = "host"\ndriver = "tap"\ndevice = "host0"\n'
                       '[[interface]]\nport = "host"\naddress = ["10.7.0.1/24"]\n')
    open(rig.path("ga.log"), "w").close()
    node = rig.start("ga")

    def up():
        rig.do("ga", "ip", "addr", "replace", "10.7.0.2/24", "dev", "host0")
        rig.do("ga", "ip", "link", "set", "host0", "up")
        eventually("the TAP is up", lambda: port(rig, "host")["up"])
        rig.ping(where="ga", to="10.7.0.1", wait=5)

    up()
    rig.do("ga", "ip", "link", "del", "host0")
    eventually("it is gone", lambda: port(rig, "host")["gone"], 2)
    assert metric(rig, 'ferrule_port_up{port="host"}') == "0"
    # Idle meanwhile: a descriptor without its interface wakes nobody.
    def ticks():
        with open(f"/proc/{node.pid}/stat") as file:
            return sum(map(int, file.read().rsplit(")", 1)[1].split()[11:13]))
    before = ticks()
    time.sleep(1)
    assert ticks() - before < 50, f"{ticks() - before} ticks of 100 in a second"
    # Somebody makes it: that one is taken.
    rig.do("ga", "ip", "tuntap", "add", "host0", "mode", "tap", "vnet_hdr")
    eventually("it is open again", lambda: not port(rig, "host")["gone"])
    up()
    # Nobody does: the node makes it.
    rig.do("ga", "ip", "link", "del", "host0")
    eventually("it is gone", lambda: port(rig, "host")["gone"], 2)
    eventually("it is made again", lambda: not port(rig, "host")["gone"])
    up()
    node.terminate()
    assert node.wait(timeout=5) == 0
    print("a TAP was made again by somebody, and by the node")


def missed_frames_are_explained(rig):
    """Super-frames of a host into generic AF_XDP."""
    rig.gateways(driver=None, node='log = "json"\n')
    rig.change("ga", r'^(name = "lan".*\ndriver = "af-xdp")$', r'\1\nmode = "generic"')
    rig.do("ha", "ethtool", "-K", "eth0", "tx", "on", "tso", "on", "gso", "on")
    said = rig.do("ga", rig.ferrule, "check", rig.path("ga.toml")).stdout
    assert 'mode = "generic" on the veth lan loses a host\'s super-frames' in said, said
    open(rig.path("ga.log"), "w").close()
    nodes = [rig.start(name) for name in ("ga", "gb")]
    rig.ping()
    sink = "import socket\nwith socket.create_server(('10.0.2.2', 5001)) as s:\n" \
           "    print('ready', flush=True)\n    p, _ = s.accept()\n    while p.recv(1 << 20): pass\n"
    source = "import socket\nwith socket.create_connection(('10.0.2.2', 5001), 5) as p:\n" \
             "    p.settimeout(3)\n    try:\n        p.sendall(bytes(1 << 20))\n" \
             "    except TimeoutError:\n        pass\n"
    server = subprocess.Popen(rig.inside("hb", sys.executable, "-c", sink), stdout=-1, text=True)
    rig.processes.append(server)
    assert server.stdout.readline() == "ready\n"
    rig.do("ha", sys.executable, "-c", source)
    lan = port(rig, "lan")
    assert lan["rx_too_long"] > 0 and lan["rx_missed"] >= lan["rx_too_long"], lan
    said = rig.ask("ga", "show", "ports").stdout
    assert re.search(r"^lan: missed \d+ frames, longer than a buffer: super-frames", said,
                     re.MULTILINE), said
    eventually("it is in the log", lambda: events(rig, "port-missed", port="lan",
                                                  cause="too-long"))
    assert len(events(rig, "port-missed")) <= 2, "rate-limited"
    for node in nodes:
        node.terminate()
    print(f"{lan['rx_too_long']} super-frames missed, and explained")


with Rig() as rig:
    os.chmod(rig.dir, 0o711)
    for driver in ("af-packet", "af-xdp"):
        for user in ("root", "nobody"):
            a_veth_made_again(rig, driver, user)
    a_tap_made_again(rig)
    missed_frames_are_explained(rig)
