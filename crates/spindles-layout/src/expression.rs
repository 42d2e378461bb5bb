//! Array expressions as users type them: `raid5(a.img,b.img,c.img)`. They nest, and a layout
//! follows its level: `raid0(raid10:far2(a,b,c),raid10:far2(d,e,f))`. Also lists of devices, whose
//! names are quoted the same way.

use crate::{GeometryError, Level};
use alloc::borrow::{Cow, ToOwned};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use spindles_block::MEMBERS_MAX;

/// A device, or an array of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expression {
    /// A device, by the name that the user gave.
    Leaf(String),
    /// An array.
    Array {
        /// Its level.
        level: &'static Level,
        /// Its layout; `None` for the level's default.
        layout: Option<crate::Layout>,
        /// Its members.
        members: Vec<Expression>,
    },
}

/// The deepest nest of arrays: more makes no sense, and a limit keeps the stack small.
const DEPTH_MAX: usize = 8;
/// Characters that a device name may have only within double quotes.
const SPECIAL: [char; 4] = ['(', ')', ',', '"'];

/// Returns a name as written in an expression or a list. A name is put in double quotes if it has a
/// comma, a parenthesis, a double quote, or a space at either end. A double quote in it is doubled.
pub fn quoted(name: &str) -> Cow<'_, str> {
    if name.contains(SPECIAL) || name.trim() != name || name.is_empty() {
        format!("\"{}\"", name.replace('"', "\"\"")).into()
    } else {
        name.into()
    }
}

/// Parses a list of devices: `a.img,b.img,"odd,name.img"`, quoted as in expressions. A list has no
/// arrays, so a parenthesis needs no quotes.
pub fn parse_devices(text: &str) -> Result<Vec<String>, ExpressionError> {
    Parser::new(text, false).devices()
}

impl Expression {
    /// Parses an expression that names its devices. A name with a parenthesis or a comma goes in
    /// double quotes, and a double quote in it is doubled.
    pub fn parse(text: &str) -> Result<Self, ExpressionError> {
        Parser::new(text, false).parse()
    }

    /// Parses an expression that may give the number of devices instead of their names, such as
    /// `raid5(4)` or `raid0(raid5(3),raid5(3))`. Their names are then numbers, counted through the
    /// whole expression.
    pub fn parse_counted(text: &str) -> Result<Self, ExpressionError> {
        Parser::new(text, true).parse()
    }

    /// Sets the layout of every array that supports it and does not specify its own.
    pub fn with_layout(mut self, name: &str) -> Result<Self, GeometryError> {
        let mut taken = false;
        let mut refused = None;
        self.set_layout(name, &mut taken, &mut refused);
        match refused {
            Some(error) if !taken => Err(error),
            _ => Ok(self),
        }
    }

    fn set_layout(&mut self, name: &str, taken: &mut bool, refused: &mut Option<GeometryError>) {
        let Self::Array {
            level,
            layout,
            members,
        } = self
        else {
            return;
        };
        match level.layout(name) {
            Ok(given) if layout.is_none() => {
                *layout = Some(given);
                *taken = true;
            }
            Ok(_) => {}
            Err(error) => {
                refused.get_or_insert(error);
            }
        }
        for member in members {
            member.set_layout(name, taken, refused);
        }
    }

    /// Notes for the creator of arrays that are legal but rarely intended.
    pub fn notes(&self) -> Vec<&'static str> {
        let Self::Array { level, members, .. } = self else {
            return Vec::new();
        };
        let own = level
            .note
            .filter(|(usual, _)| members.len() < usize::from(*usual));
        let inner = members.iter().flat_map(Self::notes);
        own.map(|(_, note)| note).into_iter().chain(inner).collect()
    }

    /// The devices, from left to right.
    pub fn leaves(&self) -> Vec<&str> {
        match self {
            Self::Leaf(name) => [name.as_str()].into(),
            Self::Array { members, .. } => members.iter().flat_map(Self::leaves).collect(),
        }
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Leaf(name) => f.write_str(&quoted(name)),
            Self::Array {
                level,
                layout,
                members,
            } => {
                f.write_str(level.name)?;
                if let Some(layout) = layout {
                    write!(f, ":{}", layout.to_string().replace(' ', ""))?;
                }
                for (index, member) in members.iter().enumerate() {
                    write!(f, "{}{member}", if index == 0 { '(' } else { ',' })?;
                }
                f.write_str(")")
            }
        }
    }
}

