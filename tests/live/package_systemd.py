#!/usr/bin/env python3
# time-limit: 400
"""The Debian package on a fresh Debian 13 that systemd runs, in a container: installed by
apt, two gateways of `ferrule init` started as services, bulk TCP through them with stock
defaults, reload, watchdog, and purged without a trace.

    ha --veth-- eth0 [ferrule@gw-a] eth1 ==veth== eth1 [ferrule@gw-b] eth0 --veth-- hb
    namespace   the container's own               namespace gb                  namespace

The root file system is made by debootstrap once and kept in target/debian-trixie; what the
container writes is in memory, and gone with it."""
import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from rig import TOP, binary, eventually, need, run

need("debootstrap", "systemd-nspawn", "nsenter", "dpkg-deb", "objcopy")

SUITE = "trixie"
ROOT = os.path.join(TOP, "target", f"debian-{SUITE}")
# Beside what debootstrap always brings: systemd, and what makes and asks interfaces.
INCLUDE = "systemd,systemd-sysv,dbus,iproute2,iputils-ping,ethtool,python3-minimal"
# A machine has all of them; a container of systemd's has none of its own accord.
RIGHTS = "CAP_BPF,CAP_NET_ADMIN,CAP_IPC_LOCK"
ROUNDS, SECONDS = 3, 2

NETWORK = """set -e
for host in ha gb hb; do ip netns add $host; ip -n $host link set lo up; done
ip link add eth0 type veth peer name eth0 netns ha
ip link add eth1 type veth peer name eth1 netns gb
ip -n gb link add eth0 type veth peer name eth0 netns hb
for device in eth0 eth1; do ip link set $device up; ip -n gb link set $device up; done
ip -n ha link set eth0 up; ip -n ha addr add 10.0.1.2/24 dev eth0
ip -n hb link set eth0 up; ip -n hb addr add 10.0.2.2/24 dev eth0
ip -n ha route add 10.0.2.0/24 via 10.0.1.1
ip -n hb route add 10.0.1.0/24 via 10.0.2.1
# The other gateway is another machine: here, another network namespace of the same unit.
for node in gw-b pk-b; do
    mkdir -p /run/systemd/system/ferrule@$node.service.d
    printf '[Service]\\nNetworkNamespacePath=/run/netns/gb\\n' \\
        >/run/systemd/system/ferrule@$node.service.d/elsewhere.conf
done
systemctl daemon-reload
"""
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


def root_file_system():
    """Makes it if it is not there; one process at a time."""
    os.makedirs(os.path.dirname(ROOT), exist_ok=True)
    with open(f"{ROOT}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.path.exists(ROOT):
            return
        fresh = tempfile.mkdtemp(prefix=f"debian-{SUITE}-", dir=os.path.dirname(ROOT))
        try:
            run("debootstrap", "--variant=minbase", f"--include={INCLUDE}", SUITE, fresh)
            os.chmod(fresh, 0o755)
            os.rename(fresh, ROOT)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)


