#!/usr/bin/env bash
# `spindles serve` beside other NBD servers: all in one run, on memory, over Unix sockets, with fio; small requests,
# where that is the limit, with a leaner client too (crates/spindles-nbd/examples/load.rs).
#
#   bench/serve.sh            thirteen cells, eight rounds of one second each: about 35 minutes
#   bench/serve.sh --quick    the small requests alone, two short rounds: about a minute
#
# In each round every server does each cell once, in random order, so that what else happens on the
# machine meets all alike. The client has one processor and the server another. Everything is written once
# before, so that no page is missing later. What it prints is explained in docs/guide/comparing.md.
#
# SIZE_MIB, ROUNDS, EACH_MS, SYSTEMS (names, between spaces), CELLS (the same), CLIENT_CPU and SERVER_CPU
# change what is run; SPINDLES and LOAD are the programs; KEEP is a file for the figures of all rounds.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
spindles=${SPINDLES:-$here/../target/dist/spindles}
load=${LOAD:-$here/../target/dist/examples/load}
size_mib=${SIZE_MIB:-128}
rounds=${ROUNDS:-8}
each_ms=${EACH_MS:-1000}
# Operation, size of a request, depth, and the client where that is not fio. 768 KiB are whole rows of four members with parity.
small="randread,4k,1 randwrite,4k,1 randread,4k,32 randwrite,4k,32"
small+=" randread,4k,1,load randwrite,4k,1,load randread,4k,32,load randwrite,4k,32,load"
cells=${CELLS:-"$small randread,128k,8 randwrite,128k,8 randwrite,768k,4 randread,1m,4 randwrite,1m,4"}
if [ "${1:-}" = --quick ]; then
    rounds=${ROUNDS:-2}
    each_ms=${EACH_MS:-300}
    cells=${CELLS:-$small}
elif [ $# -gt 0 ]; then
    echo "usage: bench/serve.sh [--quick]" >&2
    exit 2
fi
cpus=$(nproc)
client_cpu=${CLIENT_CPU:-0}
server_cpu=${SERVER_CPU:-$((cpus > 1 ? 1 : 0))}

for program in "$spindles" "$load" fio nbdkit qemu-nbd qemu-storage-daemon nbdcopy python3 taskset; do
    if ! command -v "$program" >/dev/null; then
        echo "$program is missing: cargo build --profile dist, cargo build --profile dist --package spindles-nbd \
--example load, or apt install fio nbdkit qemu-utils \
qemu-system-common libnbd-bin python3 util-linux" >&2
        exit 1
    fi
done
# What all servers hold together, and half as much again.
needed_kib=$((size_mib * 1024 * 17 * 3 / 2))
free_kib=$(awk '/^MemAvailable/ { print $2 }' /proc/meminfo)
if [ "$free_kib" -lt "$needed_kib" ]; then
    echo "$((free_kib >> 10)) MiB of memory are free, and $((needed_kib >> 10)) are needed: give SIZE_MIB" >&2
    exit 1
fi

folder=$(mktemp -d --tmpdir=/dev/shm)
declare -A pids
stop() {
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    wait
    rm -rf "$folder"
}
trap stop EXIT
results=${KEEP:-$folder/results}

# Members have room for superblocks, log and checksums besides.
whole=mem:$((size_mib + size_mib / 16 + 16))M
half=mem:$((size_mib / 2 + size_mib / 16 + 16))M
third=mem:$((size_mib / 3 + size_mib / 16 + 16))M
quarter=mem:$((size_mib / 4 + size_mib / 16 + 16))M

ours() {
    exec "$spindles" serve "${@:2}" --nbd "unix:$folder/$1.socket" >/dev/null
}

# Starts the server of that name; it listens at NAME.socket.
start() {
    local name=$1 socket=$folder/$1.socket file=$folder/$1
    case $name in
        mem) ours mem "mem:${size_mib}M" ;;
        raid0) ours "$name" "raid0($quarter,$quarter,$quarter,$quarter)" ;;
        raid0-plain) ours "$name" "raid0($quarter,$quarter,$quarter,$quarter)" --checksum none ;;
        raid1) ours "$name" "raid1($whole,$whole)" ;;
        raid1-plain) ours "$name" "raid1($whole,$whole)" --checksum none ;;
        raid5) ours "$name" "raid5($third,$third,$third,$third)" ;;
        raid5-plain) ours "$name" "raid5($third,$third,$third,$third)" --checksum none ;;
        nbdkit-memory) exec nbdkit -f -U "$socket" memory "${size_mib}M" ;;
        nbdkit-split)
            for part in 0 1 2 3; do truncate -s $((size_mib / 4))M "$file.$part"; done
            exec nbdkit -f -U "$socket" split "$file".{0,1,2,3}
            ;;
        qemu-nbd)
            truncate -s "${size_mib}M" "$file.0"
            exec qemu-nbd -t -k "$socket" -f raw --cache=writeback "$file.0"
            ;;
        qemu-quorum)
            truncate -s "${size_mib}M" "$file.0" "$file.1"
            exec qemu-storage-daemon \
                --blockdev "driver=file,node-name=a,filename=$file.0" \
                --blockdev "driver=file,node-name=b,filename=$file.1" \
                --blockdev driver=quorum,node-name=quorum,vote-threshold=1,read-pattern=fifo,children.0=a,children.1=b \
                --nbd-server "addr.type=unix,addr.path=$socket" \
                --export type=nbd,id=export,node-name=quorum,name=,writable=on
            ;;
    esac
}

