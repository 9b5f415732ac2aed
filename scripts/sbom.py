#!/usr/bin/env python3
"""A bill of materials of the program, CycloneDX 1.6 as JSON on standard output: every crate
that is in it or that builds it, with version, licence, checksum and what it depends on.

    scripts/sbom.py [TARGET]     as `cargo metadata` resolves for this machine, or for TARGET

The same octets whenever it is run: no serial number, and the time is SOURCE_DATE_EPOCH's.
"""
import datetime
import json
import os
import re
import subprocess
import sys
import tomllib

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
PROGRAM = "ferrule"


def host():
    said = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout
    return re.search(r"^host: (.*)$", said, re.MULTILINE)[1]


def resolved(target):
    """Packages by their number, and the numbers of what each depends on."""
    command = ["cargo", "metadata", "--format-version", "1", "--locked",
               "--filter-platform", target]
    said = subprocess.run(command, capture_output=True, text=True, check=True, cwd=TOP).stdout
    data = json.loads(said)
    packages = {package["id"]: package for package in data["packages"]}
    needs = {}
    for node in data["resolve"]["nodes"]:
        # What tests alone use is not in the program.
        needs[node["id"]] = [dep["pkg"] for dep in node["deps"]
                             if any(kind["kind"] != "dev" for kind in dep["dep_kinds"])]
    return packages, needs


def built(target):
    """Name and version of what a build of the program alone compiles: `cargo metadata`
    resolves for the whole workspace, with features that only others ask for."""
    command = ["cargo", "tree", "--package", PROGRAM, "--edges", "normal,build", "--locked",
               "--target", target, "--prefix", "none", "--no-dedupe", "--format", "{p}"]
    said = subprocess.run(command, capture_output=True, text=True, check=True, cwd=TOP).stdout
    lines = [line.split() for line in said.splitlines() if line]
    return {(words[0], words[1].removeprefix("v")) for words in lines}


def purl(package):
    return f"pkg:cargo/{package['name']}@{package['version']}"


def component(package, checksums):
    kind = "application" if package["name"] == PROGRAM else "library"
    about = {"type": kind, "bom-ref": purl(package), "name": package["name"],
             "version": package["version"], "purl": purl(package)}
    if package["license"]:
        # Cargo's older notation of OR.
        about["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    checksum = checksums.get((package["name"], package["version"]))
    if checksum:
        about["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    return about


def main():
    target = sys.argv[1] if len(sys.argv) > 1 else host()
    packages, needs = resolved(target)
    compiled = built(target)
    with open(os.path.join(TOP, "Cargo.lock"), "rb") as file:
        lock = tomllib.load(file)["package"]
    checksums = {(p["name"], p["version"]): p.get("checksum") for p in lock}
    within = sorted((number for number, p in packages.items()
                     if (p["name"], p["version"]) in compiled),
                    key=lambda number: purl(packages[number]))
    (program,) = (number for number in within if packages[number]["name"] == PROGRAM)
    when = datetime.datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", "0")),
                                           datetime.timezone.utc)
    bill = {
        "bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
        "metadata": {"timestamp": when.strftime("%Y-%m-%dT%H:%M:%SZ"),
                     "component": component(packages[program], checksums)},
        "components": [component(packages[number], checksums)
                       for number in within if number != program],
        "dependencies": [{"ref": purl(packages[number]),
                          "dependsOn": sorted({purl(packages[n]) for n in needs[number]
                                               if n in within})}
                         for number in within],
    }
    json.dump(bill, sys.stdout, indent=1)
    print()


main()