class Machine:
    """A Debian that runs, until the block is left."""

    def __init__(self, deb):
        self.deb = deb

    def __enter__(self):
        command = ["systemd-nspawn", "--quiet", f"--directory={ROOT}", "--volatile=overlay",
                   f"--machine=ferrule{os.getpid()}", "--boot", "--register=no", "--keep-unit",
                   "--private-network", f"--capability={RIGHTS}", "--system-call-filter=bpf",
                   "--resolv-conf=off", "--console=read-only",
                   f"--bind-ro={self.deb}:/root/ferrule.deb"]
        self.console = tempfile.TemporaryFile()
        self.container = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.console,
                                          stderr=subprocess.STDOUT, start_new_session=True)
        try:
            eventually("the container boots", self.is_up, 60)
        except BaseException:
            self.__exit__()
            self.console.seek(0)
            print(self.console.read().decode(errors="replace")[-2000:])
            raise
        return self

    def __exit__(self, *_):
        # Once: it shuts down. Twice: it ends at once.
        for patience in (10, 10):
            self.container.terminate()
            try:
                return self.container.wait(patience)
            except subprocess.TimeoutExpired:
                pass
        self.container.kill()
        self.container.wait()

    def leader(self):
        with open(f"/proc/{self.container.pid}/task/{self.container.pid}/children") as file:
            return file.read().split()[0]

    def inside(self, *command):
        return ["nsenter", "-t", self.leader(), "-a", "env", "-i", "HOME=/root", "LC_ALL=C.UTF-8",
                "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND=noninteractive",
                *[str(word) for word in command]]

    def is_up(self):
        assert self.container.poll() is None, "the container ended"
        try:
            said = run(*self.inside("systemctl", "is-system-running"), check=False).stdout
        except (OSError, IndexError):
            return False
        return said.strip() in ("running", "degraded")

    def do(self, *command, **more):
        return run(*self.inside(*command), **more).stdout

    def shell(self, script):
        return self.do("sh", "-ec", script)

    def property(self, unit, name):
        return self.do("systemctl", "show", "--value", "-p", name, unit).strip()

    def journal(self, unit):
        return self.do("journalctl", "--no-pager", "-o", "cat", "-u", unit)

    # ---- what is there

    def traces(self):
        """Every path that is not the system's own bookkeeping, users, groups and units."""
        paths = self.do("find", "/", "-xdev", "(", "-path", "/proc", "-o", "-path", "/sys", "-o",
                        "-path", "/dev", "-o", "-path", "/tmp", "-o", "-path", "/var/log", "-o",
                        "-path", "/var/cache", "-o", "-path", "/root", ")", "-prune",
                        "-o", "-print")
        # /run is another file system; of it, what a package could leave.
        paths += self.do("find", "/run", "-name", "*errule*", "-not", "-path", "*/ferrule@*.d*")
        accounts = self.shell("cat /etc/passwd /etc/group /etc/shadow /etc/gshadow")
        units = self.do("systemctl", "list-unit-files", "--plain", "--no-legend")
        known = self.do("dpkg-query", "-W", "-f", "${Package} ${Status}\n")
        return {"paths": set(paths.splitlines()) - BOOKKEEPING,
                "accounts": set(accounts.splitlines()), "units": set(units.splitlines()),
                "packages": set(known.splitlines())}

    # ---- traffic

    def ping(self):
        said = self.do("ip", "netns", "exec", "ha", "ping", "-q", "-c", "3", "-i", "0.2",
                       "10.0.2.2", check=False)
        assert " 3 received" in said, said

    def bulk(self):
        """Mbit/s of TCP that arrive."""
        in_namespace = ("ip", "netns", "exec")
        sink = subprocess.Popen(self.inside(*in_namespace, "hb", "python3", "-c", SINK),
                                stdout=subprocess.PIPE, text=True)
        try:
            assert sink.stdout.readline() == "ready\n"
            self.do(*in_namespace, "ha", "python3", "-c", SOURCE, timeout=60)
            return float(sink.communicate(timeout=30)[0])
        finally:
            if sink.poll() is None:
                sink.kill()
                sink.wait()

    def start(self, *nodes):
        units = [f"ferrule@{node}" for node in nodes]
        self.do("systemctl", "start", *units)

    def stop(self, *nodes):
        self.do("systemctl", "stop", *[f"ferrule@{node}" for node in nodes])
        for node in nodes:
            assert self.property(f"ferrule@{node}", "Result") == "success", node


# Made by dpkg, apt and systemd for themselves whatever package comes and goes.
BOOKKEEPING = {
    "/var/lib/dpkg/status-old", "/var/lib/dpkg/available-old", "/etc/passwd-", "/etc/group-",
    "/etc/shadow-", "/etc/gshadow-", "/etc/.pwd.lock", "/var/lib/apt/extended_states",
    "/var/lib/dpkg/triggers/Unincorp", "/var/lib/dpkg/lock", "/var/lib/dpkg/lock-frontend",
    "/var/lib/dpkg/triggers/Lock", "/var/lib/apt/lists/lock", "/var/lib/apt/lists/partial",
    "/var/lib/apt/lists/auxfiles",
}


