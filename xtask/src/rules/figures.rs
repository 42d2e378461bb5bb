//! The figures of `cargo xtask measure` may only get smaller.

use super::{Problem, Rule};
use crate::measures::{Sources, compare, figures};
use crate::repo::Repo;
use crate::tasks::measure::KEPT;

pub(crate) static RULE: Rule = Rule {
    name: "figures",
    check,
};

fn check(repo: &Repo) -> Vec<Problem> {
    let sources = match Sources::parse(repo) {
        Ok(sources) => sources,
        Err(error) => return vec![Problem::new("", None, error)],
    };
    let kept = repo.file(KEPT).map_or("", |file| file.text());
    let changes = compare(&figures(&sources), kept).into_iter();
    changes
        .map(|change| Problem::new(KEPT, None, change))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::assert_finds;
    use super::*;

    #[test]
    fn it_finds_a_figure_that_got_worse() {
        let kept = (KEPT, "open_fields spindles-admin 1\n");
        let path = "crates/spindles-admin/src/lib.rs";
        let good = [kept, (path, "struct A { pub(crate) a: u8, b: u8 }")];
        let bad = [
            kept,
            (path, "struct A { pub(crate) a: u8, pub(crate) b: u8 }"),
        ];
        let what = "open_fields of spindles-admin is 2, and was 1";
        assert_finds(&RULE, &good, &bad, what);
    }
}
