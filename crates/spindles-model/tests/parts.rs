//! Parts that are made faster keep the draw.

use spindles_model::{Draw, KINDS, preset, preset_names};

/// Each number of a part is a factor faster in every draw; all others keep their values.
#[test]
fn a_faster_part_keeps_the_draw() {
    let mut changed = 0;
    for name in preset_names() {
        let parameters = preset(name).unwrap();
        let draw = Draw::seeded(9);
        let before = parameters.drawn(&draw);
        for part in parameters.kind.parts {
            let Some(faster) = parameters.faster(part, 1.1) else {
                continue;
            };
            changed += 1;
            for (key, value) in faster.drawn(&draw) {
                let ratio = if before[key] == 0.0 {
                    1.0
                } else {
                    value / before[key]
                };
                let is_of = |keys: &[&str]| keys.iter().any(|begin| key.starts_with(begin));
                let expected = match (is_of(part.times), is_of(part.rates)) {
                    _ if key == "seek_knee_cylinders" || before[key] == 0.0 => 1.0,
                    (true, _) => 1.0 / 1.1,
                    (_, true) => 1.1,
                    _ => 1.0,
                };
                assert!(
                    (ratio - expected).abs() < 1e-9,
                    "{name}, {}: {key}",
                    part.name
                );
            }
        }
    }
    assert!(changed > 40, "{changed}");
}

/// Every key of a part begins a number of its kind, and no number is in two parts.
#[test]
fn parts_name_numbers_of_their_kind() {
    for kind in KINDS {
        let keys = kind
            .parts
            .iter()
            .flat_map(|part| part.times.iter().chain(part.rates));
        for key in keys {
            let known = kind
                .numbers
                .iter()
                .any(|number| number.key.starts_with(key));
            assert!(known, "{}: {key}", kind.name);
        }
        for number in kind.numbers {
            let is_of = |keys: &[&str]| keys.iter().any(|begin| number.key.starts_with(begin));
            let parts = kind
                .parts
                .iter()
                .filter(|part| is_of(part.times) || is_of(part.rates));
            assert!(parts.count() <= 1, "{}: {}", kind.name, number.key);
        }
    }
}
