//! Array expressions as users type them: `raid5(a.img,b.img,c.img)`. They nest, and a layout
//! follows its level: `raid0(raid10:far2(a,b,c),raid10:far2(d,e,f))`. Also lists of devices, whose
//! names are quoted the same way. A device or an array may be cut: `slice(a.img,64s,1000M)`.

use crate::{GeometryError, Level};
use alloc::borrow::{Cow, ToOwned};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use spindles_block::{MEMBERS_MAX, SizeBytes, SizeError};

/// A device, or an array of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expression {
    /// A device, by the name that the user gave. Part of a device is the text of its [`Slice`].
    Leaf(String),
    /// Part of an array.
    Slice {
        /// The array.
        of: Box<Expression>,
        /// Where the part begins, in whole sectors.
        start_bytes: u64,
        /// Its length in whole sectors; `None` for the rest of the array.
        length_bytes: Option<u64>,
    },
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

/// Part of a device. Its text is `slice(DEV,START)` or `slice(DEV,START,LENGTH)`, in sectors; this
/// text is the name of the part wherever a device has a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// The device.
    pub device: String,
    /// Where the part begins, in whole sectors.
    pub start_bytes: u64,
    /// Its length in whole sectors; `None` for the rest of the device.
    pub length_bytes: Option<u64>,
}

impl Slice {
    /// The unit of a start and a length.
    pub const SECTOR_BYTES: u64 = 512;

    /// Returns true if a device's name is the text of a slice, right or wrong. A file of such a
    /// name is `./NAME`.
    pub fn is_text(name: &str) -> bool {
        name.starts_with(SLICE) && name[SLICE.len()..].starts_with('(')
    }

    /// Parses the text of a slice of a device.
    pub fn parse(text: &str) -> Result<Self, ExpressionError> {
        Parser::new(text, Kind::Slice).only_slice()
    }
}

impl fmt::Display for Slice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = quoted(&self.device);
        print_slice(f, &of, self.start_bytes, self.length_bytes)
    }
}

fn print_slice(
    f: &mut fmt::Formatter<'_>,
    of: &dyn fmt::Display,
    start_bytes: u64,
    length_bytes: Option<u64>,
) -> fmt::Result {
    let sectors = |bytes| bytes / Slice::SECTOR_BYTES;
    write!(f, "{SLICE}({of},{}s", sectors(start_bytes))?;
    if let Some(length_bytes) = length_bytes {
        write!(f, ",{}s", sectors(length_bytes))?;
    }
    f.write_str(")")
}

/// The word before the parentheses of a slice. No level has this name.
const SLICE: &str = "slice";
/// The leaf of a plain array that stands for an absent member.
pub const MISSING: &str = "missing";

/// Characters that a device name may have only within double quotes.
const SPECIAL: [char; 4] = ['(', ')', ',', '"'];

/// Returns a name as written in an expression or a list. A name is put in double quotes if it has a
/// comma, a parenthesis, a double quote, or a space at either end. A double quote in it is doubled.
/// A slice has no quotes around it.
pub fn quoted(name: &str) -> Cow<'_, str> {
    if Slice::is_text(name) && Slice::parse(name).is_ok() {
        name.into()
    } else if name.contains(SPECIAL) || name.trim() != name || name.is_empty() {
        format!("\"{}\"", name.replace('"', "\"\"")).into()
    } else {
        name.into()
    }
}

/// Parses a list of devices: `a.img,b.img,"odd,name.img"`, quoted as in expressions. A list has no
/// arrays, so a parenthesis needs no quotes, except in a slice.
pub fn parse_devices(text: &str) -> Result<Vec<String>, ExpressionError> {
    Parser::new(text, Kind::List).devices()
}

impl Expression {
    /// The deepest nest of arrays: more makes no sense, and a limit keeps the stack small.
    pub const DEPTH_MAX: usize = 8;

    /// Parses an expression that names its devices. A name with a parenthesis or a comma goes in
    /// double quotes, and a double quote in it is doubled.
    pub fn parse(text: &str) -> Result<Self, ExpressionError> {
        Parser::new(text, Kind::Array).parse()
    }

