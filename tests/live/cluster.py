#!/usr/bin/env python3
# time-limit: 600
"""The examples that run parts of a search on a cluster: the Kubernetes Job has only fields
that a Job has, the Slurm array only directives that sbatch knows; what a pod and a task of
each run is run here, part by part, and merged it is what one search says."""
import json
import os
import re
import subprocess
import sys
import tempfile

from rig import TOP, binary

EXAMPLES = os.path.join(TOP, "examples")
SEEDS = 12
FERRULE = binary()

# Fields of batch/v1 Job (Kubernetes 1.24 and later), as deep as the example goes.
QUANTITIES = {"cpu": str, "memory": str}
SECURITY = {"runAsNonRoot": bool, "runAsUser": int, "seccompProfile": {"type": str},
            "allowPrivilegeEscalation": bool, "readOnlyRootFilesystem": bool,
            "capabilities": {"drop": [str], "add": [str]}}
CONTAINER = {"name": str, "image": str, "imagePullPolicy": str, "command": [str], "args": [str],
             "resources": {"requests": QUANTITIES, "limits": QUANTITIES},
             "securityContext": SECURITY, "volumeMounts": [{"name": str, "mountPath": str}],
             "env": [{"name": str, "value": str}]}
JOB = {"apiVersion": str, "kind": str, "metadata": {"name": str, "labels": dict},
       "spec": {"completionMode": str, "completions": int, "parallelism": int,
                "backoffLimit": int, "activeDeadlineSeconds": int,
                "template": {"metadata": {"labels": dict},
                             "spec": {"restartPolicy": str, "automountServiceAccountToken": bool,
                                      "securityContext": SECURITY, "containers": [CONTAINER],
                                      "volumes": [{"name": str, "emptyDir": dict}]}}}}
DIRECTIVES = {"job-name", "array", "ntasks", "cpus-per-task", "mem", "time", "output"}


def fits(value, shape, place):
    """Every field is one of the shape's, and of its type."""
    if isinstance(shape, dict):
        assert isinstance(value, dict), place
        for field, inner in value.items():
            assert field in shape, f"{place}.{field} is no field"
            fits(inner, shape[field], f"{place}.{field}")
    elif isinstance(shape, list):
        assert isinstance(value, list), place
        for at, inner in enumerate(value):
            fits(inner, shape[0], f"{place}[{at}]")
    else:
        assert isinstance(value, shape) and (shape is int or not isinstance(value, bool)
                                             or shape is bool), f"{place}: {value!r}"


def ferrule(*words):
    done = subprocess.run([FERRULE, *words], capture_output=True, text=True, timeout=300,
                          check=False)
    assert done.returncode == 0, f"{words}: {done.returncode} {done.stdout} {done.stderr}"
    return done.stdout


def few(text):
    """The same with as many seeds as a test has time for."""
    text, count = re.subn(r"--seeds \d+", f"--seeds {SEEDS}", text)
    assert count == 1, text
    return text


def environment(folder, **more):
    """With the program that is tested first in the path."""
    os.makedirs(f"{folder}/bin", exist_ok=True)
    if not os.path.exists(f"{folder}/bin/ferrule"):
        os.symlink(os.path.abspath(FERRULE), f"{folder}/bin/ferrule")
    return {**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}", **more}


def kubernetes(folder):
    """The files of all pods."""
    with open(f"{EXAMPLES}/kubernetes-job.yaml") as file:
        job = yaml.safe_load(file)
    fits(job, JOB, "Job")
    assert (job["apiVersion"], job["kind"]) == ("batch/v1", "Job")
    spec = job["spec"]
    assert spec["completionMode"] == "Indexed"
    [container] = spec["template"]["spec"]["containers"]
    [words] = container["args"]
    files = []
    for index in range(spec["completions"]):
        done = subprocess.run([*container["command"], few(words)], capture_output=True, text=True,
                              env=environment(folder, JOB_COMPLETION_INDEX=str(index)),
                              cwd=folder, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        files.append(f"{folder}/pod-{index}.json")
        with open(files[-1], "w") as file:
            file.write(done.stdout)
    return files


def slurm(folder):
    """The files of all tasks."""
    path = f"{EXAMPLES}/slurm-array.sh"
    subprocess.run(["bash", "-n", path], check=True)
    with open(path) as file:
        text = file.read()
    found = dict(re.findall(r"^#SBATCH --([a-z-]+)=(\S+)$", text, re.M))
    assert len(found) == text.count("\n#SBATCH") and set(found) <= DIRECTIVES, found
    first, last = map(int, re.fullmatch(r"(\d+)-(\d+)", found["array"]).groups())
    assert first == 0 and re.fullmatch(r"\d\d:\d\d:\d\d", found["time"])
    for index in range(last + 1):
        more = {"SLURM_ARRAY_TASK_ID": str(index), "SLURM_ARRAY_TASK_COUNT": str(last + 1),
                "SLURM_CPUS_PER_TASK": found["cpus-per-task"]}
        done = subprocess.run(["bash", "-c", few(text)], capture_output=True, text=True,
                              env=environment(folder, **more), cwd=folder, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
    return [f"{folder}/ferrule-search-{index}.json" for index in range(last + 1)]


def main():
    whole = ferrule("lab", "run", "ten-nodes", "--check", "--seeds", str(SEEDS), "--json")
    assert json.loads(whole)["score"]["seeds"] == SEEDS
    for run in (kubernetes, slurm):
        with tempfile.TemporaryDirectory() as folder:
            merged = ferrule("merge", *run(folder), "--json")
        assert merged == whole, f"{run.__name__}: {merged}"
        print(f"{run.__name__}: merged, the parts are what one search says")


if __name__ == "__main__":
    try:
        import yaml
    except ImportError:
        print("needs python3-yaml")
        sys.exit(77)
    main()
