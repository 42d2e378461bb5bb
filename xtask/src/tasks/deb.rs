//! `cargo xtask deb`: builds the Debian package with dpkg-deb and no further tool, from
//! `[package.metadata.deb]` in the manifest of the command line. `cargo deb` builds the same
//! package from that section.

use super::reference;
use super::task::Task;
use crate::process::{self, Finished};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

pub(crate) static TASK: Task = Task {
    name: "deb",
    arguments: "[--dist | --debug] [--stage]",
    about: "builds target/debian/*.deb of the release build; --dist of an optimized one, --stage \
        only the files that `cargo deb` packs with the binary",
    run,
};

/// The folder of generated files. The metadata names it as their source.
const STAGE: &str = "target/deb";
/// The mark of a program that acts on planted faults: `MARK` in `spindles-engine/src/mutation.rs`.
const CANARIES: &str = "this program acts on canaries";
/// Shells, and the file names of their completions.
const SHELLS: &[(&str, &str)] = &[
    ("bash", "spindles"),
    ("zsh", "_spindles"),
    ("fish", "spindles.fish"),
];

fn run(arguments: &[String]) -> Result<(), String> {
    let mut profile = "release";
    let mut only_stage = false;
    for argument in arguments {
        match argument.as_str() {
            "--debug" => profile = "debug",
            "--dist" => profile = "dist",
            "--stage" => only_stage = true,
            other => return Err(format!("it takes --dist, --debug and --stage, not {other}")),
        }
    }
    if only_stage {
        return stage(profile, Talk::Aloud);
    }
    let deb = build(profile, Talk::Aloud)?;
    let bytes = fs::metadata(&deb).map_err(at(&deb))?.len();
    println!("{}: {} KiB", deb.display(), bytes / 1024);
    Ok(())
}

/// Selects whether each step is printed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Talk {
    Aloud,
    Not,
}

impl Talk {
    fn say(self, what: &str) {
        if self == Self::Aloud {
            println!("{what}");
        }
    }
}

/// Builds the package with the binary of this profile, and returns its path.
pub(crate) fn build(profile: &str, talk: Talk) -> Result<PathBuf, String> {
    stage(profile, talk)?;
    talk.say("laying out files in target/deb/root");
    let package = Package::load(profile)?;
    let root = PathBuf::from(STAGE).join("root");
    if root.exists() {
        fs::remove_dir_all(&root).map_err(at(&root))?;
    }
    for (source, target, mode) in package.files()? {
        Package::install(&root, &source, &target, &mode)?;
    }
    let doc = format!("usr/share/doc/{}", package.name);
    let changelog = Path::new("crates/spindles").join(package.text("changelog")?);
    Package::install(&root, &changelog, &format!("{doc}/changelog.Debian"), "644")?;
    let copyright = package.deb["license-file"][0].as_str().unwrap_or_default();
    let copyright = Path::new("crates/spindles").join(copyright);
    Package::install(&root, &copyright, &format!("{doc}/copyright"), "644")?;
    package.install_control(&root)?;
    good(
        "gzip",
        &["-9n", &path(&root.join(doc).join("changelog.Debian"))],
    )?;
    let control = root.join("DEBIAN");
    fs::write(control.join("control"), package.control(&root)?).map_err(at(&control))?;
    let sums = "cd \"$1\" && find usr -type f -print0 | sort -z | xargs -0 md5sum > DEBIAN/md5sums \
                && chmod 644 DEBIAN/control DEBIAN/md5sums DEBIAN/conffiles \
                && find . -type d -exec chmod 755 {} +";
    good("sh", &["-c", sums, "sh", &path(&root)])?;
    let folder = PathBuf::from("target/debian");
    fs::create_dir_all(&folder).map_err(at(&folder))?;
    let (name, version, architecture) = (&package.name, &package.version, &package.architecture);
    let deb = folder.join(format!("{name}_{version}_{architecture}.deb"));
    // A package made only for checks need not be small.
    let effort = if profile == "debug" { "-z0" } else { "-z6" };
    talk.say("packing");
    let build = [
        "--root-owner-group",
        "-Zxz",
        effort,
        "--build",
        &path(&root),
        &path(&deb),
    ];
    good("dpkg-deb", &build)?;
    Ok(deb)
}

