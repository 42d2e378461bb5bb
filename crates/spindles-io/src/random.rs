//! The kernel's randomness, for identities and nonces.

use crate::errors::{OpenError, failed};
use spindles_format::Uuid;
use std::fs::File;
use std::io::Read as _;

/// So many random bytes.
pub(crate) fn bytes<const N: usize>() -> Result<[u8; N], OpenError> {
    let source = "/dev/urandom";
    let mut bytes = [0; N];
    File::open(source)
        .and_then(|mut file| file.read_exact(&mut bytes))
        .map_err(|error| failed(source, "read", error))?;
    Ok(bytes)
}

/// A number that nobody can guess.
pub(crate) fn nonce() -> Result<u64, OpenError> {
    Ok(u64::from_le_bytes(bytes()?))
}

/// A new identity.
pub(crate) fn uuid() -> Result<Uuid, OpenError> {
    Ok(Uuid::from_random(bytes()?))
}
