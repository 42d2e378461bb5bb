//! Any text is read or refused by a dialect. Slices lie within their devices and do not overlap,
//! errors lie within the text, printed words have no control characters, expressions are parsed as
//! they were printed, and a shape that can be written is read back.

use spindles_dialects::{
    Dialect, DialectError, Shape, Source, Translation, Writing, decode, named,
};
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
        let mut text = String::new();
        for byte in data {
            match byte {
                128.. => text.push_str(words[usize::from(byte - 128) % words.len()]),
                _ => text.push(char::from(*byte)),
            }
        }
        text
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
    // Every text is valid input, recognised or not.
    dialect.recognises(&text);
    match dialect.read(&source) {
        Err(error) => check_error(&text, &error),
        Ok(translation) => check_translation(dialect, &text, &translation, &bytes_of),
    }
}

fn check_error(text: &str, error: &DialectError) {
    let line = text.split('\n').nth(error.line - 1);
    let columns = line.expect("a line of the text").chars().count() + 1;
    assert!((1..=columns).contains(&error.column), "{error}");
    assert!(!error.message.is_empty());
    check_printable(&error.message);
}

fn check_translation(
    dialect: &Dialect,
    text: &str,
    translation: &Translation,
    bytes_of: &dyn Fn(&str) -> Option<u64>,
) {
    assert!(!translation.arrays.is_empty());
    let lines = text.split('\n').count();
    let mut line = 1;
    for note in &translation.notes {
        assert!((line..=lines).contains(&note.line), "{note:?}");
        line = note.line;
        assert!(!note.text.is_empty());
        check_printable(&note.text);
    }
    let mut slices = Vec::new();
    for array in &translation.arrays {
        let shape = &array.shape;
        check_expression(&array.expression);
        check_expression(&shape.expression);
        let words = shape.name.iter().chain(&shape.spares).chain(&shape.journal);
        words.for_each(|word| check_printable(word));
        assert_ne!(shape.name.as_deref(), Some(""));
        assert_eq!(
            array.expression.leaves().len(),
            shape.expression.leaves().len()
        );
        let on_devices = translation.on_devices(&array.expression);
        check_expression(&on_devices);
        slices.extend(on_devices.leaves().into_iter().filter_map(slice));
        write_and_read(dialect, &translation.shape_on_devices(shape));
    }
    check_slices(slices, bytes_of);
}

fn check_printable(text: &str) {
    assert!(!text.contains(char::is_control), "{text:?}");
}

/// Checks that an expression is parsed as it was printed, if no device has two parts in it.
fn check_expression(expression: &Expression) {
    let text = expression.to_string();
    check_printable(&text);
    let mut devices = expression.leaves();
    devices.retain(|device| *device != "missing");
    devices.sort_unstable();
    if devices.windows(2).any(|pair| pair[0] == pair[1]) {
        return;
    }
    match Expression::parse(&text) {
        Ok(parsed) => assert_eq!(parsed, *expression, "{text}"),
        Err(error) => panic!("{error}"),
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

/// Checks that the dialect reads the text of a shape as the same shape. A dialect may give it a
/// name and a chunk size.
fn write_and_read(dialect: &Dialect, shape: &Shape) {
    let mut writing = Writing::new([shape], &|_| None);
    let Some(Ok(text)) = dialect.write.map(|write| write(shape, &mut writing)) else {
        return;
    };
    assert!(dialect.recognises(&text), "{text}");
    assert!(text.ends_with('\n') && !text.contains(|c: char| c.is_control() && c != '\n'));
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
    let mut read = again.shape_on_devices(&again_array.shape);
    if shape.chunk_bytes.is_none() || !is_striped(&shape.expression) {
        read.chunk_bytes = shape.chunk_bytes;
    }
    let is_comment = text.starts_with("# ");
    if shape.name.is_none() || is_comment {
        read.name.clone_from(&shape.name);
    }
    // Without sizes, raidctl's level 0 may end at the smallest.
    if dialect.name == "raidctl" {
        read.is_uniform = shape.is_uniform;
    }
    assert_eq!(read, *shape, "{text}");
}

/// Returns true if an array or one within it deals chunks. The chunk size of a mirror of Vinum only
/// divides its size.
fn is_striped(expression: &Expression) -> bool {
    match expression.uncut() {
        Expression::Array { level, members, .. } => {
            !["raid1", "concat"].contains(&level.name) || members.iter().any(is_striped)
        }
        _ => false,
    }
}
