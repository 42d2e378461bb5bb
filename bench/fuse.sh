#!/usr/bin/env bash
# `spindles serve --fuse` beside nbdfuse over nbdkit: a loop device on each, all in one run, on memory, with fio; and
# beside a file on btrfs raid5 on four loop devices, for random writes. Root may run it. NAME-ring is the array NAME with FUSE
# over io_uring, where the kernel has it; its switch is put back in the end.
#
#   bench/fuse.sh            four cells, eight rounds of one second each: about five minutes
#   bench/fuse.sh --quick    two short rounds: about 20 seconds
#
# In each round every server does each cell once, in random order, so that what else happens on the machine meets all
# alike. Everything is written once before, so that no page is missing later. A ratio is taken in each round by
# itself. Arrays are as `create` makes them, of members in memory; nbdkit has one copy, and no checksums. btrfs has
# four loop devices on files in memory.
#
# SIZE_MIB, ROUNDS, EACH_MS, SYSTEMS (names, between spaces) and CELLS (the same) change what is run; SPINDLES is the
# program; KEEP is a file for the figures of all rounds.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
spindles=${SPINDLES:-$here/../target/dist/spindles}
size_mib=${SIZE_MIB:-128}
rounds=${ROUNDS:-8}
each_ms=${EACH_MS:-1000}
# Operation, size of a request, depth.
cells=${CELLS:-"randread,4k,32 randwrite,4k,32 read,1m,4 write,1m,4"}
if [ "${1:-}" = --quick ]; then
    rounds=${ROUNDS:-2}
    each_ms=${EACH_MS:-300}
elif [ $# -gt 0 ]; then
    echo "usage: bench/fuse.sh [--quick]" >&2
    exit 2
fi
for program in "$spindles" fio nbdkit nbdfuse losetup mkfs.btrfs python3; do
    if ! command -v "$program" >/dev/null; then
        echo "$program is missing: cargo build --profile dist, or apt install fio nbdkit libnbd-bin fuse3 mount btrfs-progs python3" >&2
        exit 1
    fi
done

folder=$(mktemp -d -p /dev/shm)
switch=/sys/module/fuse/parameters/enable_uring
switched=$(cat "$switch" 2>/dev/null || true)
declare -A pids targets
loops=()
stop() {
    if [ -n "$switched" ]; then echo "$switched" >"$switch"; fi
    if mountpoint -q "$folder/btrfs"; then umount "$folder/btrfs"; fi
    for loop in "${loops[@]}"; do losetup --detach "$loop" || true; done
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    wait
    rm -rf "$folder"
}
trap stop EXIT
results=${KEEP:-$folder/results}

# Serves an array of that many members; each has a share of the data, and room for log and checksums besides.
array() {
    local name=$1 level=$2 count=$3 share=$4
    local member=mem:$((size_mib / share + size_mib / 16 + 32))M members=()
    for _ in $(seq "$count"); do members+=("$member"); done
    exec "$spindles" serve "$level($(IFS=,; echo "${members[*]}"))" "${@:5}" --fuse "$folder/$name.file" >/dev/null 2>&1
}

# Starts the server of that name; its file is NAME.file.
start() {
    local name=$1
    case ${name%-ring} in
        mem) exec "$spindles" serve "mem:${size_mib}M" --fuse "$folder/$name.file" >/dev/null 2>&1 ;;
        raid0) array "$name" raid0 4 4 ;;
        raid0-plain) array "$name" raid0 4 4 --checksum none ;;
        raid1) array "$name" raid1 2 1 ;;
        raid5) array "$name" raid5 4 3 ;;
        raid5-plain) array "$name" raid5 4 3 --checksum none ;;
        nbdkit-memory)
            nbdkit -f -U "$folder/$name.socket" --exit-with-parent memory "${size_mib}M" &
            until [ -S "$folder/$name.socket" ]; do sleep 0.05; done
            touch "$folder/$name.file"
            nbdfuse "$folder/$name.file" "nbd+unix:///?socket=$folder/$name.socket" &
            # When it is told to end, both end.
            trap 'kill %1 %2 2>/dev/null; wait' TERM
            wait
            ;;
    esac
}

