//! Hole reports to clients: only ranges without data are holes, even during writes.

use super::{MIB, array, serve};
use crate::world::{World, has, pattern};
use std::process::Command;

/// Returns true if Debian's Python has libnbd; another Python need not have it.
fn has_nbdsh() -> bool {
    let python = ["PATH=/usr/bin:/bin", "python3", "-c", "import nbd"];
    let found = Command::new("env").args(python).output();
    let found = found.is_ok_and(|found| found.status.success());
    if !found {
        println!("skipped: nbdsh is not installed (Debian: python3-libnbd)");
    }
    found
}

/// The beginning of every script: connections, and the extents of the whole export.
const EXTENTS: &str = r"
import random, sys, threading, time
import nbd
uri = sys.argv[1]
def connect():
    h = nbd.NBD()
    h.add_meta_context('base:allocation')
    h.connect_uri(uri)
    return h
h = connect()
size = h.get_size()
def extents(flags=0):
    at, all = 0, []
    def collect(context, offset, entries, error):
        nonlocal at
        for bytes, kind in zip(entries[::2], entries[1::2]):
            assert kind in (0, 3), kind
            all.append((at, at + bytes, kind == 3))
            at += bytes
    while at < size:
        before = at
        h.block_status(size - at, at, collect, flags)
        assert at > before
    assert at == size, (at, size)
    return all
";

fn run(pool: &World, served: &super::Served<'_>, script: &str) {
    let script = format!("{EXTENTS}{script}");
    pool.put("script.py", script);
    served.run("env PATH=/usr/bin:/bin python3 %/script.py @");
}

#[test]
fn data_is_never_reported_as_a_hole() {
    if !has_nbdsh() {
        return;
    }
    for (level, members) in [("raid5", "a,b,c"), ("raid1", "a,b"), ("raid6", "a,b,c,d")] {
        let pool = array(level, members, 48 * MIB);
        let served = serve(&pool, &[]);
        run(
            &pool,
            &served,
            r"
assert all(zero for _, _, zero in extents()), 'it is new'
lock, answered, ends = threading.Lock(), [], False
def write(seed):
    chance, own = random.Random(seed), connect()
    for _ in range(60):
        bytes = chance.choice([1, 777, 4096, 65536, 300000])
        offset = chance.randrange(size // 2)
        own.pwrite(bytearray([seed]) * bytes, offset)
        with lock:
            answered.append((offset, offset + bytes))
writers = [threading.Thread(target=write, args=(seed,)) for seed in (1, 2, 3)]
[writer.start() for writer in writers]
while any(writer.is_alive() for writer in writers):
    with lock:
        before = list(answered)
    holes = [(start, end) for start, end, zero in extents() if zero]
    for start, end in before:
        assert not any(start < b and a < end for a, b in holes), (start, end)
[writer.join() for writer in writers]
# What is made ready ahead of writers counts as data too, and that goes on for a while.
def settled():
    now, quiet = extents(), 0
    while quiet < 5:
        time.sleep(0.1)
        before, now = now, extents()
        quiet = quiet + 1 if now == before else 0
    return now
now = settled()
assert {zero for _, _, zero in now} == {True, False}, 'there is both'
assert all(a[2] != b[2] for a, b in zip(now, now[1:])), 'neighbours differ'
assert extents(nbd.CMD_FLAG_REQ_ONE) in (now, settled())
for start, end, zero in now:
    if zero:
        assert not any(h.pread(min(end - start, 32 << 20), start)), start
# What is given back is known too; what is to stay is not, and a fast zero is what is zero already.
h.zero(size, 0, nbd.CMD_FLAG_NO_HOLE)
kept = [(start, end) for start, end, zero in settled() if zero]
assert kept, 'what was a hole stays one'
for start, end in kept:
    assert any(a <= start and end <= b for a, b, zero in now if zero), (start, end)
h.zero(size, 0)
now = extents()
assert all(zero for _, _, zero in now), now
h.zero(size, 0, nbd.CMD_FLAG_FAST_ZERO)
h.pwrite(b'x', size - 1)
try:
    h.zero(size, 0, nbd.CMD_FLAG_FAST_ZERO)
    raise AssertionError('it is not fast')
except nbd.Error as error:
    assert error.errno == 'ENOTSUP', error
assert h.pread(1, size - 1) == b'x'
h.trim(size, 0)
assert all(zero for _, _, zero in extents())
",
        );
        served.stop();
    }
}

/// Copies of a mostly empty array read only its data, and hole reports are right after a crash.
#[test]
fn copies_skip_holes() {
    if !has("nbdcopy", "libnbd-bin") || !has_nbdsh() {
        return;
    }
    let pool = array("raid5", "a,b,c", 96 * MIB);
    pool.put("in", pattern(2 * MIB, 3));
    let served = serve(&pool, &[]);
    served.run("nbdcopy --flush %/in @");
    served.kill();
    let served = serve(&pool, &["--json"]);
    // Until the resync has ended, everything counts as data.
    run(
        &pool,
        &served,
        r"
end = time.monotonic() + 10
while [zero for _, _, zero in extents()] != [False, True]:
    assert time.monotonic() < end, extents()
    time.sleep(0.01)
",
    );
    served.run("nbdcopy @ %/out");
    let output = served.stop();
    let json = output.json();
    let read_bytes = json["read_bytes"].as_u64().expect("a number");
    assert!(read_bytes < 8 << 20, "{read_bytes} bytes were read");
    let out = pool.read("out");
    let (data, rest) = out.split_at(2 * MIB);
    assert!(data == pattern(2 * MIB, 3) && rest.iter().all(|byte| *byte == 0));
}
