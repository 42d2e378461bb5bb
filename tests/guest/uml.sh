#!/bin/bash
# Runs inside a user-mode kernel as root: arrays served to that kernel itself, as ublk devices, to its NBD client, and as a
# file under its loop device, with file systems on them. `cargo xtask fleet guest-uml` starts it. Says what it did, and
# ends with 0 if all of it held.
#
# $1: the folder of this script; the other arguments are what to run, or nothing for all of it.

folder=$1
shift
. "$folder/common.sh"

# All threads of the server have given up what they do not need, as far as this kernel has that, and `status` says so.
is_confined() {
    local told task name rights
    told=$("$SPINDLES" status pool | sed -n 's/^ *sandbox of the server: //p')
    for task in /proc/"$server"/task/*; do
        # One that has ended meanwhile has no rights.
        name=$(cat "$task/comm" 2>/dev/null) && rights=$(cat "$task/status" 2>/dev/null) || continue
        # Of a ring: it has the rights of whoever asks, each time.
        case $name in iou-*) continue ;; esac
        grep -q '^NoNewPrivs:[[:space:]]*1$' <<<"$rights" && grep -q '^CapPrm:[[:space:]]*0*$' <<<"$rights" &&
            grep -q '^Seccomp:[[:space:]]*2$' <<<"$rights" || fail "$name: $rights"
    done
    case $told in
        # Not every kernel has that.
        'no new privileges, no capabilities, '*'seccomp') ;;
        *) fail "the sandbox is: $told" ;;
    esac
    say "all threads of the server with $1 have: $told"
}

ublk_says_what_it_is() {
    make_array
    serve pool --ublk auto || fail "ublk"
    [ "$address" = /dev/ublkb0 ] || fail "the device is $address"
    local queue=/sys/block/ublkb0/queue
    say "$address: blocks of $(cat $queue/logical_block_size), cache $(cat $queue/write_cache), FUA $(cat $queue/fua)," \
        "requests up to $(cat $queue/max_sectors_kb) KiB, discards up to $(cat $queue/discard_max_bytes) bytes"
    [ "$(cat $queue/logical_block_size)" = 4096 ] && [ "$(cat $queue/write_cache)" = 'write back' ] &&
        [ "$(cat $queue/fua)" = 1 ] && [ "$(cat $queue/max_sectors_kb)" = 1024 ] || fail "the device is something else"
    # PF_MEMALLOC_NOIO and PF_LOCAL_THROTTLE: PR_SET_IO_FLUSHER was taken, by all threads.
    local flags
    for flags in $(awk '{ print $9 }' /proc/"$server"/task/*/stat); do
        [ $((flags & 0x180000)) -eq $((0x180000)) ] || fail "a thread of the server has the flags $flags"
    done
    local locked
    locked=$(awk '/VmLck/ { print $2 }' /proc/"$server"/status)
    [ "$locked" -gt 0 ] || fail "no memory is locked"
    say "the server's threads are I/O flushers, and $locked KiB are locked"
    is_confined --ublk
    "$SPINDLES" add /dev/ublkb0 pool >/tmp/add.out 2>&1 && fail "the array became a member of itself"
    grep -q 'is the array itself' /tmp/add.out || fail "$(cat /tmp/add.out)"
    stop
    [ ! -e /dev/ublkb0 ] && [ ! -e /dev/ublkc0 ] || fail "the device is still there"
    serve pool --ublk 5 --read-only || fail "ublk 5"
    [ "$(blockdev --getro /dev/ublkb5)" = 1 ] || fail "it can be written to"
    dd if=/dev/zero of=/dev/ublkb5 bs=4096 count=1 oflag=direct 2>/dev/null && fail "it was written to"
    stop
}

# A file system of each kind on a device, and what is on it after it was unmounted and mounted again.
ublk_holds_a_file_system() {
    local kind
    for kind in ext4 xfs btrfs; do
        make_array
        serve pool --ublk auto || fail "ublk"
        make_file_system "$kind" "$address"
        mount "$address" "$place" || fail "mount $kind"
        write_files 3000
        verify_anew "$kind" "$address"
        local count
        count=$(verify_files)
        fstrim "$place" || fail "fstrim $kind"
        verify_anew "$kind" "$address"
        umount "$place"
        stop
        serve pool --ublk auto || fail "ublk again"
        mount "$address" "$place" || fail "mount $kind after serving again"
        verify_files >/dev/null
        umount "$place"
        stop
        "$SPINDLES" scrub pool >/tmp/scrub.out 2>&1 || fail "scrub: $(cat /tmp/scrub.out)"
        say "$kind on ublk: $count files are as they were written, after mounting, trimming and serving again; fsck and" \
            "scrub find nothing"
    done
}

