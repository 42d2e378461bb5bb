//! Tables of texts, right and wrong.

use super::read;
use spindles_dialects::{Shape, Translation, Writing, named, recognise};
use spindles_layout::Expression;

/// Prints arrays: name, expression, `= shape` if it differs, chunk, spares, journal. An array in
/// place begins with `@`.
pub(crate) fn printed(translation: &Translation) -> String {
    let arrays = translation.arrays.iter().map(|array| {
        let shape = &array.shape;
        let name = shape.name.iter().flat_map(|name| [name.as_str(), ": "]);
        let mut parts = vec![if array.in_place { "@" } else { "" }.to_owned()];
        parts.extend(name.map(str::to_owned));
        parts.push(array.expression.to_string());
        if array.expression != shape.expression {
            parts.push(format!(" = {}", shape.expression));
        }
        parts.extend(shape.chunk_bytes.map(|bytes| format!(" {}K", bytes / 1024)));
        parts.extend(shape.spares.iter().map(|spare| format!(" spare {spare}")));
        parts.extend(
            shape
                .journal
                .iter()
                .map(|journal| format!(" journal {journal}")),
        );
        parts.concat()
    });
    arrays.collect::<Vec<_>>().join("; ")
}

/// Checks a table of texts. After each text a line `= ARRAYS` follows, and lines `~ NOTE`; or, of a
/// wrong text, a line `! LINE:COLUMN ERROR`. Notes and errors contain what is written. Lines
/// `% DEVICE SECTORS` give sizes. `\r` and `\1` stand for these characters.
pub(crate) fn check(dialect: &str, table: &str) {
    let (mut text, mut sizes) = (String::new(), Vec::new());
    let mut notes = Vec::new();
    let (mut right, mut wrong) = (0, 0);
    let mut failures = String::new();
    let mut expect = |is: bool, message: String| {
        if !is {
            failures += &(message + "\n\n");
        }
    };
    for line in table.lines() {
        let kind = line.get(..2).unwrap_or_default();
        match (kind, read(dialect, &text, &sizes)) {
            ("% ", _) => {
                let (device, sectors) = line[2..].split_once(' ').unwrap();
                sizes.push((device, sectors.parse().unwrap()));
            }
            ("= ", result) => {
                let recognised = recognise(&text).map(|dialect| dialect.name);
                expect(recognised == Some(dialect), format!("{text}{recognised:?}"));
                let arrays = result.as_ref().map(printed);
                let is = arrays.as_deref() == Ok(&line[2..]);
                expect(is, format!("{text}{line}\n{arrays:?}"));
                notes = result.map_or(Vec::new(), |translation| translation.notes);
                right += 1;
            }
            ("~ ", _) => {
                let has = notes.iter().any(|note| note.text.contains(&line[2..]));
                expect(has, format!("{line}\n{notes:?}"));
            }
            ("! ", result) => {
                let (place, message) = line[2..].split_once(' ').unwrap();
                let is = result.as_ref().is_err_and(|error| {
                    let found = format!("{}:{}", error.line, error.column);
                    error.message.contains(message) && found == place
                });
                expect(is, format!("{text}{line}\n{result:?}"));
                wrong += 1;
            }
            _ if line.is_empty() && text.is_empty() => {}
            _ => text += &(line.replace("\\r", "\r").replace("\\1", "\u{1}") + "\n"),
        }
        if ["= ", "! "].contains(&kind) {
            text.clear();
        }
    }
    assert!(failures.is_empty(), "{failures}");
    assert!(right >= 15 && wrong >= 15, "{right} right, {wrong} wrong");
}

/// Writes a shape and reads it again.
pub(crate) fn check_round_trip(dialect: &str, shape: &Shape) -> bool {
    let write = named(dialect).expect(dialect).write.expect("it writes");
    let Ok(text) = write(shape, &mut Writing::new([shape], &|_| None)) else {
        return false;
    };
    let translation = read(dialect, &text, &[]);
    let translation = translation.unwrap_or_else(|error| panic!("{shape:?}\n{text}{error}"));
    assert_eq!(translation.arrays.len(), 1, "{text}");
    let read = &translation.arrays[0].shape;
    assert_eq!(read, shape, "{text}");
    true
}

/// Draws shapes with a linear congruential generator.
pub(crate) struct Draw(pub(crate) u64);

impl Draw {
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        usize::try_from(self.0 >> 33).unwrap() % end
    }

    pub(crate) fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    fn device(&mut self, number: &mut usize) -> String {
        *number += 1;
        let prefix = self.of(&[
            "/dev/sd", "d", "a b", "it's", "é", "x=", "{", "log", "-", "#",
        ]);
        format!("{prefix}{number}")
    }

    fn array(&mut self, levels: &[&str], depth: usize, number: &mut usize) -> Expression {
        let level = spindles_layout::Level::named(self.of(levels)).unwrap();
        let count = usize::from(level.members_min) + self.below(4);
        let members = (0..count).map(|_| match self.below(4) {
            0 if depth > 0 => self.array(levels, depth - 1, number),
            1 if self.below(4) == 0 => Expression::Leaf("missing".into()),
            _ => Expression::Leaf(self.device(number)),
        });
        let members: Vec<_> = members.collect();
        let row = self.of(&[
            "",
            "",
            "left-asymmetric",
            "far2",
            "offset2",
            "original",
            "parity-last",
        ]);
        let layout = Some(row).filter(|row| !row.is_empty());
        Expression::Array {
            level,
            layout: layout.and_then(|row| level.layout(row).ok()),
            members,
        }
    }

    /// Draws a shape of these levels.
    pub(crate) fn shape(&mut self, levels: &[&str], chunks: bool) -> Shape {
        let mut number = 0;
        let depth = self.below(2);
        let expression = self.array(levels, depth, &mut number);
        let is_mirror = matches!(&expression, Expression::Array { level, .. }
            if ["concat", "raid1"].contains(&level.name));
        let spares = self.of(&[0, 0, 1, 2]);
        let spares = (0..spares).map(|_| self.device(&mut number)).collect();
        let journal = (self.below(4) == 0).then(|| self.device(&mut number));
        Shape {
            name: Some(self.of(&["tank", "md0", "data", "a.b_c"]).to_owned()),
            expression,
            chunk_bytes: (chunks && !is_mirror)
                .then(|| self.of(&[4 << 10, 64 << 10, 512 << 10, 48 << 10])),
            spares,
            journal,
            is_uniform: false,
            no_offset: false,
        }
    }
}
