//! Bad input is an error with line and column.

use spindles_dialects::{Source, named};

fn error(dialect: &str, text: &str) -> (usize, usize, String) {
    let source = Source {
        text,
        bytes_of: &|_| None,
        flavour: None,
    };
    let error = (named(dialect).expect(dialect).read(&source)).expect_err(text);
    (error.line, error.column, error.message)
}

#[test]
fn raidctl_names_line_column_and_fault() {
    let (line, column, message) = error(
        "raidctl",
        "START array\n3 0\nSTART disks\n/dev/wd0e\n/dev/wd1e\nSTART layout\n32 1 1 5\n",
    );
    assert_eq!((line, column), (3, 1));
    assert!(
        message.contains("3 components announced, 2 named"),
        "{message}"
    );
}
