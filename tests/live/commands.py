#!/usr/bin/env python3
# time-limit: 600
"""The commands of README.md and docs/, run as they are written.

Every block of ```sh is run, line by line, in the order of its page. A page has a folder of
its own, two gateways and two hosts, in namespaces:

    ha --veth-- a ==veth== b --veth-- hb
    eth0     eth0 eth1  eth1 eth0     eth0      (and a second cable, eth2)

A block runs at `a`; "```sh gw-b", "```sh host-a" and "```sh host-b" say otherwise. What runs
until it is told to stop (a node, a capture) goes on while the rest of the page is read, and
must end well when it is interrupted. A line that is not run stands in NOT_RUN with its
reason; so does nothing else.

    commands.py [PAGE...]      only these pages
"""
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from rig import TOP, binary, need, run

# Why a line is not run: page (or *), how the line begins, reason.
NOT_RUN = (
    ("README.md", "make ", "builds or tests everything, this test included"),
    ("docs/commands.md", "ferrule lab run ten-nodes --check --seeds 1000",
     "takes minutes: `make soak`"),
    ("docs/commands.md", "ferrule study macsec-mobility", "takes minutes: tests/live/study.py"),
    ("docs/commands.md", "ferrule merge", "docs/cluster.md has it behind what makes its parts"),
    ("docs/service.md", "apt install", "a package and systemd: tests/live/package.py"),
    ("docs/service.md", "cd /etc/ferrule", "for a machine whose package is installed"),
    ("docs/service.md", "systemctl", "for a machine that systemd runs"),
    ("docs/howto/macsec-device.md", "sudo ferrule test macsec --interface eth1 --clear eth2 --key",
     "for a device with static SAKs: tests/peers/macsec_device.py"),
    ("docs/commands.md", "sudo ferrule sa", "for keys from a program: tests/peers/keying.py"),
    ("docs/howto/keying.md", "sudo ferrule sa", "for a tunnel of one's own: tests/peers/keying.py"),
    ("docs/howto/keying.md", "ferrule show sa", "for a tunnel of one's own: tests/peers/keying.py"),
    ("docs/commands.md", "sudo ferrule route", "for networks of one's own: tests/live/routes.py"),
    ("docs/howto/routes.md", "sudo ferrule route", "for networks of one's own: tests/live/routes.py"),
    ("docs/howto/routes.md", "ferrule show", "for networks of one's own: tests/live/routes.py"),
    ("docs/host.md", "ip address add 10.8.0.2/24", "for a device of one's own: the node made its"),
    ("docs/host.md", "ip link set ferrule0 mtu", "for a device of one's own: the node made its"),
    ("docs/host.md", "ip route add 10.0.2.0/24", "for a device of one's own: the node made its"),
)

# What stands at the other end of a page's cable: where, and its command. (A page makes its key
# in its first line.)
DEVICE = r"""[node]
name = "device"
control = "device.sock"
[[port]]
name = "line"
driver = "af-packet"
device = "eth1"
mtu = 1532
[[port]]
name = "site"
driver = "af-packet"
device = "eth2"
[[macsec]]
port = "line"
mka = { priority = 100, cak = [{ ckn = "0011223344556677", key = "cak.key" }] }
[[bridge]]
name = "b"
member = [{ port = "line" }, { port = "site" }]
"""
OTHERS = {
    "docs/howto/macsec-device.md": ("b", "ip link set eth1 mtu 1600; until test -s cak.key; do "
                                         f"sleep 0.2; done; echo '{DEVICE}' >device.toml; "
                                         "exec ferrule run device.toml"),
    "docs/howto/mka.md": ("b", "until ferrule test mka --interface eth1 --cak cak.key --ckn "
                               "0011223344556677 --priority 100 --duration 1h; do sleep 0.2; done"),
}

# What runs until it is told to stop.
ENDLESS = re.compile(r"ferrule run |--web|^tcpdump|^ping (?!.*-c)|ferrule capture |ferrule trace ")
# A line ends within this time, and what does not end is looked at after this.
LINE_SECONDS, LOOK_SECONDS = 300, 0.3
PLACES = {"": "a", "gw-b": "b", "host-a": "ha", "host-b": "hb"}


def blocks(path):
    """(place, lines) of every shell block of a page."""
    with open(path) as page:
        text = page.read()
    for words, body in re.findall(r"^```sh *([^\n]*)\n(.*?)^```", text, re.M | re.S):
        assert words in PLACES, f"{path}: ```sh {words}: places are {', '.join(PLACES)}"
        joined = re.sub(r"\\\n\s*", " ", body)
        # A loop is one line.
        lines = re.findall(r"^for .*?^done.*$|^.*\S.*$", joined, re.M | re.S)
        yield PLACES[words], [line for part in lines
                              for line in ([part] if part.startswith("for ") else part.splitlines())
                              if line.strip()]