/// Builds the binary, which takes no time if it is up to date, and lets it write its manual pages
/// and completions.
fn stage(profile: &str, talk: Talk) -> Result<(), String> {
    let mut build = match profile {
        // The binary that tests use: `build` would select other features of dependencies, and
        // rebuild most crates.
        "debug" => vec!["test", "--workspace", "--test", "program", "--no-run"],
        profile => vec!["build", "--package", "spindles", "--profile", profile],
    };
    if talk == Talk::Not {
        build.push("--quiet");
    }
    let binary = format!("target/{profile}/spindles");
    talk.say(&format!("cargo {}: {binary}", build.join(" ")));
    process::cargo(&build)?;
    if profile != "debug" && has_canaries(&binary)? {
        return Err(format!("{binary} acts on planted faults: feature canary"));
    }
    talk.say("writing manual pages, completions and the reference to target/deb");
    reference::write(&PathBuf::from(STAGE).join("reference"))?;
    let pages = format!("{STAGE}/man");
    if Path::new(&pages).exists() {
        fs::remove_dir_all(&pages).map_err(at(Path::new(&pages)))?;
    }
    good(&binary, &["man", "--out", &pages])?;
    for (shell, name) in SHELLS {
        let folder = PathBuf::from(STAGE).join(shell);
        fs::create_dir_all(&folder).map_err(at(&folder))?;
        let script = good(&binary, &["completions", shell])?;
        fs::write(folder.join(name), script).map_err(at(&folder))?;
    }
    Ok(())
}

/// Returns true if a program acts on planted faults.
fn has_canaries(binary: &str) -> Result<bool, String> {
    Ok(process::capture("grep", &["--quiet", "--text", CANARIES, binary])?.good)
}

/// Returns the features of the engine in builds for users.
fn released_features() -> Result<String, String> {
    let tree = [
        "tree",
        "--package",
        "spindles",
        "--edges",
        "normal,features",
        "--invert",
        "spindles-engine",
    ];
    good(&process::cargo_program(), &tree)
}

/// The package as the manifest describes it.
struct Package {
    name: String,
    version: String,
    architecture: String,
    description: String,
    profile: String,
    deb: Value,
}

impl Package {
    fn load(profile: &str) -> Result<Self, String> {
        let cargo = process::cargo_program();
        let metadata = good(
            &cargo,
            &[
                "metadata",
                "--no-deps",
                "--offline",
                "--format-version",
                "1",
            ],
        )?;
        // Cargo may print messages before it.
        let json = metadata.find('{').map_or("", |begin| &metadata[begin..]);
        let metadata: Value = serde_json::from_str(json).map_err(|error| error.to_string())?;
        let mut packages = metadata["packages"].as_array().into_iter().flatten();
        let package = packages
            .find(|package| package["name"] == "spindles")
            .ok_or("there is no package spindles")?;
        let deb = package["metadata"]["deb"].clone();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Ok(Self {
            name: text(&package["name"]),
            version: format!("{}-1", text(&package["version"])),
            architecture: good("dpkg", &["--print-architecture"])?.trim().to_owned(),
            description: text(&package["description"]),
            profile: profile.to_owned(),
            deb,
        })
    }

    fn text(&self, field: &str) -> Result<&str, String> {
        let text = self.deb[field].as_str();
        text.ok_or_else(|| format!("[package.metadata.deb] lacks {field}"))
    }

    /// The assets: source, target and mode. A source with `*` yields all matching files.
    fn files(&self) -> Result<Vec<(PathBuf, String, String)>, String> {
        let mut files = Vec::new();
        for asset in self.deb["assets"].as_array().into_iter().flatten() {
            let field = |at: usize| asset[at].as_str().ok_or("an asset has three texts");
            let (source, target, mode) = (field(0)?, field(1)?, field(2)?);
            let source = match source.strip_prefix("target/release/") {
                Some(binary) => PathBuf::from("target").join(&self.profile).join(binary),
                None => Path::new("crates/spindles").join(source),
            };
            for source in matching(&source)? {
                let name = source
                    .file_name()
                    .map(|name| name.to_string_lossy().into_owned());
                let target = match target.strip_suffix('/') {
                    Some(folder) => format!("{folder}/{}", name.unwrap_or_default()),
                    None => target.to_owned(),
                };
                files.push((source, target, mode.to_owned()));
            }
        }
        Ok(files)
    }

