//! Command lines of other programs: which program, and its options with their values.

use crate::devices::{Devices, Use, device_name};
use crate::fault::Fault;
use crate::shape::Unsayable;
use crate::text::{Grammar, Quotes, Statement, Word, statements};
use alloc::borrow::{Cow, ToOwned};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

const GRAMMAR: Grammar = Grammar {
    continuation: true,
    quotes: Quotes::Commands,
};

/// Words between commands of one line.
const SEPARATORS: [&str; 6] = [";", ";;", "&&", "||", "|", "&"];

/// Words before the name of a program: others that run it, and a prompt.
const PREFIXES: [&str; 3] = ["sudo", "doas", "$"];

/// Characters outside quotes that a shell replaces or takes for itself.
const SHELL: [(char, &str); 8] = [
    ('<', "redirects input"),
    ('>', "redirects output"),
    ('(', "begins a group of commands"),
    (')', "ends a group of commands"),
    ('`', "runs a command"),
    ('$', "begins a variable"),
    ('~', "is a home folder"),
    ('{', "stands next to quotes and may be a list"),
];

/// The limit of a script.
const COMMANDS_MAX: usize = 1024;

/// The most words that braces stand for: a limit against `{a,b}{a,b}{a,b}…`.
const BRACE_WORDS_MAX: usize = 64;

/// No device has a longer name.
const WORD_BYTES_MAX: usize = 4096;

/// One command.
#[derive(Clone, Debug)]
pub(crate) struct Command<'text> {
    /// The name of its program, without a folder.
    pub(crate) program: Word<'text>,
    /// The words after that name.
    pub(crate) words: Vec<Word<'text>>,
    /// The offset of its end.
    pub(crate) end: usize,
    /// The error of words that a shell changes.
    shell: Option<Fault>,
}

impl Command<'_> {
    /// Its program and first word in quotes.
    fn quoted(&self) -> String {
        let verb = self.words.first().map_or("", |word| word);
        let command = format!("{} {verb}", &*self.program);
        format!("'{}'", command.trim_end())
    }

    /// The text of a note about a command that has no effect here.
    pub(crate) fn skipped(&self, why: &str) -> String {
        format!("{} {why}: it is skipped", self.quoted())
    }
}

/// Returns the commands of a script.
pub(crate) fn commands(text: &str) -> Result<Vec<Command<'_>>, Fault> {
    let mut commands: Vec<Command<'_>> = Vec::new();
    for statement in statements(text, GRAMMAR) {
        let mut statement = statement?;
        let shell = statement.take_shell();
        split(statement, &mut commands);
        for at in shell {
            let mut before = commands.iter_mut();
            if let Some(around) = before.rfind(|command| command.program.at <= at) {
                around.shell.get_or_insert_with(|| of_shell(text, at));
            }
        }
        if let Some(command) = commands.get(COMMANDS_MAX) {
            let message = format!("this is more than {COMMANDS_MAX} commands");
            return Err(command.program.fault(message));
        }
    }
    Ok(commands)
}

/// Returns the offset for an error about a missing command: the first that none of these programs
/// runs, or the end.
pub(crate) fn foreign_or_end(commands: &[Command<'_>], programs: &[&str], text: &str) -> usize {
    let mut foreign = commands.iter().map(|command| &command.program);
    let foreign = foreign.find(|program| !programs.contains(&&***program));
    foreign.map_or(text.trim_end().len(), |program| program.at)
}

/// Returns true if a program of this name is run first in a text.
pub(crate) fn runs_first(text: &str, program: &str) -> bool {
    first(text).is_some_and(|command| &*command.program == program)
}

fn first(text: &str) -> Option<Command<'_>> {
    let mut commands = Vec::new();
    if let Some(Ok(statement)) = statements(text, GRAMMAR).next() {
        split(statement, &mut commands);
    }
    commands.into_iter().next()
}

/// Returns an error if one of these programs is run first, for dialects of files.
pub(crate) fn refuse_commands(text: &str, programs: &[&str], expected: &str) -> Result<(), Fault> {
    match first(text).filter(|command| programs.contains(&&*command.program)) {
        None => Ok(()),
        Some(command) => {
            let message = format!("{expected}, not {}", command.quoted());
            Err(command.program.fault(message))
        }
    }
}

fn split<'text>(statement: Statement<'text>, commands: &mut Vec<Command<'text>>) {
    let mut words = Vec::new();
    for word in statement.words {
        // A word in quotes separates nothing.
        let is_verbatim = matches!(word.text, Cow::Borrowed(_));
        if is_verbatim && SEPARATORS.contains(&&*word) {
            end(&mut words, commands);
        } else if !(words.is_empty() && PREFIXES.contains(&&*word)) {
            words.push(word);
        }
    }
    end(&mut words, commands);
}

