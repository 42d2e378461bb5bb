#!/usr/bin/env python3
"""Our bonnie++ beside Debian's bonnie++ and fio, interleaved on one folder: do the figures agree?

    bench/originals.py FOLDER [--rounds N] [--mib N] [--memory N]

In each round every program runs once, in random order, on a fresh file in FOLDER. The block phases are compared: bonnie++'s
block output, rewrite, block input and seeks, and fio's writes (with an fsync at the end) and reads of 8 KiB through
psync. A ratio is taken in each round by itself; shown is the geometric mean with its 95 % interval (Student's t over the
logarithms). Figures agree where the interval lies inside 0.95 .. 1.05; they differ where it lies outside of 1; otherwise it is
NOT RESOLVED: more rounds, a larger size or a quieter machine are needed.

The classic tools ask for files of twice the memory, so that a disk answers and not the page cache. `--memory N` gives each
program so many MiB of memory, for its page cache too (a control group, which takes root): `--memory 1024 --mib 4096`.

Needs bonnie++ and fio (apt install bonnie++ fio) and target/dist/spindles, or what SPINDLES says.
"""

import argparse
import atexit
import json
import math
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

# Of 95 %, two-sided, for 1, 2, .. degrees of freedom.
STUDENT = [12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13]
PHASES = {"block-write": "bonnie++", "rewrite": "bonnie++", "block-read": "bonnie++", "seeks": "bonnie++"}
FIO = {"write": "block-write", "read": "block-read"}


class Group:
    """A control group with so much memory, of version 1 or 2."""

    def __init__(self, mib):
        root = Path("/sys/fs/cgroup")
        root = root / "memory" if (root / "memory").is_dir() else root
        self.path = root / f"spindles-originals-{os.getpid()}"
        try:
            self.path.mkdir()
            limits = [self.path / name for name in ("memory.limit_in_bytes", "memory.max")]
            next(limit for limit in limits if limit.exists()).write_text(str(mib << 20))
        except (OSError, StopIteration) as error:
            sys.exit(f"--memory takes root and a control group with a limit on memory: {error or self.path}")

    def join(self):
        (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def remove(self):
        self.path.rmdir()


# What limits the memory of the programs, if anything does.
GROUP = None


def run(command):
    join = GROUP.join if GROUP else None
    done = subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=join)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def ours(spindles, folder, mib):
    """Rates of our phases: bytes or seeks per second."""
    command = [spindles, "bench", "bonnie++", f"folder:{folder}", "--runs", "1", "--keep-caches", "--json"]
    command += ["--set", f"size={mib}M", "--set", "files=0"]
    cells = json.loads(run(command))["report"]["cells"]
    return {cell["workload"].split()[-1]: cell["median"] for cell in cells}


def theirs(folder, mib):
    """The same of bonnie++, whose last line is its CSV."""
    user = ["-u", "root"] if os.geteuid() == 0 else []
    said = run(["bonnie++", "-d", folder, "-s", f"{mib}:8k", "-r", "0", "-n", "0", "-q", *user])
    fields = said.strip().splitlines()[-1].split(",")
    # format,version,name,concurrency,seed,size,chunk,seeks,seekers, then value,cpu of putc, put_block, rewrite, ..
    columns = {"block-write": 11, "rewrite": 13, "block-read": 17, "seeks": 19}
    rates = {}
    for phase, column in columns.items():
        text = fields[column]
        if text.replace(".", "", 1).isdigit():
            rates[phase] = float(text) * (1 if phase == "seeks" else 1024)
    return rates


def fio(folder, mib):
    """The same of fio in Bonnie's order: writes with an fsync at the end, reads beside writes, then reads."""
    rates = {}
    path = os.path.join(folder, "fio.file")
    # Bonnie's file was read and written again before it is read, and what is in memory then decides how fast that is: a file
    # that was just written is read at half the rate, and a second time faster. No `fadvise_hint`: fio else tells the kernel
    # that it reads in order, which doubles what is read ahead, and Bonnie never did.
    for operation in ("write", "rw", "read"):
        command = ["fio", "--name=x", f"--filename={path}", f"--rw={operation}", "--bs=8k", f"--size={mib}m"]
        command += ["--ioengine=psync", "--output-format=json", "--invalidate=0", "--fallocate=none"]
        command += ["--fadvise_hint=0"]
        command += {"write": ["--end_fsync=1"], "rw": ["--end_fsync=1", f"--io_size={2 * mib}m"], "read": []}[operation]
        if operation == "rw":
            run(command)
            continue
        job = json.loads(run(command))["jobs"][0]
        milliseconds = job["job_runtime"] if operation == "write" else job["read"]["runtime"]
        rates[FIO[operation]] = job[operation]["io_bytes"] * 1000 / max(milliseconds, 1)
    os.unlink(path)
    return rates


def ratio(pairs):
    """The mean of the rounds, and its interval."""
    logs = [math.log(one / other) for one, other in pairs]
    mean = statistics.fmean(logs)
    if len(logs) < 2:
        return math.exp(mean), 0.0, math.inf
    student = STUDENT[min(len(logs) - 1, len(STUDENT)) - 1]
    half = student * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


def verdict(low, high):
    if low >= 0.95 and high <= 1.05:
        return "agrees"
    if low > 1 or high < 1:
        return "differs"
    return "not resolved"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--mib", type=int, default=4096)
    parser.add_argument("--memory", type=int, metavar="MIB", default=0)
    arguments = parser.parse_args()
    release = Path(__file__).parent / "../target/dist/spindles"
    spindles = os.environ.get("SPINDLES", str(release))
    for program in (spindles, "bonnie++", "fio"):
        if shutil.which(program) is None:
            sys.exit(f"{program} is missing: cargo build --profile dist, or apt install bonnie++ fio")
    programs = {
        "ours": lambda folder: ours(spindles, folder, arguments.mib),
        "bonnie++": lambda folder: theirs(folder, arguments.mib),
        "fio": lambda folder: fio(folder, arguments.mib),
    }
    if arguments.memory:
        global GROUP
        GROUP = Group(arguments.memory)
        atexit.register(GROUP.remove)
    rates = defaultdict(list)
    for number in range(arguments.rounds):
        for program in random.sample(sorted(programs), len(programs)):
            with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
                rates[program].append(programs[program](folder))
            os.sync()
        print(f"round {number + 1} of {arguments.rounds}", file=sys.stderr)
    memory = f" with {arguments.memory} MiB of memory" if arguments.memory else ""
    print(f"{arguments.mib} MiB{memory}, {arguments.rounds} rounds; ours divided by the other\n")
    print("| phase | other | ours | theirs | ratio | 95 % interval | |")
    print("|---|---|---|---|---|---|---|")
    for other, phases in (("bonnie++", PHASES), ("fio", FIO.values())):
        for phase in phases:
            pairs = [
                (mine[phase], its[phase])
                for mine, its in zip(rates["ours"], rates[other])
                if phase in its
            ]
            if not pairs:
                print(f"| {phase} | {other} | | too short for it: take a larger size | | | not resolved |")
                continue
            mean, low, high = ratio(pairs)
            medians = [statistics.median(side) / (1 if phase == "seeks" else 2**20) for side in zip(*pairs)]
            unit = "/s" if phase == "seeks" else " MiB/s"
            shown = [f"{median:.0f}{unit}" for median in medians]
            print(f"| {phase} | {other} | {shown[0]} | {shown[1]} | {mean:.3f} | {low:.3f} .. {high:.3f} | {verdict(low, high)} |")


main()