    fn install(root: &Path, source: &Path, target: &str, mode: &str) -> Result<(), String> {
        let to = path(&root.join(target));
        good("install", &["-D", "-m", mode, &path(source), &to])?;
        if mode == "755" && target.starts_with("usr/bin/") {
            good(
                "strip",
                &["--strip-unneeded", "--remove-section=.comment", &to],
            )?;
        }
        if target.starts_with("usr/share/man/") {
            good("gzip", &["-9n", &to])?;
        }
        Ok(())
    }

    /// The maintainer's scripts and the list of configuration files.
    fn install_control(&self, root: &Path) -> Result<(), String> {
        let scripts = Path::new("crates/spindles").join(self.text("maintainer-scripts")?);
        for script in ["postinst", "prerm", "postrm"] {
            Self::install(
                root,
                &scripts.join(script),
                &format!("DEBIAN/{script}"),
                "755",
            )?;
        }
        let mut list = String::new();
        for file in self.deb["conf-files"].as_array().into_iter().flatten() {
            list.push_str(file.as_str().unwrap_or_default());
            list.push('\n');
        }
        let conffiles = root.join("DEBIAN/conffiles");
        fs::write(&conffiles, list).map_err(at(&conffiles))
    }

    /// The libraries that the binary needs, with the versions of the symbols that it uses.
    fn depends(&self, root: &Path) -> Result<String, String> {
        let binary = path(&root.join("usr/bin").join(&self.name));
        let mut symbols = good("objdump", &["-T", &binary])?;
        // Packed relocations have a version of their own, which no symbol names.
        if good("objdump", &["-p", &binary])?.contains("GLIBC_ABI_DT_RELR") {
            symbols.push_str(" GLIBC_2.36");
        }
        let needs = |package: &str, prefix: &str| {
            let version = newest(&symbols, prefix)?;
            Some(format!("{package} (>= {version})"))
        };
        let packages = [needs("libc6", "GLIBC_"), needs("libgcc-s1", "GCC_")];
        let packages: Vec<String> = packages.into_iter().flatten().collect();
        Ok(self.text("depends")?.replace("$auto", &packages.join(", ")))
    }

    fn control(&self, root: &Path) -> Result<String, String> {
        let size = good("du", &["-sk", "--exclude=DEBIAN", &path(root)])?;
        let size = size.split_whitespace().next().unwrap_or_default();
        let mut description = String::new();
        for line in self.text("extended-description")?.trim().lines() {
            description.push(' ');
            description.push_str(if line.is_empty() { "." } else { line });
            description.push('\n');
        }
        Ok(format!(
            "Package: {}\nVersion: {}\nArchitecture: {}\nMaintainer: {}\nInstalled-Size: {size}\n\
             Depends: {}\nRecommends: {}\nSection: {}\nPriority: {}\n\
             Description: {}\n{description}",
            self.name,
            self.version,
            self.architecture,
            self.text("maintainer")?,
            self.depends(root)?,
            self.text("recommends")?,
            self.text("section")?,
            self.text("priority")?,
            self.description,
        ))
    }
}

/// The newest version of the symbols with this prefix that a binary needs.
fn newest(symbols: &str, prefix: &str) -> Option<String> {
    let words = symbols.split(|c: char| c.is_whitespace() || "()".contains(c));
    let versions = words.filter_map(|word| word.strip_prefix(prefix));
    let numbers = versions.filter_map(|version| {
        let parts = version.split('.').map(str::parse);
        parts.collect::<Result<Vec<u32>, _>>().ok()
    });
    let newest = numbers.max()?;
    let parts: Vec<String> = newest.iter().map(u32::to_string).collect();
    Some(parts.join("."))
}

