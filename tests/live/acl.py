#!/usr/bin/env python3
# time-limit: 200
"""Access lists of a live node between hosts: what they permit and deny, both ways, by
address, protocol, port, flags and fragment; counted; replaced while traffic goes, without
a packet judged by anything but one list or the other."""
import json
import re
import subprocess
import time

from rig import PORTS, Rig, eventually, need, run

need("ip", "ping", "/usr/bin/python3")

LIST = """
[[access-list]]
name = "sites"
entry = [
  {{ action = "deny", name = "no telnet", protocol = "tcp", to-ports = 23, log = true }},
  {{ action = "permit", protocol = "tcp", tcp-flags = "ack" }},
  {{ action = "permit", protocol = "tcp", tcp-flags = "syn+!ack", to-ports = "8000-8099" }},
  {{ action = "permit", name = "ping", protocol = "icmp", icmp = [0, 8], from = "{ping}" }},
  {{ action = "permit", name = "pieces", protocol = "icmp", fragments = true }},
]
"""
SERVER = """
import socket, sys, threading
def serve(port):
    with socket.create_server(("0.0.0.0", port)) as s:
        while True:
            s.accept()[0].close()
for port in map(int, sys.argv[1:]):
    threading.Thread(target=serve, args=(port,), daemon=True).start()
threading.Event().wait()
"""
CONNECT = """
import socket, sys
for port in map(int, sys.argv[2:]):
    try:
        socket.create_connection((sys.argv[1], port), 1).close()
        print(port)
    except OSError:
        pass
"""


def entries(rig, name="ga"):
    shown = json.loads(rig.ask(name, "show", "acl", "--json").stdout)["acl"]
    assert len(shown) == 1, shown
    return shown[0]


def hits(rig):
    """Packets in and out of each entry, by name or place."""
    return {e["name"] or e["order"]: (e["packets_in"], e["packets_out"])
            for e in entries(rig)["entries"]}


def write(rig, ping="any", acl="acl-in"):
    """The gateways in clear, and a list at the site's side of the first one."""
    with open(rig.path("ga.toml")) as file:
        text = file.read()
    text = re.sub(r'^acl-(in|out) = "sites"\n', "", text, flags=re.MULTILINE)
    text = text.split("\n[[access-list]]")[0]
    text = text.replace('port = "lan"\n', f'port = "lan"\n{acl} = "sites"\n', 1)
    rig.write("ga.toml", text + LIST.format(ping=ping))


def routers(rig):
    for own, other in ((1, 2), (2, 1)):
        name = "ga" if own == 1 else "gb"
        rig.write(f"{name}.toml", f"""
[node]
name = "{name}"
control = "{rig.socket(name)}"
log = "json"
""" + PORTS + f"""[[interface]]
port = "lan"
address = ["10.0.{own}.1/24"]
[[interface]]
port = "wan"
address = ["198.51.100.{own}/24"]
[[route]]
prefix = "10.0.{other}.0/24"
via = "198.51.100.{other}"
""")


def reached(rig, where, to, *ports):
    out = rig.do(where, "/usr/bin/python3", "-c", CONNECT, to, *ports).stdout
    return [int(port) for port in out.split()]


