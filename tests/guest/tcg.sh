# Runs inside an emulated machine with Debian's kernel, as root, in a shell of busybox: an array of the machine's disks is served
# to the kernel's own NBD client, with file systems on it. `cargo xtask fleet guest-tcg` starts it. Says what it did, and ends
# with 0 if all of it held.
#
# $DISKS are the disks; /share holds the program, and libraries of its.

cd /tmp || exit 1
export XDG_RUNTIME_DIR=/run LC_ALL=C LD_LIBRARY_PATH=/share/lib
spindles=/share/spindles
place=/mnt
server=

. /share/words.sh

# Begins to serve, and attaches the kernel's client: /dev/nbd0.
serve() {
    $spindles serve pool --nbd unix:/run/pool.sock >/tmp/serve.out 2>/tmp/serve.err &
    server=$!
    tries=0
    until grep -q 'is served' /tmp/serve.err; do
        tries=$((tries + 1))
        kill -0 $server 2>/dev/null && [ $tries -lt 1200 ] || fail "it is not served"
        usleep 50000
    done
    nbd-client -unix /run/pool.sock /dev/nbd0 -name pool -block-size 4096 >/tmp/client.out 2>&1 ||
        fail "$(cat /tmp/client.out)"
}

stop() {
    nbd-client -d /dev/nbd0 >/dev/null
    kill $server
    wait $server || fail "the server ended with status $?"
}

# Files of many lengths, and their sums.
write_files() {
    seed=0
    while [ $seed -lt 300 ]; do
        mkdir -p $place/$((seed % 20))
        dd if=/dev/urandom of=$place/$((seed % 20))/$seed bs=1000 count=$((seed * seed % 97)) 2>/dev/null || fail "write $seed"
        seed=$((seed + 1))
    done
    (cd $place && find . -type f -exec sha256sum {} + >/tmp/sums) || fail "sums"
}

# Mounts it anew: nothing comes from a cache.
verify_files() {
    umount $place || fail "umount"
    case $1 in
        ext4) e2fsck -fn /dev/nbd0 ;;
        xfs) xfs_repair -n /dev/nbd0 ;;
        btrfs) btrfs check /dev/nbd0 ;;
    esac >/tmp/fsck.out 2>&1 || fail "fsck.$1: $(tail -n 5 /tmp/fsck.out)"
    mount -t "$1" /dev/nbd0 $place || fail "mount $1 again"
    (cd $place && sha256sum -c -s /tmp/sums) || fail "files differ"
}

for module in nbd ext4 xfs btrfs; do
    modprobe $module || fail "modprobe $module"
done
say "Linux $(uname -r), $($spindles --version), $(mdadm --version 2>&1)"
# shellcheck disable=SC2086 # A word each.
set -- $DISKS
[ $# = 3 ] || fail "disks: $DISKS"
$spindles create pool "raid5($1,$2,$3)" >/tmp/create.out 2>&1 || fail "create: $(cat /tmp/create.out)"
for kind in ext4 xfs btrfs; do
    serve
    case $kind in
        ext4) mkfs.ext4 -q /dev/nbd0 ;;
        xfs) mkfs.xfs -q -f /dev/nbd0 ;;
        btrfs) mkfs.btrfs -q -f /dev/nbd0 ;;
    esac >/tmp/mkfs.out 2>&1 || fail "mkfs.$kind: $(cat /tmp/mkfs.out)"
    mount -t $kind /dev/nbd0 $place || fail "mount $kind"
    if [ $kind = ext4 ]; then
        say "$($spindles status pool | sed -n 's/^ *//; /sandbox/p')"
        # One without a member, which comes back by what it missed.
        $spindles fail "$3" pool >/tmp/fail.out 2>&1 || fail "$(cat /tmp/fail.out)"
    fi
    write_files
    verify_files $kind
    if [ $kind = ext4 ]; then
        $spindles add "$3" pool >/tmp/add.out 2>&1 || fail "$(cat /tmp/add.out)"
        $spindles rebuild pool >/tmp/rebuild.out 2>&1
        $spindles status pool | grep -q healthy || fail "$($spindles status pool)"
    fi
    umount $place
    stop
    serve
    mount -t $kind /dev/nbd0 $place || fail "mount $kind after serving again"
    verify_files $kind
    umount $place
    stop
    $spindles scrub pool >/tmp/scrub.out 2>&1 || fail "scrub: $(cat /tmp/scrub.out)"
    say "ok $kind on the kernel's NBD client: $(wc -l </tmp/sums) files are as they were written, after mounting and serving" \
        "again; fsck and scrub find nothing ($(cut -d. -f1 /proc/uptime) s)"
done
# Debian's mdadm would leave the disks alone.
mdadm --examine "$1" >/tmp/examine.out 2>&1 && fail "mdadm takes $1 for a member: $(cat /tmp/examine.out)"
say "all held"
