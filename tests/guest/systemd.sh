#!/bin/bash
# Runs as a service of the systemd of a guest: our package is installed, and its units do what docs/guide/administration.md says
# that they do, over restarts of the machine. `cargo xtask fleet systemd` starts it. Says what it did, and shows what an
# administrator sees; ends the machine.
#
# /root/guest holds the package and the other scripts. /dev/ubdb and /dev/ubdc are disks; the third is a loop device, which
# comes and goes.

folder=/root/guest
. "$folder/words.sh"
export LC_ALL=C SYSTEMD_COLORS=0 SYSTEMD_PAGER=cat COLUMNS=150 SPINDLES_SCAN=/dev/spindles
unit=spindles-serve@pool.service
scrub=spindles-scrub@pool
socket=/run/spindles-serve/pool.sock
late=/dev/loop0
place=/mnt
events=/var/log/array-events
# What was there before the machine was started again.
kept=/var/lib/guest

# Whatever ends this script ends the machine, and says how it went to whoever started it.
trap 'status=$?; [ -e /run/rebooting ] || { echo "@@RC=$status"; systemctl poweroff --no-block; }' EXIT

show() {
    say "\$ $*"
    "$@" 2>&1 | sed 's/^/guest:     /'
}

journal() {
    journalctl --no-pager --output=cat "$@"
}

property() {
    systemctl show --property "$2" --value "$1"
}

# Waits until a command succeeds: so many seconds.
within() {
    local ends=$((SECONDS + $1))
    shift
    until "$@"; do
        [ $SECONDS -lt "$ends" ] || return 1
        sleep 0.1
    done
}

status_is() {
    [[ $(property "$unit" StatusText) == $1 ]]
}

state_is() {
    [ "$(property "$unit" ActiveState)" = "$1" ]
}

# A file as docs/guide/administration.md has it.
documented() {
    awk -v first="# $1" '/^```/ { taken = 0 } taken; $0 == first { taken = 1 }' /usr/share/doc/spindles/docs/guide/administration.md |
        grep . || fail "the documentation has no $1"
}

# How the server is started: $1 are options, $2 the seconds that it waits for members.
configure() {
    mkdir -p /etc/spindles
    cat >/etc/spindles/pool.conf <<C
SPINDLES_SCAN=$SPINDLES_SCAN
SPINDLES_WAIT=${2:-20}
SPINDLES_OPTIONS=--metrics 9805 --on-event /usr/local/sbin/array-event $1
C
}

start() {
    systemctl start "$unit" || fail "systemctl start: $(systemctl status "$unit" 2>&1; journal -b -u "$unit" -n 20)"
    state_is active || fail "it is $(property "$unit" ActiveState) after systemctl start"
}

stop() {
    systemctl stop "$unit" || fail "systemctl stop"
    state_is inactive && [ "$(property "$unit" Result)" = success ] || fail "stopped: $(systemctl status "$unit" 2>&1)"
    journal -b -u "$unit" -n 5 | grep 'SIGKILL' && fail "something of it did not end by itself"
}

# systemd starts it again.
kill_server() {
    local main
    main=$(property $unit MainPID)
    kill -9 "$main"
    within 30 bash -c "[ \$(systemctl show -P MainPID $unit) != $main ] && systemctl is-active --quiet $unit" ||
        fail "killed, it does not come back: $(systemctl status $unit 2>&1)"
}

is_clean() {
    spindles status pool >/tmp/status.out 2>&1 || fail "status: $(cat /tmp/status.out)"
    grep -q "$1, clean" /tmp/status.out || fail "status: $(cat /tmp/status.out)"
}

member_goes() {
    losetup --detach $late || fail "losetup --detach"
    within 10 bash -c '! ls /dev/spindles/*loop0 2>/dev/null' >/tmp/gone.out || fail "udev still has the member that is gone"
}

member_comes() {
    losetup $late /var/lib/late.img || fail "losetup"
}

