#!/usr/bin/env python3
# time-limit: 180
"""Look-aside on real interfaces: ESP gateways, and edges with MACsec, whose
packets are sealed and opened by a thread on another core. Under load that thread
is stopped, and another one killed, as a debugger does it: pings go on, all of
them, and the engine is started again."""
import ctypes
import os
import platform
import subprocess
import sys
import time

from rig import Rig, eventually, need

need("ip", "ping")

TABLE = """
[look-aside]
core = {core}
copies = {copies}
deadline-ms = 300
on-failure = "software"
"""

SEIZE, INTERRUPT, SYSCALL, DETACH, GETREGS, SETREGS = 0x4206, 0x4207, 24, 17, 12, 13
WALL = 0x40000000
RDI, ORIG_RAX, EXIT = 14, 15, 60


def ptrace(request, tid, data=0):
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    libc.ptrace.restype = ctypes.c_long
    if libc.ptrace(request, tid, None, data) == -1:
        raise OSError(ctypes.get_errno(), f"ptrace {request:#x}")


def stop(tid):
    """Stops one thread, and leaves the others alone."""
    ptrace(SEIZE, tid)
    ptrace(INTERRUPT, tid)
    os.waitpid(tid, WALL)


def end(tid):
    """Ends one thread that was stopped: its next system call becomes `exit`, of
    which the rest of its process hears nothing."""
    for _ in range(20):
        ptrace(SYSCALL, tid)
        _, status = os.waitpid(tid, WALL)
        if os.WIFEXITED(status):
            return
        regs = (ctypes.c_ulonglong * 27)()
        ptrace(GETREGS, tid, ctypes.addressof(regs))
        regs[ORIG_RAX], regs[RDI] = EXIT, 0
        ptrace(SETREGS, tid, ctypes.addressof(regs))
    raise AssertionError("the thread does not end")


def threads(process, name="look-aside"):
    tasks = f"/proc/{process.pid}/task"
    found = []
    for tid in os.listdir(tasks):
        try:
            with open(f"{tasks}/{tid}/comm") as comm:
                if comm.read().strip() == name:
                    found.append(int(tid))
        except (FileNotFoundError, ProcessLookupError):
            pass  # It ended meanwhile.
    return found


def ticks(process):
    used = 0
    for tid in threads(process):
        with open(f"/proc/{process.pid}/task/{tid}/stat") as stat:
            fields = stat.read().rsplit(") ", 1)[1].split()
        used += int(fields[11]) + int(fields[12])
    return used


def engine(rig, name="ga"):
    views = [e for e in rig.show(name)["engines"] if e["placement"] == "look-aside"]
    assert len(views) == 1, views
    return views[0]


def counter(rig, name):
    return engine(rig)["counters"][name]


def load(rig, to, count):
    return subprocess.Popen(rig.inside("ha", "ping", "-q", "-i", "0.002", "-c", count, "-s", 800,
                                       "-W", 5, to), stdout=subprocess.PIPE, text=True)


def all_answered(ping, count):
    said, _ = ping.communicate(timeout=60)
    assert f"{count} packets transmitted, {count} received" in said, said


def under_load(rig, node, to):
    """One thread is stopped, the next one killed: no ping is lost."""
    for kill in (False, True):
        if kill and platform.machine() != "x86_64":
            continue
        before = engine(rig)["counters"]
        tid, = threads(node)
        ping = load(rig, to, 1000)
        time.sleep(0.5)
        stop(tid)
        if kill:
            end(tid)
        eventually("the engine is given up",
                   lambda: counter(rig, "failures") == before["failures"] + 1)
        eventually("it is started again", lambda: counter(rig, "resets") == before["resets"] + 1)
        if not kill:
            ptrace(DETACH, tid)
            eventually("the old thread ends", lambda: tid not in threads(node))
        all_answered(ping, 1000)
        after = engine(rig)
        assert after["state"] == "works" and after["in_flight"] == 0, after
        assert after["counters"]["fallbacks"] > before["fallbacks"], after
        assert after["counters"]["failed"] == before["failed"], after
        assert threads(node) != [tid]
        completed = after["counters"]["completed"]
        rig.ping(count=5, to=to)
        assert counter(rig, "completed") > completed, "the new thread works"


def idle(rig, node, to):
    """Without packets the thread uses no processor, and the next one wakes it."""
    def quiet():
        before = ticks(node)
        time.sleep(0.5)
        return ticks(node) == before
    eventually("the thread sleeps", quiet, 10)
    rig.ping(count=3, to=to)


def placed(rig, copies):
    core = max(os.sched_getaffinity(0))
    for name in ("ga", "gb"):
        path = rig.path(f"{name}.toml")
        with open(path) as file:
            text = file.read()
        for table in ("[[tunnel]]\n", "[[macsec]]\n"):
            text = text.replace(table, f'{table}placement = "look-aside"\n')
        rig.write(f"{name}.toml", text + TABLE.format(core=core, copies=copies))
        rig.do(name, rig.ferrule, "check", path)


with Rig() as rig:
    rig.gateways(node='metrics = "127.0.0.1:9105"\n')
    placed(rig, copies=2)
    nodes = [rig.start("ga"), rig.start("gb")]
    rig.ping(count=10)
    view = engine(rig)
    counters = view["counters"]
    assert view["placement"] == "look-aside" and view["state"] == "works", view
    assert view["keys"] == 2 and view["depth"] == 1024, view
    assert counters["completed"] >= 20 and counters["copies"] == 2 * counters["completed"], view
    shown = rig.ask("ga", "show", "engines").stdout
    assert "look-aside" in shown and "completed" in shown, shown
    program = ("import urllib.request\n"
               "print(urllib.request.urlopen('http://127.0.0.1:9105/metrics', timeout=5)"
               ".read().decode())")
    text = rig.do("ga", sys.executable, "-c", program).stdout
    assert 'ferrule_engine_up{worker="0",placement="look-aside"} 1' in text, text
    idle(rig, nodes[0], "10.0.2.2")
    try:
        under_load(rig, nodes[0], "10.0.2.2")
    except PermissionError as e:
        print(f"no debugger may look at a process here: {e}")
        sys.exit(77)
    # A tunnel moves to the worker's own loop while packets pass.
    ping = load(rig, "10.0.2.2", 500)
    time.sleep(0.3)
    rig.change("ga", 'placement = "look-aside"', 'placement = "software"')
    rig.ask("ga", "apply", rig.path("ga.toml"))
    all_answered(ping, 500)
    completed = counter(rig, "completed")
    rig.ping(count=5)
    assert engine(rig)["keys"] == 0 and counter(rig, "completed") == completed, engine(rig)
    for node in nodes:
        node.terminate()
        assert node.wait(10) == 0
    print("esp: stopped, killed, moved; no packet lost")

with Rig() as rig:
    rig.edges()
    placed(rig, copies=4)
    nodes = [rig.start("ga"), rig.start("gb")]
    rig.ping(count=10, to="10.5.0.2")
    under_load(rig, nodes[0], "10.5.0.2")
    print("macsec: stopped, killed; no packet lost")