fn end<'text>(words: &mut Vec<Word<'text>>, commands: &mut Vec<Command<'text>>) {
    let mut words = core::mem::take(words).into_iter();
    let Some(path) = words.next() else {
        return;
    };
    let words: Vec<Word<'text>> = words.collect();
    let last = words.last().unwrap_or(&path);
    let end = last.at + last.len();
    let folder = path.rfind('/').map_or(0, |at| at + 1);
    let program = Word {
        text: Cow::Owned(path[folder..].to_owned()),
        at: path.at,
    };
    commands.push(Command {
        program,
        words,
        end,
        shell: None,
    });
}

impl<'text> Command<'text> {
    /// Returns the words after the program's name, or an error if a shell changes some.
    pub(crate) fn own_words(&self) -> Result<&[Word<'text>], Fault> {
        match &self.shell {
            None => Ok(&self.words),
            Some(fault) => Err(fault.clone()),
        }
    }
}

/// Returns the error of a character that a shell takes for itself.
fn of_shell(text: &str, at: usize) -> Fault {
    let known = SHELL.iter().find(|(c, _)| text[at..].starts_with(*c));
    let (c, what) = known.expect("one of these");
    let message = format!("'{c}' {what} in a shell: write only the words that the command gets");
    Fault::new(at, message)
}

/// Whether an option has a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    Nothing,
    Value,
    /// A value only within the same word: `--auto=yes`.
    ValueWithin,
}

/// An option of a program: a row of its table.
#[derive(Debug)]
pub(crate) struct Choice<T: 'static> {
    /// Names after `--`; unambiguous abbreviations also match.
    pub(crate) long: &'static [&'static str],
    /// The letter after a single `-`.
    pub(crate) short: Option<char>,
    pub(crate) takes: Takes,
    pub(crate) id: T,
}

impl<T> Choice<T> {
    pub(crate) const fn new(
        long: &'static [&'static str],
        short: Option<char>,
        takes: Takes,
        id: T,
    ) -> Self {
        Self {
            long,
            short,
            takes,
            id,
        }
    }
}

/// A part of a command line.
#[derive(Clone, Debug)]
pub(crate) enum Item<'word, T> {
    /// An option as it was written, and its value.
    Option(T, Word<'word>, Option<Word<'word>>),
    Word(&'word Word<'word>),
}

/// Divides words into options and others, as `getopt_long` does. Options may follow other words.
pub(crate) fn items<'word, T: Copy + PartialEq>(
    words: &'word [Word<'word>],
    choices: &'static [Choice<T>],
) -> Result<Vec<Item<'word, T>>, Fault> {
    let mut items = Vec::new();
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        if &**word == "--" {
            items.extend(rest.by_ref().map(Item::Word));
        } else if let Some(option) = word.strip_prefix("--") {
            let (name, value) = option.split_once('=').unzip();
            let name = name.unwrap_or(option);
            let (id, takes) = long(name, word, choices)?;
            let written = word.until(2 + name.len());
            let within = value.map(|_| word.from(2 + name.len() + 1));
            let value = match (takes, within) {
                (Takes::Nothing, Some(value)) => {
                    return Err(value.fault(format!("--{name} has no value")));
                }
                (Takes::Value, None) => {
                    let end = word.at + word.len();
                    Some(value_after(word, end, rest.next())?)
                }
                (_, within) => within,
            };
            items.push(Item::Option(id, written, value));
        } else if word.starts_with('-') && word.len() > 1 {
            letters(word, &mut rest, choices, &mut items)?;
        } else {
            items.push(Item::Word(word));
        }
    }
    Ok(items)
}

fn value_after<'word>(
    option: &str,
    end: usize,
    value: Option<&'word Word<'word>>,
) -> Result<Word<'word>, Fault> {
    let value = value.map(|value| value.from(0));
    value.ok_or_else(|| Fault::new(end, format!("the value of {option} is missing here")))
}

/// Reads a word of letters: `-f`, `-n4`, `-fl5`.
fn letters<'word, T: Copy>(
    word: &'word Word<'word>,
    rest: &mut core::slice::Iter<'word, Word<'word>>,
    choices: &'static [Choice<T>],
    items: &mut Vec<Item<'word, T>>,
) -> Result<(), Fault> {
    for (at, letter) in word.char_indices().skip(1) {
        let option = word.from(at).until(letter.len_utf8());
        let choice = choices.iter().find(|choice| choice.short == Some(letter));
        let choice = choice.ok_or_else(|| option.fault(format!("there is no option -{letter}")))?;
        let within = word.from(at + letter.len_utf8());
        let within = (!within.is_empty()).then_some(within);
        let written = Word {
            text: Cow::Owned(format!("-{letter}")),
            at: option.at,
        };
        let value = match (choice.takes, within) {
            (Takes::Nothing, _) => {
                items.push(Item::Option(choice.id, written, None));
                continue;
            }
            (Takes::Value, None) => {
                let end = word.at + word.len();
                Some(value_after(&written, end, rest.next())?)
            }
            (_, within) => within,
        };
        items.push(Item::Option(choice.id, written, value));
        return Ok(());
    }
    Ok(())
}