# A file system of the kernel's that keeps what it promises, as an array does.
btrfs() {
    local members=() loop
    for member in $(seq 4); do
        truncate -s $((size_mib / 2 + 256))M "$folder/btrfs.$member"
        loop=$(losetup --find --show --direct-io=on "$folder/btrfs.$member")
        loops+=("$loop")
        members+=("$loop")
    done
    mkfs.btrfs -q -f -d raid5 -m raid1 "${members[@]}" >/dev/null 2>&1
    mkdir "$folder/btrfs"
    mount "${members[0]}" "$folder/btrfs"
    targets[btrfs-raid5]=$folder/btrfs/file
}

rings=
if [ -n "$switched" ]; then rings="mem-ring raid0-ring raid0-plain-ring raid1-ring raid5-ring raid5-plain-ring"; fi
systems=${SYSTEMS:-mem raid0 raid0-plain raid1 raid5 raid5-plain $rings nbdkit-memory btrfs-raid5}
for name in $systems; do
    if [ "$name" = btrfs-raid5 ]; then
        btrfs
        dd if=/dev/urandom of="${targets[$name]}" bs=1M count="$size_mib" oflag=direct 2>/dev/null
        continue
    fi
    if [ -n "$switched" ]; then
        case $name in *-ring) echo 1 ;; *) echo 0 ;; esac >"$switch"
    fi
    (start "$name") &
    pids[$name]=$!
    for _ in $(seq 200); do
        [ "$(stat -c %s "$folder/$name.file" 2>/dev/null)" -gt 0 ] 2>/dev/null && break
        sleep 0.05
    done
    targets[$name]=$(losetup --find --show --direct-io=on --sector-size 4096 "$folder/$name.file")
    loops+=("${targets[$name]}")
    dd if=/dev/urandom of="${targets[$name]}" bs=1M count="$size_mib" oflag=direct 2>/dev/null
done

# Processes of a server: itself, and those it started.
family() { echo "$1"; pgrep -P "$1" | while read -r child; do family "$child"; done; }
# Time of those in the processor, in ticks. Nobody knows that of the kernel's own threads.
ticks() {
    [ -n "$1" ] || { echo 0; return; }
    for pid in $(family "$1"); do
        awk '{ sub(/.*\) /, ""); print $12 + $13 }' "/proc/$pid/stat"
    done | awk '{ sum += $1 } END { print sum + 0 }'
}
ticks_second=$(getconf CLK_TCK)

: >"$results"
for round in $(seq "$rounds"); do
    for cell in $cells; do
        IFS=, read -r operation bytes depth <<<"$cell"
        for name in $(shuf -e $systems); do
            # It is compared for what parity costs.
            if [ "$name" = btrfs-raid5 ] && [ "$operation" != randwrite ]; then continue; fi
            before=$(ticks "${pids[$name]:-}")
            told=$(fio --name=x --ioengine=io_uring --filename="${targets[$name]}" --direct=1 --rw="$operation" \
                --bs="$bytes" --iodepth="$depth" --size="${size_mib}M" --time_based --runtime="${each_ms}ms" \
                --randrepeat=0 --norandommap --random_generator=lfsr --output-format=json 2>/dev/null)
            after=$(ticks "${pids[$name]:-}")
            # Operations, microseconds of the server for each, and the client's share of a processor.
            python3 -c '
import json, sys
told = sys.stdin.read()
job = json.loads(told[told.index("{"):])["jobs"][0]
assert job["error"] == 0, "fio failed"
side = job["read"] if job["read"]["total_ios"] else job["write"]
ticks, per_second = float(sys.argv[4]), float(sys.argv[5])
rate = side["total_ios"] * 1000 / side["runtime"]
cpu_us = ticks / per_second * 1e6 / side["total_ios"]
print(*sys.argv[1:4], rate, cpu_us, job["usr_cpu"] + job["sys_cpu"], sep="\t")
' "$round" "$cell" "$name" $((after - before)) "$ticks_second" <<<"$told" >>"$results"
        done
        printf '\rround %d of %d: %-20s' "$round" "$rounds" "$cell" >&2
    done
done
printf '\r%40s\r' '' >&2
python3 "$here/ratios.py" "$results"
