//! `cargo xtask book`: builds a site of all documents with mdbook. It has the pages of `docs/`
//! and the generated reference.

use super::reference;
use super::task::Task;
use crate::process;
use crate::rules::resolved;
use std::collections::BTreeSet;
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
/// Pages outside `docs/`, in the last chapter.
const PROJECT: &[&str] = &[
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "STYLE.md",
    "CHANGELOG.md",
];

fn run(_: &[String]) -> Result<(), String> {
    if !process::exists("mdbook") {
        return Err("mdbook is not installed: cargo install mdbook --locked".to_owned());
    }
    let pages = Path::new(BOOK).join("pages");
    if pages.exists() {
        fs::remove_dir_all(&pages).map_err(of(&pages))?;
    }
    let chapters = chapters()?;
    let plain = ["README.md", "docs/report.png", reference::SCHEMA];
    let mut included: BTreeSet<String> = plain.map(str::to_owned).into();
    included.extend(chapters.iter().flat_map(|(_, pages)| pages.iter().cloned()));
    for page in &included {
        put(page, &pages.join(page), &included)?;
    }
    reference::write(&pages.join("docs/reference"))?;
    let mut summary = "# Summary\n\n[Spindles](README.md)\n".to_owned();
    for (title, chapter) in &chapters {
        writeln!(summary, "\n# {title}\n").expect("strings take everything");
        for page in chapter {
            let place = pages.join(page);
            let text = fs::read_to_string(&place).map_err(of(&place))?;
            let heading = text.lines().find_map(|line| line.strip_prefix("# "));
            let heading = heading.unwrap_or(page);
            writeln!(summary, "- [{heading}]({page})").expect("strings take everything");
        }
        if *title == "Reference" {
            for page in reference::PAGES {
                let heading = page.trim_end_matches(".md");
                writeln!(summary, "- [{heading}](docs/reference/{page})")
                    .expect("strings take everything");
            }
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

/// Returns the chapters: their titles, and the paths of their pages.
fn chapters() -> Result<Vec<(&'static str, Vec<String>)>, String> {
    let mut chapters = Vec::new();
    for (folder, title) in CHAPTERS {
        let from = Path::new("docs").join(folder);
        let entries = fs::read_dir(&from).map_err(of(&from))?;
        let names = entries
            .filter_map(Result::ok)
            .map(|entry| entry.file_name());
        let mut names: Vec<String> = names.filter_map(|name| name.into_string().ok()).collect();
        names.retain(|name| is_page(Path::new(name)));
        names.sort_by_key(|name| {
            let first = FIRST.iter().position(|first| first == name);
            (first.unwrap_or(FIRST.len()), name.clone())
        });
        let pages = names.iter().map(|name| format!("docs/{folder}/{name}"));
        chapters.push((*title, pages.collect()));
    }
    let project = PROJECT.iter().map(|page| (*page).to_owned());
    chapters.push(("Project", project.collect()));
    Ok(chapters)
}

/// Copies a file to the book. Links from its text to files that are not in the book become plain
/// text.
fn put(from: &str, to: &Path, included: &BTreeSet<String>) -> Result<(), String> {
    let folder = to.parent().expect("a file in a folder");
    fs::create_dir_all(folder).map_err(of(folder))?;
    let path = Path::new(from);
    if !is_page(path) {
        return fs::copy(path, to).map_err(of(path)).map(drop);
    }
    let text = fs::read_to_string(path).map_err(of(path))?;
    fs::write(to, without_dead_links(from, &text, included)).map_err(of(to))
}

fn is_page(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "md")
}

fn without_dead_links(page: &str, text: &str, included: &BTreeSet<String>) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("](") {
        let (target, behind) = after.split_once(')').unwrap_or((after, ""));
        kept.push_str(before);
        let file = target.split('#').next().unwrap_or_default();
        let is_external = file.is_empty() || target.contains("://");
        let leads_to = resolved(page, file);
        // mdbook gives the page of the README another name.
        if is_external || leads_to != "README.md" && included.contains(&leads_to) {
            write!(kept, "]({target})").expect("strings take everything");
        } else if let Some(opened) = kept.rfind('[') {
            kept.remove(opened);
        }
        rest = behind;
    }
    kept + rest
}

/// Names the file in an error.
fn of(path: &Path) -> impl Fn(std::io::Error) -> String {
    let path = path.display().to_string();
    move |error| format!("{path}: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_out_of_the_book_become_text() {
        let included = ["docs/a.md".to_owned()].into();
        let text = "[a](a.md#x) [b](../b.rs), [c](#c) [d](https://d/) e";
        let kept = without_dead_links("docs/x.md", text, &included);
        assert_eq!(kept, "[a](a.md#x) b, [c](#c) [d](https://d/) e");
    }
}
