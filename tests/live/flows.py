"""Numbered UDP datagrams of many flows from one host of a rig to the other.

Not a test by itself: what the tests of several workers have in common.
"""
import subprocess
import sys

FLOWS, EACH = 16, 1500

SINK = """
import socket, struct, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
s.bind(("", 7000)); s.settimeout(3)
print("ready", flush=True)
last, got, late = {}, 0, 0
try:
    while got < int(sys.argv[1]):
        data, peer = s.recvfrom(2000)
        number = struct.unpack("!I", data[:4])[0]
        late += number <= last.get(peer, -1)
        last[peer] = number; got += 1
except socket.timeout:
    pass
print(len(last), got, late)
"""

SOURCE = """
import socket, struct, sys, time
flows, each = int(sys.argv[1]), int(sys.argv[2])
socks = []
for i in range(flows):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind(("", 6000 + i)); s.connect((sys.argv[3], 7000)); socks.append(s)
for n in range(each):
    for s in socks:
        s.send(struct.pack("!I", n) + bytes(200))
    time.sleep(0.001)
"""


def begin(rig, source="ha", sink="hb", to="10.0.2.2"):
    """Begins to send them. What it returns waits for the end, and says how many of
    `FLOWS * EACH` arrived: most, and none out of order in its flow."""
    taker = subprocess.Popen(rig.inside(sink, sys.executable, "-c", SINK, FLOWS * EACH),
                             stdout=subprocess.PIPE, text=True)
    assert taker.stdout.readline() == "ready\n"
    sender = subprocess.Popen(rig.inside(source, sys.executable, "-c", SOURCE, FLOWS, EACH, to))

    def end():
        assert sender.wait(timeout=60) == 0
        flows, got, late = map(int, taker.communicate(timeout=60)[0].split())
        assert (flows, late) == (FLOWS, 0), f"{late} of {got} out of order, {flows} flows"
        assert got >= 0.9 * FLOWS * EACH, f"{got} of {FLOWS * EACH} arrived"
        return got

    return end
