//! Modules of a crate must not import each other in a circle. Imports run down, so that a module
//! can be read, tested and changed together with the modules below it only. An exception: the rows
//! of a registry use the types of its table.

use super::{Problem, Rule, registries};
use crate::repo::{File, Repo};

use std::collections::{BTreeMap, BTreeSet};

pub(crate) static RULE: Rule = Rule {
    name: "module_circles",
    check,
};

/// The crates that the rule covers.
const CRATES: &[&str] = &[
    "spindles-admin",
    "spindles-array",
    "spindles-copy",
    "spindles-device",
    "spindles-engine",
    "spindles-format",
    "spindles-host",
    "spindles-lab",
    "spindles-measure",
    "spindles-model",
    "spindles-sim",
    "spindles-ublk",
];

fn check(repo: &Repo) -> Vec<Problem> {
    CRATES
        .iter()
        .flat_map(|name| of_crate(repo, name))
        .collect()
}

fn of_crate(repo: &Repo, name: &str) -> Vec<Problem> {
    let folder = format!("crates/{name}/src/");
    let short = |file: &String| file.replacen(&folder, "", 1);
    let problem = |circle: Imports| {
        let ties = circle.iter().map(|(from, to)| {
            let to: Vec<String> = to.iter().map(short).collect();
            format!("\n  {} imports {}", short(from), to.join(", "))
        });
        let what = format!(
            "{} modules import each other in a circle: move what they share below them{}",
            circle.len(),
            ties.collect::<String>()
        );
        Problem::new(folder.trim_end_matches('/'), None, what)
    };
    let circles = circles(&imports(repo, &folder));
    circles.into_iter().map(problem).collect()
}

/// For each file of a crate, the files whose items it imports or names.
pub(crate) type Imports = BTreeMap<String, BTreeSet<String>>;

/// Returns the parts of the graph in which every file reaches every other file.
pub(crate) fn circles(imports: &Imports) -> Vec<Imports> {
    let mut reached = imports.clone();
    loop {
        let before = reached.clone();
        for to in reached.values_mut() {
            let further = to.iter().filter_map(|file| before.get(file)).flatten();
            *to = to.iter().chain(further).cloned().collect();
        }
        if reached == before {
            break;
        }
    }
    let mut circles: BTreeMap<BTreeSet<&String>, Imports> = BTreeMap::new();
    for (file, to) in imports {
        let returns = |other: &&String| reached.get(*other).is_some_and(|to| to.contains(file));
        let circle: BTreeSet<&String> = reached[file].iter().filter(returns).collect();
        if circle.contains(file) {
            let ties = to.iter().filter(|to| circle.contains(to)).cloned();
            let ties = ties.collect();
            circles
                .entry(circle)
                .or_default()
                .insert(file.clone(), ties);
        }
    }
    circles.into_values().collect()
}

/// The path of a module: the names from the root of the crate.
type Path = Vec<String>;

/// A module in a file of its own.
struct Module<'a> {
    file: &'a File,
    /// All paths that the module names. Every path of a `use` declaration is listed separately.
    named: Vec<Path>,
    /// The paths that `use` declarations import, by local name.
    uses: BTreeMap<String, Path>,
    /// Child modules that exist in tests only.
    test_modules: BTreeSet<String>,
}

pub(crate) fn imports(repo: &Repo, folder: &str) -> Imports {
    let files = repo
        .files
        .iter()
        .filter(|file| file.is_rust() && !file.is_test());
    let files = files.filter_map(|file| Some((module_path(file.path.strip_prefix(folder)?), file)));
    let mut modules: BTreeMap<Path, Module> = files
        .map(|(path, file)| (path, Module::read(file)))
        .collect();
    let of_tests: Vec<Path> = modules
        .iter()
        .flat_map(|(path, module)| module.test_modules.iter().map(|name| join(path, name)))
        .collect();
    modules.retain(|path, _| !of_tests.iter().any(|tests| path.starts_with(tests)));
    let tables: BTreeSet<&str> = registries::registries(repo)
        .map(|file| file.path.as_str())
        .collect();
    let mut imports = Imports::new();
    for (path, module) in &modules {
        let to = module
            .named
            .iter()
            .filter_map(|named| resolve(&modules, path, named));
        let to = to.map(|path| &modules[&path].file.path);
        // A row may import the types of its table.
        let is_row_of = |table: &str| {
            let above = table.strip_suffix("mod.rs");
            tables.contains(table) && above.is_some_and(|above| module.file.path.starts_with(above))
        };
        let own = &module.file.path;
        let to = to.filter(|to| *to != own && !is_row_of(to)).cloned();
        imports.insert(own.clone(), to.collect());
    }
    imports
}

