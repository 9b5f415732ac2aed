"""Boot Linux guests as processes and wire them to taps in a private netns.

Used by the `peer` command and by test code:

    with Lab() as lab:
        lab.bridge("lan")
        lab.tap("a", bridge="lan"); lab.tap("b", bridge="lan")
        cap = lab.capture(["a"], "wire.pcapng")
        ga = lab.guest("ga", "a.sh", taps=["a"])
        gb = lab.guest("gb", "b.sh", taps=["b"])
        assert ga.wait() == 0 and gb.wait() == 0
        cap.stop()

Everything a Lab makes (namespace, bridges, taps, processes) is gone when the
block is left, whichever way it is left.  Python standard library only.
"""
import atexit
import ctypes
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
UML = "/usr/bin/linux.uml"
PREFIX = "peer"

_libc = ctypes.CDLL(None, use_errno=True)


def _die_with_parent():
    _libc.prctl(1, signal.SIGKILL)      # PR_SET_PDEATHSIG


class PeerError(RuntimeError):
    pass


def missing():
    """What a Lab needs and this machine lacks, as a list of sentences."""
    out = []
    if os.geteuid() != 0:
        out.append("not root")
    for tool in ("linux.uml", "ip", "modprobe", "dumpcap", "unshare"):
        if not shutil.which(tool, path=os.environ.get("PATH", "") +
                            ":/usr/sbin:/sbin"):
            out.append(f"no {tool} (scripts/deps.sh peers)")
    if not os.path.exists("/dev/net/tun"):
        out.append("no /dev/net/tun")
    if not os.path.isdir("/usr/lib/uml/modules"):
        out.append("no /usr/lib/uml/modules (scripts/deps.sh peers)")
    if _has_amx() and not shutil.which("cc"):
        out.append("no cc (scripts/deps.sh peers), which a guest needs on a processor with AMX")
    return out


def _has_amx():
    return " amx_tile" in pathlib.Path("/proc/cpuinfo").read_text()


def _whole_registers(lab):
    """What precedes a guest's command line where its kernel cannot write all registers."""
    if not _has_amx():
        return []
    shim = lab.dir / "xstate.so"
    if not shim.exists():
        made = shim.with_suffix(".new")
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", made, HERE / "xstate.c"], check=True)
        made.rename(shim)
    return ["env", f"LD_PRELOAD={shim}"]


class Proc:
    """A child in a process group of its own; stop() ends it and what it started."""

    def __init__(self, argv, **kw):
        self.p = subprocess.Popen(argv, start_new_session=True,
                                  preexec_fn=_die_with_parent, **kw)
        self.pid = self.p.pid

    def running(self):
        return self.p.poll() is None

    def stop(self, sig=signal.SIGTERM, grace=5.0):
        if self.running():
            self._kill(sig)
            try:
                self.p.wait(grace)
            except subprocess.TimeoutExpired:
                self._kill(signal.SIGKILL)
                self.p.wait(5)
        return self.p.returncode

    def _kill(self, sig):
        try:
            os.killpg(self.pid, sig)
        except ProcessLookupError:
            pass


