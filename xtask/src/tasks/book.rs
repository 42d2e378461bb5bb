//! `cargo xtask book`: builds a site of all documents with mdbook. The pages are those of `docs/`,
//! and one with the help of all commands.

use super::task::Task;
use crate::process;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

pub(crate) static TASK: Task = Task {
    name: "book",
    arguments: "",
    about: "builds a site of the documents in target/book/html, with mdbook",
    run,
};

/// The folder that is built.
const BOOK: &str = "target/book";
/// Chapters: the folder in `docs/`, and the title.
const CHAPTERS: &[(&str, &str)] = &[
    ("guide", "Guide"),
    ("reference", "Reference"),
    ("design", "Design"),
    ("adr", "Decisions"),
];
/// Pages that come first in their chapter. The others follow by name.
const FIRST: &[&str] = &["first-array.md", "serving.md", "administration.md"];
/// The help of all commands, as the tests keep it.
const HELP: &str = "crates/spindles/tests/help.txt";

fn run(_: &[String]) -> Result<(), String> {
    if !process::exists("mdbook") {
        return Err("mdbook is not installed: cargo install mdbook --locked".to_owned());
    }
    let pages = Path::new(BOOK).join("pages");
    if pages.exists() {
        fs::remove_dir_all(&pages).map_err(of(&pages))?;
    }
    let mut summary = "# Summary\n\n[Spindles](README.md)\n".to_owned();
    copy(Path::new("README.md"), &pages.join("README.md"))?;
    copy(Path::new("docs/report.png"), &pages.join("docs/report.png"))?;
    copy(Path::new(HELP), &pages.join("docs/reference/commands.md"))?;
    for (folder, title) in CHAPTERS {
        writeln!(summary, "\n# {title}\n").expect("strings take everything");
        let from = Path::new("docs").join(folder);
        let entries = fs::read_dir(&from).map_err(of(&from))?;
        let names = entries
            .filter_map(Result::ok)
            .map(|entry| entry.file_name());
        let mut names: Vec<String> = names.filter_map(|name| name.into_string().ok()).collect();
        names.sort_by_key(|name| {
            let first = FIRST.iter().position(|first| first == name);
            (first.unwrap_or(FIRST.len()), name.clone())
        });
        for name in names.iter().filter(|name| name.ends_with(".md")) {
            let to = pages.join("docs").join(folder).join(name);
            copy(&from.join(name), &to)?;
        }
        let commands = (*folder == "reference").then(|| "commands.md".to_owned());
        for name in names.into_iter().chain(commands) {
            let page = pages.join("docs").join(folder).join(&name);
            let Ok(text) = fs::read_to_string(&page) else {
                continue; // Not a page.
            };
            let heading = text.lines().find_map(|line| line.strip_prefix("# "));
            let heading = heading.unwrap_or(&name);
            writeln!(summary, "- [{heading}](docs/{folder}/{name})")
                .expect("strings take everything");
        }
    }
    let place = pages.join("SUMMARY.md");
    fs::write(&place, summary).map_err(of(&place))?;
    let manifest = Path::new(BOOK).join("book.toml");
    let text = "[book]\ntitle = \"Spindles\"\nsrc = \"pages\"\n\n[build]\nbuild-dir = \"html\"\n";
    fs::write(&manifest, text).map_err(of(&manifest))?;
    let built = process::capture("mdbook", &["build", BOOK])?;
    if !built.good {
        return Err(built.output);
    }
    println!("{BOOK}/html/index.html");
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let folder = to.parent().expect("a file in a folder");
    fs::create_dir_all(folder).map_err(of(folder))?;
    fs::copy(from, to).map_err(of(from)).map(drop)
}

/// Names the file in an error.
fn of(path: &Path) -> impl Fn(std::io::Error) -> String {
    let path = path.display().to_string();
    move |error| format!("{path}: {error}")
}