/// Returns `a::b` for `a/b.rs` and `a/b/mod.rs`, and an empty path for the root.
fn module_path(file: &str) -> Path {
    let names = file.trim_end_matches(".rs").split('/');
    let names = names.filter(|name| !matches!(*name, "mod" | "lib" | "main"));
    names.map(str::to_owned).collect()
}

fn join(path: &[String], name: &str) -> Path {
    [path, &[name.to_owned()]].concat()
}

/// Returns the module that defines the item which module `from` calls `named`; `None` for items of
/// other crates.
fn resolve(modules: &BTreeMap<Path, Module>, from: &[String], named: &[String]) -> Option<Path> {
    let (first, rest) = named.split_first()?;
    let module = modules.get(from)?;
    let start = match first.as_str() {
        "crate" => return find(modules, Vec::new(), rest),
        "self" => return find(modules, from.to_vec(), rest),
        "super" => {
            let (_, above) = from.split_last()?;
            return match rest.first().map(String::as_str) {
                Some("super") => resolve(modules, above, rest),
                _ => find(modules, above.to_vec(), rest),
            };
        }
        name if modules.contains_key(&join(from, name)) => join(from, name),
        // Don't follow a `use` declaration to itself: the recursion would never end.
        name => match module.uses.get(name) {
            Some(path) if path != named && path.first() != Some(first) => {
                resolve(modules, from, path)?
            }
            _ => return None,
        },
    };
    find(modules, start, rest)
}

/// Returns the module that defines the item `rest` of module `at`: the module `at`, a module inside
/// it, or the module from which `at` imports the item.
fn find(modules: &BTreeMap<Path, Module>, at: Path, rest: &[String]) -> Option<Path> {
    let Some((name, deeper)) = rest.split_first() else {
        return Some(at);
    };
    let module = modules.get(&at)?;
    if module.test_modules.contains(name) {
        return None;
    }
    let inside = join(&at, name);
    if modules.contains_key(&inside) {
        return find(modules, inside, deeper);
    }
    match module.uses.get(name) {
        Some(path) => {
            let known = resolve(modules, &at, path);
            known.and_then(|known| find(modules, known, deeper))
        }
        None => Some(at),
    }
}

impl<'a> Module<'a> {
    fn read(file: &'a File) -> Self {
        let code = file.code();
        let tokens = tokens(code);
        let mut module = Self {
            file,
            named: Vec::new(),
            uses: BTreeMap::new(),
            test_modules: BTreeSet::new(),
        };
        let mut at = 0;
        while at < tokens.len() {
            let is_use = tokens[at] == "use";
            let is_tests = tokens[..at].ends_with(&["#", "[", "cfg", "(", "test", ")", "]"]);
            if is_tests && tokens[at] == "mod" {
                module
                    .test_modules
                    .extend(tokens.get(at + 1).map(|name| (*name).to_owned()));
            }
            at += usize::from(is_use);
            let mut paths = Vec::new();
            at = path(&tokens, at, &[], &mut paths);
            for (named, alias) in paths {
                if is_use {
                    module.uses.insert(alias, named.clone());
                }
                if is_use || named.len() > 1 {
                    module.named.push(named);
                }
            }
        }
        module
    }
}

/// Splits code into names, `::`, and single characters.
fn tokens(code: &str) -> Vec<&str> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let mut tokens = Vec::new();
    let mut rest = code.trim_start();
    while let Some(first) = rest.chars().next() {
        let end = match first {
            _ if is_part(first) => rest.find(|c| !is_part(c)).unwrap_or(rest.len()),
            ':' if rest.starts_with("::") => 2,
            _ => first.len_utf8(),
        };
        let (token, after) = rest.split_at(end);
        tokens.push(token);
        rest = after.trim_start();
    }
    tokens
}

