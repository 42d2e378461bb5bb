//! What the sandbox forbids, and what the helper outside does instead.

use rustix::fs::OFlags;
use rustix::io::Errno;
use spindles_device::REFUSED;
use spindles_serve::Watch;
use spindles_serve::sandbox::helper::{Helper, Rules, serve};
use spindles_serve::sandbox::{Needs, enter};
use std::fs::{self, File};
use std::io::{ErrorKind, Read as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// The folder of the rules, if this process is the helper.
const FOLDER: &str = "SPINDLES_TEST_HELPER";

/// Set in the process that enters the sandbox. A process stays sandboxed: it runs no other test.
const ALONE: &str = "SPINDLES_TEST_SANDBOX";

/// Runs the helper if this program was started as one.
#[test]
fn helper_process() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let rules = Rules {
        hook: Some(Path::new(&folder).join("hook")),
        folders: vec![folder.into()],
    };
    serve(std::io::stdin().as_fd(), &rules, |_| ()).expect("the socket works");
}

fn start_helper(folder: &Path) -> Helper {
    let mut command = only("helper_process");
    command.env(FOLDER, folder);
    Helper::start(command).expect("it starts")
}

/// Returns the command that runs one test of this file.
fn only(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("a program"));
    command.args(["--exact", &format!("sandboxed::{test}")]);
    command
}

#[test]
fn the_sandbox_denies_access_and_the_helper_grants_allowed_access() {
    if std::env::var_os(ALONE).is_none() {
        let mut command = only("the_sandbox_denies_access_and_the_helper_grants_allowed_access");
        let output = command.env(ALONE, "1").output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{text}");
        assert!(text.contains("1 passed"), "{text}");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().canonicalize().expect("it is there");
    let path = |name: &str| folder.join(name);
    for name in ["device", "left"] {
        fs::write(path(name), "bytes").expect("it is written");
    }
    fs::create_dir(path("notices")).expect("a folder");
    let hook = "#!/bin/sh\necho \"$@\" > \"$(dirname \"$0\")/said\"\n";
    fs::write(path("hook"), hook).expect("it is written");
    fs::set_permissions(path("hook"), fs::Permissions::from_mode(0o755)).expect("its mode");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its address");
    let mut open = File::open(path("device")).expect("it is there");
    let helper = start_helper(&folder);
    let before = std::thread::spawn(|| std::thread::sleep(Duration::from_millis(200)));

    let sandbox = enter(&Needs {
        writes_in: vec![path("notices")],
        removes_from: vec![folder.clone()],
        ..Needs::default()
    });
    let output = sandbox.to_string();
    assert!(
        output.starts_with("no new privileges, no capabilities"),
        "{output}"
    );
    assert!(output.ends_with("seccomp"), "{output}");
    let names = sandbox.missing();
    assert!(names.is_empty() || names == ["Landlock"], "{names:?}");

    // Open files stay open, and threads can be started.
    let mut text = String::new();
    open.read_to_string(&mut text).expect("it can be read");
    assert_eq!(text, "bytes");
    let thread = std::thread::spawn(|| fs::read_to_string("/proc/thread-self/status"));
    let status = thread.join().expect("it ends").expect("it can be read");
    let is = |name: &str, value: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.is_some_and(|line| line.trim_start_matches(':').trim() == value)
    };
    assert!(is("NoNewPrivs", "1") && is("Seccomp", "2"), "{status}");
    assert!(
        is("CapEff", "0000000000000000") && is("CapPrm", "0000000000000000"),
        "{status}"
    );

    // No program can be executed, no connection made, and no root directory changed.
    let denied = ErrorKind::PermissionDenied;
    let run = Command::new("/bin/true").status();
    assert_eq!(run.expect_err("it is not run").kind(), denied);
    let connection = TcpStream::connect(port);
    assert_eq!(connection.expect_err("there is none").kind(), denied);
    let moved = rustix::process::chroot("/");
    assert_eq!(moved, Err(Errno::PERM));
    if names.is_empty() {
        // No file can be opened, whatever its owner, and none created.
        for name in [
            "/etc/shadow",
            "/etc/passwd",
            path("device").to_str().expect("UTF-8"),
        ] {
            let opened = File::open(name);
            assert_eq!(opened.expect_err("it is refused").kind(), denied, "{name}");
        }
        let made = File::create(path("new"));
        assert_eq!(made.expect_err("it is refused").kind(), denied);
    }
    // Only what the server needs is permitted.
    fs::write(path("notices").join("one"), "text").expect("it is written");
    fs::remove_file(path("notices").join("one")).expect("it is there");
    fs::remove_file(path("left")).expect("it is there");

    let device = helper.open(&path("device"), OFlags::RDWR | OFlags::CLOEXEC);
    let device = device.expect("it is opened outside");
    assert_eq!(rustix::io::pwrite(&device, b"B", 0), Ok(1));
    let refused = helper.open(Path::new("/etc/passwd"), OFlags::RDWR);
    assert_eq!(refused.expect_err("it is refused"), REFUSED);
    let hook = helper.run_hook(&Watch::unclean("pool; it is", "a test"));
    hook.expect("it is run outside");
    let started = Instant::now();
    let output = loop {
        // Read through the helper, since this process can't.
        let opened = helper.open(&path("said"), OFlags::RDONLY);
        let mut text = String::new();
        if let Ok(opened) = opened {
            File::from(opened).read_to_string(&mut text).expect("text");
        }
        if text.ends_with('\n') || started.elapsed() > Duration::from_secs(10) {
            break text;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    assert_eq!(output, "ClosedUnclean pool; it is\n");
    before.join().expect("threads that were there go on");
}