/// An error in an expression, and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpressionError {
    text: String,
    /// The position, in characters.
    at: usize,
    what: What,
    /// True if the text is a list of devices.
    list: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum What {
    MemberExpected,
    DeviceExpected,
    CommaExpected,
    LevelExpected,
    CommaOrEndExpected,
    Trailing,
    QuoteOpen,
    TooDeep,
    CountWrong,
    CountForDevices,
    TwoOfAName(String),
    Geometry(Box<GeometryError>),
}

impl fmt::Display for ExpressionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.list {
            "the list of devices "
        } else {
            "the array expression "
        })?;
        match &self.what {
            What::DeviceExpected => f.write_str(
                "lacks the name of a device here: write DEV,DEV,.. or the name of an array",
            ),
            What::CommaExpected => f.write_str(
                "lacks a ',' here (a name with a comma or a double quote goes in double quotes, \
                 and a double quote in it is written twice)",
            ),
            What::MemberExpected => {
                f.write_str("lacks a device or an array here: look for a comma too many")
            }
            What::LevelExpected => {
                f.write_str("lacks a level with its members here, as raid1(a.img,b.img)")
            }
            What::CommaOrEndExpected => f.write_str("lacks a ',' or a ')' here"),
            What::Trailing => f.write_str(
                "goes on after its end: one level goes around all, as raid1(a.img,b.img)",
            ),
            What::QuoteOpen => f.write_str("lacks the quote that ends this name"),
            What::TooDeep => write!(f, "nests more than {DEPTH_MAX} arrays"),
            What::CountWrong => write!(f, "has a count that is not in 1..={MEMBERS_MAX}"),
            What::CountForDevices => f.write_str(
                "counts devices where it has to name them (a file with such a name is ./NAME)",
            ),
            What::TwoOfAName(name) => write!(f, "names '{name}' twice: take different devices"),
            What::Geometry(error) => write!(f, "is wrong: {error}"),
        }?;
        write!(
            f,
            "\n  {}\n  {:>width$}",
            self.text,
            '^',
            width = self.at + 1
        )
    }
}

impl core::error::Error for ExpressionError {}

struct Parser<'text> {
    text: &'text str,
    /// The number of bytes parsed.
    at: usize,
    counted: bool,
    /// True if the text is a list of devices, without arrays.
    list: bool,
    /// The names so far.
    names: Vec<String>,
}

impl<'text> Parser<'text> {
    fn new(text: &'text str, counted: bool) -> Self {
        Self {
            text,
            at: 0,
            counted,
            list: false,
            names: Vec::new(),
        }
    }

    fn devices(mut self) -> Result<Vec<String>, ExpressionError> {
        self.list = true;
        let mut devices = Vec::new();
        loop {
            let start = self.skip_spaces();
            let rest = self.rest();
            let name = if rest.starts_with('"') {
                self.quoted_name(start)?
            } else {
                let word = &rest[..rest.find([',', '"']).unwrap_or(rest.len())];
                self.at += word.len();
                word.trim_end().to_owned()
            };
            if name.is_empty() {
                return Err(self.error(start, What::DeviceExpected));
            }
            devices.push(name);
            match self.rest().chars().next() {
                None => return Ok(devices),
                Some(',') => self.at += 1,
                Some(_) => return Err(self.error(self.at, What::CommaExpected)),
            }
        }
    }

