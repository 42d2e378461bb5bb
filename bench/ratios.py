#!/usr/bin/env python3
"""Tables of what bench/serve.sh measured: a row per server, with its ratio to the best of the others.

Each line of the file: round, cell, server, operations per second, microseconds of the server's processor per
operation, percent of the client's. A ratio is taken in each round by itself; what is shown is the geometric mean
of the rounds, and the 95 % interval of Student's t over their logarithms. The best of the others is the one with
the highest median in the cell: chosen after the fact, which is to our disadvantage.
"""

import math
import statistics
import sys
from collections import defaultdict

OTHERS = ("nbdkit-", "qemu-")
# Of 95 %, two-sided, for 1, 2, .. degrees of freedom.
STUDENT = [12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13]


def ratio(ours, theirs):
    """The mean of the rounds, and its interval."""
    rounds = sorted(ours.keys() & theirs.keys())
    logs = [math.log(ours[it] / theirs[it]) for it in rounds]
    mean = statistics.fmean(logs)
    if len(logs) < 2:
        return f"{math.exp(mean):.2f}"
    student = STUDENT[min(len(logs) - 1, len(STUDENT)) - 1]
    half = student * statistics.stdev(logs) / math.sqrt(len(logs))
    return f"{math.exp(mean):.2f} [{math.exp(mean - half):.2f}, {math.exp(mean + half):.2f}]"


def title(cell):
    """What was done, and where that was not fio, by which client."""
    operation, size, depth, *client = cell.split(",")
    return ", ".join([operation, size, f"depth {depth}", *client])


def summary(rates):
    """One row per cell: ours by the best other, and rows with parity by the mirror of QEMU too."""
    ours = sorted({it for servers in rates.values() for it in servers if not it.startswith(OTHERS)})
    pairs = [("raid5", "qemu-quorum"), ("raid5-plain", "qemu-quorum")]
    pairs = [pair for pair in pairs if all(set(pair) <= set(servers) for servers in rates.values())]
    heads = ["cell", "best other", *ours, *(f"{one} ÷ {other}" for one, other in pairs)]
    print("\nOperations per second, as parts of the best other\n")
    print("| " + " | ".join(heads) + " |")
    print("|---" * len(heads) + "|")
    for cell, servers in rates.items():
        medians = {it: statistics.median(servers[it].values()) for it in servers}
        others = [it for it in servers if it.startswith(OTHERS)]
        if not others:
            return
        best = max(others, key=medians.get)
        row = [ratio(servers[it], servers[best]) for it in ours]
        row += [ratio(servers[one], servers[other]) for one, other in pairs]
        print(f"| {title(cell)} | {best} | " + " | ".join(row) + " |")


def main():
    rates = defaultdict(lambda: defaultdict(dict))
    costs = defaultdict(lambda: defaultdict(dict))
    clients = defaultdict(lambda: defaultdict(list))
    for line in open(sys.argv[1], encoding="ascii"):
        number, cell, server, rate, cost, client = line.split("\t")
        rates[cell][server][number] = float(rate)
        costs[cell][server][number] = max(float(cost), 1e-3)
        clients[cell][server].append(float(client))
    for cell, servers in rates.items():
        print(f"\n{title(cell)}\n")
        medians = {server: statistics.median(servers[server].values()) for server in servers}
        others = [server for server in servers if server.startswith(OTHERS)]
        best = max(others, key=medians.get, default=None)
        lean = {server: statistics.median(costs[cell][server].values()) for server in servers}
        leanest = min(others, key=lean.get, default=None)
        print("| server | ops/s | ÷ best other | CPU µs/op | ÷ leanest other | client busy |")
        print("|---|---|---|---|---|---|")
        for server in sorted(servers):
            shown = [f"{medians[server]:.0f}"]
            is_other = server in others
            shown.append("" if is_other or not best else ratio(servers[server], servers[best]))
            shown.append(f"{lean[server]:.1f}")
            shown.append("" if is_other or not leanest else ratio(costs[cell][server], costs[cell][leanest]))
            shown.append(f"{statistics.median(clients[cell][server]):.0f} %")
            mark = " (best)" if server == best else ""
            print(f"| {server}{mark} | " + " | ".join(shown) + " |")
    summary(rates)


main()