    /// Parses an expression that may give the number of devices instead of their names, such as
    /// `raid5(4)` or `raid0(raid5(3),raid5(3))`. Their names are then numbers, counted through the
    /// whole expression.
    pub fn parse_counted(text: &str) -> Result<Self, ExpressionError> {
        Parser::new(text, Kind::Counted).parse()
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
        let (level, layout, members) = match self {
            Self::Leaf(_) => return,
            Self::Slice { of, .. } => return of.set_layout(name, taken, refused),
            Self::Array {
                level,
                layout,
                members,
            } => (level, layout, members),
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
        let (level, members) = match self {
            Self::Leaf(_) => return Vec::new(),
            Self::Slice { of, .. } => return of.notes(),
            Self::Array { level, members, .. } => (level, members),
        };
        let own = level
            .note
            .filter(|(usual, _)| members.len() < usize::from(*usual));
        let inner = members.iter().flat_map(Self::notes);
        own.map(|(_, note)| note).into_iter().chain(inner).collect()
    }

    /// Returns the array of which this is a slice; itself if it is no slice of an array.
    #[must_use]
    pub fn uncut(&self) -> &Self {
        match self {
            Self::Slice { of, .. } => of,
            Self::Leaf(_) | Self::Array { .. } => self,
        }
    }

    /// Returns the expression with other devices: `rename` gets each name, from left to right.
    #[must_use]
    pub fn with_leaves(&self, rename: &mut dyn FnMut(&str) -> String) -> Self {
        match self {
            Self::Leaf(name) => Self::Leaf(rename(name)),
            Self::Slice {
                of,
                start_bytes,
                length_bytes,
            } => Self::Slice {
                of: Box::new(of.with_leaves(rename)),
                start_bytes: *start_bytes,
                length_bytes: *length_bytes,
            },
            Self::Array {
                level,
                layout,
                members,
            } => Self::Array {
                level,
                layout: *layout,
                members: (members.iter())
                    .map(|member| member.with_leaves(rename))
                    .collect(),
            },
        }
    }

    /// The devices, from left to right.
    pub fn leaves(&self) -> Vec<&str> {
        match self {
            Self::Leaf(name) => [name.as_str()].into(),
            Self::Slice { of, .. } => of.leaves(),
            Self::Array { members, .. } => members.iter().flat_map(Self::leaves).collect(),
        }
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Leaf(name) => f.write_str(&quoted(name)),
            Self::Slice {
                of,
                start_bytes,
                length_bytes,
            } => print_slice(f, of, *start_bytes, *length_bytes),
            Self::Array {
                level,
                layout,
                members,
            } => {
                f.write_str(level.name)?;
                if let Some(layout) = layout {
                    write!(f, ":{}", layout.to_string().replace(' ', ""))?;
                }
                // A number alone would be the number of devices.
                if let [Self::Leaf(name)] = &members[..]
                    && name.bytes().all(|byte| byte.is_ascii_digit())
                {
                    return write!(f, "(\"{name}\")");
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
    kind: Kind,
}

/// The grammar of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// An expression that names its devices.
    Array,
    /// An expression that may count its devices.
    Counted,
    /// A list of devices, without arrays.
    List,
    /// A slice of a device.
    Slice,
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
    StartExpected,
    SliceOfSlice,
    SliceOfArray,
    SliceOfAll,
    Size(SizeError),
    NotSectors,
    LengthZero,
}

impl fmt::Display for ExpressionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            Kind::Array | Kind::Counted => "the array expression ",
            Kind::List => "the list of devices ",
            Kind::Slice => "the device ",
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
            What::TooDeep => write!(f, "nests more than {} arrays", Expression::DEPTH_MAX),
            What::CountWrong => write!(f, "has a count that is not in 1..={MEMBERS_MAX}"),
            What::CountForDevices => f.write_str(
                "counts devices where it has to name them (a file with such a name is ./NAME)",
            ),
            What::TwoOfAName(name) => write!(f, "names '{name}' twice: take different devices"),
            What::Geometry(error) => write!(f, "is wrong: {error}"),
            What::StartExpected => f.write_str(
                "lacks the start of a slice here: write slice(DEV,START) or \
                 slice(DEV,START,LENGTH), as slice(a.img,64s)",
            ),
            What::SliceOfSlice => f.write_str("cuts a slice of a slice: cut the device once"),
            What::SliceOfArray => {
                f.write_str("cuts a slice of an array where a slice of a device is wanted")
            }
            What::SliceOfAll => f.write_str(
                "is a slice of an array: put an array around it, as concat(slice(raid1(a,b),64s))",
            ),
            What::Size(error) => write!(f, "has a wrong size: {error}"),
            What::NotSectors => {
                f.write_str("has a size that is not a whole number of sectors of 512 bytes")
            }
            What::LengthZero => {
                f.write_str("has a slice of length 0: leave its length out for all")
            }
        }?;
        let from = self.at.saturating_sub(SHOWN_CHARS);
        let shown: String = (self.text.chars().skip(from))
            .take(2 * SHOWN_CHARS)
            .collect();
        let width = self.at - from + 1;
        write!(f, "\n  {shown}\n  {:>width$}", '^')
    }
}