    fn parse(mut self) -> Result<Expression, ExpressionError> {
        let start = self.skip_spaces();
        let expression = self.expression(0)?;
        if !self.rest().is_empty() {
            return Err(self.error(self.at, What::Trailing));
        }
        match expression {
            Expression::Leaf(_) => Err(self.error(start, What::LevelExpected)),
            array @ Expression::Array { .. } => Ok(array),
        }
    }

    fn expression(&mut self, depth: usize) -> Result<Expression, ExpressionError> {
        let start = self.skip_spaces();
        if self.rest().starts_with('"') {
            return self.quoted(start);
        }
        let rest = self.rest();
        let word = &rest[..rest.find(SPECIAL).unwrap_or(rest.len())];
        self.at += word.len();
        let word = word.trim_end();
        if self.rest().starts_with('(') {
            return self.array(word, start, depth);
        }
        if word.is_empty() {
            return Err(self.error(start, What::MemberExpected));
        }
        self.leaf(word, start)
    }

    fn quoted(&mut self, start: usize) -> Result<Expression, ExpressionError> {
        let name = self.quoted_name(start)?;
        if name.is_empty() {
            return Err(self.error(start, What::MemberExpected));
        }
        self.leaf(&name, start)
    }

    /// Parses a name in double quotes and the spaces after it.
    fn quoted_name(&mut self, start: usize) -> Result<String, ExpressionError> {
        let mut name = String::new();
        loop {
            self.at += 1;
            let rest = self.rest();
            let end = rest.find('"');
            let end = end.ok_or_else(|| self.error(start, What::QuoteOpen))?;
            name.push_str(&rest[..end]);
            self.at += end + 1;
            if !self.rest().starts_with('"') {
                self.skip_spaces();
                return Ok(name);
            }
            name.push('"');
        }
    }

    fn leaf(&mut self, name: &str, start: usize) -> Result<Expression, ExpressionError> {
        // Memory devices have no identity: two equal names stand for two devices.
        let scratch = name.starts_with("mem:") || name.starts_with("null:");
        if !scratch && self.names.iter().any(|other| other == name) {
            return Err(self.error(start, What::TwoOfAName(name.to_owned())));
        }
        self.names.push(name.to_owned());
        Ok(Expression::Leaf(name.to_owned()))
    }

    fn array(
        &mut self,
        word: &str,
        start: usize,
        depth: usize,
    ) -> Result<Expression, ExpressionError> {
        if word.is_empty() {
            return Err(self.error(start, What::LevelExpected));
        }
        if depth == DEPTH_MAX {
            return Err(self.error(start, What::TooDeep));
        }
        let (name, layout) = match word.split_once(':') {
            None => (word, None),
            Some((name, layout)) => (name.trim_end(), Some(layout.trim())),
        };
        let wrong = |error| self.error(start, What::Geometry(Box::new(error)));
        let level = Level::named(name).map_err(wrong)?;
        let layout = layout.map(|layout| level.layout(layout)).transpose();
        let layout = layout.map_err(wrong)?;
        self.at += 1;
        let members = match self.count()? {
            Some(count) => self.counted_members(count),
            None => self.members(depth)?,
        };
        if members.len() < usize::from(level.members_min) || members.len() > MEMBERS_MAX.into() {
            let error = match u8::try_from(members.len()) {
                Ok(members) if members < level.members_min => {
                    GeometryError::TooFewMembers { level, members }
                }
                _ => GeometryError::TooManyMembers(members.len()),
            };
            return Err(self.error(start, What::Geometry(Box::new(error))));
        }
        Ok(Expression::Array {
            level,
            layout,
            members,
        })
    }

    fn members(&mut self, depth: usize) -> Result<Vec<Expression>, ExpressionError> {
        let mut members = Vec::new();
        loop {
            members.push(self.expression(depth + 1)?);
            self.skip_spaces();
            let end = match self.rest().chars().next() {
                Some(',') => false,
                Some(')') => true,
                _ => return Err(self.error(self.at, What::CommaOrEndExpected)),
            };
            self.at += 1;
            if end {
                self.skip_spaces();
                return Ok(members);
            }
        }
    }

