//! Any text is read or refused by a dialect. Slices lie within their devices and do not overlap,
//! errors lie within the text, and a shape that can be written is read back.

use spindles_dialects::{Dialect, Source, Translated, decode, named};
use spindles_layout::{Expression, parse_devices};

/// Words that dialects know, each for one byte above 127.
pub type Words = &'static [&'static str];

/// Reads bytes as a text: directly, or as numbers of words.
pub fn check(dialect: &str, words: Words, data: &[u8]) {
    let dialect = named(dialect).expect("a row");
    let Some((mode, data)) = data.split_first() else {
        return;
    };
    let text = if mode & 1 == 0 {
        decode(data).into_owned()
    } else {
        let pieces = data.iter().map(|byte| match byte {
            128.. => words[usize::from(byte - 128) % words.len()].to_owned(),
            _ => char::from(*byte).to_string(),
        });
        pieces.collect()
    };
    // Devices of unknown, small and large sizes.
    let is_known = mode & 2 != 0;
    let bytes_of = |name: &str| {
        let sizes = [
            None,
            Some(0),
            Some(300 << 9),
            Some(1000 << 9),
            Some(1 << 40),
            Some(u64::MAX),
        ];
        let size = sizes[name.bytes().map(usize::from).sum::<usize>() % sizes.len()];
        size.filter(|_| is_known)
    };
    let flavours = dialect.flavours;
    let flavour = flavours.get(usize::from(mode >> 2)).copied();
    let source = Source {
        text: &text,
        bytes_of: &bytes_of,
        flavour,
    };
    match dialect.read(&source) {
        Err(error) => {
            let line = text
                .split('\n')
                .nth(error.line - 1)
                .expect("a line of the text");
            assert!(error.column <= line.chars().count() + 1, "{error}");
            assert!(!error.message.is_empty());
        }
        Ok(translation) => {
            assert!(!translation.arrays.is_empty());
            let lines = text.split('\n').count();
            assert!(
                translation
                    .notes
                    .iter()
                    .all(|note| (1..=lines).contains(&note.line))
            );
            let mut slices = Vec::new();
            for array in &translation.arrays {
                let on_devices = translation.on_devices(&array.expression);
                slices.extend(on_devices.leaves().into_iter().filter_map(slice));
                write_and_read(dialect, array);
            }
            check_slices(slices, &bytes_of);
        }
    }
}

/// Returns the device, the start and the end of a slice; `None` for the end if it has none.
fn slice(leaf: &str) -> Option<(String, u64, Option<u64>)> {
    let parts = parse_devices(leaf.strip_prefix("slice(")?.strip_suffix(')')?).ok()?;
    let sectors = |text: &String| text.strip_suffix('s')?.parse::<u64>().ok();
    let start = sectors(&parts[1])?;
    let end = parts
        .get(2)
        .map(|length| start + sectors(length).expect("sectors"));
    Some((parts[0].clone(), start, end))
}

fn check_slices(
    mut slices: Vec<(String, u64, Option<u64>)>,
    bytes_of: &dyn Fn(&str) -> Option<u64>,
) {
    slices.sort();
    for (device, start, end) in &slices {
        let size = bytes_of(device).map(|bytes| bytes / 512);
        let end = end.unwrap_or(start + 1);
        assert!(
            *start < end && size.is_none_or(|size| end <= size),
            "{slices:?}"
        );
    }
    for pair in slices.windows(2) {
        let [(one, _, end), (other, start, _)] = pair else {
            continue;
        };
        assert!(
            one != other || end.is_some_and(|end| end <= *start),
            "{slices:?}"
        );
    }
}

fn write_and_read(dialect: &Dialect, array: &Translated) {
    assert!(array.expression.leaves().len() == array.shape.expression.leaves().len());
    let Some(Ok(text)) = dialect.write.map(|write| write(&array.shape)) else {
        return;
    };
    let source = Source {
        text: &text,
        bytes_of: &|_| None,
        flavour: None,
    };
    let again = dialect
        .read(&source)
        .unwrap_or_else(|error| panic!("{text}{error}"));
    let [again_array] = again.arrays.as_slice() else {
        panic!("{text}");
    };
    let shape: Expression = again.on_devices(&again_array.shape.expression);
    assert_eq!(shape, array.shape.expression, "{text}");
}
