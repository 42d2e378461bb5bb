//! The server is stopped or killed while clients write, and restarted a moment later: which clients
//! continue.

use super::{MIB, array, serve};
use crate::world::{Run, Running, World, has};
use spindles_admin::assemble::{AssembleOptions, assemble};
use spindles_admin::create::{CreateOptions, create};
use spindles_admin::host::{Reopen, Served as _, Unchanged};
use spindles_layout::Expression;
use spindles_serve::{Handle, Server, ServerLimits};
use std::process::Command;
use std::sync::mpsc::channel;
use std::thread::{self, sleep};
use std::time::Duration;

/// Time without a server.
const AWAY: Duration = Duration::from_millis(500);

/// A program between fio and the server: it is the client under test, and fio detects lost writes.
struct Between {
    program: &'static str,
    package: &'static str,
    /// Separated by spaces; `%` stands for the folder.
    arguments: &'static str,
}

/// The same driver as in `qemu-system`.
const QEMU: Between = Between {
    program: "qemu-storage-daemon",
    package: "qemu-utils",
    arguments: "--blockdev driver=nbd,node-name=pool,server.type=unix,server.path=%/socket,\
                export=pool,reconnect-delay=20 --nbd-server addr.type=unix,addr.path=%/between \
                --export type=nbd,id=pool,node-name=pool,name=,writable=on",
};
const NBDKIT: Between = Between {
    program: "nbdkit",
    package: "nbdkit",
    arguments: "--foreground --unix %/between --filter=retry nbd \
        uri=nbd+unix:///pool?socket=%/socket retries=20 retry-delay=1 retry-exponential=no",
};

/// libnbd without a retry filter.
const LIBNBD: Between = Between {
    program: "nbdkit",
    package: "nbdkit",
    arguments: "--foreground --unix %/between nbd uri=nbd+unix:///pool?socket=%/socket",
};

impl Between {
    fn begin(&self, pool: &World) -> Running {
        let folder = pool.folder().to_str().expect("UTF-8");
        let arguments = pool.named(self.arguments).replace('%', folder);
        let mut command = Command::new(self.program);
        command.args(arguments.split_whitespace());
        let process = Running::begin(command);
        pool.until(self.program, |pool| pool.path("between").exists());
        process
    }
}

/// While fio writes for four seconds, the server gets the signal and restarts; then fio verifies
/// everything.
fn restart(between: &Between, kill: bool) -> Run {
    let pool = array("raid5", "a,b,c", 24 * MIB);
    let served = serve(&pool, &[]);
    let running = between.begin(&pool);
    let mut fio = Command::new("timeout");
    let line = "60 fio --name=v --thread --ioengine=nbd --rw=randwrite --bs=16k --iodepth=16 \
        --size=24M --rate=6M --verify=crc32c --verify_fatal=1 --do_verify=1 --verify_state_save=0";
    fio.args(line.split_whitespace()).current_dir(pool.folder());
    let uri = format!("--uri=nbd+unix:///?socket={}", pool.full("between"));
    fio.arg(uri);
    let fio = Running::begin(fio);
    pool.until("the first write", |pool| {
        pool.json("status pool")["regions"]["written"] != 0
    });
    sleep(Duration::from_millis(200));
    if kill {
        served.kill();
    } else {
        served.stop();
    }
    sleep(AWAY);
    let served = serve(&pool, &[]);
    let ended = fio.end(None);
    drop(running);
    served.stop();
    pool.does("scrub pool");
    ended
}

fn goes_on(between: &Between) {
    if !has("fio", "fio") || !has(between.program, between.package) {
        return;
    }
    for kill in [false, true] {
        let fio = restart(between, kill);
        let program = between.program;
        assert_eq!(fio.status, 0, "{program}, killed: {kill}: {fio:?}");
    }
}

#[test]
fn qemu_reconnects_to_a_restarted_server() {
    goes_on(&QEMU);
}

#[test]
fn nbdkit_reconnects_to_a_restarted_server() {
    goes_on(&NBDKIT);
}

/// A client that does not reconnect gets an error, and no write falsely succeeds. fio's own NBD
/// client might wait forever, so it is not tested.
#[test]
fn libnbd_alone_does_not_reconnect() {
    if !has("fio", "fio") || !has(LIBNBD.program, LIBNBD.package) {
        return;
    }
    let fio = restart(&LIBNBD, false);
    // The status of `timeout` if it has to kill it.
    let hangs = 124;
    assert!(![0, hangs].contains(&fio.status), "{fio:?}");
}

/// A command failed, and with its new devices no array could be opened.
#[test]
fn an_array_reopens_as_it_was_after_a_failed_command() {
    let folder = tempfile::tempdir().expect("a folder");
    let [a, b, c, log, copy] = ["a", "b", "c", "log", "copy"].map(|name| {
        let path = folder
            .path()
            .canonicalize()
            .expect("it is there")
            .join(name);
        let file = std::fs::File::create(&path).expect("a file");
        file.set_len(32 << 20).expect("room");
        path.to_str().expect("text").to_owned()
    });
    let expression = Expression::parse(&format!("raid5({a},{b},{c})")).expect("an array");
    let new = CreateOptions {
        journal: Some(log.clone()),
        ..CreateOptions::new("pool")
    };
    create(&expression, &new, &mut |_, _| true).expect("an array");
    std::fs::copy(&log, &copy).expect("room");
    let devices = [a, b, c, log];
    let (sends, receives) = channel();
    let server = thread::spawn(move || {
        let options = AssembleOptions::default();
        let names: Vec<&str> = devices.iter().map(String::as_str).collect();
        let opened = assemble(&names, &options).expect("it was created");
        let limits = ServerLimits::default();
        let server = Server::new(opened.target, "pool", String::new(), limits);
        let (server, handle) = server.expect("it serves");
        let handle = Handle::new(&handle, &server.bus(), &devices, &options, &opened.report);
        let reached = (handle, server.stopper());
        sends.send(reached).expect("it is waited for");
        server.run(|_, _| {}).expect("it was stopped").close()
    });
    let (handle, stopper) = receives.recv().expect("it serves");
    let brought = copy.clone();
    let restructure = spindles_admin::host::Restructure {
        more: Some(&copy),
        ..spindles_admin::host::Restructure::default()
    };
    let failing: Reopen = Box::new(move |devices, _| {
        assert!(devices.contains(&brought.as_str()));
        Err(Unchanged)
    });
    handle.reopen(restructure, failing).expect("it was closed");
    let status = handle.managed().status().expect("it is served");
    assert_eq!(status.state.name(), "healthy");
    assert!(!handle.devices().contains(&copy));
    stopper.stop();
    let closed = server.join().expect("it serves");
    closed.expect("it is closed in order");
}