event_came() {
    grep -q "^$1 pool" $events
}

write_file() {
    dd if=/dev/urandom of="$1" bs=1M count="$2" conv=fsync 2>/tmp/dd.out || fail "$1: $(cat /tmp/dd.out)"
}

# Files, each noted when it is on disk, until /tmp/enough is there.
write_files() {
    rm -f /tmp/enough
    local number=0
    until [ -e /tmp/enough ]; do
        number=$((number + 1))
        head -c $((number * 7919 % 90000)) /dev/urandom >$place/file$((number % 200)).new || return 1
        sync $place/file$((number % 200)).new || return 1
        mv $place/file$((number % 200)).new $place/file$((number % 200)) || return 1
        sha256sum $place/file$((number % 200)) >>/tmp/sums || return 1
        sleep 0.02
    done
}

verify_files() {
    tac /tmp/sums | awk '!seen[$2]++' >/tmp/last
    sha256sum --quiet -c /tmp/last >/tmp/verify.out 2>&1 || fail "files differ: $(head -n 5 /tmp/verify.out)"
    wc -l </tmp/last
}

installs() {
    say "Linux $(uname -r), $(systemctl --version | head -n 1)"
    dpkg -i $folder/*.deb >/tmp/dpkg.out 2>&1 || fail "dpkg: $(cat /tmp/dpkg.out)"
    systemctl daemon-reload
    say "$(spindles --version) is installed"
    # One member is a loop device.
    grep -v '^KERNEL==' /usr/lib/udev/rules.d/61-spindles.rules >/etc/udev/rules.d/61-spindles.rules
    cat >/usr/local/sbin/array-event <<'H'
#!/bin/sh
echo "$* $SPINDLES_STATE: $SPINDLES_MESSAGE" >>/var/log/array-events
H
    chmod +x /usr/local/sbin/array-event
    touch $events
    truncate -s 460M /var/lib/late.img
    member_comes
    spindles create pool "raid5(/dev/ubdb,/dev/ubdc,$late)" >/tmp/create.out 2>&1 || fail "$(cat /tmp/create.out)"
    udevadm control --reload
    udevadm trigger --subsystem-match=block
    within 20 bash -c '[ $(ls /dev/spindles | wc -l) = 3 ]' || fail "udev made: $(ls -l /dev/spindles)"
    show spindles status pool
}

starts() {
    configure ''
    start
    # Nothing is waited for: the service has started when it can be used.
    nbdinfo "nbd+unix:///pool?socket=$socket" >/tmp/info.out 2>&1 || fail "nbdinfo: $(cat /tmp/info.out)"
    status_is "healthy, at nbd+unix:///pool?socket=$socket" || fail "the status is $(property $unit StatusText)"
    show systemctl status --no-pager $unit
    show spindles status pool
}

stops() {
    stop
    is_clean healthy
    show systemctl status --no-pager $unit
}

# A member that is away is waited for; then the array begins without it, and says so.
begins_degraded() {
    configure '' 5
    member_goes
    systemctl start --no-block $unit
    within 4 status_is 'waiting*' || fail "while it waits the status is $(property $unit StatusText)"
    state_is activating || fail "while it waits it is $(property $unit ActiveState)"
    show systemctl status --no-pager $unit
    within 20 state_is active || fail "it does not begin: $(systemctl status $unit 2>&1)"
    status_is 'degraded: without member 2*' || fail "the status is $(property $unit StatusText)"
    within 10 event_came DegradedArray || fail "the program for events was not run: $(cat $events)"
    show systemctl status --no-pager $unit
    show tail -n 1 $events
    # It comes back, and gets what it missed.
    write_file /tmp/data 8
    nbdcopy /tmp/data "nbd+unix:///pool?socket=$socket" || fail "nbdcopy"
    member_comes
    udevadm settle
    spindles add $late pool >/tmp/rebuild.out 2>&1 || fail "add: $(cat /tmp/rebuild.out)"
    show cat /tmp/rebuild.out
    within 5 status_is 'healthy, at *' || fail "the status is $(property $unit StatusText)"
    stop
    is_clean healthy
}

# A member that comes while it is waited for.
begins_whole() {
    configure '' 60
    member_goes
    systemctl start --no-block $unit
    within 4 status_is 'waiting*' || fail "while it waits the status is $(property $unit StatusText)"
    local begun=$SECONDS
    sleep 2
    member_comes
    within 10 state_is active || fail "it does not begin with the member: $(systemctl status $unit 2>&1)"
    status_is 'healthy, at *' || fail "the status is $(property $unit StatusText)"
    local took=$((SECONDS - begun))
    [ $took -lt 30 ] || fail "it took $took s: $(journalctl --no-pager --output=short-precise -b -u $unit -n 12)"
    say "a member came after 2 s, and the service was active after $took s of the 60 s that it may wait"
    stop
}

# A file system on the kernel's NBD client is not disturbed by a restart, where the client waits.
nbd_survives_a_restart() {
    configure ''
    start
    local client="python3 $folder/attach_nbd.py $socket pool 1 60 2"
    $client || fail "it can't be attached"
    mkfs.ext4 -q /dev/nbd1 && mount /dev/nbd1 $place || fail "mount"
    rm -f /tmp/sums
    write_files &
    local writer=$! round
    for round in 1 2; do
        sleep 1
        systemctl restart $unit || fail "restart: $(systemctl status $unit 2>&1)"
        $client --again || fail "it can't be attached again"
    done
    sleep 3
    touch /tmp/enough
    wait $writer || fail "the writer met an error"
    umount $place && fsck.ext4 -fn /dev/nbd1 >/tmp/fsck.out 2>&1 || fail "fsck: $(cat /tmp/fsck.out)"
    mount /dev/nbd1 $place
    say "ext4 on the kernel's NBD client, restarted $round times: $(verify_files) files are as they were written; fsck finds nothing"
    umount $place
    nbd-client -d /dev/nbd1 >/dev/null
    stop
}

# The device stays while the server is started again, in order or killed.
ublk_survives() {
    configure '--ublk 0'
    start
    [ -b /dev/ublkb0 ] || fail "there is no /dev/ublkb0"
    mkfs.ext4 -q /dev/ublkb0 && mount /dev/ublkb0 $place || fail "mount"
    rm -f /tmp/sums
    write_files &
    local writer=$!
    sleep 1
    systemctl restart $unit || fail "restart: $(systemctl status $unit 2>&1)"
    sleep 1
    kill_server
    sleep 2
    touch /tmp/enough
    wait $writer || fail "the writer met an error"
    umount $place && fsck.ext4 -fn /dev/ublkb0 >/tmp/fsck.out 2>&1 || fail "fsck: $(cat /tmp/fsck.out)"
    mount /dev/ublkb0 $place
    say "ext4 on ublk, restarted, then killed: $(verify_files) files are as they were written; fsck finds nothing"
    # Stopped while it is mounted, it waits for the next.
    spindles stop pool >/tmp/stop.out 2>&1 && fail "it was stopped while it was mounted"
    show cat /tmp/stop.out
    umount $place
    stop
    [ ! -e /dev/ublkb0 ] || fail "/dev/ublkb0 is still there"
    show journal -b -u $unit -n 25
}

# The unit has mounts of its own, which the server says; a drop-in makes the file everybody's.
fuse_takes_a_drop_in() {
    configure '--fuse /run/pool.img'
    start
    journal -u $unit -n 10 | grep -q 'only processes that share the mounts of this one find the array at /run/pool.img' ||
        fail "nothing is said of the file that nobody sees: $(journal -u $unit -n 10)"
    stop
    mkdir -p /etc/systemd/system/$unit.d
    documented /etc/systemd/system/$unit.d/override.conf >/etc/systemd/system/$unit.d/override.conf
    systemctl daemon-reload
    start
    journal -u $unit -n 4 | grep -q 'only processes' && fail "it is said though everybody sees it"
    local device
    device=$(losetup --find --show --direct-io=on --sector-size 4096 /run/pool.img) || fail "losetup"
    mkfs.ext4 -q "$device" && mount "$device" $place || fail "mount"
    write_file $place/data 16
    cp $place/data /tmp/data
    umount $place && mount "$device" $place && cmp $place/data /tmp/data || fail "the file differs"
    spindles stop pool >/tmp/stop.out 2>&1 && fail "it was stopped while it was in use"
    show cat /tmp/stop.out
    umount $place && losetup --detach "$device" || fail "umount"
    say "ext4 on the file of --fuse, with the documented drop-in"
    show journal -u $unit -n 5
    stop
    [ ! -e /run/pool.img ] || fail "the file is still there"
    rm -r /etc/systemd/system/$unit.d
    systemctl daemon-reload
}

killed_keeps_what_was_acknowledged() {
    configure ''
    start
    write_file /tmp/data 64
    nbdcopy --flush /tmp/data "nbd+unix:///pool?socket=$socket" || fail "nbdcopy"
    kill_server
    nbdcopy "nbd+unix:///pool?socket=$socket" - 2>/dev/null | head -c $((64 << 20)) | cmp - /tmp/data || fail "what was acknowledged is gone"
    show journal -u $unit -n 12
    show systemctl status --no-pager $unit
}

scrubs() {
    # Rot under the server.
    dd if=/dev/urandom of=/dev/ubdc bs=4096 seek=8000 count=16 conv=notrunc 2>/dev/null
    systemctl start $scrub.service || fail "scrub: $(systemctl status $scrub.service 2>&1)"
    journal -u $scrub.service | grep -q 'wrong and repaired' || fail "it found nothing: $(journal -u $scrub.service)"
    within 5 event_came ScrubFindings || fail "the program for events was not run: $(cat $events)"
    show systemctl status --no-pager $scrub.service
    show journal -u $unit -n 1
    show tail -n 1 $events
    systemctl enable --now $scrub.timer 2>/dev/null || fail "the timer"
    show systemctl list-timers --no-pager $scrub.timer
    stop
}

# After a crash, a member that is away may alone hold the last writes: the array is not begun without it, which the service
# says, and goes on to try.
refuses_to_give_up_writes() {
    configure '' 3
    start
    write_file /tmp/data 16
    nbdcopy /tmp/data "nbd+unix:///pool?socket=$socket" || fail "nbdcopy"
    kill -9 "$(property $unit MainPID)"
    within 5 losetup --detach $late || fail "losetup --detach"
    within 20 status_is "ended: array 'pool'*--degraded*" || fail "it says: $(systemctl status $unit 2>&1)"
    show systemctl status --no-pager $unit
    show journal -b -u $unit -n 12
    member_comes
    within 20 state_is active || fail "it does not begin with the member: $(systemctl status $unit 2>&1)"
    status_is 'healthy, at *' || fail "the status is $(property $unit StatusText)"
    stop
}

# Nothing has that name.
says_what_it_does_not_find() {
    local nobody=spindles-serve@nobody.service
    configure '' 1
    cp /etc/spindles/pool.conf /etc/spindles/nobody.conf
    systemctl start $nobody 2>/tmp/start.out && fail "it is served"
    [[ $(property $nobody StatusText) == "ended: 'nobody' is neither"* ]] || fail "$(systemctl status $nobody 2>&1)"
    show systemctl status --no-pager $nobody
    journal -u $nobody | grep 'SIGKILL' && fail "something of it did not end by itself"
    systemctl stop $nobody
}

# A scrub gets on beside a client that never rests.
scrubs_beside_a_client() {
    configure '--rebuild-rate 10M'
    start
    write_file /tmp/data 400
    nbdcopy /tmp/data "nbd+unix:///pool?socket=$socket" || fail "nbdcopy"
    local begun alone beside reader read
    begun=$(date +%s%3N)
    systemctl start $scrub.service || fail "scrub"
    alone=$(($(date +%s%3N) - begun))
    nbd-client -unix $socket /dev/nbd0 -name pool -block-size 4096 >/tmp/client.out 2>&1 || fail "$(cat /tmp/client.out)"
    while [ -e /tmp/data ]; do
        dd if=/dev/nbd0 of=/dev/null bs=256k count=1000 iflag=direct 2>/dev/null || exit 1
    done &
    reader=$!
    sleep 1
    read=$(awk '{ print $3 }' /sys/block/nbd0/stat)
    begun=$(date +%s%3N)
    systemctl start $scrub.service || fail "scrub"
    beside=$(($(date +%s%3N) - begun))
    read=$((($(awk '{ print $3 }' /sys/block/nbd0/stat) - read) / 2048))
    rm /tmp/data
    wait $reader || fail "the client met an error"
    nbd-client -d /dev/nbd0 >/dev/null
    # 200 MiB of each member were written, and some before.
    [ $beside -lt 40000 ] || fail "a scrub took $beside ms beside a client, guaranteed 10 MiB/s"
    [ $read -gt 0 ] || fail "beside a scrub of $beside ms the client got nothing"
    say "a scrub of 400 MiB took $alone ms alone, and $beside ms beside a client that read $read MiB meanwhile"
    stop
}

# Stopped by a command the service has ended, and is not started again.
ends_by_a_command() {
    configure ''
    start
    local page
    page=$(exec 9<>/dev/tcp/127.0.0.1/9805 && printf 'GET /metrics HTTP/1.0\r\n\r\n' >&9 && cat <&9)
    grep -q 'spindles_array_state{array="pool",state="healthy"} 1' <<<"$page" || fail "metrics: $page"
    spindles stop pool >/tmp/stop.out 2>&1 || fail "stop: $(cat /tmp/stop.out)"
    within 10 state_is inactive || fail "after spindles stop it is $(property $unit ActiveState)"
    sleep 3
    state_is inactive || fail "it was started again"
    say "spindles stop ends the service, and its metrics had the array"
}

# A member is an export of another server, which goes away.
spans() {
    local span=spindles-serve@span.service
    truncate -s 200M /var/lib/other.img
    losetup /dev/loop1 /var/lib/other.img
    spindles serve mem:200M --nbd unix:/run/other.sock 2>/tmp/serve.err &
    local other=$!
    within 10 grep -q 'is served' /tmp/serve.err || fail "mem"
    spindles create span 'raid1(nbd+unix:///?socket=/run/other.sock,/dev/loop1)' >/tmp/create.out 2>&1 || fail "$(cat /tmp/create.out)"
    printf 'SPINDLES_SCAN=/dev/loop1:nbd+unix:///?socket=/run/other.sock\nSPINDLES_WAIT=3\n' >/etc/spindles/span.conf
    systemctl start $span || fail "$(systemctl status $span 2>&1)"
    nbdcopy /tmp/data 'nbd+unix:///span?socket=/run/spindles-serve/span.sock' || fail "nbdcopy"
    kill -9 $other
    wait $other 2>/dev/null
    within 20 bash -c "systemctl show -P StatusText $span | grep -q degraded" || fail "$(systemctl status $span 2>&1)"
    show systemctl status --no-pager $span
    systemctl stop $span || fail "stop"
}

# Comes up with the machine: a file system on the array, and a disk that comes when it is waited for.
enables() {
    mkdir -p /srv/pool $kept /var/log/journal
    cat >/etc/systemd/system/late.service <<U
[Unit]
DefaultDependencies=no
[Service]
Type=oneshot
ExecStart=/bin/sh -c 'until systemctl show -P StatusText $unit | grep -q ^waiting; do sleep 0.5; done; losetup $late /var/lib/late.img'
U
    ln -sf ../late.service /etc/systemd/system/multi-user.target.wants/late.service
    configure '--ublk 0' 30
    documented /etc/fstab | grep ublk >>/etc/fstab
    systemctl daemon-reload
    systemctl enable --now $unit 2>/dev/null || fail "enable: $(systemctl status $unit 2>&1)"
    mkfs.ext4 -q /dev/ublkb0
    systemctl start srv-pool.mount || fail "mount: $(systemctl status srv-pool.mount 2>&1)"
    comes_again enables_nbd
}

# Restarts the machine while there is new data in the mounted file system; $1 is what goes on then.
comes_again() {
    write_file /srv/pool/data 32
    # Not on disk yet.
    head -c 20000000 /dev/urandom >/srv/pool/more
    sha256sum /srv/pool/data /srv/pool/more >$kept/sums
    journalctl --flush
    say "the machine is restarted, with the file system mounted"
    echo "$1" >$kept/next
    touch /run/rebooting
    systemctl reboot
}

came_up() {
    within 60 state_is active || fail "it is not served after the restart: $(systemctl status $unit 2>&1)"
    within 60 systemctl is-active --quiet srv-pool.mount || fail "it is not mounted: $(systemctl status srv-pool.mount 2>&1)"
    status_is 'healthy, at *' || fail "the status is $(property $unit StatusText)"
    sha256sum --quiet -c $kept/sums || fail "files differ"
    show systemctl status --no-pager $unit
    show systemctl --failed --no-pager
    show journalctl --no-pager -b -1 -u $unit -u srv-pool.mount -u nbd@nbd0.service -n 14
    journal -b -1 -u $unit -n 8 | grep -q "array 'pool' is closed" || fail "the array was not closed in order"
    journal -b -u $unit | grep -q "waiting: array 'pool' lacks member 2" || fail "it did not wait for the disk that came late"
    journal -b | grep -i 'ordering cycle' && fail "an ordering cycle"
    journal -b -u 'systemd-fsck@*' | grep -q ': clean' || fail "fsck: $(journal -b -u 'systemd-fsck@*')"
}

# The same by the kernel's NBD client.
enables_nbd() {
    came_up
    systemctl stop srv-pool.mount
    stop
    configure '' 30
    sed -i '/ublk/d' /etc/fstab
    documented /etc/fstab | grep nbd0 >>/etc/fstab
    documented /etc/nbdtab >/etc/nbdtab
    mkdir -p /etc/systemd/system/nbd@nbd0.service.d
    documented /etc/systemd/system/nbd@nbd0.service.d/override.conf >/etc/systemd/system/nbd@nbd0.service.d/override.conf
    systemctl daemon-reload
    systemctl start srv-pool.mount || fail "mount: $(systemctl status srv-pool.mount nbd@nbd0.service 2>&1)"
    systemctl restart $unit || fail "restart"
    within 20 systemctl start srv-pool.mount ||
        fail "after a restart it can't be mounted: $(systemctl status srv-pool.mount nbd@nbd0.service 2>&1)"
    sha256sum --quiet -c $kept/sums || fail "files differ"
    comes_again ends
}

ends() {
    came_up
    systemctl stop srv-pool.mount
    stop
    is_clean healthy
    say "all held"
}

if [ -e $kept/next ]; then
    parts=$(cat $kept/next)
else
    parts=${*:-installs starts stops begins_degraded begins_whole nbd_survives_a_restart ublk_survives fuse_takes_a_drop_in
        killed_keeps_what_was_acknowledged scrubs scrubs_beside_a_client ends_by_a_command refuses_to_give_up_writes
        says_what_it_does_not_find spans enables}
fi
for each in $parts; do
    begun=$SECONDS
    "$each"
    say "ok $each ($((SECONDS - begun)) s)"
done
