//! Any three texts are read as the folder of a measured drive or refused. A drive that is read
//! answers.

#![no_main]

use libfuzzer_sys::fuzz_target;
use spindles_model::{Draw, DriveTexts, parse_drive, parse_requests};

#[path = "shared/disk.rs"]
mod shared;

/// Stands between two texts.
const BETWEEN: char = '\u{1}';

fuzz_target!(|data: &[u8]| {
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    let mut texts = text.split(BETWEEN);
    let mut next = || texts.next().unwrap_or_default();
    let texts = DriveTexts {
        folder: "fuzz",
        drive: next(),
        seek: next(),
        extents: next(),
    };
    drop(parse_requests("requests.csv", texts.seek));
    if let Ok(parameters) = parse_drive(&texts) {
        shared::check(&parameters, &Draw::exact());
    }
});
