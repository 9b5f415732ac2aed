#!/usr/bin/env python3
# time-limit: 400
"""Whatever is done to the folders of counters under traffic, no number is used twice
under one key, as captures of both directions show: nodes killed, backups by hard links
and by copies put back in every way, folders and configurations cloned, the lock
unlinked, the state lost and made anew, the disk full. FERRULE_SEED names another order."""
import os
import random
import shutil
import subprocess
import sys
import time
from collections import Counter

from rig import Rig, esp_numbers, need, run

SCENARIOS = 70
RESERVE = 256
need("ip", "ping", "tshark", "tcpdump", "mount")
random.seed(int(os.environ.get("FERRULE_SEED", 18)))


class Gateway:
    """A node, its folder of counters on a small disk of its own, and backups of it."""

    def __init__(self, rig, name):
        self.rig, self.name, self.backups, self.node = rig, name, [], None
        self.disk = rig.path(f"{name}.disk")
        os.mkdir(self.disk)
        run("mount", "-t", "tmpfs", "-o", "size=1m,nr_inodes=4000", "tmpfs", self.disk)
        self.state = os.path.join(self.disk, "state")
        rig.change(name, "^state = .*$", f'state = "{name}.disk/state"')
        rig.change(name, "^reserve = .*$", f"reserve = {RESERVE}")
        rig.do(name, rig.ferrule, "state", "create", rig.path(f"{name}.toml"))

    def start(self):
        """Whether it runs."""
        self.node = self.rig.start(self.name, wait=False)
        return self.is_up(self.node, self.rig.socket(self.name))

    @staticmethod
    def is_up(node, socket):
        end = time.monotonic() + 10
        while node.poll() is None and not os.path.exists(socket):
            assert time.monotonic() < end, "it neither runs nor ends"
            time.sleep(0.01)
        return node.poll() is None

    def kill(self):
        self.node.kill()
        self.node.wait()
        if os.path.exists(self.rig.socket(self.name)):
            os.unlink(self.rig.socket(self.name))

    def refused(self, *words):
        """A command that has to fail over the counters, and says what helps."""
        result = self.rig.do(self.name, self.rig.ferrule, *words, check=False, timeout=10)
        said = result.stdout + result.stderr
        assert result.returncode == 3, f"{words}: exit {result.returncode}\n{said}"
        assert "state" in said and "  = " in said, said
        return said

    def copy(self, way, source, target):
        run("cp", *way.split(), source, target)

    # ---- what happens to it

    def back_up(self):
        target = os.path.join(self.disk, f"backup-{len(self.backups)}")
        self.copy(random.choice(["-al", "-al", "-a"]), self.state, target)
        self.backups.append(target)

    def killed(self):
        self.kill()
        assert self.start()

    def stopped(self):
        self.node.terminate()
        assert self.node.wait(timeout=5) == 0
        assert self.start()

    def put_back(self):
        """A backup in place of what is there, or over it."""
        if not self.backups:
            return self.back_up()
        self.kill()
        aside = os.path.join(self.disk, "aside")
        os.rename(self.state, aside)
        backup = random.choice(self.backups)
        way = random.choice(["-a", "-al"])
        if random.random() < 0.5:
            self.copy("-al", aside, self.state)
            for file in os.listdir(backup):
                path = os.path.join(self.state, file)
                if os.path.exists(path):
                    os.unlink(path)
                self.copy(way, os.path.join(backup, file), path)
        else:
            self.copy(way, backup, self.state)
        if self.start():
            # Links to what is still the state.
            return shutil.rmtree(aside)
        self.refused("run", self.rig.path(f"{self.name}.toml"))
        shutil.rmtree(self.state)
        os.rename(aside, self.state)
        assert self.start()

    def cloned(self):
        """A second process beside it, with a folder of copies or links, or a new one."""
        name = f"{self.name}-clone"
        way = random.choice(["-a", "-al", "none"])
        clone = os.path.join(self.disk, "clone")
        if way != "none":
            self.copy(way, self.state, clone)
        with open(self.rig.path(f"{self.name}.toml")) as file:
            text = file.read().replace(f"{self.name}.disk/state", f"{self.name}.disk/clone")
        text = text.replace(f"{self.name}.socket", f"{name}.socket")
        path = self.rig.write(f"{name}.toml", text)
        if way == "none":
            self.refused("state", "create", path)
        self.refused("run", path)
        shutil.rmtree(clone, ignore_errors=True)

    def unlocked(self):
        """What is locked is unlinked, and a second process started."""
        path = self.rig.path(f"{self.name}.toml")
        lock, kept = os.path.join(self.state, "state"), os.path.join(self.disk, "kept")
        os.rename(lock, kept)
        self.refused("run", path)
        self.refused("state", "create", path)
        time.sleep(0.2)
        self.kill()
        self.refused("run", path)
        self.refused("state", "create", path)
        os.rename(kept, lock)
        assert self.start()

    def lost(self):
        """The folder is gone, and somebody says that the keys are fresh."""
        path = self.rig.path(f"{self.name}.toml")
        aside = os.path.join(self.disk, "aside")
        self.kill()
        os.rename(self.state, aside)
        self.refused("run", path)
        assert "was used" in self.refused("state", "create", path)
        self.refused("run", path)
        shutil.rmtree(self.state)
        os.rename(aside, self.state)
        assert self.start()

    def filled(self):
        """No room: what is reserved is sent, and then nothing, until there is."""
        full = os.path.join(self.disk, "full")
        with open(full, "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                pass
        time.sleep(random.uniform(0.1, 0.4))
        if random.random() < 0.5:
            self.kill()
            started = self.start()
            os.unlink(full)
            if not started:
                assert self.start()
        else:
            os.unlink(full)


with Rig() as rig:
    rig.gateways()
    gateways = []
    try:
        for name in ("ga", "gb"):
            gateways.append(Gateway(rig, name))
        captures = []
        for name in ("ga", "gb"):
            pcap = rig.path(f"{name}.pcap")
            dump = subprocess.Popen(
                rig.inside(name, "tcpdump", "-U", "-n", "-s", 96, "-i", "wan", "-Q", "in",
                           "-B", 65536, "-w", pcap), stderr=subprocess.DEVNULL)
            rig.processes.append(dump)
            captures.append((pcap, dump))
        time.sleep(1)
        assert all(gateway.start() for gateway in gateways)
        rig.ping()
        pings = [subprocess.Popen(rig.inside(where, "ping", "-q", "-f", "-l", 3, to),
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                 for where, to in (("ha", "10.0.2.2"), ("hb", "10.0.1.2"))]
        rig.processes += pings
        kinds = [Gateway.back_up, Gateway.killed, Gateway.stopped, Gateway.put_back,
                 Gateway.put_back, Gateway.cloned, Gateway.unlocked, Gateway.lost, Gateway.filled]
        happened = Counter()
        for turn in range(SCENARIOS):
            gateway, kind = gateways[turn % 2], kinds[turn // 2 % len(kinds)]
            time.sleep(random.uniform(0.0, 0.3))
            kind(gateway)
            happened[kind.__name__] += 1
        time.sleep(0.5)
        for ping in pings:
            ping.terminate()
            ping.wait()
        for gateway in gateways:
            gateway.stopped()
        rig.ping(count=3, check=False)
        rig.ping(count=3)
        for gateway in gateways:
            gateway.node.terminate()
            assert gateway.node.wait(timeout=5) == 0
        for pcap, dump in captures:
            dump.terminate()
            dump.wait()
            seen = Counter(esp_numbers(pcap))
            twice = [number for number, times in seen.items() if times > 1]
            assert not twice, f"{pcap}: {len(twice)} used twice: {twice[:10]}"
            assert len(seen) > 1000, f"{pcap}: too little traffic: {len(seen)}"
            print(f"{len(seen)} numbers one way, none twice")
        assert len(happened) == len(set(kinds)), happened
        print(f"{sum(happened.values())} scenarios: {dict(happened)}")
    finally:
        for process in rig.processes:
            if process.poll() is None:
                process.kill()
                process.wait()
        for gateway in gateways:
            subprocess.run(["umount", "-l", gateway.disk])
sys.exit(0)
