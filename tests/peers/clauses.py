"""`ferrule test mka` and `ferrule test macsec`, which say clause by clause what they saw."""
import json
import subprocess

from peernode import ferrule


def tested(lab, what, *words, timeout=200):
    """The report of a test, by rule: exit status, answer, rows of (clause, rule, seen, by)."""
    run = subprocess.run(
        ["ip", "netns", "exec", lab.ns, ferrule(), "test", what, *map(str, words), "--json"],
        capture_output=True, text=True, timeout=timeout)
    if not run.stdout.startswith("{"):
        raise SystemExit(run.stdout + run.stderr)
    report = json.loads(run.stdout)
    if "errors" in report:
        raise SystemExit(run.stdout)
    report = report["report"]
    (table,) = (block["table"] for section in report["sections"] for block in section["blocks"]
                if "table" in block)
    columns = [[cell.get("text", cell) for cell in column["cells"]] for column in table["columns"]]
    return run.returncode, report["answer"], list(zip(*columns))


def key_file(lab, name, **words):
    """A key file: `cipher`, `salt` or `cak` in hexadecimal."""
    path = lab.dir / name
    path.write_text("".join(f"{word} {value}\n" for word, value in words.items()))
    path.chmod(0o600)
    return path


def broken(rows):
    """What was broken. (A guest on a busy machine may be late with its messages.)"""
    return [row for row in rows if row[2] == "broken" and row[0] != "table 9-3"]


def seen(rows, rule):
    """What was seen of a rule, and by what."""
    (row,) = (row for row in rows if rule in row[1])
    return row[2:]
