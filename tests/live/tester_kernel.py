#!/usr/bin/env python3
# time-limit: 600
# alone: throughput is measured against what Linux was told
"""`ferrule test` against devices that are not Ferrule: Linux's bridge and Linux's
router, each in a namespace of its own, the tester in another.

    tester: ta ──veth── da [ bridge | router ] db ──veth── tb
            tm ──veth── dm [ bridge ] dc ──veth── tc

What is measured is compared with what Linux was told: a token bucket (tc tbf)
behind the bridge sets its throughput, a bound on learned addresses its caching
capacity."""
import json
import sys

from rig import Rig, need, run

need("ip", "tc")


class Devices(Rig):
    """The tester's namespace and one for each device."""

    def build(self):
        for name in ("t", "bridge", "router"):
            self.spaces.append(self.ns(name))
            run("ip", "netns", "add", self.ns(name))
            self.do(name, "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1")
            self.do(name, "sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1")
            self.do(name, "ip", "link", "set", "lo", "up")
        for near, device, far in (("ta", "bridge", "da"), ("tb", "bridge", "db"),
                                  ("tm", "bridge", "dm"), ("tc", "bridge", "dc"),
                                  ("ra", "router", "da"), ("rb", "router", "db")):
            run("ip", "link", "add", near, "netns", self.ns("t"), "type", "veth",
                "peer", "name", far, "netns", self.ns(device))
            self.do("t", "ip", "link", "set", near, "up")
            self.do(device, "ip", "link", "set", far, "up")
        self.do("bridge", "ip", "link", "add", "name", "br0", "type", "bridge", "ageing_time", 100)
        for port in ("da", "db", "dm", "dc"):
            self.do("bridge", "ip", "link", "set", port, "master", "br0")
        self.do("bridge", "ip", "link", "set", "br0", "up")
        self.do("router", "sysctl", "-qw", "net.ipv4.ip_forward=1")
        for port, address in (("da", "10.0.1.1/24"), ("db", "10.0.2.1/24")):
            self.do("router", "ip", "addr", "add", address, "dev", port)

    def test(self, *command, status=0):
        """The JSON of a test that ends with this status (None: with or without a
        finding), and its page."""
        page = self.path("report.html")
        result = self.do("t", self.ferrule, "test", *command, "--json", "--report", page,
                         check=False)
        told = f"{command}: exit {result.returncode}\n{result.stdout[-3000:]}{result.stderr}"
        wanted = (0, 1) if status is None else (status,)
        assert result.returncode in wanted, told
        with open(page) as file:
            html = file.read()
        report = json.loads(result.stdout)["report"]
        assert report["question"].split("(")[0].strip() in html and "<svg" in html, "its page"
        return report


def tables(report):
    found = {}
    for section in report["sections"]:
        for block in section["blocks"]:
            if "table" in block:
                found[block["table"]["id"]] = block["table"]
    return found


def column(report, table, head):
    for each in tables(report)[table]["columns"]:
        if each["head"] == head:
            return [c.get("value", c.get("text", c.get("missing"))) for c in each["cells"]]
    raise AssertionError(f"no column {head} in {table}")


BOUND = """
import socket, struct, sys
def attribute(kind, body):
    return struct.pack("HH", len(body) + 4, kind) + body + bytes(-len(body) % 4)
index = socket.if_nametoindex(sys.argv[1])
data = attribute(49, struct.pack("I", int(sys.argv[2])))
info = attribute(1, b"bridge\\0") + attribute(2, data)
body = struct.pack("BxHiII", 0, 0, index, 0, 0) + attribute(18, info)
with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as netlink:
    netlink.send(struct.pack("IHHII", len(body) + 16, 16, 5, 1, 0) + body)
    answer = netlink.recv(4096)
sys.exit(struct.unpack_from("i", answer, 16)[0] != 0)
"""


def bound_learning(rig, bridge, count):
    """Sets IFLA_BR_FDB_MAX_LEARNED, which older `ip` do not know; whether the
    kernel took it."""
    result = rig.do("bridge", sys.executable, "-c", BOUND, bridge, count, check=False)
    return result.returncode == 0


def tried(measure, holds, times=4):
    """What is measured, as soon as it holds: a tester that other programs keep from
    its work sends late and in heaps, which a shallow queue does not forgive. It
    finds less then, and never more."""
    for left in reversed(range(times)):
        found = measure()
        if holds(found) or not left:
            return found


BRIDGE = ("--tx", "af-packet:ta", "--rx", "af-packet:tb")
ROUTER = ("--tx", "af-packet:ra", "--rx", "af-packet:rb", "--src", "10.0.1.2",
          "--dst", "10.0.2.2", "--gateway", "10.0.1.1")
