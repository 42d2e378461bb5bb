//! The kernel's randomness, for identities and nonces.

use crate::errors::{OpenError, failed};
use rustix::io::retry_on_intr;
use rustix::rand::{GetRandomFlags, getrandom};
use spindles_format::Uuid;

/// Returns `N` random bytes.
pub(crate) fn bytes<const N: usize>() -> Result<[u8; N], OpenError> {
    let mut bytes = [0; N];
    let mut done = 0;
    while done < N {
        done += retry_on_intr(|| getrandom(&mut bytes[done..], GetRandomFlags::empty()))
            .map_err(|errno| failed("the kernel's random numbers", "read", errno.into()))?;
    }
    Ok(bytes)
}

/// Returns an unpredictable number.
pub fn nonce() -> Result<u64, OpenError> {
    Ok(u64::from_le_bytes(bytes()?))
}

/// Returns a new identity.
pub fn uuid() -> Result<Uuid, OpenError> {
    Ok(Uuid::from_random(bytes()?))
}
