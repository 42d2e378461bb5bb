//! Variables in the target of a system made by commands: `$DIR`, `$MEMBER0`, as in the commands.

/// Returns true if a name in a target is a variable.
pub(crate) fn stands_for_something(name: &str) -> bool {
    name.starts_with('$')
}

/// Returns the variables of a target whose commands use `members` members.
fn known(members: usize) -> Vec<String> {
    let members = (0..members).map(|number| format!("MEMBER{number}"));
    std::iter::once("DIR".to_owned()).chain(members).collect()
}

/// Checks that all variables in a target are known, if its commands use `members` members.
///
/// # Errors
/// The unknown variable, and the known ones.
pub(crate) fn check(target: &str, members: usize) -> Result<(), String> {
    let known = known(members);
    let checked = filled_in(target, |name| {
        known
            .iter()
            .any(|known_name| known_name == name)
            .then(String::new)
    });
    let all: Vec<String> = known.iter().map(|name| format!("${name}")).collect();
    checked.map(drop).map_err(|name| {
        format!(
            "`{name}` in `target` is not defined: there are {} (`takes` is the number of members); \
             to name a path that contains `$`, make a link to it",
            all.join(", ")
        )
    })
}

/// Checks that a target without commands has no variables that only commands define.
///
/// # Errors
/// The variable.
pub(crate) fn check_without_commands(target: &str) -> Result<(), String> {
    let is_ours = |name: &str| {
        let number = name.strip_prefix("MEMBER");
        name == "DIR"
            || number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let first = parts(target).find_map(|part| match part {
        Piece::Name(name, text) if is_ours(name) => Some(text),
        Piece::Name(..) | Piece::Text(_) => None,
    });
    first.map_or(Ok(()), |text| {
        Err(format!(
            "`{text}` in `target` is replaced only in a system with `up`: add the commands that \
             make the system, or name a device, a file or `single:N`"
        ))
    })
}

/// Returns the target with its variables replaced.
///
/// # Errors
/// The first unknown variable.
pub(crate) fn filled_in(
    target: &str,
    value: impl Fn(&str) -> Option<String>,
) -> Result<String, String> {
    let mut filled = String::new();
    for part in parts(target) {
        match part {
            Piece::Text(text) => filled.push_str(text),
            Piece::Name(name, text) => {
                filled.push_str(&value(name).ok_or_else(|| text.to_owned())?);
            }
        }
    }
    Ok(filled)
}

/// A piece of a target.
enum Piece<'a> {
    Text(&'a str),
    /// A variable's name, and its spelling: `$DIR` or `${DIR}`.
    Name(&'a str, &'a str),
}

fn parts(mut rest: &str) -> impl Iterator<Item = Piece<'_>> {
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let Some(after) = rest.strip_prefix('$') else {
            let text;
            (text, rest) = rest.split_at(rest.find('$').unwrap_or(rest.len()));
            return Some(Piece::Text(text));
        };
        let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let in_braces = after
            .strip_prefix('{')
            .and_then(|braced| braced.split_once('}'));
        let (name, length) = if let Some((name, _)) = in_braces {
            (name, name.len() + "${}".len())
        } else {
            let end = after.find(|c| !is_of_name(c)).unwrap_or(after.len());
            (&after[..end], end + "$".len())
        };
        let text;
        (text, rest) = rest.split_at(length);
        Some(Piece::Name(name, text))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_replaced_as_whole_names() {
        let value = |name: &str| match name {
            "DIR" => Some("/tmp/x".to_owned()),
            "MEMBER1" => Some("/dev/b".to_owned()),
            "MEMBER10" => Some("/dev/k".to_owned()),
            _ => None,
        };
        for (target, expected) in [
            ("$DIR/mnt", Ok("/tmp/x/mnt")),
            ("raid1($MEMBER1,$MEMBER10)", Ok("raid1(/dev/b,/dev/k)")),
            ("${DIR}s/${MEMBER1}", Ok("/tmp/xs//dev/b")),
            ("/dev/é", Ok("/dev/é")),
            ("$DIRS", Err("$DIRS")),
            ("a$", Err("$")),
            ("${DIR", Err("$")),
            ("${}", Err("${}")),
            ("$é", Err("$")),
        ] {
            let filled = filled_in(target, value);
            assert_eq!(filled.as_deref().map_err(String::as_str), expected);
        }
    }

    #[test]
    fn unknown_placeholders_are_refused_with_a_list_of_known_ones() {
        assert_eq!(check("$DIR/$MEMBER1", 2), Ok(()));
        let why = check("$MEMBER2", 2).unwrap_err();
        for words in [
            "`$MEMBER2`",
            "there are $DIR, $MEMBER0, $MEMBER1",
            "`takes`",
        ] {
            assert!(why.contains(words), "{why}");
        }
        let why = check("/mnt/$NOPE", 0).unwrap_err();
        assert!(
            why.contains("there are $DIR (") && why.contains("link to it"),
            "{why}"
        );
        for target in ["$MEMBER0", "${DIR}/mnt", "array:$MEMBERS0,$MEMBER1"] {
            let why = check_without_commands(target).unwrap_err();
            assert!(why.contains("only in a system with `up`"), "{why}");
        }
        assert_eq!(check_without_commands("/srv/$data/$1"), Ok(()));
    }
}
