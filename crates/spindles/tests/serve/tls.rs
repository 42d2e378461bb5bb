//! `spindles serve --tls` with common clients and with hostile ones.

use super::authority::Authority;
use super::{MIB, Served, array, serve, serve_at};
use crate::world::{Run, World, has, pattern};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::time::{Duration, Instant};

/// Makes the certificates of a server and of clients, in folders next to the array.
fn certificates(pool: &World) -> Authority {
    let authority = Authority::new();
    authority.sign(&pool.path("server"), "server", 1);
    authority.sign(&pool.path("client"), "client", 2);
    authority
}

fn port(served: &Served<'_>) -> String {
    let uri = served.uri.strip_prefix("nbds://127.0.0.1:");
    let uri = uri.unwrap_or_else(|| panic!("{}", served.uri));
    uri.split_once('/').expect("the export").0.to_owned()
}

/// Asks for the export, with the certificates of this folder.
fn info(served: &Served<'_>, scheme: &str, folder: &str) -> Run {
    let port = port(served);
    served.try_run(&format!(
        "nbdinfo {scheme}://localhost:{port}/pool?tls-certificates=%/{folder}"
    ))
}

#[test]
fn libnbd_and_qemu_copy_with_certificates() {
    if !has("nbdcopy", "libnbd-bin") || !has("qemu-img", "qemu-utils") {
        return;
    }
    let pool = array("raid5", "a,b,c", 24 * MIB);
    certificates(&pool);
    let served = serve_at(&pool, "0", &["--tls", "server", "--json"]);
    let uri = format!(
        "nbds://localhost:{}/pool?tls-certificates=%/client",
        port(&served)
    );
    info(&served, "nbds", "client")
        .ends(0)
        .prints("with TLS, using structured packets");
    let bytes = pattern(40 * MIB, 11);
    pool.put("in", &bytes);
    served.run(&format!("nbdcopy --flush %/in {uri}"));
    served.run(&format!(
        "nbdcopy --connections=4 --requests=64 {uri} %/out"
    ));
    let copied = pool.read("out");
    assert!(copied.starts_with(&bytes), "the copy differs");
    let qemu = format!(
        "driver=nbd,host=127.0.0.1,port={},export=pool,tls-creds=tls",
        port(&served)
    );
    let object = "tls-creds-x509,id=tls,endpoint=client,dir=%/client";
    // One connection that reads 32 MiB at once: more than a socket buffers.
    served.run(&format!(
        "qemu-img compare --object {object} --image-opts {qemu} driver=file,filename=%/out"
    ));
    let output = served.stop().json();
    assert!(output["requests"].as_u64() > Some(100), "{output}");
}

/// The printed address has a name from the certificate, and a client's folder is refused for a
/// server.
#[test]
fn the_printed_address_has_the_name_in_the_certificate() {
    let pool = array("raid1", "a,b", 8 * MIB);
    certificates(&pool);
    let served = serve_at(&pool, "0.0.0.0:0", &["--tls", "server"]);
    assert!(
        served.uri.starts_with("nbds://localhost:"),
        "{}",
        served.uri
    );
    served.stop();
    pool.run("serve pool --nbd 0 --tls client")
        .warns("client-cert.pem, which is for clients");
}

#[test]
fn clients_without_a_valid_certificate_are_refused() {
    if !has("nbdinfo", "libnbd-bin") {
        return;
    }
    let pool = array("raid1", "a,b", 8 * MIB);
    let authority = certificates(&pool);
    let stranger = Authority::new();
    stranger.sign(&pool.path("stranger"), "client", 2);
    // It can verify the server, but the server can't verify it.
    authority.certify(&pool.path("stranger"));
    authority.certify(&pool.path("bare"));
    authority.sign(&pool.path("fired"), "client", 3);
    authority.revoke(&pool.path("server"), 3);
    let key = pool.path("server").join("server-key.pem");
    let set_mode = |mode| fs::set_permissions(&key, fs::Permissions::from_mode(mode));
    set_mode(0o640).expect("it is ours");
    let mut served = serve_at(&pool, "0", &["--tls", "server"]);
    let rest = served.server.says("server-key.pem has mode 0640");
    assert!(rest.contains("`chmod 600 server/server-key.pem`"), "{rest}");
    set_mode(0o600).expect("it is ours");
    for folder in ["bare", "stranger", "fired"] {
        info(&served, "nbds", folder).refused();
    }
    // The administrator sees the client and the reason, but not a line for each attempt.
    let rest = served.server.says("client 127.0.0.1:");
    let reason = " is refused: it presents no certificate";
    assert!(rest.contains(reason), "{rest}");
    info(&served, "nbds", "client").ends(0);
    // Without TLS, that is the only answer.
    for line in [
        "nbdinfo nbd://localhost:#/pool",
        "nbdinfo --list nbd://localhost:#/",
    ] {
        let run = served.try_run(&line.replace('#', &port(&served)));
        run.refused().prints_no("raid1");
    }
    let begin = [&3_u32.to_be_bytes()[..], &option(3), &option(8), &option(2)].concat();
    let mut plain = connect(&served);
    plain.write_all(&begin).expect("it reads");
    let mut answers = Vec::new();
    plain
        .read_to_end(&mut answers)
        .expect("it answers and ends");
    let tls_required = [0x80, 0, 0, 5];
    let kinds = [&answers[18 + 12..][..4], &answers[18 + 20 + 14 + 12..][..4]];
    assert_eq!(kinds, [tls_required, tls_required], "{answers:x?}");
    assert!(answers.ends_with(&[0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0]));
    served.stop();
    // Clients without TLS are reported too.
    let mut served = serve_at(&pool, "0", &["--tls", "server"]);
    info(&served, "nbd", "client").refused();
    served.server.says(" is refused: TLS is required");
    served.stop();
    let served = serve_at(&pool, "0", &["--tls", "server", "--tls-any-client"]);
    info(&served, "nbds", "bare").ends(0);
    info(&served, "nbd", "bare").refused();
    served.stop();
    // On a Unix socket TLS is optional: the permissions of the socket's folder protect it.
    let served = serve(&pool, &["--tls", "server"]);
    let socket = "///pool?socket=%/socket&tls-certificates=%/client";
    served
        .run(&format!("nbdinfo nbds+unix:{socket}"))
        .prints("with TLS");
    served
        .run(&format!("nbdinfo nbd+unix:{socket}"))
        .prints("without TLS");
    served.stop();
}

