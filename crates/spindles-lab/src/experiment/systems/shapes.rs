//! Targets `from:…`: fresh arrays in the shape of another system's configuration.

use spindles_admin::configuration::{Configuration, names};
use spindles_layout::{Expression, MISSING};
use std::collections::BTreeSet;

/// What such a target begins with.
pub(super) const PREFIX: &str = "from:";

/// The shape of a configuration.
#[derive(Debug)]
pub struct FreshShape {
    /// The same levels over counted members, as a target: `raid5(4)`.
    pub target: String,
    /// The chunk size, if the text says it.
    pub chunk_bytes: Option<u64>,
    /// What the lab ignores of the text.
    pub notes: Vec<String>,
}

/// Returns the shape of a configuration; `None` for other kinds of targets.
///
/// # Errors
/// The file or text, the place in it and the reason.
pub fn fresh_shape(target: &str) -> Option<Result<FreshShape, String>> {
    Some(shape_of(target.strip_prefix(PREFIX)?))
}

fn shape_of(what: &str) -> Result<FreshShape, String> {
    // A text of several lines begins on the line after the prefix.
    let what = what.strip_prefix('\n').unwrap_or(what);
    let found = Configuration::find(what).map_err(|error| error.to_string())?;
    let Some(configuration) = found else {
        let name = what.lines().next().unwrap_or_default();
        return Err(format!(
            "'{name}' is neither a file nor words of {}",
            names(|_| true)
        ));
    };
    let described = configuration.read_shape();
    let described = described.map_err(|error| error.to_string())?;
    let array = described.only().map_err(|error| error.to_string())?;
    let shape = array.shape;
    let leaves = shape.expression.leaves();
    let mut seen = BTreeSet::new();
    let mut devices = leaves.iter().filter(|leaf| **leaf != MISSING);
    if let Some(twice) = devices.find(|leaf| !seen.insert(**leaf)) {
        return Err(format!(
            "{twice} has several parts in this array, and each member of the lab is a device of \
             its own: name another device for each"
        ));
    }
    let ignored = described.translation.notes.iter();
    let mut notes: Vec<String> = ignored
        .map(|note| format!("line {}: {}", note.line, note.text))
        .collect();
    if leaves.contains(&MISSING) {
        notes.push("no member of a fresh array is missing".to_owned());
    }
    if !shape.spares.is_empty() {
        notes.push(format!("no spares are made ({})", shape.spares.join(", ")));
    }
    if let Some(journal) = &shape.journal {
        notes.push(format!("{journal} is not used: choose a `journal`"));
    }
    let target = match counted(&shape.expression, &mut 0) {
        Expression::Leaf(_) => "single".to_owned(),
        // A number in quotes would be the name of a device.
        array => array.to_string().replace('"', ""),
    };
    Ok(FreshShape {
        target,
        chunk_bytes: shape.chunk_bytes,
        notes,
    })
}

/// Returns an expression with counted members. `next` is the number of the next member; nested
/// arrays have numbers in their order.
fn counted(expression: &Expression, next: &mut usize) -> Expression {
    let mut number = |count: usize| {
        *next += count;
        Expression::Leaf((*next - count).to_string())
    };
    match expression {
        Expression::Leaf(_) => number(1),
        Expression::Slice {
            of,
            start_bytes,
            length_bytes,
        } => Expression::Slice {
            of: Box::new(counted(of, next)),
            start_bytes: *start_bytes,
            length_bytes: *length_bytes,
        },
        Expression::Array {
            level,
            layout,
            members,
        } => {
            let is_leaf = |member: &Expression| matches!(member, Expression::Leaf(_));
            let members = if members.iter().all(is_leaf) {
                number(members.len());
                vec![Expression::Leaf(members.len().to_string())]
            } else {
                let members = members.iter();
                members.map(|member| counted(member, next)).collect()
            };
            Expression::Array {
                level,
                layout: *layout,
                members,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::systems::check;

    #[test]
    fn configurations_become_counted_arrays() {
        for (text, target, chunk) in [
            (
                "ccd0 128 none /dev/sd0e /dev/sd1e /dev/sd2e",
                "raid0(3)",
                Some(64 << 10),
            ),
            (
                "\nSTART array\n1 2 0\nSTART disks\n/dev/wd0h\n/dev/wd1h\nSTART layout\n\
                 128 1 1 1\nSTART queue\nfifo 100\n",
                "raid1(2)",
                Some(64 << 10),
            ),
            (
                "zpool create tank mirror a b mirror c d",
                "raid0(raid1(2),raid1(2))",
                None,
            ),
            ("zpool create tank mirror a b c", "raid1(3)", None),
            (
                "mdadm -C data -l10 -n4 -pf2 -c512 a b c d",
                "raid10:far 2(4)",
                Some(512 << 10),
            ),
        ] {
            let shape = fresh_shape(&format!("from:{text}")).unwrap().unwrap();
            assert_eq!(shape.target.replace(":far2", ":far 2"), target, "{text}");
            assert_eq!(shape.chunk_bytes, chunk, "{text}");
            assert_eq!(check(&shape.target), Ok(()), "{text}");
        }
        assert!(fresh_shape("raid5(4)").is_none());
        let spares = "from:zpool create tank raidz sda sdb sdc spare sdd log nvme0";
        let notes = fresh_shape(spares).unwrap().unwrap().notes.join("; ");
        for words in ["raidz", "no spares are made (sdd)", "nvme0 is not used"] {
            assert!(notes.contains(words), "{notes}");
        }
    }

    #[test]
    fn wrong_configurations_are_refused_with_their_place() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ccd.conf");
        let text = "ccd0 16 none /dev/a /dev/b\nccd1 32 none /dev/c /dev/d /dev/e\n";
        std::fs::write(&file, text).unwrap();
        let file = file.display();
        for (text, words) in [
            ("from:", "'' is neither a file nor words of ccd, raidctl"),
            (
                "from:none.conf",
                "'none.conf' is neither a file nor words of",
            ),
            ("from:\nccd0 16\n", "the text, line 1, column "),
            (
                "from:\n# 1996\nccd0 32 CCDF_MIRROR a b c\n",
                "the text, line 2, column ",
            ),
            (
                "from:\nSTART array\n1 3 0\nSTART disks\na\nb\nc\nSTART layout\n32 1 1 T\n",
                "parity declustering",
            ),
            (&format!("from:{file}"), "#NAME with one of ccd0, ccd1"),
            (&format!("from:{file}#ccd7"), "no array 'ccd7'"),
        ] {
            let error = check(text).expect_err(text);
            assert!(error.contains(words), "{text}: {error}");
        }
        let one = fresh_shape(&format!("from:{file}#ccd1")).unwrap().unwrap();
        assert_eq!(
            (one.target.as_str(), one.chunk_bytes),
            ("raid0(3)", Some(16 << 10))
        );
    }
}
