#!/usr/bin/env python3
# time-limit: 150
"""One tunnel on two workers, with a Linux kernel: an SA for each worker and direction, and
one SA whose numbers the workers share.

Many flows go to Linux, so that both workers seal; the kernel sends IPv4 by one of its SAs
and IPv6 by the other. Nothing may be lost, and no packet may fail a replay check.
"""
import os
import re
import struct
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from esp import (  # noqa: E402
    ENDS, SITES, SPI_IN, SPI_OUT, SUITES, bench_of, ends_well, esp_of, ferrule, is_esp)
from peernode import CPU, Check, Lab, Node, need, signals_exit  # noqa: E402

SUITE = SUITES[0]
HERE, THERE = ENDS[4]           # Linux, Ferrule
FLOWS, ROUNDS = 32, 40

SENDER = f"""import socket, time
socks = []
for i in range({FLOWS}):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind(("10.2.0.2", 6000 + i)); socks.append(s)
for n in range({ROUNDS}):
    for s in socks:
        s.sendto(bytes(100), ("10.9.0.1", 7000))
    time.sleep(0.01)
"""


def linux(count, window):
    """The kernel's states, of which each family has its own outbound one."""
    lines = ["set -e", "ip xfrm state flush", "ip xfrm policy flush"]
    for n in range(count):
        for src, dst, spi, seed in ((HERE, THERE, SPI_IN, 1), (THERE, HERE, SPI_OUT, 2)):
            lines.append(
                f"ip xfrm state add src {src} dst {dst} proto esp spi {spi + n:#x} reqid {n + 1} "
                f"mode tunnel replay-window {window} flag af-unspec flag esn "
                f"{SUITE.linux_keys(seed + 10 * n)}")
    for n, (own, other) in enumerate(SITES):
        reqid = min(n, count - 1) + 1
        lines += [
            f"ip xfrm policy add src {own} dst {other} dir out "
            f"tmpl src {HERE} dst {THERE} proto esp reqid {reqid} mode tunnel",
            f"ip xfrm policy add src {other} dst {own} dir in "
            f"tmpl src {THERE} dst {HERE} proto esp mode tunnel"]
    return "\n".join(lines)


def gateway(count, window):
    """Ferrule's configuration."""
    text = "workers = 2\n" + ferrule(SUITE, 4).replace("window = 64", f"window = {window}")
    if count == 1:
        more = f"every-worker = true\npeer-window = {window}\n"
    else:
        more = (f'also-out = [{{ spi = {SPI_OUT + 1:#x}, key = "out1" }}]\n'
                f'also-in = [{{ spi = {SPI_IN + 1:#x}, key = "in1" }}]\n')
    return text.replace("[tunnel.out]", more + "[tunnel.out]")


def received(bench):
    """UDP datagrams that Linux took or refused, and what each inbound state opened."""
    rows = [line.split() for line in bench.guest.sh("cat /proc/net/snmp").splitlines()]
    tables = {a[0]: dict(zip(a[1:], b[1:])) for a, b in zip(rows[::2], rows[1::2])}
    udp = int(tables["Udp:"]["InDatagrams"]) + int(tables["Udp:"]["NoPorts"])
    states = bench.guest.sh("ip -s xfrm state")
    found = re.findall(rf"src {THERE} dst {HERE}\n.*?spi (0x[0-9a-f]+).*?(\d+)\(packets\)",
                       states, re.DOTALL)
    return udp, {int(spi, 16): int(packets) for spi, packets in found}


def several(check, bench, count, window):
    check.case(f"{count} SAs each way" if count > 1 else "one SA, numbers shared")
    bench.guest.sh(linux(count, window))
    files = {f"{who}{n or ''}": SUITE.file(seed + 10 * n)
             for n in range(count) for who, seed in (("in", 1), ("out", 2))}
    node = Node(bench.lab, gateway(count, window), files)
    for at in ("10.9.0.1", "fd09::1"):      # until all neighbours are known
        bench.host_ping(at, "8")
    before = received(bench)
    bench.wire.take()
    bench.lab.sh(f"/usr/bin/python3 -c '{SENDER}'")
    to_linux = [f for f in bench.wire.take()[1] if is_esp(f)]
    after = received(bench)
    check.equal(after[0] - before[0], FLOWS * ROUNDS, "datagrams at Linux")
    heads = [struct.unpack("!II", f[esp_of(f):esp_of(f) + 8]) for f in to_linux]
    check.equal(len(heads), len(set(heads)), "no number of an SA twice")
    spis = sorted({spi for spi, _ in heads})
    check.equal(spis, [SPI_OUT + n for n in range(count)], "SPIs of Ferrule")
    opened = [after[1][spi] - before[1].get(spi, 0) for spi in spis]
    check.that(min(opened) > FLOWS * ROUNDS / 10, f"packets of each SA: {opened}")
    for address, sizes in (("10.9.0.1", "0-1380/23"), ("fd09::1", "0-1360/23")):
        check.pings(bench.host_ping(address, sizes), f"to {address}")
    for address in ("10.2.0.2", "fd02::2"):
        check.pings(bench.guest_ping(address, "0-1300/53"), f"from Linux to {address}")
    to_ferrule = [f for f in bench.wire.take()[0] if is_esp(f)]
    spis = {struct.unpack("!I", f[esp_of(f):esp_of(f) + 4])[0] for f in to_ferrule}
    check.equal(sorted(spis), [SPI_IN + n for n in range(count)], "SPIs of Linux")
    ends_well(check, bench, node)


def main():
    signals_exit()
    need()
    check = Check()
    with Lab(cpu=CPU) as lab:
        bench = bench_of(lab)
        several(check, bench, 2, 64)
        several(check, bench, 1, 1024)
    check.done()


if __name__ == "__main__":
    main()