/// The commands in the document make working folders.
#[test]
fn the_documented_commands_make_certificates() {
    if !has("openssl", "openssl") || !has("nbdinfo", "libnbd-bin") {
        return;
    }
    let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/serving.md");
    let document = fs::read_to_string(document).expect("it is there");
    let commands = document.split("```sh\n").nth(1).expect("commands");
    let commands = commands.split("```").next().expect("their end");
    let pool = array("raid1", "a,b", 8 * MIB);
    let mut shell = Command::new("sh");
    shell.args(["-e", "-c", commands]);
    pool.run_command(shell.current_dir(pool.folder())).ends(0);
    let served = serve_at(&pool, "0", &["--tls", "server"]);
    info(&served, "nbds", "client").ends(0);
    served.stop();
}

#[test]
fn incomplete_certificate_folders_are_refused() {
    let pool = array("raid1", "a,b", 8 * MIB);
    let authority = certificates(&pool);
    let refusal = || pool.ends("serve pool --nbd 0 --tls server", 1);
    let file = |name: &str| pool.path("server").join(name);
    fs::remove_file(file("ca-cert.pem")).expect("it is there");
    refusal().warns(["ca-cert.pem is not there", "--tls-any-client"]);
    authority.certify(&pool.path("server"));
    fs::copy(
        pool.path("client").join("client-key.pem"),
        file("server-key.pem"),
    )
    .expect("a copy");
    refusal().warns("server-cert.pem and server-key.pem can't be used");
    fs::write(file("server-key.pem"), "-----BEGIN\n").expect("it is written");
    refusal().warns("server-key.pem: there is no private key in it");
    fs::remove_file(file("server-cert.pem")).expect("it is there");
    refusal().warns("server-cert.pem: No such file");
    fs::remove_dir_all(pool.path("server")).expect("it is there");
    refusal().warns("there is no such folder: give the one with server-cert.pem");
}

/// An option without data.
fn option(number: u32) -> Vec<u8> {
    let mut option = b"IHAVEOPT".to_vec();
    option.extend(number.to_be_bytes());
    option.extend(0_u32.to_be_bytes());
    option
}

fn connect(served: &Served<'_>) -> TcpStream {
    let stream = TcpStream::connect(format!("127.0.0.1:{}", port(served))).expect("it listens");
    let limit = Some(Duration::from_secs(20));
    stream.set_read_timeout(limit).expect("a limit");
    stream
}

#[test]
fn half_a_handshake_blocks_no_client_and_plaintext_is_ignored() {
    if !has("nbdinfo", "libnbd-bin") {
        return;
    }
    let pool = array("raid1", "a,b", 8 * MIB);
    certificates(&pool);
    let served = serve_at(&pool, "0", &["--tls", "server"]);
    // Bytes sent together with STARTTLS may come from an attacker in between: the server does not
    // answer at all.
    let start = [&3_u32.to_be_bytes()[..], &option(5)].concat();
    let mut injected = connect(&served);
    let message = [&start[..], &option(3)].concat();
    injected.write_all(&message).expect("it reads");
    let mut answers = Vec::new();
    drop(injected.read_to_end(&mut answers));
    assert_eq!(answers.len(), 18, "{answers:x?}");
    let begun = |after: &[u8]| {
        let mut stream = connect(&served);
        stream.write_all(&start).expect("it reads");
        let mut answer = [0; 18 + 20];
        stream.read_exact(&mut answer).expect("it agrees");
        assert!(answer.ends_with(&[0, 0, 0, 5, 0, 0, 0, 1, 0, 0, 0, 0]));
        stream.write_all(after).expect("it reads");
        stream
    };
    // Afterwards anything but TLS is refused, with a TLS alert.
    let mut plain = begun(&option(3));
    let mut answers = Vec::new();
    drop(plain.read_to_end(&mut answers));
    assert!(
        !answers.windows(4).any(|bytes| bytes == b"pool"),
        "{answers:x?}"
    );
    assert!(answers.is_empty() || answers[0] == 21, "{answers:x?}");
    // Nothing, the beginning of a record, and one above the maximum length.
    let halves = [
        &b""[..],
        &[22, 3, 1, 2, 0, 1, 0],
        &[22, 3, 1, 0xff, 0xff, 1],
    ];
    let waiting: Vec<TcpStream> = (0..45).map(|at| begun(halves[at % 3])).collect();
    let started = Instant::now();
    info(&served, "nbds", "client").ends(0);
    assert!(started.elapsed() < Duration::from_secs(5), "it was held up");
    drop(waiting);
    served.stop();
}