ublk_discards() {
    make_array
    serve pool --ublk auto || fail "ublk"
    dd if=/dev/urandom of="$address" bs=1M count=128 oflag=direct 2>/dev/null || fail "dd"
    sync
    local before after
    before=$(du -sk "$members" | cut -f1)
    blkdiscard "$address" || fail "blkdiscard"
    cmp -s -n $((128 << 20)) "$address" /dev/zero || fail "what was discarded is not zeros"
    dd if=/dev/urandom of="$address" bs=1M count=8 oflag=direct 2>/dev/null
    blkdiscard --zeroout --offset 4096 --length 1M "$address" || fail "blkdiscard --zeroout"
    dd if="$address" bs=4096 skip=1 count=256 iflag=direct 2>/dev/null | cmp -s -n $((1 << 20)) - /dev/zero ||
        fail "what was zeroed is not zeros"
    dd if="$address" bs=4096 count=1 iflag=direct 2>/dev/null | cmp -s -n 4096 - /dev/zero && fail "too much was zeroed"
    after=$(du -sk "$members" | cut -f1)
    [ "$after" -lt $((before / 2)) ] || fail "nothing was given back: $before KiB, then $after KiB"
    stop
    say "discards give back: members held $before KiB, then $after KiB"
}

# The server is killed again and again while a file system is written; a member fails meanwhile. $1 is the kind.
ublk_survives_kills() {
    local kind=$1 round writer
    make_array
    serve pool --ublk auto || fail "ublk"
    make_file_system "$kind" "$address"
    mount "$address" "$place" || fail "mount $kind"
    write_files 1000000 &
    writer=$!
    for round in $(seq 1 "${ROUNDS:-8}"); do
        sleep "0.$((RANDOM % 800 + 200))"
        if [ "$round" = 4 ]; then
            "$SPINDLES" fail "$members/c.img" pool >/tmp/fail.out 2>&1 || fail "$(cat /tmp/fail.out)"
            sleep 0.2
        fi
        kill_server
        # Some wait meanwhile.
        sleep "0.$((RANDOM % 400))"
        serve pool --ublk auto || fail "round $round: it is not served again"
        [ "$address" = /dev/ublkb0 ] || fail "round $round: the device is $address"
    done
    sleep 0.5
    touch /tmp/enough
    wait "$writer" || fail "the writer met an error"
    verify_files >/dev/null
    sync
    verify_anew "$kind" "$address"
    say "$kind on ublk: the server was killed $round times, and a member failed meanwhile: all of" \
        "$(wc -l <"$sums") writes of files were done, $(verify_files) files are as they were written last; fsck finds nothing"
    say "$("$SPINDLES" status pool | grep -E 'healthy|degraded|member 2')"
    umount "$place"
    stop
    [ ! -e "$address" ] || fail "the device is still there"
    "$SPINDLES" resync pool >/tmp/scrub.out 2>&1
    "$SPINDLES" scrub pool >/tmp/scrub.out 2>&1 || fail "scrub: $(cat /tmp/scrub.out)"
}