class Guest(Proc):
    """One booted guest.  .out is its writable directory on the host."""

    def __init__(self, lab, name, script=None, taps=(), env=None, timeout=120,
                 mem="256M", cpu=None, transport="tap", echo=None, mtu=None,
                 src=None):
        self.lab, self.name, self.timeout = lab, name, timeout
        self.live, self.ncmd = script is None, 0
        script = pathlib.Path(script or HERE / "guest-commands.sh")
        src = pathlib.Path(src) if src else script.parent
        self.run = lab.dir / name
        self.out = self.run / "out"
        self.out.mkdir(parents=True)
        (self.run / "cmd").mkdir()
        for f in ("stdout", "stderr"):
            (self.run / f).write_text("")
        v = {"PEER_NAME": name, "PEER_SRC": str(src.resolve()),
             "PEER_SCRIPT": os.path.relpath(script.resolve(), src.resolve())}
        v.update(env or {})
        (self.run / "env").write_text("".join(
            f"export {k}={shlex.quote(str(x))}\n" for k, x in v.items()))
        argv = []
        if cpu is not None:
            argv += ["taskset", "-c", str(cpu)]
        # A process namespace of its own: when its first process ends, so do
        # all the others, and the guest can reach no other process.
        argv += ["ip", "netns", "exec", lab.ns, "unshare", "--pid", "--fork",
                 "--kill-child", *_whole_registers(lab), UML, f"mem={mem}", "root=/dev/root",
                 "rootfstype=hostfs", "rootflags=/", "ro", "quiet",
                 f"init={HERE / 'guest-init.sh'}", f"PEER_RUN={self.run}",
                 f"uml_dir={self.run}/uml", f"umid={name}",
                 "con=null", "con0=null,fd:1", "panic=1"]
        for i, t in enumerate(taps):
            nic = lab.nics[t]
            opt = f"vec{i}:transport={transport},ifname={t},mac={nic['mac']}"
            if transport in ("tap", "hybrid"):
                opt += ",depth=128,gro=1"
            if mtu:
                opt += f",mtu={mtu}"
            argv.append(opt)
        self.console = self.run / "console"
        self.t0 = time.time()
        with open(self.console, "wb") as con:
            super().__init__(argv, stdin=subprocess.DEVNULL, stdout=con,
                             stderr=subprocess.STDOUT)
        self._done = threading.Event()
        self._rc = None
        threading.Thread(target=self._watch, args=(echo,), daemon=True).start()

    def stop(self, sig=signal.SIGKILL, grace=5.0):
        if self.live and self.running():
            (self.run / "cmd" / "end").touch()
            end = time.time() + 3
            while self.running() and time.time() < end:
                time.sleep(0.02)
        return super().stop(sig, grace)

    def _watch(self, echo):
        """Copy the script's output as it comes; enforce the time limit."""
        ends = [(self.run / "stdout", sys.stdout), (self.run / "stderr", sys.stderr)]
        pos = [0, 0]
        tag = "" if echo is True else f"{self.name}: "
        while True:
            alive = self.running()
            if echo:
                for i, (path, to) in enumerate(ends):
                    data = path.read_bytes()[pos[i]:]
                    if alive:                   # whole lines while it runs
                        data = data[:data.rfind(b"\n") + 1]
                    if data:
                        pos[i] += len(data)
                        try:
                            for line in data.decode(errors="replace").splitlines():
                                print(tag + line, file=to, flush=True)
                        except OSError:         # nobody reads us; go on
                            echo = False
            if not alive:
                break
            if time.time() - self.t0 > self.timeout:
                self._rc = 124
                self.stop(signal.SIGKILL)
                continue
            time.sleep(0.02)
        if self._rc is None:
            try:
                self._rc = int((self.run / "rc").read_text())
            except (OSError, ValueError):
                self._rc = 125                  # it never finished its script
        self._done.set()

    def wait(self, timeout=None):
        """The script's exit status; 124 after the time limit, 125 on a crash."""
        if not self._done.wait(timeout):
            raise PeerError(f"{self.name}: still running")
        return self._rc

    def check(self):
        rc = self.wait()
        if rc:
            raise PeerError(f"{self.name}: exit {rc}\n--- stdout\n{self.stdout()}"
                            f"--- stderr\n{self.stderr()}--- console\n"
                            + self.console.read_text(errors="replace")[-2000:])
        return self

    def sh(self, cmd, check=True, timeout=60):
        """Run a shell command in a guest started without a script."""
        if not self.live:
            raise PeerError(f"{self.name} runs a script of its own")
        self.ncmd += 1
        base = self.run / "cmd" / str(self.ncmd)
        base.with_suffix(".tmp").write_text(cmd + "\n")
        base.with_suffix(".tmp").rename(base)
        done, end = base.with_suffix(".rc"), time.time() + timeout
        while not done.exists():
            if not self.running() or time.time() > end:
                raise PeerError(f"{self.name}: no answer to: {cmd}\n"
                                + self.console.read_text(errors="replace")[-2000:])
            time.sleep(0.005)
        out = base.with_suffix(".out").read_text(errors="replace")
        err = base.with_suffix(".err").read_text(errors="replace")
        rc = int(done.read_text())
        if check and rc:
            raise PeerError(f"{self.name}: exit {rc} from: {cmd}\n{out}{err}")
        return out

    def wait_file(self, name, timeout=30):
        """Wait until the script has made OUT/name (its way of saying ready)."""
        end = time.time() + timeout
        while not (self.out / name).exists():
            if not self.running() or time.time() > end:
                raise PeerError(f"{self.name}: no {name}\n{self.stderr()}")
            time.sleep(0.02)
        return self.out / name

    def tell(self, name, text=""):
        """Make OUT/name, for a script that waits for it."""
        tmp = self.out / ("." + name)
        tmp.write_text(text)
        tmp.rename(self.out / name)

    def stdout(self):
        return (self.run / "stdout").read_text(errors="replace")

    def stderr(self):
        return (self.run / "stderr").read_text(errors="replace")

    def boot_seconds(self):
        return float((self.run / "booted").read_text()) - self.t0


