//! The secret that an agent and its controllers share, read from a file that only its owner may
//! access. Also the proofs computed from it.

use ring::hmac;
use rustix::fs::OFlags;
use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// The shortest token that is accepted, in bytes: 128 bits in hexadecimal.
const BYTES_MIN: usize = 32;
/// The longest token that is accepted, in bytes.
const BYTES_MAX: u64 = 4096;
/// Bytes of a challenge.
pub(super) const NONCE_BYTES: usize = 32;

/// The shared secret.
pub struct Token(hmac::Key);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// Why a file can't be used as token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The file can't be read.
    #[error("{}: the token can't be read: {source}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The path is not a regular file.
    #[error("{} is no file: make one with `openssl rand -hex 32`", .path.display())]
    NoFile {
        /// The path.
        path: PathBuf,
    },
    /// Other users may access the file.
    #[error("others may read {}, so it is no secret: make a new token and `chmod 600` \
        it", .path.display())]
    Open {
        /// The file.
        path: PathBuf,
    },
    /// The token is too short.
    #[error(
        "the token in {} has {bytes} characters and needs {BYTES_MIN}: make one with \
         `openssl rand -hex 32`",
        .path.display()
    )]
    Short {
        /// The file.
        path: PathBuf,
        /// Its length in bytes.
        bytes: usize,
    },
    /// The file is too long for a token.
    #[error("{} has more than {BYTES_MAX} bytes and is no token", .path.display())]
    Long {
        /// The file.
        path: PathBuf,
    },
}

/// The side that proves its knowledge of the token. The sides sign different texts, so that a
/// peer's own proof can't be echoed back to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Controller,
    Agent,
}

impl Token {
    /// Reads the token from a file that only its owner may access. Strips white space around the
    /// token.
    ///
    /// # Errors
    /// When the file can't be read, others may access it, or the token is too short to be a secret.
    pub fn from_file(path: &Path) -> Result<Self, TokenError> {
        let path_owned = || path.to_owned();
        let unreadable = |source| TokenError::Unreadable {
            path: path_owned(),
            source,
        };
        // Don't wait if the path is a pipe.
        let flags = i32::try_from(OFlags::NONBLOCK.bits()).expect("a flag");
        let opened = File::options().read(true).custom_flags(flags).open(path);
        let file = opened.map_err(unreadable)?;
        let facts = file.metadata().map_err(unreadable)?;
        if !facts.is_file() {
            return Err(TokenError::NoFile { path: path_owned() });
        }
        if facts.mode() & 0o077 != 0 {
            return Err(TokenError::Open { path: path_owned() });
        }
        let mut bytes = Vec::new();
        let read = file.take(BYTES_MAX + 1).read_to_end(&mut bytes);
        if read.map_err(unreadable)? > usize::try_from(BYTES_MAX).expect("a few kilobytes") {
            return Err(TokenError::Long { path: path_owned() });
        }
        let token = bytes.trim_ascii();
        if token.len() < BYTES_MIN {
            return Err(TokenError::Short {
                path: path_owned(),
                bytes: token.len(),
            });
        }
        Ok(Self::of_bytes(token))
    }

    pub(super) fn of_bytes(token: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, token))
    }

    /// Returns the proof of one side.
    pub(super) fn proof(&self, side: Side, nonces: &Nonces) -> Vec<u8> {
        hmac::sign(&self.0, &said(side, nonces)).as_ref().to_vec()
    }

    /// Verifies the proof of a side, in constant time.
    pub(super) fn is_proof(&self, side: Side, nonces: &Nonces, proof: &[u8]) -> bool {
        hmac::verify(&self.0, &said(side, nonces), proof).is_ok()
    }
}

/// The random challenges of both sides, each used once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Nonces {
    pub(super) controller: [u8; NONCE_BYTES],
    pub(super) agent: [u8; NONCE_BYTES],
}

fn said(side: Side, nonces: &Nonces) -> Vec<u8> {
    let label: &[u8] = match side {
        Side::Controller => b"spindles lab, controller",
        Side::Agent => b"spindles lab, agent",
    };
    [label, &nonces.controller, &nonces.agent].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn weak_tokens_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let read = |text: &str, mode: u32| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            Token::from_file(&path)
        };
        let good = "0123456789abcdef0123456789abcdef";
        assert!(read(&format!("  {good}\n"), 0o600).is_ok());
        assert!(read(good, 0o400).is_ok());
        for (text, mode, words) in [
            (good, 0o640, "others may read"),
            (good, 0o604, "others may read"),
            (good, 0o620, "others may read"),
            (&good[1..], 0o600, "has 31 characters and needs 32"),
            (&good.repeat(200), 0o600, "is no token"),
        ] {
            let error = read(text, mode).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        let missing = Token::from_file(&folder.path().join("none"));
        assert!(missing.unwrap_err().to_string().contains("can't be read"));
        let error = Token::from_file(folder.path()).unwrap_err().to_string();
        assert!(error.contains("is no file"), "{error}");
        assert!(!format!("{:?}", read(good, 0o600)).contains("0123"));
    }

    #[test]
    fn a_proof_depends_on_side_token_and_both_nonces() {
        let token = Token::of_bytes(&[7; 32]);
        let nonces = Nonces {
            controller: [1; NONCE_BYTES],
            agent: [2; NONCE_BYTES],
        };
        let proof = token.proof(Side::Controller, &nonces);
        assert!(token.is_proof(Side::Controller, &nonces, &proof));
        assert!(!token.is_proof(Side::Agent, &nonces, &proof));
        assert!(!Token::of_bytes(&[8; 32]).is_proof(Side::Controller, &nonces, &proof));
        let swapped = Nonces {
            controller: nonces.agent,
            agent: nonces.controller,
        };
        assert!(!token.is_proof(Side::Controller, &swapped, &proof));
        assert!(!token.is_proof(Side::Controller, &nonces, &proof[..31]));
        assert!(!token.is_proof(Side::Controller, &nonces, &[]));
    }
}