# `spindles stop` does nothing where a file system is mounted, and says where. A server that is stopped by a signal, as for an
# upgrade, leaves its device.
ublk_goes_on_after_a_stop() {
    make_array
    serve pool --ublk 3 || fail "ublk"
    make_file_system ext4 "$address"
    mount "$address" "$place" || fail "mount"
    write_files 1000000 &
    local writer=$!
    sleep 1
    "$SPINDLES" stop pool >/tmp/stop.out 2>&1 && fail "it was stopped while it was in use"
    say "$(cat /tmp/stop.out)"
    grep -q "/dev/ublkb3, which is array 'pool', is in use by .*the file system on $place.* it is served as before.*umount $place" \
        /tmp/stop.out || fail "what it said"
    stop
    say "$(grep 'still open' /tmp/serve.err)"
    grep -q "/dev/ublkb3 is still open, by .*the file system on $place.*--ublk 3 again" /tmp/serve.err || fail "what it said"
    "$SPINDLES" serve pool --ublk 4 >/tmp/other.out 2>&1 && fail "it is served elsewhere"
    say "$(cat /tmp/other.out)"
    grep -q '/dev/ublkb3 waits for this array.*--ublk 3' /tmp/other.out || fail "what it said"
    "$SPINDLES" serve pool --ublk 3 --read-only >/tmp/other.out 2>&1 && fail "it is served for reading only"
    grep -q 'serve without --read-only' /tmp/other.out || fail "$(cat /tmp/other.out)"
    serve pool --ublk 3 || fail "it is not served again"
    sleep 1
    touch /tmp/enough
    wait "$writer" || fail "the writer met an error"
    verify_anew ext4 "$address"
    say "stopped while ext4 was written, and served again: $(verify_files) files are as they were written"
    umount "$place"
    stop
    [ ! -e "$address" ] || fail "the device is still there"
}

# What is gone with its server waits for nobody: whoever has it open gets errors, and the number is free again.
ublk_forgets_what_is_gone() {
    serve mem:64M --ublk 2 || fail "ublk of memory"
    dd if=/dev/zero of="$address" bs=1M count=8 oflag=direct 2>/dev/null || fail "dd"
    kill_server
    sleep 0.5
    serve mem:64M --ublk 2 || fail "the number is not free"
    "$SPINDLES" serve mem:1M --ublk 2 >/tmp/other.out 2>&1 && fail "two have one number"
    grep -q '/dev/ublkb2 is there already' /tmp/other.out || fail "$(cat /tmp/other.out)"
    exec 7<>"$address"
    stop
    exec 7>&-
    grep -q 'was still open, by .*they get errors' /tmp/serve.err || fail "what it said"
    say "memory as a ublk device is gone with its server"
}

# A file system of kind $1 on block device $2, which is the array by way of $3.
holds_a_file_system() {
    make_file_system "$1" "$2"
    mount "$2" "$place" || fail "mount $1"
    write_files 3000
    verify_anew "$1" "$2"
    say "$1 on $3: $(verify_files) files are as they were written, after mounting again; fsck finds nothing"
    umount "$place"
}

nbd_holds_a_file_system() {
    local kind
    for kind in ext4 xfs btrfs; do
        make_array
        serve pool --nbd unix:/tmp/socket || fail "nbd"
        nbd-client -unix /tmp/socket /dev/nbd0 -name pool -block-size 4096 >/tmp/client.out 2>&1 ||
            fail "$(cat /tmp/client.out)"
        [ "$(cat /sys/block/nbd0/queue/write_cache)" = 'write back' ] && [ "$(cat /sys/block/nbd0/queue/fua)" = 1 ] ||
            fail "a flush would not come"
        holds_a_file_system "$kind" /dev/nbd0 "the kernel's NBD client"
        nbd-client -d /dev/nbd0 >/dev/null
        stop
    done
}

# The kernel's client goes on where it waits for another connection and is given one: as no option of nbd-client 3.24 has it.
nbd_goes_on_over_netlink() {
    local round writer client
    client="python3 $folder/attach_nbd.py /tmp/socket pool 1 60 2"
    make_array
    serve pool --nbd unix:/tmp/socket || fail "nbd"
    $client || fail "it can't be attached"
    make_file_system ext4 /dev/nbd1
    mount /dev/nbd1 "$place" || fail "mount"
    write_files 1000000 &
    writer=$!
    for round in $(seq 1 "${ROUNDS:-5}"); do
        sleep "1.$((RANDOM % 800 + 200))"
        kill_server
        serve pool --nbd unix:/tmp/socket || fail "round $round: it is not served again"
        $client --again || fail "round $round: it can't be attached again"
    done
    sleep 3
    touch /tmp/enough
    wait "$writer" || fail "the writer met an error"
    verify_anew ext4 /dev/nbd1
    say "ext4 on the kernel's NBD client, set up over netlink: the server was killed $round times, and all of" \
        "$(wc -l <"$sums") writes of files were done, $(verify_files) files are as they were written last; fsck finds nothing"
    umount "$place"
    nbd-client -d /dev/nbd1 >/dev/null
    stop
}