/// Returns the files that match a path with one `*` in its last part.
fn matching(pattern: &Path) -> Result<Vec<PathBuf>, String> {
    let name = pattern
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    let name = name.unwrap_or_default();
    let Some((before, after)) = name.split_once('*') else {
        return Ok(vec![pattern.to_owned()]);
    };
    let folder = pattern.parent().unwrap_or(Path::new("."));
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(at(folder))? {
        let entry = entry.map_err(at(folder))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(before) && name.ends_with(after) {
            found.push(entry.path());
        }
    }
    found.sort();
    if found.is_empty() {
        return Err(format!("{}: there is none", pattern.display()));
    }
    Ok(found)
}

/// Returns the output of a program that succeeded.
fn good(program: &str, arguments: &[&str]) -> Result<String, String> {
    match process::capture(program, arguments)? {
        Finished { good: true, output } => Ok(output),
        Finished { output, .. } => Err(format!("{program} {}: {output}", arguments.join(" "))),
    }
}

fn path(path: &Path) -> String {
    path.display().to_string()
}

fn at(path: &Path) -> impl Fn(std::io::Error) -> String {
    let path = path.display().to_string();
    move |error| format!("{path}: {error}")
}

/// Builds the package of the binary that tests use, and installs it into an empty folder. Checks
/// that it runs and has all its files, and that lintian finds no error. Returns the reason if the
/// lintian check was skipped.
pub(crate) fn check() -> Result<Option<&'static str>, String> {
    let deb = path(&build("debug", Talk::Not)?);
    let root = PathBuf::from(STAGE).join("installed");
    if root.exists() {
        fs::remove_dir_all(&root).map_err(at(&root))?;
    }
    good("dpkg-deb", &["--extract", &deb, &path(&root)])?;
    let version = good(&path(&root.join("usr/bin/spindles")), &["--version"])?;
    if !version.starts_with("spindles ") {
        return Err(format!("the installed binary says {version}"));
    }
    // The tests' binary contains canaries, so this checks that the search finds their mark.
    if !has_canaries(&path(&root.join("usr/bin/spindles")))? {
        return Err("the tests' binary lacks the mark of canaries".to_owned());
    }
    if released_features()?.contains("canary") {
        return Err("builds for users act on planted faults: feature canary".to_owned());
    }
    for file in [
        "share/man/man1/spindles.1.gz",
        "share/man/man1/spindles-lab-run.1.gz",
        "share/man/man8/spindles-serve.8.gz",
        "lib/udev/rules.d/61-spindles.rules",
        "share/bash-completion/completions/spindles",
        "share/zsh/vendor-completions/_spindles",
        "share/fish/vendor_completions.d/spindles.fish",
        "share/doc/spindles/copyright",
        "share/doc/spindles/changelog.Debian.gz",
        "share/doc/spindles/README.md",
        "share/doc/spindles/docs/guide/administration.md",
        "lib/systemd/system/spindles-serve@.service",
        "lib/systemd/system/spindles-scrub@.service",
        "lib/systemd/system/spindles-scrub@.timer",
    ] {
        if !root.join("usr").join(file).is_file() {
            return Err(format!("the package lacks usr/{file}"));
        }
    }
    let control = good("dpkg-deb", &["--field", &deb, "Depends", "Recommends"])?;
    if !control.contains("libc6 (>= ") || !control.contains("nbd-client") {
        return Err(format!("the package depends on: {control}"));
    }
    let scripts = good("dpkg-deb", &["--ctrl-tarfile", &deb])?;
    for script in ["postinst", "prerm", "postrm", "conffiles"] {
        if !scripts.contains(script) {
            return Err(format!("the package lacks {script}"));
        }
    }
    if !process::exists("lintian") {
        return Ok(Some("lintian is not installed"));
    }
    let lint = [
        "--allow-root",
        "--fail-on",
        "error",
        "--tag-display-limit",
        "0",
        &deb,
    ];
    good("lintian", &lint)?;
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_symbol_decides() {
        let symbols = "0000 DF *UND* 0000 (GLIBC_2.9) open\n0000 DF *UND* 0000 (GLIBC_2.34) dlsym\n\
                       0000 DF *UND* 0000 (GCC_4.2.0) _Unwind_GetIP\n";
        assert_eq!(newest(symbols, "GLIBC_").as_deref(), Some("2.34"));
        assert_eq!(newest(symbols, "GCC_").as_deref(), Some("4.2.0"));
        assert_eq!(newest(symbols, "OTHER_"), None);
    }
}
