//! Runs by description.

use spindles_layout::Level;
use spindles_sim::disks::Model;
use spindles_sim::faults::Fault;
use spindles_sim::{Ending, Fixed};

/// Returns runs as the words say: a level, its number of members as `3-wide`, an
/// ending, faults ... If a fault is named, no other may strike; `calm` allows none.
pub(crate) fn fixed(words: &str) -> Fixed {
    let mut fixed = Fixed::default();
    for word in words.split_whitespace() {
        set(&mut fixed, word);
    }
    fixed
}

fn set(fixed: &mut Fixed, word: &str) {
    match word {
        "nested" => fixed.nested = true,
        "staged" => fixed.staged = true,
        "beyond" => fixed.beyond = Some(true),
        "alike" => fixed.sizes = Some(false),
        "unequal" => fixed.sizes = Some(true),
        "checksums" => fixed.checksums = Some(true),
        "no-checksums" => fixed.checksums = Some(false),
        "device" => fixed.journal_device = Some(true),
        "close" => fixed.ending = Some(Ending::Close),
        "crash" => fixed.ending = Some(Ending::ProcessCrash),
        "power" => fixed.ending = Some(Ending::PowerLoss),
        "calm" => fixed.faults = Some(Vec::new()),
        _ => {
            let number = word
                .split_once('-')
                .map(|(number, unit)| (number.parse(), unit));
            if let Some(fault) = Fault::by_name(word) {
                fixed.faults.get_or_insert_default().push(fault);
            } else if let Some(level) = Level::by_name(word) {
                fixed.level = Some(level);
            } else if let Some(model) = Model::by_name(word) {
                fixed.model = Some(model);
            } else if let Some((Ok(number), unit)) = number {
                match unit {
                    "wide" => fixed.members = Some(u8::try_from(number).expect("few")),
                    "requests" => fixed.requests = Some(number),
                    "deep" => fixed.depth = Some(number),
                    _ => panic!("{word}: no such unit"),
                }
            } else {
                panic!("{word}: no such word");
            }
        }
    }
}