with Rig() as rig:
    routers(rig)
    write(rig)
    nodes = [rig.start("ga"), rig.start("gb")]
    for host in ("ha", "hb"):
        rig.processes.append(subprocess.Popen(
            rig.inside(host, "/usr/bin/python3", "-c", SERVER, 23, 8000, 8080, 9000)))
    time.sleep(0.5)

    # What comes in from the site.
    rig.ping(count=3)
    assert hits(rig)["ping"] == (3, 0), hits(rig)
    assert reached(rig, "ha", "10.0.2.2", 23, 8000, 8080, 9000) == [8000, 8080]
    counted = hits(rig)
    assert counted["no telnet"][0] >= 1 and counted[0][0] >= 1, counted
    # Answers of the site go out without being asked about; connections to it are answered
    # by packets with ACK.
    assert reached(rig, "hb", "10.0.1.2", 23, 9000) == [23, 9000]
    # Pieces of a large ping have an entry of their own.
    rig.ping(count=2, size=4000)
    counted = hits(rig)
    assert counted["ping"] == (5, 0) and counted["pieces"] == (4, 0), counted
    text = rig.ask("ga", "show", "acl").stdout
    assert "sites: in at lan" in text and "tcp, to ports 23" in text, text
    drops = rig.ask("ga", "show", "drops").stdout
    assert "acl-denied" in drops and "An access list denies this traffic." in drops, drops

    # Whose connections they were is an event.
    def telnet():
        events = [json.loads(line) for line in open(nodes[0].log) if '"acl"' in line]
        return [e for e in events if e.get("name") == "no telnet"]
    eventually("the event of an entry that is logged", telnet)
    event = telnet()[0]
    assert (event["list"], event["entry"], event["action"], event["way"]) == (
        "sites", 1, "deny", "in"), event
    assert (event["src"], event["dst"], event["dst_port"]) == ("10.0.1.2", "10.0.2.2", 23), event
    assert event["count"] >= 1 and event["port"] == "lan", event

    # An entry that no packet comes to is told with both lines.
    with open(rig.path("ga.toml")) as file:
        text = file.read()
    rig.write("shadowed.toml", text.replace("  { action", '  { action = "permit" },\n  { action', 1))
    checked = run(rig.ferrule, "check", "--only-file", rig.path("shadowed.toml")).stdout
    assert re.search(r"shadowed\.toml:(\d+): no packet comes to entry 2 of access list `sites`: "
                     r"entry 1 \(", checked), checked

    # The same list for what leaves towards the site: entries that stay keep their counts.
    write(rig, acl="acl-out")
    rig.ask("ga", "apply", rig.path("ga.toml"))
    before = hits(rig)
    assert before["ping"] == (5, 0), before
    assert "sites: out at lan" in rig.ask("ga", "show", "acl").stdout
    rig.ping(count=2, where="hb", to="10.0.1.2")
    assert reached(rig, "hb", "10.0.1.2", 23, 8000, 9000) == [8000]
    counted = hits(rig)
    assert counted["ping"] == (5, 2) and counted["no telnet"][1] >= 1, counted
    # The node's own answers are not judged: it can be asked from the site.
    assert rig.ping(count=2, to="10.0.1.1") == 2
    # An error for the site is the node's own, too.
    lost = rig.do("ha", "ping", "-c", 1, "-W", 1, "-t", 1, "10.0.2.2", check=False).stdout
    assert "Time to live exceeded" in lost, lost

    # Replaced ten times a second under pings that either list permits: none is lost; those
    # that neither permits: none is answered.
    write(rig)
    rig.ask("ga", "apply", rig.path("ga.toml"))
    rig.do("ha", "ip", "addr", "replace", "10.3.0.2/32", "dev", "lo")
    changes = rounds = 0
    while changes < 20:
        rounds += 1
        pings = [subprocess.Popen(rig.inside("ha", "ping", "-q", "-i", 0.002, "-c", 3000, "-W", 1,
                                             "-I", source, "10.0.2.2"),
                                  stdout=subprocess.PIPE, text=True)
                 for source in ("10.0.1.2", "10.3.0.2")]
        while pings[0].poll() is None:
            write(rig, ping=("10.0.1.0/24", "10.0.0.0/16")[changes % 2])
            rig.ask("ga", "apply", rig.path("ga.toml"))
            changes += 1
            time.sleep(0.05)
        said = [ping.communicate()[0] for ping in pings]
        assert "3000 received" in said[0], said[0]
        assert " 0 received" in said[1], said[1]
    print(f"{changes} lists replaced under {6000 * rounds} pings: each judged by one or the other")

    # A list that is wrong is refused with its line, and changes nothing.
    write(rig, ping="10.0.1.0/33")
    refused = rig.ask("ga", "apply", rig.path("ga.toml"), check=False)
    assert refused.returncode == 2 and "names no addresses" in refused.stderr, refused.stderr
    assert re.search(r"ga\.toml:\d+", refused.stderr), refused.stderr
    assert rig.ping(count=2) == 2
    for node in nodes:
        node.terminate()
        assert node.wait(timeout=5) == 0


# ---- a bridge: whole frames, in and out of its members

BRIDGE = """
[node]
name = "{name}"
control = "{socket}"
""" + PORTS + """[[bridge]]
name = "br"
member = [{{ port = "lan"{lan} }}, {{ port = "wan" }}]
"""
FRAMES = """
[[access-list]]
name = "frames"
entry = [
  {{ action = "permit", ethertype = 0x0806 }},
  {{ action = "deny", name = "neighbour", mac-from = "{mac}", protocol = "icmp" }},
  {{ action = "permit", protocol = "icmp" }},
]
"""

with Rig() as rig:
    def bridge(name, more="", lists=""):
        rig.write(f"{name}.toml",
                  BRIDGE.format(name=name, socket=rig.socket(name), lan=more) + lists)

    mac = json.loads(rig.do("ha", "ip", "-json", "link", "show", "up").stdout)
    mac = next(link["address"] for link in mac if link["ifname"] != "lo")
    for host, address in (("ha", "10.5.0.1/24"), ("hb", "10.5.0.2/24")):
        device = next(link["ifname"] for link in json.loads(
            rig.do(host, "ip", "-json", "link", "show", "up").stdout) if link["ifname"] != "lo")
        rig.do(host, "ip", "addr", "add", address, "dev", device)
    bridge("gb")
    bridge("ga", ', acl-in = "frames"', FRAMES.format(mac="02:00:00:00:00:99"))
    nodes = [rig.start("ga"), rig.start("gb")]
    time.sleep(0.5)
    assert rig.ping(count=3, to="10.5.0.2") == 3
    assert "frames: in at br:lan" in rig.ask("ga", "show", "acl").stdout
    # By its MAC address, on its way in, then out to it by the other's.
    bridge("ga", ', acl-in = "frames"', FRAMES.format(mac=mac))
    rig.ask("ga", "apply", rig.path("ga.toml"))
    assert rig.ping(count=2, to="10.5.0.2", check=False, wait=1) == 0
    assert hits(rig)["neighbour"] == (2, 0), hits(rig)
    bridge("ga", ', acl-out = "frames"', FRAMES.format(mac=mac))
    rig.ask("ga", "apply", rig.path("ga.toml"))
    assert rig.ping(count=2, to="10.5.0.2") == 2
    assert hits(rig)["neighbour"] == (2, 0) and hits(rig)[3][1] == 2, hits(rig)
    for node in nodes:
        node.terminate()
        assert node.wait(timeout=5) == 0
    print("frames across a bridge: permitted, denied in, permitted out, each counted")
