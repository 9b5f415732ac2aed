#!/usr/bin/env python3
"""`ferrule lab up`: a topology file on real interfaces, with stock tools as its
hosts' programs; keys on a token come there wrapped; `status` tells the truth; `down`
leaves nothing behind, also after its nodes were killed, and touches no namespace that
it did not make.
"""
# time-limit: 300
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from rig import binary, eventually, need, run  # noqa: E402

RUN = "/run/ferrule-lab"
FERRULE = binary()
# A name of this test's own: a lab of the same topology that somebody has up stays.
TAG = f"t{os.getpid()}"


def lab(*args, check=True):
    return run(FERRULE, "lab", *args, check=check)


def inside(name, place, *command, check=True):
    return run("ip", "netns", "exec", f"lab-{name}-{place}", *command, check=check)


def topology(folder, shipped):
    """The file of a shipped topology under a name of this test's own."""
    text = lab("show", shipped).stdout
    name = f"{TAG}-{shipped}"
    text = text.replace(f'name = "{shipped}"', f'name = "{name}"', 1)
    path = os.path.join(folder, f"{name}.toml")
    with open(path, "w") as file:
        file.write(text)
    return name, path


def ours():
    return sorted(space for space in os.listdir("/run/netns") if space.startswith(f"lab-{TAG}"))


def gone(name):
    assert not [space for space in ours() if space.startswith(f"lab-{name}-")], ours()
    assert not os.path.exists(os.path.join(RUN, name)), name
    found = run("pgrep", "-f", f"{RUN}/{name}/", check=False).stdout
    assert not found.strip(), f"processes are left: {found}"


