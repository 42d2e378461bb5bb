//! The built-in experiments.

/// A built-in experiment.
#[derive(Debug)]
pub struct Builtin {
    /// Its name on the command line.
    pub name: &'static str,
    /// The text of its file.
    pub text: &'static str,
}

/// Lists experiments by the names of their files.
macro_rules! builtins {
    ($($name:literal $(in $folder:literal)?),*) => {
        &[$(&Builtin {
            name: $name,
            text: include_str!(concat!("../../../experiments/", $($folder,)? $name, ".toml")),
        }),*]
    };
}

/// All built-in experiments; the first runs when none is named.
pub static BUILTINS: &[&Builtin] = builtins![
    "quickstart",
    "mirrors-vs-parity",
    "consistency-cost",
    "rebuild-under-load",
    "kernel-peers",
    "ccd-vs-hardware",
    "ide-raid-server",
    "stripes-and-mirrors",
    "mirror-vs-disks",
    "raid5-vs-raidz-mail-and-oltp", // Names a level: the experiment's name.
    "your-devices",
    "classic-1996" in "classic/",
    "classic-2000" in "classic/",
    "classic-2002" in "classic/",
    "classic-2005" in "classic/",
    "classic-2008" in "classic/"
];

/// Returns the experiment of that name.
pub fn by_name(name: &str) -> Option<&'static Builtin> {
    BUILTINS.iter().copied().find(|one| one.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Experiment, Tuning};

    #[test]
    fn built_in_experiments_parse() {
        for builtin in BUILTINS {
            let experiment = Experiment::parse(builtin.name, builtin.text);
            let experiment = experiment.unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(experiment.name, builtin.name);
            assert!(!experiment.summary.is_empty());
            assert!(experiment.control);
        }
    }

    /// Tries each experiment at the smallest scale that it allows; below, it refuses.
    #[test]
    fn built_in_experiments_shrink_to_their_stated_minimum() {
        for builtin in BUILTINS {
            let line = builtin
                .text
                .lines()
                .find_map(|line| line.strip_prefix("scale_min = "));
            let Some(least) = line.and_then(|least| least.parse::<f64>().ok()) else {
                continue;
            };
            let at = |scale| {
                let tuning = Tuning {
                    scale,
                    ..Tuning::default()
                };
                Experiment::parse_tuned(builtin.name, builtin.text, &tuning)
            };
            let experiment = at(least).unwrap_or_else(|error| panic!("{error}"));
            assert!(experiment.scaled_how.contains("at a scale of"));
            assert!(at(least / 2.0).is_err(), "{}", builtin.name);
        }
    }

    /// Recipes can't be run here, but they must parse.
    #[test]
    fn recipes_parse() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/recipes");
        let mut count = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            let experiment = Experiment::parse(&path.to_string_lossy(), &text);
            let experiment = experiment.unwrap_or_else(|error| panic!("{error}"));
            assert!(
                experiment
                    .systems
                    .iter()
                    .any(|system| system.commands.is_some())
            );
            count += 1;
        }
        assert!(count >= 5);
    }
}
