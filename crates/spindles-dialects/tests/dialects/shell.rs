//! Words that a shell changes before a command gets them.

use super::read;
use crate::public::tables::printed;

#[test]
fn braces_are_lists_as_in_a_shell() {
    for (words, members) in [
        ("a{01..03}", "a01,a02,a03"),
        ("a{9..011}", "a009,a010,a011"),
        ("a{9..11}", "a9,a10,a11"),
        ("a{0..1} 'b c'", "a0,a1,b c"),
        ("{a,b}", "a,b"),
        ("a \"$(\"'$(' b\\ c", ""),
    ] {
        let text = format!("mkfs.btrfs -d raid0 {words}");
        let read = read("btrfs", &text, &[]).map(|translation| printed(&translation));
        if members.is_empty() {
            assert!(read.is_err(), "{words}: {read:?}");
        } else {
            assert_eq!(read, Ok(format!("raid0({members}) 64K")), "{words}");
        }
    }
}

#[test]
fn words_of_a_shell_are_never_devices() {
    for (words, column, error) in [
        ("b > /dev/null", 16, "'>' redirects output in a shell"),
        ("b >> log", 16, "'>' redirects output"),
        ("b 2>&1", 17, "'>' redirects output"),
        ("b <in", 16, "'<' redirects input"),
        ("(b)", 14, "'(' begins a group"),
        ("$(ls)", 14, "'$' begins a variable in a shell"),
        ("\"$B\"", 15, "'$' begins a variable"),
        ("`ls`", 14, "'`' runs a command"),
        ("~/b", 14, "'~' is a home folder"),
        ("\"b\"{1,2}", 17, "'{' stands next to quotes"),
        ("'b{1,2}'", 14, "'b{1,2}' is a pattern"),
        ("b\\{1,2\\}", 14, "is a pattern"),
        ("b*", 14, "'b*' is a pattern"),
        ("b?", 14, "'b?' is a pattern"),
    ] {
        let text = format!("mkfs.btrfs a {words}");
        let error_of = read("btrfs", &text, &[]).unwrap_err();
        assert!(error_of.message.contains(error), "{words}: {error_of}");
        assert_eq!((error_of.line, error_of.column), (1, column), "{words}");
    }
    // Quotes keep them.
    let text = "mkfs.btrfs -d raid0 'a>b' \\~c \"d&e\" f~";
    let quoted = read("btrfs", text, &[]).unwrap();
    assert!(printed(&quoted).starts_with("raid0(a>b,~c,d&e,f~)"));
}

/// The reader accepts redirections in commands that make no array.
#[test]
fn other_commands_of_a_script_are_noted() {
    let text = "mdadm -C /dev/md0 -l1 -n2 a b&&mdadm --detail --scan >> $CONF\n\
                echo `date`|tee ~/log & mdadm -C /dev/md1 -l1 -n2 c d&";
    let translation = read("mdadm", text, &[]).unwrap();
    assert_eq!(printed(&translation), "md0: raid1(a,b); md1: raid1(c,d)");
    let notes: Vec<&str> = (translation.notes.iter())
        .map(|note| note.text.as_str())
        .filter(|note| note.contains("skipped"))
        .collect();
    assert_eq!(
        notes,
        [
            "'mdadm --detail' makes no array: it is skipped",
            "'echo `date`' is not mdadm: it is skipped",
            "'tee ~/log' is not mdadm: it is skipped",
        ]
    );
}