fuse_holds_a_file_system() {
    local kind device
    for kind in ext4 xfs btrfs; do
        make_array
        serve pool --fuse /tmp/pool.blk || fail "fuse"
        is_confined --fuse
        device=$(losetup --find --show --direct-io=on --sector-size 4096 "$address") || fail "losetup"
        holds_a_file_system "$kind" "$device" "a loop device on the file"
        losetup --detach "$device" || fail "losetup --detach"
        stop
        [ ! -e /tmp/pool.blk ] || fail "the file is still there"
    done
}

# Runs experiment $1 of the lab at scale $2, its members on a file system on a disk. All runs have to go well, and nothing may be
# left mounted, attached or served. The others are what the terminal has to say.
lab_runs() {
    local experiment=$1 scale=$2 disk=/tmp/lab words
    shift 2
    # The lab reads the counters of its servers there.
    ip link set lo up
    mkdir -p "$disk"
    truncate -s 2500M /tmp/lab.img
    mkfs.ext4 -q -F /tmp/lab.img && mount -o loop /tmp/lab.img "$disk" || fail "no disk"
    (cd "$disk" && TMPDIR=$disk "$SPINDLES" lab run "$experiment" --scale "$scale" --seconds 2 --repeat 1 --max-blocks 1 --force \
        --folder "$disk" --out "$disk/results" >/tmp/lab.out 2>&1) || fail "$experiment: $(tail -n 30 /tmp/lab.out)"
    # The first screen shows three doubts only.
    "$SPINDLES" lab report "$disk/results" --all-doubts >>/tmp/lab.out || fail "$experiment: no report"
    for words in "$@"; do
        grep -q "$words" /tmp/lab.out || fail "$experiment does not say '$words': $(cat /tmp/lab.out)"
    done
    say "$experiment: $(grep -c '"record":"run"' "$disk/results/records.jsonl") runs, none failed;" \
        "$(grep -m 1 -o 'through [a-zA-Z ]*' /tmp/lab.out)"
    umount "$disk" || fail "something of it is still in use: $(losetup -a; grep "$disk" /proc/mounts)"
    rm /tmp/lab.img
    [ -z "$(losetup -a)" ] && ! ls /dev/ublkb* >/dev/null 2>&1 || fail "devices are left: $(losetup -a; ls /dev/ublkb*)"
}

lab_measures_ublk_and_btrfs() {
    lab_runs kernel-peers 0.02 'ublk (single' 'btrfs raid5'
}

# Kernel RAID by mdadm, of the recipe.
lab_measures_md() {
    lab_runs "$folder/../../experiments/recipes/mdadm.toml" 0.05 'md raid1' 'md raid5'
    grep -q 'active' /proc/mdstat && fail "arrays are left: $(cat /proc/mdstat)"
}

# The same of LVM, which has no udev here and writes to where its configuration is.
lab_measures_lvm() {
    cp -r /etc/lvm /tmp/lvm || fail "no LVM here"
    DM_DISABLE_UDEV=1 LVM_SYSTEM_DIR=/tmp/lvm lab_runs "$folder/../../experiments/recipes/lvm.toml" 0.05 'lvm stripe' 'lvm raid5'
    [ -z "$(LVM_SYSTEM_DIR=/tmp/lvm vgs --noheadings 2>/dev/null)" ] || fail "volume groups are left"
}

all="ublk_says_what_it_is ublk_holds_a_file_system ublk_discards ublk_survives_kills:ext4 ublk_survives_kills:xfs
    ublk_survives_kills:btrfs ublk_goes_on_after_a_stop ublk_forgets_what_is_gone nbd_holds_a_file_system
    nbd_goes_on_over_netlink fuse_holds_a_file_system lab_measures_ublk_and_btrfs lab_measures_md lab_measures_lvm"

say "Linux $(uname -r), $("$SPINDLES" --version)"
for each in ${*:-$all}; do
    begun=$(date +%s)
    "${each%%:*}" "${each#*:}"
    say "ok $each ($(($(date +%s) - begun)) s)"
done
say "all held"
