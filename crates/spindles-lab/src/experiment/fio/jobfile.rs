//! Job files of fio. Each section is a workload by itself, with the options of the `[global]`
//! sections before it.

use super::options::{Fate, canonical, fate};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// A section, with all its options.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Section {
    pub(crate) name: String,
    /// Values by the first names of the options; empty if the file has no value.
    pub(crate) options: BTreeMap<String, String>,
    /// Options that the lab chooses instead.
    pub(crate) left_out: Vec<String>,
}

/// Reads a job file.
///
/// # Errors
/// The first mistake, with the file and the line.
pub(crate) fn read(path: &Path) -> Result<Vec<Section>, String> {
    let name = path.display().to_string();
    let text = fs::read_to_string(path).map_err(|error| format!("{name}: {error}"))?;
    parse(&name, &text, |variable| std::env::var(variable).ok())
}

fn parse(
    source: &str,
    text: &str,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Vec<Section>, String> {
    /// A section of this name applies to the sections after it.
    const GLOBAL: &str = "global";
    let new = |name: &str| Section {
        name: name.to_owned(),
        options: BTreeMap::new(),
        left_out: Vec::new(),
    };
    let mut global = new(GLOBAL);
    let mut sections: Vec<Section> = Vec::new();
    let mut is_global = None;
    for (line, number) in text.lines().zip(1..) {
        let at = |what: String| format!("{source}, line {number}: {what}");
        let line = line.split([';', '#']).next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        if let Some(header) = line.strip_prefix('[') {
            let Some((name, _)) = header.rsplit_once(']') else {
                return Err(at(format!("\"{line}\" is unclosed: end it with ']'")));
            };
            let global_now = name.starts_with(GLOBAL);
            if !global_now {
                sections.push(Section {
                    name: name.to_owned(),
                    options: global.options.clone(),
                    left_out: global.left_out.clone(),
                });
            }
            is_global = Some(global_now);
            continue;
        }
        let section = match (is_global, sections.last_mut()) {
            (Some(true), _) => &mut global,
            (Some(false), Some(section)) => section,
            _ => {
                return Err(at(format!(
                    "\"{line}\" is in no section: put a line such as [job] before it"
                )));
            }
        };
        if line == "include" || line.starts_with("include ") {
            let what = "`include` is not supported: write the lines of the other file here";
            return Err(at(what.to_owned()));
        }
        let line = replaced(line, &variable).map_err(at)?;
        let (name, value) = line.split_once('=').unwrap_or((&line, ""));
        let (name, value) = canonical(name.trim(), value.trim());
        match fate(&name) {
            Fate::Passed => {
                section.options.insert(name, value);
            }
            Fate::Chosen if section.left_out.contains(&name) => {}
            Fate::Chosen => section.left_out.push(name),
            Fate::Refused(why) => {
                return Err(at(format!("{name} is not supported, {why}: leave it out")));
            }
        }
    }
    if sections.is_empty() {
        return Err(format!(
            "{source}: it has no job: add a section, such as [job]"
        ));
    }
    Ok(sections)
}

/// Replaces `${NAME}` by the environment's values.
fn replaced(line: &str, variable: impl Fn(&str) -> Option<String>) -> Result<String, String> {
    let (mut text, mut rest) = (String::new(), line);
    while let Some((before, after)) = rest.split_once('$') {
        let braced = after.strip_prefix('{');
        let name = braced.and_then(|braced| braced.split_once('}'));
        let Some((name, behind)) = name else {
            return Err(format!("\"{line}\" has a $: write the value in its place"));
        };
        let Some(value) = variable(name) else {
            return Err(format!("{name} is not set: set it in the environment"));
        };
        text.push_str(before);
        text.push_str(&value);
        rest = behind;
    }
    text.push_str(rest);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Vec<Section>, String> {
        let variable = |name: &str| (name == "SIZE").then(|| "8m".to_owned());
        parse("a.fio", text, variable)
    }

    #[test]
    fn job_sections_inherit_global_options() {
        let sections = of(
            "; a comment\n[global]\nblocksize = 64k # of all\nbuffered=1\nfilename=/dev/sda\n\n\
             [one]\nrw=randread\n\
             size=${SIZE}\n[global]\nrw=write\n[two]\ntime_based\nstonewall\nbs=4k\n[two]\n",
        );
        let shown = |section: &Section| {
            let options: Vec<String> = (section.options.iter())
                .map(|(name, value)| format!("{name}={value}"))
                .collect();
            let left_out = section.left_out.join(" ");
            format!("{}: {} without {left_out}", section.name, options.join(" "))
        };
        let shown: Vec<String> = sections.unwrap().iter().map(shown).collect();
        assert_eq!(
            shown,
            [
                "one: bs=64k direct=0 rw=randread size=8m without filename",
                "two: bs=4k direct=0 rw=write time_based=1 without filename stonewall",
                "two: bs=64k direct=0 rw=write without filename",
            ]
        );
    }

    #[test]
    fn unsupported_options_are_named() {
        for (text, words) in [
            ("rw=read\n", "a.fio, line 1: \"rw=read\" is in no section"),
            ("[global]\nrw=read\n", "a.fio: it has no job"),
            ("[one\n", "a.fio, line 1: \"[one\" is unclosed"),
            ("[one]\ninclude b.fio\n", "a.fio, line 2: `include`"),
            (
                "[one]\n\nsize=${OTHER}\n",
                "a.fio, line 3: OTHER is not set",
            ),
            (
                "[one]\nsize=$mb_memory\n",
                "line 2: \"size=$mb_memory\" has",
            ),
            (
                "[one]\nread_iolog=a\n",
                "line 2: read_iolog is not supported",
            ),
            (
                "[one]\nexec_prerun=rm a\n",
                "line 2: exec_prerun is not supported, it runs another program",
            ),
            (
                "[one]\nwrite_bw_log=a\n",
                "line 2: write_bw_log is not supported, it writes files",
            ),
        ] {
            let error = of(text).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