systems=${SYSTEMS:-mem raid0 raid0-plain raid1 raid1-plain raid5 raid5-plain nbdkit-memory nbdkit-split qemu-nbd
    qemu-quorum}
head -c "${size_mib}M" /dev/urandom >"$folder/contents"
for name in $systems; do
    # The process itself, so that its time is read and not that of a shell.
    (start "$name" 2>"$folder/$name.said") &
    pids[$name]=$!
    for _ in $(seq 100); do
        [ -S "$folder/$name.socket" ] && break
        sleep 0.05
    done
    if ! nbdcopy "$folder/contents" "nbd+unix:///?socket=$folder/$name.socket"; then
        echo "$name can't be used" >&2
        exit 1
    fi
    taskset -a -c -p "$server_cpu" "${pids[$name]}" >/dev/null
done
rm "$folder/contents"

# Says what is known of a run that failed.
fail() {
    echo "$1: $2 failed" >&2
    cat "$folder/client.said" "$folder/$1.said" >&2 || true
    exit 1
}

# Time of the process in the processor, in ticks.
ticks() { awk '{ sub(/.*\) /, ""); print $12 + $13 }' "/proc/$1/stat"; }
ticks_second=$(getconf CLK_TCK)

# What a client did with a server: operations a second, the server's microseconds in its processor for each, and the
# percent of the client's that it had. `fio` says that of itself, `load` in nanoseconds.
figures() {
    python3 -c '
import json, sys
name, ticks, per_second = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
told = sys.stdin.read()
if name == "load":
    operations, elapsed_ns, processor_ns = map(int, told.split())
    client = 100 * processor_ns / elapsed_ns
else:
    job = json.loads(told[told.index("{"):])["jobs"][0]
    assert job["error"] == 0, "fio failed"
    side = job["read"] if job["read"]["total_ios"] else job["write"]
    operations, elapsed_ns = side["total_ios"], side["runtime"] * 1e6
    client = job["usr_cpu"] + job["sys_cpu"]
if operations == 0:
    sys.exit(0)  # fio with a random generator ends at once now and then, whoever serves.
cpu_us = ticks / per_second * 1e6 / operations
print(operations / elapsed_ns * 1e9, cpu_us, client, sep="\t")
' "$@"
}

# Lets a client work with a server, for one cell.
work() {
    local client=$1 name=$2 operation=$3 bytes=$4 depth=$5
    if [ "$client" = load ]; then
        taskset -c "$client_cpu" "$load" "$folder/$name.socket" "${operation#rand}" \
            "$(numfmt --from=iec "${bytes^^}")" "$depth" "$each_ms"
    else
        taskset -c "$client_cpu" fio --name=x --ioengine=nbd \
            --uri="nbd+unix:///?socket=$folder/$name.socket" --rw="$operation" --bs="$bytes" \
            --iodepth="$depth" --size="${size_mib}M" --time_based --runtime="${each_ms}ms" \
            --randrepeat=0 --norandommap --random_generator=lfsr --output-format=json
    fi
}

: >"$results"
for round in $(seq "$rounds"); do
    for cell in $cells; do
        IFS=, read -r operation bytes depth client <<<"$cell"
        for name in $(shuf -e $systems); do
            measured=
            while [ -z "$measured" ]; do
                before=$(ticks "${pids[$name]}")
                told=$(work "${client:-fio}" "$name" "$operation" "$bytes" "$depth" 2>"$folder/client.said") ||
                    fail "$name" "$cell"
                after=$(ticks "${pids[$name]}")
                measured=$(figures "${client:-fio}" $((after - before)) "$ticks_second" <<<"$told")
            done
            printf '%s\t' "$round" "$cell" "$name" >>"$results"
            echo "$measured" >>"$results"
        done
        printf '\rround %d of %d: %-20s' "$round" "$rounds" "$cell" >&2
    done
done
printf '\r%40s\r' '' >&2
python3 "$here/ratios.py" "$results"
