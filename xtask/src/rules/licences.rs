//! All dependencies have a licence of the list in `deny.toml`.

use super::{Problem, Rule};
use crate::repo::Repo;

pub(crate) static RULE: Rule = Rule {
    name: "licences",
    check,
};

fn check(repo: &Repo) -> Vec<Problem> {
    let list = "deny.toml";
    let allowed = allow_list(repo.file(list).map_or("", |file| file.text()));
    let mut problems = Vec::new();
    if allowed.is_empty() {
        let what = "there is no list of allowed licences";
        problems.push(Problem::new(list, None, what));
    }
    for package in repo.packages() {
        let name = package["name"].as_str().unwrap_or_default();
        let licence = package["license"].as_str().unwrap_or_default();
        if !is_allowed(licence, &allowed) {
            let what = format!("licence `{licence}` is not on the list in {list}");
            problems.push(Problem::new(name, None, what));
        }
    }
    problems
}

/// The strings of `allow = [...]` in the section `[licenses]`.
fn allow_list(text: &str) -> Vec<String> {
    let section = text.split_once("[licenses]").map_or("", |(_, after)| after);
    let list = section
        .split_once("allow = [")
        .map_or("", |(_, after)| after);
    let list = list.split_once(']').map_or("", |(list, _)| list);
    list.split('"')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

/// Returns true if the allowed licences alone satisfy an SPDX expression.
fn is_allowed(expression: &str, allowed: &[String]) -> bool {
    let spaced = expression
        .replace('(', " ( ")
        .replace(')', " ) ")
        .replace('/', " OR ");
    let tokens: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    let met = any_of(&tokens, &mut at, allowed);
    met && at == tokens.len()
}

fn any_of(tokens: &[&str], at: &mut usize, allowed: &[String]) -> bool {
    let mut met = all_of(tokens, at, allowed);
    while tokens.get(*at) == Some(&"OR") {
        *at += 1;
        met |= all_of(tokens, at, allowed);
    }
    met
}

fn all_of(tokens: &[&str], at: &mut usize, allowed: &[String]) -> bool {
    let mut met = one(tokens, at, allowed);
    while tokens.get(*at) == Some(&"AND") {
        *at += 1;
        met &= one(tokens, at, allowed);
    }
    met
}

fn one(tokens: &[&str], at: &mut usize, allowed: &[String]) -> bool {
    let Some(token) = tokens.get(*at) else {
        return false;
    };
    *at += 1;
    if *token == "(" {
        let met = any_of(tokens, at, allowed);
        let closes = tokens.get(*at) == Some(&")");
        *at += 1;
        return met && closes;
    }
    let mut licence = (*token).to_owned();
    if tokens.get(*at) == Some(&"WITH") {
        let exception = tokens.get(*at + 1).copied().unwrap_or_default();
        licence = format!("{licence} WITH {exception}");
        *at += 2;
    }
    allowed.contains(&licence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo::File;
    use serde_json::json;

    #[test]
    fn expressions_are_met_or_not() {
        let deny = "[licenses]\nallow = [\n  \"MIT\",\n  \"Apache-2.0\",\n]\n";
        let allowed = allow_list(deny);
        assert_eq!(allowed, ["MIT", "Apache-2.0"]);
        for good in [
            "MIT",
            "GPL-3.0 OR MIT",
            "MIT/GPL-2.0",
            "(MIT OR GPL-3.0) AND Apache-2.0",
        ] {
            assert!(is_allowed(good, &allowed), "{good}");
        }
        for bad in [
            "",
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "Apache-2.0 WITH LLVM-exception",
            "(MIT",
        ] {
            assert!(!is_allowed(bad, &allowed), "{bad}");
        }
    }

    #[test]
    fn it_finds_a_licence_that_is_not_listed() {
        let deny = File::new("deny.toml", b"[licenses]\nallow = [\"MIT\"]".to_vec());
        let packages = json!({ "packages": [
            { "name": "good", "license": "MIT" }, { "name": "bad", "license": "AGPL-3.0" },
        ] });
        let problems = (RULE.check)(&Repo {
            files: vec![deny],
            metadata: packages,
        });
        assert_eq!(problems.len(), 1);
        assert_eq!(problems[0].path, "bad");
        assert_eq!((RULE.check)(&Repo::of(&[])).len(), 1);
    }
}
