//! A real sshd with keys of its own.

use crate::world::Background;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// sshd starts itself again for each connection, and needs its path for that.
pub(crate) const SSHD: &str = "/usr/sbin/sshd";
const PORT: u16 = 2222;

/// The keys of servers and clients, in a folder.
pub(crate) struct Keys(PathBuf);

impl Keys {
    /// Creates keys.
    ///
    /// # Errors
    /// If OpenSSH is not installed.
    pub(crate) fn new(folder: &Path) -> Result<Self, String> {
        if !Path::new(SSHD).exists() {
            return Err(format!(
                "openssh-server is not installed, {SSHD} is missing"
            ));
        }
        // Only root needs this folder, which Debian creates at boot.
        drop(fs::create_dir_all("/run/sshd"));
        let keys = Self(folder.to_owned());
        for name in ["host", "user", "stranger"] {
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f", &keys.at(name)])
                .stdin(Stdio::null())
                .status();
            if !made.is_ok_and(|status| status.success()) {
                return Err("openssh-client is not installed, ssh-keygen fails".to_owned());
            }
        }
        let host = fs::read_to_string(keys.at("host.pub")).expect("a key");
        fs::write(keys.at("known_hosts"), format!("* {host}")).expect("a file");
        Ok(keys)
    }

    fn at(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    /// The command for ssh with the key `user`, which servers admit, or `stranger`. It trusts the
    /// servers in this file.
    pub(crate) fn ssh(&self, key: &str, known_hosts: &str) -> String {
        format!(
            "ssh -F none -p {PORT} -i {} -o IdentitiesOnly=yes -o StrictHostKeyChecking=yes \
             -o GlobalKnownHostsFile=none -o UserKnownHostsFile={}",
            self.at(key),
            self.at(known_hosts)
        )
    }

    /// Starts a server, by the command `sshd` of its machine, at that address. Sessions run
    /// `forced`, if given.
    pub(crate) fn serve(
        &self,
        mut sshd: Command,
        address: &str,
        forced: Option<&str>,
    ) -> Background {
        let mut options = vec![
            format!("ListenAddress={address}:{PORT}"),
            format!("HostKey={}", self.at("host")),
            format!("AuthorizedKeysFile={}", self.at("user.pub")),
            "StrictModes=no".to_owned(),
            "UsePAM=no".to_owned(),
            "PidFile=none".to_owned(),
        ];
        options.extend(forced.map(|command| format!("ForceCommand={command}")));
        for option in options {
            sshd.args(["-o", &option]);
        }
        let mut child = sshd
            .args(["-D", "-e", "-f", "/dev/null"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("sshd is there");
        let mut output = BufReader::new(child.stderr.take().expect("a pipe"));
        let mut said = String::new();
        while !said.contains("Server listening") {
            let read = output.read_line(&mut said).expect("text");
            assert!(read > 0, "sshd ended: {said}");
        }
        // Drains the rest of its output, so that it never blocks on a full pipe.
        std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
        Background(child)
    }
}