/// Finds the option of a long name or of its beginning.
fn long<T: Copy + PartialEq>(
    name: &str,
    word: &Word<'_>,
    choices: &'static [Choice<T>],
) -> Result<(T, Takes), Fault> {
    let named = |matches: &dyn Fn(&str) -> bool| -> Vec<&'static Choice<T>> {
        let choices = choices.iter();
        choices
            .filter(|choice| choice.long.iter().any(|long| matches(long)))
            .collect()
    };
    let mut found = named(&|long| long == name);
    if found.is_empty() && !name.is_empty() {
        found = named(&|long| long.starts_with(name));
    }
    match found[..] {
        [] => Err(word.fault(format!("there is no option --{name}"))),
        [first, ref others @ ..] if others.iter().all(|other| other.id == first.id) => {
            Ok((first.id, first.takes))
        }
        _ => Err(word.fault(format!(
            "--{name} begins more than one option: write it out"
        ))),
    }
}

/// Takes the devices of a word: one, or several in braces (`sd{a,b}`, `sd{a..c}`).
pub(crate) fn devices(
    word: &Word<'_>,
    known: &mut Devices,
    new: Use,
) -> Result<Vec<String>, Fault> {
    let names = words(word)?;
    names.iter().map(|name| known.add(name, new)).collect()
}

/// Returns the words that a word with braces stands for; a word in quotes stands for itself.
pub(crate) fn words<'word>(word: &'word Word<'_>) -> Result<Vec<Word<'word>>, Fault> {
    if matches!(word.text, Cow::Owned(_)) {
        return Ok([word.from(0)].into());
    }
    if word.contains(['$', '`']) {
        let message = format!("'{}' has a shell variable: name each device", &**word);
        return Err(word.fault(message));
    }
    if word.len() > WORD_BYTES_MAX {
        return Ok([word.from(0)].into());
    }
    let too_many = || {
        let message = format!("these braces stand for more than {BRACE_WORDS_MAX} words");
        word.fault(message)
    };
    let mut done = Vec::new();
    // Words to expand, the next one last; what precedes the number has no braces.
    let mut waiting = Vec::from([((**word).to_owned(), 0)]);
    while let Some((text, from)) = waiting.pop() {
        let braces = text[from..].split_once('{').and_then(|(before, rest)| {
            let (inside, after) = rest.split_once('}')?;
            Some((from + before.len(), inside, after))
        });
        let Some((open, inside, after)) = braces else {
            done.push(Word {
                text: Cow::Owned(text),
                at: word.at,
            });
            continue;
        };
        let choices = choices(inside);
        if done.len() + waiting.len() + choices.len() > BRACE_WORDS_MAX {
            return Err(too_many());
        }
        if choices.is_empty() {
            let from = text.len() - after.len();
            waiting.push((text, from));
            continue;
        }
        for choice in choices.iter().rev() {
            waiting.push((
                format!("{}{choice}{after}", &text[..open]),
                open + choice.len(),
            ));
        }
    }
    Ok(done)
}

/// What braces offer: a list or a range. Empty if they are mere characters.
fn choices(inside: &str) -> Vec<String> {
    if inside.contains('{') {
        return Vec::new();
    }
    if inside.contains(',') {
        return inside.split(',').map(ToOwned::to_owned).collect();
    }
    let Some((first, last)) = inside.split_once("..") else {
        return Vec::new();
    };
    if let (Ok(low), Ok(high)) = (first.parse::<u8>(), last.parse::<u8>()) {
        let is_padded = |digits: &str| digits.len() > 1 && digits.starts_with('0');
        let width = if is_padded(first) || is_padded(last) {
            first.len().max(last.len())
        } else {
            0
        };
        return (low..=high)
            .map(|number| format!("{number:0width$}"))
            .collect();
    }
    match (first.parse::<char>(), last.parse::<char>()) {
        (Ok(first), Ok(last)) if first.is_ascii_lowercase() && last.is_ascii_lowercase() => {
            (first..=last).map(String::from).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns a name as a word for a shell.
pub(crate) fn shell_word(name: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+:@%,=".contains(c);
    if !name.is_empty() && name.chars().all(is_plain) {
        Cow::Borrowed(name)
    } else {
        Cow::Owned(format!("'{}'", name.replace('\'', "'\\''")))
    }
}

/// Returns the word for a device of a command that is written. Returns an error if it would be read
/// otherwise.
pub(crate) fn written(device: &str) -> Result<String, Unsayable> {
    let word = Word {
        text: Cow::Borrowed(device),
        at: 0,
    };
    let read =
        words(&word).and_then(|words| device_name(&words[0]).map(|name| (words.len(), name)));
    match read {
        Ok((1, name)) if name == device && !device.starts_with('-') => {
            Ok(shell_word(device).into())
        }
        _ => Err(Unsayable::new(format!(
            "the device name '{device}' in a command"
        ))),
    }
}