    /// Parses a number of devices; `None` unless the parentheses hold a number only.
    fn count(&mut self) -> Result<Option<u8>, ExpressionError> {
        let start = self.skip_spaces();
        let Some((inside, _)) = self.rest().split_once(')') else {
            return Ok(None);
        };
        let digits = inside.trim_end();
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Ok(None);
        }
        if !self.counted {
            return Err(self.error(start, What::CountForDevices));
        }
        self.at += inside.len() + 1;
        self.skip_spaces();
        match digits.parse() {
            Ok(count) if (1..=MEMBERS_MAX).contains(&count) => Ok(Some(count)),
            _ => Err(self.error(start, What::CountWrong)),
        }
    }

    fn counted_members(&mut self, count: u8) -> Vec<Expression> {
        let first = self.names.len();
        let names = (first..first + usize::from(count)).map(|number| number.to_string());
        self.names.extend(names.clone());
        names.map(Expression::Leaf).collect()
    }

    fn rest(&self) -> &'text str {
        &self.text[self.at..]
    }

    fn skip_spaces(&mut self) -> usize {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
        self.at
    }

    fn error(&self, at: usize, what: What) -> ExpressionError {
        ExpressionError {
            text: self.text.to_owned(),
            at: self.text[..at].chars().count(),
            what,
            list: self.list,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_parse_and_print() {
        for text in [
            "raid1(a.img,b.img)",
            "raid5:left-asymmetric(/dev/a,b c,/dev/c)",
            "raid10:far3(a,b,c,d)",
            "raid0(raid5(a,b,c),raid5(d,e,f))",
            "concat(\"odd,name(1).img\",mem:64M,mem:64M)",
            "raid1(\"a\"\"quoted\"\".img\",\" b \")",
            "raid0(raid1(raid0(a),b))",
        ] {
            let parsed = Expression::parse(text);
            let parsed = parsed.unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(parsed.to_string(), text);
        }
        let spaced = Expression::parse(" raid10 : far 3 ( a , b ,c ) ").unwrap();
        assert_eq!(spaced.to_string(), "raid10:far3(a,b,c)");
        let counted = Expression::parse_counted("raid0(raid5(3), raid5( 3 ))").unwrap();
        assert_eq!(counted.to_string(), "raid0(raid5(0,1,2),raid5(3,4,5))");
        assert_eq!(counted.leaves(), ["0", "1", "2", "3", "4", "5"]);
    }

    #[test]
    fn device_lists_are_quoted_like_expressions() {
        for (text, devices) in [
            ("a.img", &["a.img"] as &[_]),
            (" a.img , b.img", &["a.img", "b.img"]),
            ("\"a,b.img\",disk (1).img", &["a,b.img", "disk (1).img"]),
            (
                "\"a\"\"b\",\" c \" ,/dev/disk/by-id/x:0",
                &["a\"b", " c ", "/dev/disk/by-id/x:0"],
            ),
        ] {
            assert_eq!(parse_devices(text).unwrap(), devices, "{text}");
            let names: Vec<_> = devices.iter().map(|name| quoted(name)).collect();
            assert_eq!(parse_devices(&names.join(",")).unwrap(), devices, "{text}");
            let expression = format!("concat({})", names.join(","));
            let expression = Expression::parse(&expression).unwrap();
            assert_eq!(expression.leaves(), devices, "{text}");
        }
        for (text, at, message) in [
            ("", 0, "the list of devices lacks the name of a device here"),
            ("a,,b", 2, "lacks the name of a device here"),
            ("a,", 2, "lacks the name of a device here"),
            ("a,\"\"", 2, "lacks the name of a device here"),
            ("a,\"b", 2, "lacks the quote that ends this name"),
            ("a,\"b\"c", 5, "lacks a ',' here"),
            ("a\"b,c", 1, "a name with a comma or a double quote goes"),
        ] {
            let error = parse_devices(text).expect_err(text);
            assert_eq!(error.at, at, "{text}: {error}");
            assert!(error.to_string().contains(message), "{text}: {error}");
        }
    }

    #[test]
    fn a_layout_applies_to_all_arrays_that_support_it() {
        let parse = |text| Expression::parse(text).unwrap();
        let nested = parse("raid0(raid5(a,b,c),raid5:right-symmetric(d,e,f))");
        assert_eq!(
            nested.with_layout("left-asymmetric").unwrap().to_string(),
            "raid0(raid5:left-asymmetric(a,b,c),raid5:right-symmetric(d,e,f))"
        );
        let error = parse("raid0(a,b)").with_layout("near").unwrap_err();
        assert!(error.to_string().starts_with("raid0 has no layout 'near'"));
    }

    #[test]
    fn errors_point_at_the_faulty_text() {
        for (text, at, message) in [
            ("", 0, "lacks a device or an array here"),
            ("a.img", 0, "lacks a level with its members here"),
            ("raid5(a,,c)", 8, "lacks a device or an array here"),
            ("raid5(a,b,c", 11, "lacks a ',' or a ')' here"),
            ("raid5(a,b,c))", 12, "goes on after its end"),
            (
                "raid5(a,b,(c,d))",
                10,
                "lacks a level with its members here",
            ),
            ("raid5(a,\"b,c)", 8, "lacks the quote"),
            ("raid1(a,b,a)", 10, "names 'a' twice"),
            ("raid5(4)", 6, "counts devices where it has to name them"),
            (
                "raid0(raid9(a,b),c)",
                6,
                "there is no level 'raid9'; there are concat, raid0",
            ),
            (
                "raid5:far2(a,b,c)",
                0,
                "raid5 has no layout 'far2'; it has left-symmetric, ",
            ),
            (
                "raid0(é,raid6(a,b,c))",
                8,
                "raid6 needs at least 4 members, and there are 3",
            ),
            (
                "raid0(raid0(raid0(raid0(raid0(raid0(raid0(raid0(raid0(a)))))))))",
                48,
                "nests more than 8",
            ),
        ] {
            let error = Expression::parse(text).expect_err(text);
            assert_eq!(error.at, at, "{text}: {error}");
            assert!(error.to_string().contains(message), "{text}: {error}");
            let lines: Vec<_> = error.to_string().lines().map(ToOwned::to_owned).collect();
            assert_eq!(
                lines[1..],
                [format!("  {text}"), format!("  {:>1$}", '^', at + 1)]
            );
        }
        for text in ["raid5(0)", "raid0(65)", "raid0(99999999999999999999)"] {
            let error = Expression::parse_counted(text).expect_err(text);
            assert!(error.to_string().contains("not in 1..=64"), "{error}");
        }
    }

    /// Any text is parsed or refused without a panic. A parsed expression prints as text that
    /// parses to the same expression.
    #[test]
    fn any_text_is_parsed_or_refused() {
        let parts = [
            "raid5", "raid10", "concat", ":far2", ":near", "(", ")", ",", "a", "b.img", " ", "\"",
            "3", "0", "65", "é", "mem:1M", "c", "d", "(", ")", ",",
        ];
        let mut random = 1_u32;
        let mut read = 0;
        for _ in 0..50_000 {
            let mut text =
                String::from(["", "raid0(", "concat(a,"][usize::try_from(random % 3).unwrap()]);
            for _ in 0..random >> 16 & 7 {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                text += parts[usize::try_from(random >> 8).unwrap() % parts.len()];
            }
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            match Expression::parse_counted(&text) {
                Ok(expression) => {
                    let again = Expression::parse(&expression.to_string());
                    assert_eq!(again.as_ref(), Ok(&expression), "{text}");
                    read += 1;
                }
                Err(error) => assert!(error.at <= text.chars().count(), "{text}"),
            }
        }
        assert!(read > 100, "{read}");
    }
}
