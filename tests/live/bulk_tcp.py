#!/usr/bin/env python3
# time-limit: 120
# alone: two rates are compared, each measured for two seconds
"""Bulk TCP of two hosts with their stock offloads through two gateways on veth: the
driver that `ferrule init` chooses carries at least 0.8 of what AF_PACKET does."""
import subprocess
import sys

from rig import Rig, need

need("ip", "ping", "ethtool")

SECONDS = 2
SINK = """
import socket, time
with socket.create_server(("10.0.2.2", 5001)) as server:
    print("ready", flush=True)
    peer, _ = server.accept()
    start, octets = time.monotonic(), 0
    while data := peer.recv(1 << 20):
        octets += len(data)
    print(octets * 8 / (time.monotonic() - start) / 1e6)
"""
SOURCE = f"""
import socket, time
with socket.create_connection(("10.0.2.2", 5001), timeout=10) as peer:
    peer.settimeout(5)
    end, block = time.monotonic() + {SECONDS}, bytes(1 << 16)
    try:
        while time.monotonic() < end:
            peer.sendall(block)
    except TimeoutError:
        pass
"""


def bulk(rig):
    """Mbit/s that arrive."""
    sink = subprocess.Popen(rig.inside("hb", sys.executable, "-c", SINK),
                            stdout=subprocess.PIPE, text=True)
    rig.processes.append(sink)
    assert sink.stdout.readline() == "ready\n"
    rig.do("ha", sys.executable, "-c", SOURCE, timeout=30)
    return float(sink.communicate(timeout=30)[0])


def carried(rig, *driver):
    """Mbit/s of the best of three runs, as others may need the cores in between."""
    rig.gateways(driver=driver[0] if driver else None)
    nodes = [rig.start("ga"), rig.start("gb")]
    rig.ping()
    found = max(bulk(rig) for _ in range(3))
    for node in nodes:
        node.terminate()
        assert node.wait(timeout=5) == 0
    return found


with Rig() as rig:
    for host in ("ha", "hb"):
        rig.do(host, "ethtool", "-K", "eth0", "tx", "on", "tso", "on", "gso", "on")
    packet = carried(rig, "af-packet")
    default = carried(rig)
    print(f"af-packet {packet:.0f} Mbit/s, as init chooses {default:.0f} Mbit/s")
    assert default >= 0.8 * packet
sys.exit(0)