/// Reads the path at token `at` into `all`, with the name by which the code calls it from then on.
/// A path with branches in braces yields several. Returns the token at which the next path begins.
fn path(tokens: &[&str], mut at: usize, before: &[String], all: &mut Vec<(Path, String)>) -> usize {
    let mut path = before.to_vec();
    let token = |at: usize| tokens.get(at).copied().unwrap_or_default();
    let is_name = |token: &str| token.starts_with(|c: char| c.is_alphabetic() || c == '_');
    loop {
        match token(at) {
            "{" if !path.is_empty() => {
                at += 1;
                while !matches!(token(at), "}" | "") {
                    at = self::path(tokens, at, &path, all);
                    at += usize::from(token(at) == ",");
                }
                return at + 1;
            }
            "self" if !path.is_empty() => {}
            name if is_name(name) => path.push(name.to_owned()),
            _ => {
                let last = path.last().cloned().unwrap_or_default();
                all.push((path, last));
                return at + 1;
            }
        }
        at += 1;
        if token(at) == "::" {
            at += 1;
            continue;
        }
        let alias = if token(at) == "as" {
            at += 2;
            token(at - 1).to_owned()
        } else {
            path.last().cloned().unwrap_or_default()
        };
        all.push((path, alias));
        return at;
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::assert_finds;
    use super::*;

    const LIB: (&str, &str) = (
        "crates/spindles-admin/src/lib.rs",
        "mod low;\nmod high;\n#[cfg(test)]\nmod probing;\npub use low::Low;",
    );
    const PROBING: (&str, &str) = (
        "crates/spindles-admin/src/probing.rs",
        "use crate::high::High;\npub fn probe() {}",
    );

    #[test]
    fn it_finds_a_circle() {
        let good = [
            LIB,
            PROBING,
            (
                "crates/spindles-admin/src/low.rs",
                "// As crate::high does.\nuse std::fmt;\npub struct Low;\n\
                 fn f() { #[cfg(test)] crate::probing::probe(); }\n\
                 #[cfg(test)]\nmod tests {\n    use crate::high::High;\n}",
            ),
            (
                "crates/spindles-admin/src/high/mod.rs",
                "mod part;\nuse crate::{Low, low::{self}};\npub use part::High;\n\
                 fn f() { part::g(); }",
            ),
            (
                "crates/spindles-admin/src/high/part.rs",
                "use super::Low;\npub struct High;\npub fn g() {}",
            ),
        ];
        for (file, bad) in [
            ("low.rs", "use crate::high;"),
            ("low.rs", "use crate::{fmt, high::{High as Other, g}};"),
            ("low.rs", "fn f() -> crate::high::High {}"),
            ("low.rs", "use super::high as above;\nfn f() { above::f() }"),
            (
                "high/part.rs",
                "pub struct High;\npub fn g() { super::f() }",
            ),
        ] {
            let bad_file = format!("crates/spindles-admin/src/{file}");
            let mut files = good.to_vec();
            files.retain(|(path, _)| *path != bad_file);
            files.push((&bad_file, bad));
            assert_finds(&RULE, &good, &files, "modules import each other");
            let elsewhere: Vec<(String, &str)> = (files.iter())
                .map(|(path, text)| (path.replace("spindles-admin", "spindles-nbd"), *text))
                .collect();
            let elsewhere: Vec<_> = elsewhere
                .iter()
                .map(|(path, text)| (path.as_str(), *text))
                .collect();
            assert_finds(&RULE, &elsewhere, &files, "move what they share");
        }
    }

    #[test]
    fn rows_use_the_types_of_their_table() {
        let table = (
            "crates/spindles-admin/src/high/mod.rs",
            "mod a;\npub struct Row;\npub static ROWS: &[&Row] = &[&a::ROW];",
        );
        let row = (
            "crates/spindles-admin/src/high/a.rs",
            "use super::Row;\npub static ROW: Row = Row;",
        );
        let row_above = (row.0, "use crate::low::f;\npub static ROW: u8 = f();");
        let below = ("crates/spindles-admin/src/low.rs", "pub fn f() {}");
        let above = (below.0, "use crate::high::ROWS;\npub fn f() {}");
        assert_finds(
            &RULE,
            &[LIB, table, row, below],
            &[LIB, table, row_above, above],
            "high/a.rs imports low.rs",
        );
    }
}
