"""Two hosts and two gateways in namespaces of their own, and a node in each
gateway:

    ha --veth-- ga ==veth (ESP or MACsec)== gb --veth-- hb
    10.0.1.2    10.0.1.1  198.51.100.1/.2   10.0.2.1    10.0.2.2

Not a test by itself: what the tests beside it have in common.
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

# Both ports of a gateway's configuration.
PORTS = """[[port]]
name = "lan"
driver = "af-packet"
device = "lan"
[[port]]
name = "wan"
driver = "af-packet"
device = "wan"
"""

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def binary():
    """The program under test: as told, else the newest that was built."""
    for name in ("FERRULE_BIN", "FERRULE"):
        if os.environ.get(name) and os.path.exists(os.environ[name]):
            return os.environ[name]
    built = [os.path.join(TOP, "target", kind, "ferrule") for kind in ("dist", "release", "debug")]
    built = [path for path in built if os.path.exists(path)]
    if not built:
        sys.exit("no ferrule was built: cargo build --bin ferrule")
    return max(built, key=os.path.getmtime)


def need(*tools):
    if os.geteuid() != 0:
        print("needs root: network namespaces")
        sys.exit(77)
    for tool in tools:
        if not shutil.which(tool):
            print(f"needs {tool}")
            sys.exit(77)


def run(*command, check=True, **more):
    result = subprocess.run([str(c) for c in command], capture_output=True, text=True, **more)
    if check and result.returncode != 0:
        raise AssertionError(f"{command}: exit {result.returncode}\n{result.stdout}{result.stderr}")
    return result


def eventually(what, test, seconds=10.0):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if test():
            return
        time.sleep(0.05)
    raise AssertionError(f"not within {seconds} s: {what}")


class Rig:
    """Namespaces, a folder, processes: all gone when the block is left."""

    def __init__(self, nodes=("ga", "gb"), queues=1):
        self.ferrule = binary()
        self.prefix = f"fr{os.getpid()}"
        self.nodes, self.queues = nodes, queues
        self.processes = []

    def __enter__(self):
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        self.dir = tempfile.mkdtemp(prefix="ferrule-live-")
        # The keys go with the folder, and need not be remembered on this machine.
        os.environ["FERRULE_USED_KEYS"] = self.path("used-keys")
        self.spaces = []
        try:
            self.build()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.wait()
        for space in self.spaces:
            subprocess.run(["ip", "netns", "del", space], stderr=subprocess.DEVNULL)
        shutil.rmtree(self.dir, ignore_errors=True)

    def ns(self, name):
        return f"{self.prefix}-{name}"

    def inside(self, name, *command):
        return ["ip", "netns", "exec", self.ns(name), *[str(c) for c in command]]

    def do(self, name, *command, **more):
        return run(*self.inside(name, *command), **more)

    def build(self):
        for name in ("ha", "ga", "gb", "hb"):
            self.spaces.append(self.ns(name))
            run("ip", "netns", "add", self.ns(name))
            # No router solicitations and the like of the kernel's own.
            self.do(name, "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1")
            self.do(name, "sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1")
            self.do(name, "ip", "link", "set", "lo", "up")
        for a, dev_a, b, dev_b in (
            ("ha", "eth0", "ga", "lan"),
            ("ga", "wan", "gb", "wan"),
            ("gb", "lan", "hb", "eth0"),
        ):
            queues = ["numtxqueues", self.queues, "numrxqueues", self.queues]
            run("ip", "link", "add", dev_a, "netns", self.ns(a), *queues, "type", "veth",
                "peer", "name", dev_b, "netns", self.ns(b), *queues)
            for name, dev in ((a, dev_a), (b, dev_b)):
                self.do(name, "ip", "link", "set", dev, "up")
        for name, net, other in (("ha", "10.0.1", "10.0.2"), ("hb", "10.0.2", "10.0.1")):
            self.do(name, "ip", "addr", "add", f"{net}.2/24", "dev", "eth0")
            self.do(name, "ip", "route", "add", f"{other}.0/24", "via", f"{net}.1")
            # Frames that AF_XDP on a veth cannot finish are not made.
            if shutil.which("ethtool"):
                self.do(name, "ethtool", "-K", "eth0", "tx", "off", "tso", "off", "gso", "off",
                        check=False)

    # ---- configurations

    def path(self, name):
        return os.path.join(self.dir, name)

    def files(self, end):
        return sorted(name for name in os.listdir(self.dir) if name.endswith(end))

    def write(self, name, text, mode=0o600):
        with open(self.path(name), "w") as file:
            file.write(text)
        os.chmod(self.path(name), mode)
        return self.path(name)

    def gateways(self, suite="aes-gcm-128", driver="af-packet", node="", extra=""):
        """Both gateways' configurations with fresh keys, as `ferrule init` writes them; without
        a driver, with the one that it chooses."""
        run(self.ferrule, "init", "gateway", "--dir", self.dir, "--pair", "--force",
            "--name", "ga", "--peer-name", "gb", "--lan", "lan", "--wan", "wan",
            *(["--driver", driver] if driver else []), "--suite", suite)
        for name in ("ga", "gb"):
            with open(self.path(f"{name}.toml")) as file:
                text = file.read()
            text = text.replace("[node]\n", f"[node]\n{node}", 1) + extra
            self.write(f"{name}.toml", text)
            self.do(name, self.ferrule, "state", "create", self.path(f"{name}.toml"))

    def edges(self, driver="af-packet", cipher="gcm-aes-128"):
        """Customer edges instead of gateways: they bridge the hosts into one
        network, 10.5.0.0/24, and protect the wire by MACsec."""
        run(self.ferrule, "init", "ce", "--dir", self.dir, "--pair", "--force",
            "--name", "ga", "--peer-name", "gb", "--lan", "lan", "--uplink", "wan",
            "--driver", driver, "--cipher", cipher)
        for name, host, address in (("ga", "ha", "10.5.0.1/24"), ("gb", "hb", "10.5.0.2/24")):
            self.do(host, "ip", "addr", "replace", address, "dev", "eth0")
            self.do(name, "ip", "link", "set", "wan", "mtu", 1600)
            self.do(name, self.ferrule, "state", "create", self.path(f"{name}.toml"))

    def change(self, name, pattern, text):
        """Other text in a node's configuration, where the pattern is found once."""
        with open(self.path(f"{name}.toml")) as file:
            whole, times = re.subn(pattern, text, file.read(), flags=re.MULTILINE)
        assert times == 1, f"{pattern} is {times} times in {name}.toml"
        self.write(f"{name}.toml", whole)

    # ---- nodes

    def start(self, name, wait=True):
        log = open(self.path(f"{name}.log"), "a")
        process = subprocess.Popen(
            self.inside(name, self.ferrule, "run", self.path(f"{name}.toml")),
            stdout=log, stderr=log)
        process.log = self.path(f"{name}.log")
        self.processes.append(process)
        if wait:
            def up():
                assert process.poll() is None, f"{name}: {open(process.log).read()}"
                return self.show(name, check=False) is not None
            eventually(f"{name} answers", up)
        return process

    def socket(self, name):
        return self.path(f"{name}.socket")

    def ask(self, name, *command, **more):
        return run(self.ferrule, *command, "--socket", self.socket(name), **more)

    def show(self, name, check=True):
        result = self.ask(name, "show", "ports", "--json", check=check)
        return json.loads(result.stdout) if result.returncode == 0 else None

    def ping(self, count=3, interval=0.2, size=56, where="ha", to="10.0.2.2", check=True, wait=2):
        """How many of how many pings were answered."""
        result = self.do(where, "ping", "-q", "-c", count, "-i", interval, "-s", size,
                         "-W", wait, to, check=False)
        found = re.search(r"(\d+) packets transmitted, (\d+) received", result.stdout)
        assert found, result.stdout + result.stderr
        sent, received = map(int, found.groups())
        if check:
            assert sent == received == count, result.stdout
        return received

    def lossless(self, change, at_least=2000):
        """Pings in a hurry for as long as `change` takes: all must be answered. How many."""
        answers, done = [], threading.Event()

        def pings():
            while not done.is_set() or len(answers) * 500 < at_least:
                answers.append(self.ping(count=500, interval=0.002, check=False))

        pinging = threading.Thread(target=pings)
        pinging.start()
        try:
            change()
        finally:
            done.set()
            pinging.join()
        assert set(answers) == {500}, f"lost: {answers} of 500 each"
        return sum(answers)

    @staticmethod
    def memory(process):
        """KiB that a node has in memory."""
        children = run("pgrep", "-P", process.pid, check=False).stdout.split()
        with open(f"/proc/{children[0] if children else process.pid}/status") as file:
            return int(re.search(r"VmRSS:\s+(\d+)", file.read()).group(1))

    def drops(self, name):
        return {d["reason"]: d["packets"] for d in self.show(name)["drops"]}


def esp_numbers(pcap, *extra):
    """(SPI, sequence number) of every ESP packet in a capture."""
    out = run("tshark", "-r", pcap, "-Y", "esp", "-T", "fields", "-e", "esp.spi",
              "-e", "esp.sequence", *extra).stdout
    return [tuple(line.split("\t")) for line in out.splitlines() if line.strip()]
