# What the scripts that run inside a guest have in common. The guest's root is the host's, read-only; /tmp is its own.
# SPINDLES is the program, and $folder the folder of the scripts.

set -u
export SPINDLES_SCAN=/tmp/members XDG_RUNTIME_DIR=/run LC_ALL=C
members=/tmp/members
place=/tmp/place
sums=/tmp/sums
server=

. "$folder/words.sh"

# Members of different sizes, and the array `pool` on them.
make_array() {
    rm -rf "$members" "$place" "$sums"
    mkdir -p "$members" "$place"
    local name
    for name in a:400M b:420M c:460M; do
        truncate -s "${name#*:}" "$members/${name%:*}.img" || fail "no room for members"
    done
    (cd "$members" && "$SPINDLES" create pool 'raid5(a.img,b.img,c.img)' >/tmp/create.out 2>&1) ||
        fail "create: $(cat /tmp/create.out)"
}

# Begins to serve what is given, and waits until programs find it. $address is where.
serve() {
    "$SPINDLES" serve "$@" >/tmp/serve.out 2>/tmp/serve.err &
    server=$!
    local try
    for try in $(seq 1 2400); do
        grep -q 'is served' /tmp/serve.err && break
        kill -0 "$server" 2>/dev/null || return 1
        sleep 0.05
    done
    address=$(sed -n 's/.* is served[^:]*: //p' /tmp/serve.err | head -n 1)
    [ -n "$address" ]
}

# Ends it in order. What it said is in /tmp/serve.err.
stop() {
    kill "$server"
    wait "$server" || fail "the server ended with status $?"
}

kill_server() {
    kill -9 "$server"
    wait "$server" 2>/dev/null
}

make_file_system() {
    case $1 in
        ext4) mkfs.ext4 -q "$2" ;;
        xfs) mkfs.xfs -q -f "$2" ;;
        btrfs) mkfs.btrfs -q -f "$2" >/dev/null 2>&1 ;;
    esac || fail "mkfs.$1 $2"
}

check_file_system() {
    case $1 in
        ext4) fsck.ext4 -fn "$2" ;;
        xfs) xfs_repair -n "$2" ;;
        btrfs) btrfs check "$2" ;;
    esac >/tmp/fsck.out 2>&1 || fail "fsck.$1 $2: $(tail -n 5 /tmp/fsck.out)"
}

# Writes files, with some fsyncs, until there are $1 or /tmp/enough is there; each is noted in $sums when it is closed.
# Later ones take the names of earlier ones.
write_files() {
    rm -f /tmp/enough
    python3 - "$place" "$sums" "$1" <<'P'
import hashlib, os, random, sys
place, sums, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
chance = random.Random(7)
with open(sums, 'a') as noted:
    for number in range(count):
        if os.path.exists('/tmp/enough'):
            break
        folder = f'{place}/{number % 40}'
        os.makedirs(folder, exist_ok=True)
        data = chance.randbytes(chance.choice([0, 100, 4096, 20000, 60000, 300000 if number % 50 == 0 else 9000]))
        path = f'{folder}/{number % 3500}'
        with open(path, 'wb') as file:
            file.write(data)
            if chance.random() < 0.02:
                file.flush()
                os.fsync(file.fileno())
        print(hashlib.sha256(data).hexdigest() + '  ' + path, file=noted, flush=True)
P
}

# What was noted last of each file is what it holds. Prints how many there are.
verify_files() {
    tac "$sums" | awk '!seen[$2]++' >/tmp/last
    sha256sum --quiet -c /tmp/last >/tmp/verify.out 2>&1 || fail "files differ: $(head -n 5 /tmp/verify.out)"
    wc -l </tmp/last
}

# Mounts, verifies, unmounts and checks: not from any cache.
verify_anew() {
    umount "$place" || fail "umount"
    check_file_system "$1" "$2"
    mount "$2" "$place" || fail "mount again"
    verify_files >/dev/null
}
