#!/usr/bin/env python3
# time-limit: 200
"""Twenty changes of keys of an ESP tunnel under traffic, with a Linux kernel.

Each is made before it is broken: the new inbound SAs first (`also-in`), then the
outbound ones, and at last the old are taken away. IPv4 and IPv6 go both ways all the
time, and no packet may be lost or refused.
"""
import os
import struct
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from esp import ENDS, SITES, SUITES, bench_of, ends_well, esp_of, ferrule, is_esp  # noqa: E402
from peernode import CPU, Check, Lab, Node, need, signals_exit  # noqa: E402

REKEYS = 20
SUITE = SUITES[0]
# SPIs from Linux to Ferrule, and back, of the keys number 0, 1, 2, ...
THEIRS, OURS = 0x00c00000, 0x10000100
HERE, THERE = ENDS[4]           # Linux, Ferrule


def state(number, to_ferrule):
    """An SA of the kernel's: where it is, and its parameters."""
    src, dst, spi = (HERE, THERE, THEIRS) if to_ferrule else (THERE, HERE, OURS)
    seed = 2 * number + 1 + (not to_ferrule)
    return (f"src {src} dst {dst} proto esp spi {spi + number:#x}",
            f"mode tunnel replay-window 64 flag af-unspec flag esn {SUITE.linux_keys(seed)}")


def add(number, to_ferrule):
    return "ip xfrm state add " + " ".join(state(number, to_ferrule))


def delete(number, to_ferrule):
    return "ip xfrm state delete " + state(number, to_ferrule)[0]


def policies():
    lines = ["set -e", "ip xfrm state flush", "ip xfrm policy flush"]
    for own, other in SITES:
        for src, dst, a, b, way in ((own, other, HERE, THERE, "out"),
                                    (other, own, THERE, HERE, "in")):
            lines.append(f"ip xfrm policy add src {src} dst {dst} dir {way} "
                         f"tmpl src {a} dst {b} proto esp mode tunnel")
    return "\n".join(lines)


def gateway(out, inn, also=None):
    """Ferrule's configuration with these keys, by number."""
    text = ferrule(SUITE, 4)
    begin, end = text.index("[tunnel.out]"), text.index("[[policy]]")
    also_in = "" if also is None else \
        f'also-in = [{{ spi = {THEIRS + also:#x}, key = "theirs{also}" }}]\n'
    keys = (f'{also_in}out = {{ spi = {OURS + out:#x}, key = "ours{out}" }}\n'
            f'in = {{ spi = {THEIRS + inn:#x}, key = "theirs{inn}" }}\n')
    return text[:begin] + keys + text[end:]


def rekeys(check, bench):
    check.case(f"{REKEYS} changes of keys")
    bench.guest.sh("\n".join([policies(), add(0, True), add(0, False)]))
    files = {f"{who}{n}": SUITE.file(2 * n + 1 + (who == "ours"))
             for n in range(REKEYS + 1) for who in ("ours", "theirs")}
    node = Node(bench.lab, gateway(0, 0), files)
    for at in ("10.9.0.1", "fd09::1"):      # until all neighbours are known
        bench.host_ping(at, "8")
    bench.wire.take()
    end = node.dir / "end"
    got = {}
    sweeps = {"IPv4": ("10.9.0.1", "0-1380/7"), "IPv6": ("fd09::1", "0-1360/7")}
    runs = [threading.Thread(target=lambda way=way, sweep=sweep: got.update({
        way: bench.host_ping(*sweep, "--every 0.004", f"--until {end}")}))
        for way, sweep in sweeps.items()]
    for t in runs:
        t.start()
    try:
        for new in range(1, REKEYS + 1):
            old = new - 1
            bench.guest.sh(add(new, False))
            node.apply(gateway(old, old, also=new))
            node.apply(gateway(new, old, also=new))
            # Linux seals with an SA as soon as it has it.
            bench.guest.sh(f"{add(new, True)}\n{delete(old, True)}\nsleep 0.05\n"
                           f"{delete(old, False)}")
            node.apply(gateway(new, new))
    finally:
        end.touch()
        for t in runs:
            t.join()
    for way in sweeps:
        check.pings(got.get(way, {"sent": 0, "lost": []}), f"{way} across all of them")
    for frames, first, who in zip(bench.wire.take(), (THEIRS, OURS), ("Linux", "Ferrule")):
        spis = [struct.unpack("!I", f[esp_of(f):esp_of(f) + 4])[0] for f in frames if is_esp(f)]
        turns = [a - first for i, a in enumerate(spis) if i == 0 or spis[i - 1] != a]
        check.equal(turns, list(range(REKEYS + 1)), f"{who}: SPIs in turn")
        check.equal([f for f in frames if not is_esp(f) and f[12:14] == b"\x08\x00"][:1], [],
                    f"{who}: nothing in clear")
    ends_well(check, bench, node)


def main():
    signals_exit()
    need()
    check = Check()
    with Lab(cpu=CPU) as lab:
        rekeys(check, bench_of(lab))
    check.done()


if __name__ == "__main__":
    main()
