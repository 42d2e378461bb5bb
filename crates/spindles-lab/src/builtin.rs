//! The experiments that come with the program.

/// An experiment of the program's own.
#[derive(Debug)]
pub struct Builtin {
    /// What it is called on the command line.
    pub name: &'static str,
    /// The file.
    pub text: &'static str,
}

/// All of them; the first runs when none is named.
pub static BUILTINS: &[&Builtin] = &[
    &Builtin {
        name: "quickstart",
        text: include_str!("../../../experiments/quickstart.toml"),
    },
    &Builtin {
        name: "mirrors-vs-parity",
        text: include_str!("../../../experiments/mirrors-vs-parity.toml"),
    },
    &Builtin {
        name: "consistency-cost",
        text: include_str!("../../../experiments/consistency-cost.toml"),
    },
    &Builtin {
        name: "rebuild-under-load",
        text: include_str!("../../../experiments/rebuild-under-load.toml"),
    },
    &Builtin {
        name: "your-devices",
        text: include_str!("../../../experiments/your-devices.toml"),
    },
];

/// The experiment of that name.
pub fn by_name(name: &str) -> Option<&'static Builtin> {
    BUILTINS.iter().copied().find(|one| one.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Experiment;

    #[test]
    fn all_of_them_can_be_read() {
        for builtin in BUILTINS {
            let experiment = Experiment::parse(builtin.name, builtin.text);
            let experiment = experiment.unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(experiment.name, builtin.name);
            assert!(!experiment.summary.is_empty());
            assert!(experiment.control);
        }
    }
}