def runs(pid):
    """Whether a process runs; one that only waits to be buried does not."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def status(name, well=True):
    said = lab("status", name, "--json", check=False)
    assert said.returncode == (0 if well else 1), said.stdout + said.stderr
    (entry,) = json.loads(said.stdout)["labs"]
    assert entry["well"] == well, entry
    return entry


def pings(name, place, target, count=20):
    eventually(f"{place} reaches {target}", lambda: inside(
        name, place, "ping", "-n", "-c", "1", "-W", "0.3", target, check=False).returncode == 0)
    said = inside(name, place, "ping", "-n", "-q", "-c", str(count), "-i", "0.02", target).stdout
    received = int(re.search(r"(\d+) received", said).group(1))
    assert received == count, said


def held(path):
    """Octets of a file, if it is there."""
    return os.path.getsize(path) if os.path.exists(path) else None


def carries_ping_and_traffic_through_the_tunnel(folder):
    name, path = topology(folder, "two-gateways")
    before = held(os.environ.get("FERRULE_USED_KEYS", "/var/lib/ferrule/used-keys"))
    up = lab("up", path, "--wires", "none").stdout
    assert "2 nodes, 2 hosts, 3 links" in up and "no rate, delay" in up, up
    entry = status(name)
    assert {node["name"] for node in entry["nodes"]} == {"gw1", "gw2"}, entry
    for node in entry["nodes"]:
        args = open(f"/proc/{node['pid']}/cmdline").read().split("\0")
        assert args[1:3] == ["run", f"{RUN}/{name}/{node['name']}.toml"], args
    pings(name, "h1", "10.2.0.2")
    pings(name, "h2", "2001:db8:1::2")
    # Keys are fresh, and nobody but their owner reads them.
    used = os.environ.get("FERRULE_USED_KEYS", "/var/lib/ferrule/used-keys")
    assert held(used) == before, "a laboratory's keys are nothing to the host's list"
    keys = [f for f in os.listdir(f"{RUN}/{name}") if f.endswith(".key")]
    assert len(keys) == 2, keys
    assert all(os.stat(f"{RUN}/{name}/{key}").st_mode & 0o077 == 0 for key in keys)
    # TCP in both directions, and what crosses outside is sealed.
    server = subprocess.Popen(
        ["ip", "netns", "exec", f"lab-{name}-h2", "python3", "-c",
         "import socket\ns=socket.create_server(('10.2.0.2',7000));print('ready',flush=True)\n"
         "c,_=s.accept();d=b''\nwhile len(d)<2000000:d+=c.recv(65536)\nc.sendall(d);c.close()"],
        stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout.readline().strip() == "ready"
        told = inside(name, "h1", "python3", "-c",
                      "import socket,hashlib,os,threading\nd=os.urandom(2000000)\n"
                      "s=socket.create_connection(('10.2.0.2',7000),10);s.sendall(d);e=b''\n"
                      "while len(e)<len(d):\n b=s.recv(65536)\n if not b:break\n e+=b\n"
                      "print(hashlib.sha256(d).digest()==hashlib.sha256(e).digest())").stdout
        assert told.strip() == "True", told
        assert server.wait(timeout=10) == 0
    finally:
        server.kill()
    said = run(FERRULE, "show", "sa", "--socket", f"{RUN}/{name}/gw1.socket").stdout
    assert "aes-gcm-128" in said, said
    refused = lab("up", path, check=False)
    assert refused.returncode == 1 and f"{name} is up already" in refused.stderr, refused.stderr
    assert status(name)["well"], "the lab that is up stays"
    lab("down", name)
    gone(name)


def links_have_the_delay_and_rate_of_the_topology(folder):
    name, path = topology(folder, "two-gateways")
    with open(path) as file:
        text = file.read()
    begin = text.index('ends = ["gw1:wan", "gw2:wan"]')
    text = text[:begin] + text[begin:].replace(
        'delay = "1ms"', 'delay = "20ms"\nrate = "10Mbit/s"', 1)
    with open(path, "w") as file:
        file.write(text)
    up = lab("up", path, "--wires", "auto").stdout
    assert "with rate, delay and impairments: gw1-gw2" in up, up
    entry = status(name)
    assert entry["wires"]["alive"] and len(entry["nodes"]) == 2, entry
    pings(name, "h1", "10.2.0.2")
    # 20 ms each way, and what the machine itself takes.
    said = inside(name, "h1", "ping", "-n", "-q", "-c", "20", "-i", "0.05", "10.2.0.2").stdout
    least = float(re.search(r"= ([0-9.]+)/", said).group(1))
    assert 40.0 <= least < 60.0, said
    # 1,000 datagrams of 1,000 octets in a tenth of a second are ten times the rate:
    # the queue of the link (1,000 frames) holds them, for as long as they take.
    took = inside(name, "h2", "python3", "-c",
                  "import socket,subprocess,time\n"
                  "s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)\n"
                  "s.setsockopt(socket.SOL_SOCKET,socket.SO_RCVBUF,1<<22)\n"
                  "s.bind(('10.2.0.2',7000));s.settimeout(3)\n"
                  f"subprocess.Popen(['ip','netns','exec','lab-{name}-h1','python3','-c',"
                  "'import socket,time\\ns=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)\\n"
                  "for i in range(800):\\n s.sendto(bytes(1000),(\"10.2.0.2\",7000));time.sleep(0.0001)'])\n"
                  "s.recv(2000);t=time.monotonic();n=1\n"
                  "try:\n while n<800:\n  s.recv(2000);n+=1\nexcept TimeoutError: pass\n"
                  "print(n,time.monotonic()-t)").stdout.split()
    count, secs = int(took[0]), float(took[1])
    # Sealed, 1,000 octets of UDP are about 1,090 on the line.
    rate = count * 1090 * 8 / secs
    assert count > 700 and 8e6 < rate < 11e6, took
    lab("down", name)
    gone(name)


def bridges_under_macsec_and_pseudowires_work(folder):
    name, path = topology(folder, "ten-nodes")
    lab("up", path)
    assert len(status(name)["nodes"]) == 10
    pings(name, "ha1", "10.2.0.22")
    pings(name, "h3", "10.3.0.4")
    pings(name, "ha2", "2001:db8:b::21")
    lab("down", name)
    gone(name)


def a_gateway_with_its_keys_on_a_token_comes_up_every_time(folder):
    if not shutil.which("softhsm2-util"):
        print("    no SoftHSM here (Debian: softhsm2): keys on a token not tried")
        return
    name, path = topology(folder, "token-gateway")
    for variant in (None, "linux", None, "linux"):
        lab("up", path, *(["--variant", variant] if variant else []))
        assert len(status(name)["nodes"]) == 2
        pings(name, "h1", "10.2.0.2", count=10)
        pings(name, "h2", "10.1.0.2", count=10)
        socket = f"{RUN}/{name}/gw1.socket"
        said = json.loads(run(FERRULE, "show", "engines", "--json", "--socket", socket).stdout)
        (token,) = [e for e in said["engines"] if e["placement"] == "token"]
        assert token["keys"] == 2 and token["counters"]["failed"] == 0, token
        # The keys are in the other gateway's files and on the token, in none of this one.
        for key in ("gw1-to-gw2", "gw2-to-gw1"):
            with open(f"{RUN}/{name}/{key}.rest") as file:
                assert "cipher" not in file.read()
        with open(f"{RUN}/{name}/gw1.toml") as file:
            assert ".key" not in file.read()
        lab("down", name)
        gone(name)


def down_after_a_crash_removes_all_and_nothing_else(folder):
    name, path = topology(folder, "two-gateways")
    stranger = f"lab-{name}-stranger"
    run("ip", "netns", "add", stranger)
    try:
        lab("up", path)
        dead, alive = sorted(status(name)["nodes"], key=lambda node: node["name"])
        os.kill(dead["pid"], signal.SIGKILL)
        eventually("status sees it", lambda: lab("status", name, check=False).returncode == 1)
        entry = status(name, well=False)
        states = {node["name"]: node["alive"] for node in entry["nodes"]}
        assert states == {dead["name"]: False, alive["name"]: True}, states
        # A host's own program must not keep the namespace.
        left = subprocess.Popen(["ip", "netns", "exec", f"lab-{name}-h1", "sleep", "600"])
        lab("down", name)
        assert left.wait(timeout=10) != 0
        assert ours() == [stranger], ours()
        assert not os.path.exists(f"{RUN}/{name}")
        assert not runs(alive["pid"])
    finally:
        run("ip", "netns", "del", stranger)


def up_that_fails_takes_everything_back(folder):
    name, path = topology(folder, "two-gateways")
    # A namespace in the way, which is not ours to remove.
    taken = f"lab-{name}-h1"
    run("ip", "netns", "add", taken)
    try:
        said = lab("up", path, check=False)
        assert said.returncode == 1 and "there is a namespace" in said.stderr, said.stderr
        assert ours() == [taken], ours()
        assert not os.path.exists(f"{RUN}/{name}")
    finally:
        run("ip", "netns", "del", taken)
    gone(name)


def main():
    need("ip", "ethtool", "ping", "setsid", "pgrep")
    with tempfile.TemporaryDirectory(prefix="ferrule-lab-up-") as folder:
        try:
            for test in (
                carries_ping_and_traffic_through_the_tunnel,
                links_have_the_delay_and_rate_of_the_topology,
                bridges_under_macsec_and_pseudowires_work,
                a_gateway_with_its_keys_on_a_token_comes_up_every_time,
                down_after_a_crash_removes_all_and_nothing_else,
                up_that_fails_takes_everything_back,
            ):
                test(folder)
                print(f"ok  {test.__name__}", flush=True)
        finally:
            for entry in json.loads(lab("status", "--json", check=False).stdout)["labs"]:
                if entry["name"].startswith(TAG):
                    lab("down", entry["name"], check=False)


if __name__ == "__main__":
    main()