class Capture(Proc):
    """dumpcap on interfaces of the namespace, into one pcapng file."""

    def __init__(self, lab, ifaces, path, filter=None):
        self.path = pathlib.Path(path)
        # dumpcap may drop rights; write where it surely can, then move.
        self.tmp = lab.dir / f"cap{len(lab.procs)}.pcapng"
        argv = ["ip", "netns", "exec", lab.ns, "dumpcap", "-q", "-n", "-B", "8"]
        for i in ifaces:
            argv += ["-i", i] + (["-f", filter] if filter else [])
        log = lab.dir / f"cap{len(lab.procs)}.log"
        with open(log, "wb") as err:
            super().__init__(argv + ["-w", str(self.tmp)],
                             stdin=subprocess.DEVNULL, stdout=err, stderr=err)
        end = time.time() + 10
        while not (self.tmp.exists() and self.tmp.stat().st_size):
            if not self.running() or time.time() > end:
                raise PeerError("dumpcap: " + log.read_text())
            time.sleep(0.02)
        time.sleep(0.2)

    def stop(self, sig=signal.SIGINT, grace=5.0):
        if self.running():
            time.sleep(0.5)             # let the last packets reach dumpcap
        rc = super().stop(sig, grace)
        if self.tmp.exists():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(self.tmp, self.path)
            self.path.chmod(0o644)
        return rc


