//! `cargo xtask tidy`: the rules that no compiler checks.

use super::task::Task;
use crate::repo::Repo;
use crate::rules;

pub(crate) static TASK: Task = Task {
    name: "tidy",
    arguments: "[--fix]",
    about: "checks the rules that no compiler holds; --fix rewrites generated documents",
    run,
};

fn run(arguments: &[String]) -> Result<(), String> {
    match arguments {
        [] => {}
        [fix] if fix == "--fix" => rules::generated::fix()?,
        _ => return Err("it takes --fix or nothing".to_owned()),
    }
    let problems = rules::check(&Repo::load()?);
    for problem in &problems {
        println!("{problem}");
    }
    match problems.len() {
        0 => {
            println!("tidy: {} rules hold", rules::RULES.len());
            Ok(())
        }
        count => Err(format!("{count} problems")),
    }
}