def installed(machine):
    machine.do("apt-get", "install", "-qy", "/root/ferrule.deb")
    assert "ferrule " in machine.do("ferrule", "--version")
    machine.do("getent", "passwd", "ferrule")
    machine.shell(NETWORK)
    # As the documentation has it: no driver, no device, no path is said.
    said = machine.shell("cd /etc/ferrule && ferrule init gateway --pair")
    assert "systemctl enable --now ferrule@gw-a" in said, said
    # The same for what it is measured against.
    machine.shell("cd /etc/ferrule && ferrule init gateway --pair --driver af-packet"
                  " --name pk-a --peer-name pk-b")
    # Counters apart from the configuration, as the documentation offers.
    machine.shell("sed -i 's|^state = \"pk-b.state\"|state = \"/var/lib/ferrule/pk-b\"|'"
                  " /etc/ferrule/pk-b.toml; grep -q /var/lib/ferrule/pk-b /etc/ferrule/pk-b.toml")
    for node in ("gw-b", "pk-b"):
        machine.do("ferrule", "state", "create", f"/etc/ferrule/{node}.toml")


def serves(machine):
    """Ready, confined, reloaded by the manager, and started again when it hangs."""
    machine.start("gw-a", "gw-b")
    machine.ping()
    unit = "ferrule@gw-a"
    status = machine.do("systemctl", "status", "--no-pager", unit)
    assert "active (running)" in status and "gw-a runs" in status, status
    pid = machine.property(unit, "MainPID")
    with_rights = machine.shell(f"grep -E '^(Uid|CapEff)' /proc/{pid}/status").split()
    user = machine.do("id", "-u", "ferrule").strip()
    assert with_rights[1:5] == [user] * 4 and int(with_rights[-1], 16) == 0, with_rights
    ports = json.loads(machine.do("ferrule", "show", "ports", "--json", "--node", "gw-a"))
    assert ports["drops"] is not None, ports
    # Reload: the file as it is now, with no packet lost.
    machine.shell("printf '[[route]]\\nprefix = \"10.0.3.0/24\"\\nvia = \"198.51.100.2\"\\n'"
                  " >>/etc/ferrule/gw-a.toml")
    machine.do("systemctl", "reload", unit)
    assert machine.property(unit, "MainPID") == pid, "a reload is not a restart"
    assert machine.property(unit, "ActiveState") == "active"
    machine.ping()
    # Nonsense is refused, and what ran goes on.
    machine.shell("cp /etc/ferrule/gw-a.toml /tmp; echo nonsense >>/etc/ferrule/gw-a.toml")
    refused = run(*machine.inside("systemctl", "reload", unit), check=False)
    assert refused.returncode != 0 and machine.property(unit, "MainPID") == pid
    machine.shell("cp /tmp/gw-a.toml /etc/ferrule/gw-a.toml")
    machine.ping()


def credentials(machine):
    """A key that lies encrypted on the disk, as the documentation has it."""
    unit, key = "ferrule@gw-a", "gw-a-to-gw-b.key"
    machine.do("systemctl", "stop", unit)
    machine.shell(f"""cd /etc/ferrule
mkdir -p /etc/credstore.encrypted /etc/systemd/system/{unit}.service.d
systemd-creds encrypt --with-key=host --name=to-b.key {key} /etc/credstore.encrypted/to-b.key
cat >/etc/systemd/system/{unit}.service.d/key.conf <<END
[Service]
LoadCredentialEncrypted=to-b.key:/etc/credstore.encrypted/to-b.key
END
systemctl daemon-reload
cp gw-a.toml {key} /root
rm {key}
sed -i 's|"{key}"|"credential:to-b.key"|' gw-a.toml
# The counters of the key are there; elsewhere they are made so.
systemd-run --quiet --pipe --wait \
    --property=LoadCredentialEncrypted=to-b.key:/etc/credstore.encrypted/to-b.key \
    ferrule state create /etc/ferrule/gw-a.toml""")
    refused = run(*machine.inside("ferrule", "check", "/etc/ferrule/gw-a.toml"), check=False)
    assert refused.returncode == 2 and "is the service's alone" in refused.stderr, refused
    machine.do("systemctl", "start", unit)
    machine.ping()
    machine.do("systemctl", "reload", unit)
    machine.do("ferrule", "apply", "/etc/ferrule/gw-a.toml")
    machine.ping()
    machine.shell(f"""cp /root/gw-a.toml /root/{key} /etc/ferrule
rm -r /etc/credstore.encrypted/to-b.key /etc/systemd/system/{unit}.service.d \
    /var/lib/systemd/credential.secret
systemctl daemon-reload""")
    machine.do("systemctl", "restart", unit)
    machine.ping()


