//! No large binaries: every future clone would download them.

use super::{Problem, Rule};
use crate::repo::{File, Repo};

pub(crate) static RULE: Rule = Rule {
    name: "file_sizes",
    check,
};

const BINARY_BYTES_MAX: usize = 100 << 10;

fn check(repo: &Repo) -> Vec<Problem> {
    let is_binary =
        |file: &&File| file.bytes.contains(&0) || std::str::from_utf8(&file.bytes).is_err();
    let large = repo
        .files
        .iter()
        .filter(|file| file.bytes.len() > BINARY_BYTES_MAX);
    large
        .filter(is_binary)
        .map(|file| {
            let kib = file.bytes.len() >> 10;
            let what = format!("a binary of {kib} KiB: 100 KiB is the most");
            Problem::new(&file.path, None, what)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::assert_finds;
    use super::*;

    #[test]
    fn it_finds_a_large_binary() {
        let text = "text ".repeat(BINARY_BYTES_MAX);
        let small = "\0".repeat(BINARY_BYTES_MAX);
        let large = "\0".repeat(BINARY_BYTES_MAX + 1);
        assert_finds(
            &RULE,
            &[("a", &text), ("b.png", &small)],
            &[("b.png", &large)],
            "100 KiB",
        );
    }
}