QUICK = ("--duration", "300ms", "--warm-up", "50ms", "--drain", "300ms")

with Devices() as rig:
    # RFC 2544 on the bridge: some throughput, at each size.
    report = rig.test("throughput", *BRIDGE, *QUICK, "--confirm", "300ms", "--max", "300kpps",
                      "--resolution", "5%", "--size", 64, "--size", 1518)
    rates = column(report, "throughput", "throughput")
    assert len(rates) == 2 and all(rate > 1000 for rate in rates), rates
    print("kernel bridge:", report["answer"])

    # The same with a token bucket behind it: 4 Mbit/s of frames of 508 octets
    # (1000 with FCS are 996) is what it must find.
    rig.do("bridge", "tc", "qdisc", "add", "dev", "db", "root", "tbf", "rate", "4mbit",
           "burst", "4kb", "limit", "24kb")
    for size in (512, 1000):
        truth = 4e6 / 8 / (size - 4)
        # Bucket and queue hold 28 kb: so much more passes in a second.
        slack = 28e3 / (size - 4) / 1.0
        def search():
            report = rig.test("throughput", *BRIDGE, "--duration", "1s", "--warm-up", "200ms",
                              "--drain", "200ms", "--confirm", "0s", "--max", "4kpps",
                              "--resolution", "2%", "--size", size)
            [rate] = column(report, "throughput", "throughput")
            return rate
        rate = tried(search, lambda rate: rate >= truth * 0.95)
        print(f"kernel bridge behind 4 Mbit/s, {size}: {rate:.0f} pps, told {truth:.0f} to "
              f"{truth + slack:.0f}")
        assert truth * 0.95 <= rate <= (truth + slack) * 1.02, (rate, truth)
    # Above it the rest is lost.
    def curve():
        report = rig.test("loss", *BRIDGE, "--duration", "1s", "--warm-up", "200ms", "--drain",
                          "200ms", "--max", "2kpps", "--size", 512)
        loads, losses = (column(report, "loss", head) for head in ("load", "loss"))
        return [(load, loss, max(0.0, 100 * (1 - 984 / load))) for load, loss in zip(loads, losses)]
    near = lambda points: all(told - 8 < loss < told + 4 for _, loss, told in points)
    points = tried(curve, near)
    assert near(points), points
    # MLRsearch finds both goals around it.
    def goals():
        report = rig.test("mlrsearch", *BRIDGE, "--duration", "500ms", "--warm-up", "100ms",
                          "--drain", "100ms", "--max", "4kpps", "--resolution", "2%",
                          "--size", 512, "--goal", "0", "--goal", "10%")
        return column(report, "mlrsearch", "lower bound")
    near = lambda found: 930 <= found[0] <= 1150 and 1.03 * found[0] < found[1] < 1.3 * found[0]
    whole, tenth = found = tried(goals, near)
    print(f"kernel bridge behind 4 Mbit/s, mlrsearch: {whole:.0f} and {tenth:.0f} pps")
    assert near(found), found
    rig.do("bridge", "tc", "qdisc", "del", "dev", "db", "root")

    # RFC 2889, with a bound on learned addresses: one is the tester's own.
    bound = bound_learning(rig, "br0", 41)
    report = rig.test("bridge", *BRIDGE, "--monitor", "af-packet:tm", *QUICK, "--size", 64,
                      "--max", "20kpps", "--resolution", "20%", "--steps", 2,
                      "--addresses", 64, "--ageing", "3s", status=None)
    text = json.dumps(report)
    bounded = "Linux was told 41" if bound else "this Linux knows no bound"
    print("kernel bridge, RFC 2889:", report["answer"], "Address table:", bounded)
    assert column(report, "errored", "forwarded")[0] in (0, 300), "runts go or stay as a whole"
    if bound:
        assert "Capacity: 40 addresses." in text, text[-2000:]
    else:
        assert "Capacity: 64 addresses or more" in text

    # RFC 2889 over four real ports: every pattern, and a congested port beside
    # another that is not.
    four = ("--tx", "af-packet:ta", "--tx", "af-packet:tc", "--rx", "af-packet:tb",
            "--rx", "af-packet:tm")
    report = rig.test("mesh", *four, *QUICK, "--size", 128, "--max", "2kpps",
                      "--resolution", "20%", "--steps", 2)
    print("kernel bridge, four ports:", report["answer"])
    assert len(column(report, "mesh", "pattern")) == 7
    assert all(rate > 500 for rate in column(report, "mesh", "throughput"))
    rig.do("bridge", "tc", "qdisc", "add", "dev", "db", "root", "tbf", "rate", "4mbit",
           "burst", "4kb", "limit", "24kb")
    def congested():
        return rig.test("congestion", *four, "--duration", "1s", "--warm-up", "200ms", "--drain",
                        "300ms", "--max", "1kpps", "--size", 512, status=None)
    report = tried(congested, lambda r: column(r, "congestion", "lost")[0] == 0)
    print("kernel bridge, congestion:", report["answer"])
    assert "no blocking" in report["answer"] and "drops" in report["answer"], report["answer"]
    # 1500 a second are offered; 984 and the queue's 55 pass, within a tenth.
    lost = column(report, "congestion", "lost")[1]
    assert 1500 - 1060 * 1.1 < lost < 1500 - 984 * 0.9, lost
    # What a queue lost is behind it as soon as the load falls.
    report = rig.test("recovery", *BRIDGE, "--size", 512, "--throughput", "1kpps", "--overload",
                      "1s", "--after", "1s", "--drain", "300ms", "--repeats", 3, status=None)
    print("kernel bridge, recovery:", report["answer"])
    assert column(report, "recovery", "lost overloaded")[0] > 100
    assert column(report, "recovery", "recovery")[0] < 300
    rig.do("bridge", "tc", "qdisc", "del", "dev", "db", "root")
    # A bridge that is taken down for half a second is away for as long, by both
    # ways of counting.
    down = f"ip netns exec {rig.ns('bridge')} ip link set br0"
    report = rig.test("reset", *BRIDGE, "--size", 128, "--at", "1kpps", "--duration", "4s",
                      "--drain", "300ms", "--command", f"{down} down; sleep 0.5; {down} up")
    print("kernel bridge, reset:", report["answer"])
    [stamps], [loss] = (column(report, "reset", head) for head in ("by time stamps", "by loss"))
    assert 490 < stamps < 2500 and abs(stamps - loss) < 100, (stamps, loss)

    # The router: the tester asks for its address and answers for its own.
    report = rig.test("latency", *ROUTER, *QUICK, "--at", "2kpps", "--repeats", 3, "--size", 128)
    print("kernel router:", report["answer"])
    assert column(report, "variation", "offered") == column(report, "variation", "received") == [1800]
    assert 0 < column(report, "latency", "min")[0] < column(report, "latency", "p50")[0] < 50_000
    report = rig.test("throughput", *ROUTER, *QUICK, "--confirm", "300ms", "--max", "200kpps",
                      "--resolution", "5%", "--size", "imix", "--both-ways",
                      "--gateway", "10.0.2.1")
    print("kernel router, both ways:", report["answer"])
    assert column(report, "throughput", "throughput")[0] > 1000

    # A soak is clean, and one that a router cannot carry is a finding.
    rig.test("soak", *ROUTER, "--at", "1kpps", "--duration", "2s", "--size", 256)
    rig.do("router", "tc", "qdisc", "add", "dev", "db", "root", "tbf", "rate", "1mbit",
           "burst", "4kb", "limit", "8kb")
    report = rig.test("soak", *ROUTER, "--at", "2kpps", "--duration", "1s", "--size", 256, status=1)
    assert "were lost" in report["answer"], report["answer"]

    # A plan with two streams and addresses that vary.
    plan = rig.write("plan.toml", """
[[stream]]
name = "forth"
size = "64-512/64"
rate = "1kpps"
vary = [{ field = "dst", count = 16 }, { field = "udp_src", random = 100 }]
src = "10.9.0.1"
dst = "10.9.1.1"
[[stream]]
name = "back"
from = 1
to = 0
size = 128
rate = "500kbit/s"
""")
    report = rig.test("stream", *BRIDGE, "--plan", plan, "--duration", "1s")
    offered, received = (column(report, "streams-plan", head) for head in ("offered", "received"))
    assert offered == received == [1000, 489], (offered, received)

    # What is wrong is said with the right exit code.
    for command, status in (
            (("throughput", "--tx", "af-packet:none", "--rx", "af-packet:tb"), 2),
            (("throughput", "--tx", "af-packet:ta"), 2),
            (("throughput", *BRIDGE, "--size", "40"), 2),
            (("latency", "--tx", "af-packet:ra", "--rx", "af-packet:rb", "--src", "10.0.1.2",
              "--dst", "10.0.2.2", "--gateway", "10.0.1.77"), 3)):
        result = rig.do("t", rig.ferrule, "test", *command, check=False)
        assert result.returncode == status, (command, result.returncode, result.stderr)
        assert result.stderr, command
sys.exit(0)