/// Characters of an expression that an error shows before its place, and after it.
const SHOWN_CHARS: usize = 200;

impl core::error::Error for ExpressionError {}

struct Parser<'text> {
    text: &'text str,
    /// The number of bytes parsed.
    at: usize,
    kind: Kind,
    /// The names so far.
    names: Vec<String>,
}

impl<'text> Parser<'text> {
    fn new(text: &'text str, kind: Kind) -> Self {
        Self {
            text,
            at: 0,
            kind,
            names: Vec::new(),
        }
    }

    fn devices(mut self) -> Result<Vec<String>, ExpressionError> {
        let mut devices = Vec::new();
        loop {
            let start = self.skip_spaces();
            let rest = self.rest();
            let name = if rest.starts_with('"') {
                let name = self.quoted_name(start)?;
                self.canonical(name, start)?
            } else if Slice::is_text(rest) {
                self.device_slice()?.to_string()
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

    fn only_slice(mut self) -> Result<Slice, ExpressionError> {
        let slice = self.device_slice()?;
        self.end()?;
        Ok(slice)
    }

    fn parse(mut self) -> Result<Expression, ExpressionError> {
        let start = self.skip_spaces();
        let expression = self.expression(0)?;
        self.end()?;
        match expression {
            Expression::Leaf(_) => Err(self.error(start, What::LevelExpected)),
            Expression::Slice { .. } => Err(self.error(start, What::SliceOfAll)),
            array @ Expression::Array { .. } => Ok(array),
        }
    }

    fn end(&self) -> Result<(), ExpressionError> {
        if self.rest().is_empty() {
            Ok(())
        } else {
            Err(self.error(self.at, What::Trailing))
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
            return if word == SLICE {
                self.slice(depth)
            } else {
                self.array(word, start, depth)
            };
        }
        if word.is_empty() {
            return Err(self.error(start, What::MemberExpected));
        }
        Ok(Expression::Leaf(word.to_owned()))
    }

    fn slice(&mut self, depth: usize) -> Result<Expression, ExpressionError> {
        let (of, start_bytes, length_bytes) = self.cut(depth)?;
        Ok(match of {
            Expression::Leaf(device) => {
                let slice = Slice {
                    device,
                    start_bytes,
                    length_bytes,
                };
                Expression::Leaf(slice.to_string())
            }
            of => Expression::Slice {
                of: Box::new(of),
                start_bytes,
                length_bytes,
            },
        })
    }

    /// Parses a slice of a device.
    fn device_slice(&mut self) -> Result<Slice, ExpressionError> {
        let start = self.skip_spaces();
        if !Slice::is_text(self.rest()) {
            return Err(self.error(start, What::StartExpected));
        }
        self.at += SLICE.len();
        match self.cut(0)? {
            (Expression::Leaf(device), start_bytes, length_bytes) => Ok(Slice {
                device,
                start_bytes,
                length_bytes,
            }),
            _ => Err(self.error(start, What::SliceOfArray)),
        }
    }

    /// Parses a slice from its parenthesis on, and the spaces after it: what is cut, the start, and
    /// the length.
    fn cut(&mut self, depth: usize) -> Result<(Expression, u64, Option<u64>), ExpressionError> {
        self.at += 1;
        let start = self.skip_spaces();
        let of = self.expression(depth)?;
        let is_slice = match &of {
            Expression::Leaf(name) => Slice::is_text(name),
            Expression::Slice { .. } => true,
            Expression::Array { .. } => false,
        };
        if is_slice {
            return Err(self.error(start, What::SliceOfSlice));
        }
        if !self.rest().starts_with(',') {
            return Err(self.error(self.at, What::StartExpected));
        }
        let (_, start_bytes) = self.sectors()?;
        let mut length_bytes = None;
        if self.rest().starts_with(',') {
            let (at, bytes) = self.sectors()?;
            if bytes == 0 {
                return Err(self.error(at, What::LengthZero));
            }
            if start_bytes.checked_add(bytes).is_none() {
                return Err(self.error(at, What::Size(SizeError::TooLarge)));
            }
            length_bytes = Some(bytes);
        }
        if !self.rest().starts_with(')') {
            return Err(self.error(self.at, What::CommaOrEndExpected));
        }
        self.at += 1;
        self.skip_spaces();
        Ok((of, start_bytes, length_bytes))
    }

    /// Parses a comma and a size after it, and the size's position.
    fn sectors(&mut self) -> Result<(usize, u64), ExpressionError> {
        self.at += 1;
        let start = self.skip_spaces();
        let rest = self.rest();
        let word = &rest[..rest.find(SPECIAL).unwrap_or(rest.len())];
        let size = word.trim_end().parse();
        let SizeBytes(bytes) = size.map_err(|error| self.error(start, What::Size(error)))?;
        if !bytes.is_multiple_of(Slice::SECTOR_BYTES) {
            return Err(self.error(start, What::NotSectors));
        }
        self.at += word.len();
        Ok((start, bytes))
    }

    /// Returns a quoted name, which may be the text of a slice.
    fn canonical(&self, name: String, start: usize) -> Result<String, ExpressionError> {
        if Slice::is_text(&name) {
            let slice = Slice::parse(&name).map_err(|error| self.error(start, error.what))?;
            return Ok(slice.to_string());
        }
        Ok(name)
    }

    fn quoted(&mut self, start: usize) -> Result<Expression, ExpressionError> {
        let name = self.quoted_name(start)?;
        if name.is_empty() {
            return Err(self.error(start, What::MemberExpected));
        }
        Ok(Expression::Leaf(self.canonical(name, start)?))
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

    /// Refuses a second member of the same name.
    fn check_name(&mut self, member: &Expression, start: usize) -> Result<(), ExpressionError> {
        let Expression::Leaf(name) = member else {
            return Ok(());
        };
        // Memory devices have no identity: two equal names stand for two devices.
        let device = name.strip_prefix("slice(").unwrap_or(name);
        let has_twins = name == MISSING
            || ["mem:", "null:"]
                .iter()
                .any(|kind| device.starts_with(kind));
        if !has_twins && self.names.contains(name) {
            return Err(self.error(start, What::TwoOfAName(name.clone())));
        }
        self.names.push(name.clone());
        Ok(())
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
        if depth == Expression::DEPTH_MAX {
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
            let start = self.skip_spaces();
            let member = self.expression(depth + 1)?;
            self.check_name(&member, start)?;
            members.push(member);
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
        if self.kind != Kind::Counted {
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
            kind: self.kind,
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
            "raid1(concat(\"2\"),raid0(3,4))",
            "raid1(slice(a,64s),slice(a,1064s,1000s))",
            "concat(slice(\"odd,name(1).img\",0s),slice(mem:1M,8s,8s),slice(mem:1M,8s,8s))",
            "raid0(slice(raid5:right-symmetric(a,b,c),64s,128s),d,\"./slice(d,64s)\")",
        ] {
            let parsed = Expression::parse(text);
            let parsed = parsed.unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(parsed.to_string(), text);
        }
        let spaced = Expression::parse(" raid10 : far 3 ( a , b ,c ) ").unwrap();
        assert_eq!(spaced.to_string(), "raid10:far3(a,b,c)");
        let sliced = "raid1( slice ( a.img , 1M ) ,\"slice(b,32K,2T)\", slice(\"c\", 0,512))";
        let sliced = Expression::parse(sliced).unwrap();
        let names = [
            "slice(a.img,2048s)",
            "slice(b,64s,4294967296s)",
            "slice(c,0s,1s)",
        ];
        assert_eq!(sliced.leaves(), names);
        assert_eq!(sliced.to_string(), format!("raid1({})", names.join(",")));
        for name in names {
            assert_eq!(Slice::parse(name).unwrap().to_string(), name);
        }
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
            (
                "slice(a,32K),slice(\"b (1)\",0s,8s) ,\"./slice(c,64s)\",slice (1).img",
                &[
                    "slice(a,64s)",
                    "slice(\"b (1)\",0s,8s)",
                    "./slice(c,64s)",
                    "slice (1).img",
                ],
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
            ("a,slice(b,64s)c", 14, "lacks a ',' here"),
            ("a,slice(b,64s", 13, "lacks a ',' or a ')' here"),
            (
                "slice(raid1(a,b),64s)",
                0,
                "the list of devices cuts a slice of an array where",
            ),
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
    fn an_error_shows_the_surroundings_of_its_place() {
        let long = format!("raid0({}", "a".repeat(1 << 20));
        let error = Expression::parse(&long).unwrap_err().to_string();
        let lines: Vec<&str> = error.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(lines.iter().all(|line| line.len() < 500), "{error}");
        assert_eq!(lines[2].len(), 2 + SHOWN_CHARS + 1);
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
            ("slice(raid1(a,b),64s)", 0, "is a slice of an array: put"),
            ("slice(a,64s)", 0, "lacks a level with its members here"),
            ("raid1(slice(a),b)", 13, "lacks the start of a slice here"),
            (
                "raid1(slice(,64s),b)",
                12,
                "lacks a device or an array here",
            ),
            ("raid1(slice(a,),b)", 14, "has a wrong size: not a size"),
            ("raid1(slice(a,64x),b)", 14, "has a wrong size: not a size"),
            (
                "raid1(slice(a,100),b)",
                14,
                "not a whole number of sectors of 512 bytes",
            ),
            (
                "raid1(slice(a,100000000000000000000s),b)",
                14,
                "has a wrong size: too large",
            ),
            (
                "raid1(slice(a,36028797018963967s,1s),b)",
                33,
                "has a wrong size: too large",
            ),
            ("raid1(slice(a,0s,0s),b)", 17, "has a slice of length 0"),
            (
                "raid1(slice(a,0s,1s,2s),b)",
                19,
                "lacks a ',' or a ')' here",
            ),
            ("raid1(slice(a,0s,1s", 19, "lacks a ',' or a ')' here"),
            (
                "raid1(slice(slice(a,0s),0s),b)",
                12,
                "cuts a slice of a slice",
            ),
            ("raid1(\"slice(a,1x)\",b)", 6, "has a wrong size"),
            (
                "raid1(slice(a,8s),slice( a ,4K))",
                18,
                "names 'slice(a,8s)' twice",
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
            "raid5",
            "raid10",
            "concat",
            ":far2",
            ":near",
            "(",
            ")",
            ",",
            "a",
            "b.img",
            " ",
            "\"",
            "3",
            "0",
            "65",
            "é",
            "mem:1M",
            "c",
            "d",
            "(",
            ")",
            ",",
            "slice(",
            "slice(a,64s)",
            ",1K",
            ",8s)",
            "slice(e,1M,4K),",
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
