//! Any bytes decode to a kernel request or to an error, and a decoded write lies within the bytes.

#![no_main]

#[allow(dead_code, reason = "replies are not tried here")]
#[path = "../../crates/spindles-serve/src/transports/fuse/message.rs"]
mod message;

use libfuzzer_sys::fuzz_target;
use message::{Ask, HEAD_BYTES, Message};
use std::hint::black_box;

fn decode(bytes: &[u8]) {
    let head = &bytes[..bytes.len().min(HEAD_BYTES)];
    // `black_box` keeps the decoding of unused fields.
    let Ok(message) = black_box(Message::decode(head, bytes.len())) else {
        return;
    };
    if let Ask::Write { bytes: count, .. } = message.ask {
        assert_eq!(HEAD_BYTES + usize::try_from(count).unwrap(), bytes.len());
    }
}

fuzz_target!(|data: &[u8]| {
    decode(data);
    // With the right length and an existing kind, so that the fields are reached.
    let mut bytes = data.to_vec();
    let length = u32::try_from(bytes.len()).unwrap();
    if let Some((head, rest)) = bytes.split_first_chunk_mut::<8>() {
        head[..4].copy_from_slice(&length.to_ne_bytes());
        let kind = u32::from(head[4] % 52);
        head[4..].copy_from_slice(&kind.to_ne_bytes());
        // A write as long as the data that follows.
        if kind == 16 && data[5] & 1 == 0 && rest.len() >= HEAD_BYTES - 8 {
            let follows = length - u32::try_from(HEAD_BYTES).unwrap();
            rest[48..52].copy_from_slice(&follows.to_ne_bytes());
        }
        decode(&bytes);
    }
});
