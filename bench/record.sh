#!/usr/bin/env bash
# The throughput of a served array while `trace record` runs, beside the same without it: 4 KiB requests over NBD with
# fio, on members in memory. Each round does both, in random order, so that what else happens on the machine meets both
# alike. A ratio is taken in each round by itself.
#
#   bench/record.sh            twelve rounds of two seconds each: about two minutes
#
# ROUNDS, SECONDS_EACH and TARGET (an array on memory) change what is run; SPINDLES is the program.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
spindles=${SPINDLES:-$here/../target/release/spindles}
rounds=${ROUNDS:-12}
each_s=${SECONDS_EACH:-2}
for program in "$spindles" fio python3; do
    if ! command -v "$program" >/dev/null; then
        echo "$program is missing: cargo build --release, or apt install fio python3" >&2
        exit 1
    fi
done

folder=$(mktemp -d -p /dev/shm)
server=
end() {
    if [ -n "$server" ]; then kill "$server" && wait "$server" || true; fi
    rm -rf "$folder"
}
trap end EXIT
for member in a b c; do truncate -s 256M "$folder/$member"; done
name=record-$$
"$spindles" create "$name" "raid5($folder/a,$folder/b,$folder/c)" >"$folder/create.log" 2>&1
"$spindles" serve "$folder/a" "$folder/b" "$folder/c" --nbd "unix:$folder/socket" >"$folder/serve.log" 2>&1 &
server=$!
until grep -q "is served" "$folder/serve.log"; do sleep 0.05; done
uri="nbd+unix:///$name?socket=$folder/socket"

# Prints requests a second.
work() {
    fio --name=w --ioengine=nbd --uri="$uri" --rw="$1" --bs=4k --iodepth=32 --size=256M --time_based \
        --runtime="$each_s" --output-format=json >"$folder/fio.json"
    python3 -c 'import json,sys
text = open(sys.argv[1]).read()
job = json.loads(text[text.index("{"):])["jobs"][0]
print(job["read"]["iops"] + job["write"]["iops"])' "$folder/fio.json"
}
with_record() {
    "$spindles" trace record "$folder/a" "$folder/b" "$folder/c" --out "$folder/trace" --force --seconds 600 \
        >"$folder/record.log" 2>&1 &
    local recorder=$!
    until grep -q "is recorded" "$folder/record.log"; do sleep 0.02; done
    work "$1"
    kill -INT "$recorder"
    wait "$recorder" || cat "$folder/record.log" >&2
    grep -h "missing" "$folder/record.log" >&2 || true
}
fio --name=fill --ioengine=nbd --uri="$uri" --rw=write --bs=1M --size=256M >"$folder/fill.log"
for kind in randread randwrite; do
    : >"$folder/$kind"
    for _ in $(seq "$rounds"); do
        if [ $((RANDOM % 2)) = 0 ]; then
            without=$(work $kind)
            with=$(with_record $kind)
        else
            with=$(with_record $kind)
            without=$(work $kind)
        fi
        echo "$without $with" >>"$folder/$kind"
    done
    python3 - "$kind" "$folder/$kind" <<'PYTHON'
import math, statistics, sys
pairs = [tuple(map(float, line.split())) for line in open(sys.argv[2])]
logs = [math.log(on / off) for off, on in pairs]
middle, error = statistics.mean(logs), statistics.stdev(logs) / math.sqrt(len(logs))
off = statistics.median(off for off, _ in pairs)
print(f"{sys.argv[1]}: {off:.0f} requests/s without, recorded {math.exp(middle):.4f} as fast, "
      f"median {math.exp(statistics.median(logs)):.4f}, standard error {error:.4f}, {len(logs)} rounds")
PYTHON
done