class Lab:
    """One private network namespace and what runs in it."""

    count = 0

    def __init__(self, keep=None, cpu=None, echo=None, ns=None):
        bad = missing()
        if bad:
            raise PeerError("; ".join(bad))
        Lab.count += 1
        self.own_ns = ns is None
        self.ns = ns or f"{PREFIX}-{os.getpid()}-{Lab.count}"
        self.cpu, self.echo, self.keep = cpu, echo, keep
        if keep:
            pathlib.Path(keep).mkdir(parents=True, exist_ok=True)
        self.dir = pathlib.Path(tempfile.mkdtemp(
            prefix=f"{PREFIX}-{os.getpid()}-", dir=keep)).resolve()
        self.dir.chmod(0o755)
        self.procs, self.nics, self.links, self.closed = [], {}, [], False
        atexit.register(self.close)
        try:
            if self.own_ns:
                self._ip("netns", "add", self.ns)
                for k in ("all", "default"):
                    self.sh(f"echo 1 >/proc/sys/net/ipv6/conf/{k}/disable_ipv6")
                self.ip("link", "set", "dev", "lo", "up")
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def _ip(self, *a, check=True):
        r = subprocess.run(("ip",) + a, capture_output=True, text=True)
        if check and r.returncode:
            raise PeerError(f"ip {' '.join(a)}: {r.stderr.strip()}")
        return r.stdout

    def ip(self, *a):
        """ip(8) in the namespace."""
        return self._ip("-n", self.ns, *a)

    def sh(self, cmd, check=True):
        """A shell command in the namespace; its standard output."""
        r = subprocess.run(["ip", "netns", "exec", self.ns, "sh", "-c", cmd],
                           capture_output=True, text=True)
        if check and r.returncode:
            raise PeerError(f"{cmd}: {r.stderr.strip()}")
        return r.stdout

    def spawn(self, argv, **kw):
        """Start a program in the namespace (for the data plane under test)."""
        p = Proc(["ip", "netns", "exec", self.ns] + list(argv), **kw)
        self.procs.append(p)
        return p

    def bridge(self, name, forward_all=True, mtu=None):
        self.ip("link", "add", name, "type", "bridge", "stp_state", "0",
                "forward_delay", "0", "mcast_snooping", "0")
        self.links.append(name)
        if forward_all:         # also 01-80-C2-00-00-03 and its neighbours
            self.sh(f"echo 65528 >/sys/class/net/{name}/bridge/group_fwd_mask")
        if mtu:
            self.ip("link", "set", "dev", name, "mtu", str(mtu))
        self.ip("link", "set", "dev", name, "up")
        return name

    def tap(self, name, bridge=None, mac=None, mtu=None):
        """A tap; mac is the address of the guest that will be on it."""
        n = len(self.nics) + 1
        self.nics[name] = {"mac": mac or f"02:00:00:00:00:{n:02x}"}
        self.ip("tuntap", "add", name, "mode", "tap", "vnet_hdr")
        self.links.append(name)
        if mtu:
            self.ip("link", "set", "dev", name, "mtu", str(mtu))
        if bridge:
            self.ip("link", "set", "dev", name, "master", bridge)
        # No merged frames: guests drop what is above their MTU.
        self.sh(f"ethtool -K {name} gro off tso off gso off 2>/dev/null", check=False)
        self.ip("link", "set", "dev", name, "up")
        return name

    def guest(self, name, script=None, **kw):
        kw.setdefault("cpu", self.cpu)
        kw.setdefault("echo", self.echo)
        g = Guest(self, name, script, **kw)
        self.procs.append(g)
        return g

    def capture(self, ifaces, path, filter=None):
        c = Capture(self, ifaces, path, filter)
        self.procs.append(c)
        return c

    def close(self):
        if self.closed:
            return
        self.closed = True
        atexit.unregister(self.close)
        for p in reversed(self.procs):
            try:
                p.stop()
                if isinstance(p, Guest):
                    p._done.wait(5)
            except Exception as e:              # keep cleaning
                print(f"peer: {e}", file=sys.stderr)
        if self.own_ns:
            self._ip("netns", "del", self.ns, check=False)
        else:
            for name in self.links:
                self._ip("-n", self.ns, "link", "del", "dev", name, check=False)
        if not self.keep:
            shutil.rmtree(self.dir, ignore_errors=True)


def clean():
    """Remove namespaces that a killed harness left; returns their names."""
    gone = []
    for line in subprocess.run(["ip", "netns", "list"], capture_output=True,
                               text=True).stdout.splitlines():
        ns = line.split()[0]
        part = ns.split("-")
        if len(part) == 3 and part[0] == PREFIX and part[1].isdigit() \
                and not os.path.exists(f"/proc/{part[1]}"):
            subprocess.run(["ip", "netns", "del", ns])
            for d in pathlib.Path(tempfile.gettempdir()).glob(
                    f"{PREFIX}-{part[1]}-*"):
                shutil.rmtree(d, ignore_errors=True)
            gone.append(ns)
    return gone


def signals_exit():
    """Turn a polite request to end into an exception, so `with` cleans up."""
    def stop(sig, _):
        raise SystemExit(128 + sig)
    for s in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(s, stop)