class Page:
    """A page's folder and network; all gone when the block is left."""

    def __init__(self, name):
        self.name, self.running, self.spaces = name, [], []

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="ferrule-commands-")
        self.tools = os.path.join(self.folder, ".bin")
        os.makedirs(self.tools)
        os.makedirs(os.path.join(self.folder, "target/dist"))
        for place in (self.tools, os.path.join(self.folder, "target/dist")):
            os.symlink(binary(), os.path.join(place, "ferrule"))
        for shared in ("examples", "topologies", "packaging"):
            shutil.copytree(os.path.join(TOP, shared), os.path.join(self.folder, shared))
        # Whoever runs this is root already.
        with open(os.path.join(self.tools, "sudo"), "w") as sudo:
            sudo.write('#!/bin/sh\nexec "$@"\n')
        os.chmod(os.path.join(self.tools, "sudo"), 0o755)
        self.environment = {**os.environ, "PATH": f"{self.tools}:{os.environ['PATH']}",
                            "FERRULE_USED_KEYS": os.path.join(self.folder, ".used-keys")}
        for name in ("ha", "a", "b", "hb"):
            self.spaces.append(name)
            run("ip", "netns", "add", name)
            run("ip", "-n", name, "link", "set", "lo", "up")
        for one, device, other, there in (("ha", "eth0", "a", "eth0"), ("a", "eth1", "b", "eth1"),
                                          ("b", "eth0", "hb", "eth0"), ("a", "eth2", "b", "eth2")):
            run("ip", "link", "add", device, "netns", one, "type", "veth",
                "peer", "name", there, "netns", other)
            run("ip", "-n", one, "link", "set", device, "up")
            run("ip", "-n", other, "link", "set", there, "up")
        for name, net, other in (("ha", "10.0.1", "10.0.2"), ("hb", "10.0.2", "10.0.1")):
            run("ip", "-n", name, "addr", "add", f"{net}.2/24", "dev", "eth0")
            run("ip", "-n", name, "route", "add", "default", "via", f"{net}.1")
        return self

    def __exit__(self, *_):
        for _, process, _ in self.running:
            if process.poll() is None:
                process.kill()
                process.wait()
        for name in self.spaces:
            subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self, place, line):
        command = ["ip", "netns", "exec", place, "bash", "-c", line]
        log = tempfile.TemporaryFile(mode="w+", dir=self.folder)
        process = subprocess.Popen(command, cwd=self.folder, env=self.environment, text=True,
                                   stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                   start_new_session=True)
        return process, log

    def run(self, place, line):
        """Runs a line; what went wrong, or nothing."""
        process, log = self.start(place, line)
        if ENDLESS.search(line):
            self.running.append((line, process, log))
            # A node answers when it says that it runs; all else has begun a moment later.
            end = time.monotonic() + 20
            while "ferrule run" in line and time.monotonic() < end and process.poll() is None:
                log.seek(0)
                if " runs: " in log.read():
                    break
                time.sleep(0.05)
            time.sleep(LOOK_SECONDS)
            return said(process, log) if process.poll() not in (None, 0) else None
        try:
            process.wait(timeout=LINE_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return f"still ran after {LINE_SECONDS} s"
        return said(process, log) if process.returncode else None

    def end(self):
        """Interrupts what still runs; it must end well."""
        wrong = []
        for line, process, log in reversed(self.running):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGINT)
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                wrong.append((line, "does not end by ctrl-C"))
                continue
            if process.returncode not in (0, 130, -signal.SIGINT):
                wrong.append((line, said(process, log)))
        return wrong


def said(process, log):
    log.seek(0)
    return f"exit {process.returncode}\n{log.read()[-1500:]}"


def reason(page, line):
    for where, start, why in NOT_RUN:
        if where in ("*", page) and line.strip().startswith(start):
            return start, why
    return None


def main(wanted):
    pages = ["README.md", *sorted(glob.glob("docs/**/*.md", root_dir=TOP, recursive=True))]
    ran, left, failed, used = 0, [], [], set()
    for name in (page for page in pages if not wanted or page in wanted):
        all_blocks = list(blocks(os.path.join(TOP, name)))
        if not all_blocks:
            continue
        with Page(name) as page:
            other = page.start(*OTHERS[name])[0] if name in OTHERS else None
            for place, lines in all_blocks:
                for line in lines:
                    why = reason(name, line)
                    if why:
                        used.add((name, why[0]))
                        left.append(f"{name}: {line.strip()}\n      {why[1]}")
                        continue
                    wrong = page.run(place, line)
                    ran += 1
                    if wrong:
                        failed.append(f"{name}: {line.strip()}\n{wrong}")
            failed += [f"{name}: {line}\n{wrong}" for line, wrong in page.end()]
            if other:
                os.killpg(other.pid, signal.SIGKILL)
                other.wait()
        print(f"{name}: done", flush=True)
    print(f"\nnot run:\n    " + "\n    ".join(left))
    unused = [f"{where}: {start}" for where, start, _ in NOT_RUN
              if not wanted and where != "*" and (where, start) not in used]
    assert not unused, f"NOT_RUN has lines that no page has: {unused}"
    if failed:
        sys.exit("\n\n".join(failed) + f"\n\n{len(failed)} of {ran} lines failed")
    assert ran > (0 if wanted else 60), ran
    print(f"\n{ran} lines run as they are written, {len(left)} left out")


if __name__ == "__main__":
    need("ip", "unshare", "mount", "ping", "tcpdump", "tshark", "curl")
    if os.environ.get("FERRULE_COMMANDS_APART") != "yes":
        # Namespaces, sockets and lists of used keys are this test's own.
        os.environ["FERRULE_COMMANDS_APART"] = "yes"
        apart = "mount -t tmpfs commands /run && mount -t tmpfs commands /var/lib && exec \"$@\""
        os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", "sh", "-c", apart,
                              "sh", sys.executable, os.path.abspath(__file__), *sys.argv[1:]])
    main(sys.argv[1:])