def watched(machine):
    """A node that hangs is started again, and goes on behind the numbers that it used."""
    unit = "ferrule@gw-a"
    pid = machine.property(unit, "MainPID")
    machine.do("systemctl", "kill", "--kill-whom=main", "--signal=STOP", unit)
    eventually("the watchdog ends the node", lambda: machine.property(unit, "MainPID") != pid, 40)
    eventually("the node runs again",
               lambda: machine.property(unit, "ActiveState") == "active", 20)
    assert machine.property(unit, "NRestarts") == "1"
    assert "watchdog" in machine.journal(unit).lower(), machine.journal(unit)
    machine.ping()
    machine.stop("gw-a", "gw-b")


def carries(machine):
    """Bulk TCP with stock offloads, both drivers in turn; the best of each, as others may
    need the cores in between."""
    found = {"gw": [], "pk": []}
    for _ in range(ROUNDS):
        for kind, rates in found.items():
            machine.start(f"{kind}-a", f"{kind}-b")
            machine.ping()
            rates.append(machine.bulk())
            machine.stop(f"{kind}-a", f"{kind}-b")
    driver = re.search(r'driver = "(.*)"', machine.do("cat", "/etc/ferrule/gw-a.toml"))[1]
    default, packet = max(found["gw"]), max(found["pk"])
    for kind, name in (("gw", f"as init chooses ({driver})"), ("pk", "af-packet")):
        print(f"{name}: {', '.join(f'{rate:.0f}' for rate in found[kind])} Mbit/s")
    assert default >= 0.8 * packet, f"{default:.0f} of {packet:.0f} Mbit/s"


def purged(machine, before):
    """Removed while a node runs and another is enabled: both stop, and nothing stays."""
    machine.do("systemctl", "enable", "ferrule@gw-b")
    machine.start("gw-a")
    machine.do("apt-get", "purge", "-qy", "ferrule")
    assert machine.shell("grep -lx ferrule /proc/[0-9]*/comm || true") == ""
    after = machine.traces()
    for kind, were in before.items():
        left, gone = sorted(after[kind] - were), sorted(were - after[kind])
        assert not left and not gone, f"{kind}: left {left}, gone {gone}"
    loaded = machine.do("systemctl", "list-units", "--all", "--plain", "--no-legend", "ferrule@*")
    assert not loaded, loaded


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    root_file_system()
    folder = tempfile.mkdtemp(prefix="ferrule-package-")
    try:
        run(os.path.join(TOP, "scripts", "package.sh"), binary(), folder)
        (deb,) = (name for name in os.listdir(folder) if name.endswith(".deb"))
        start = time.monotonic()
        with Machine(os.path.join(folder, deb)) as machine:
            before = machine.traces()
            for step, args in ((installed, ()), (serves, ()), (credentials, ()), (watched, ()), (carries, ()),
                               (purged, (before,))):
                try:
                    step(machine, *args)
                except BaseException:
                    print(machine.journal("ferrule@*")[-4000:])
                    raise
                print(f"{step.__name__}: ok, {time.monotonic() - start:.0f} s")
    finally:
        shutil.rmtree(folder)


main()
