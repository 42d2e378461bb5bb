//! The presets that are compiled in.

use crate::fault::{Fault, Problem, nearest};
use crate::parameters::Parameters;
use crate::preset::parse_preset;

/// A preset's name and its text.
type Preset = (&'static str, &'static str);

macro_rules! preset {
    ($name:literal) => {
        ($name, include_str!(concat!("../presets/", $name, ".toml")))
    };
    ($name:literal of $folder:literal) => {
        (
            $name,
            include_str!(concat!("../presets/", $folder, "/", $name, ".toml")),
        )
    };
}

/// Disks by year, then links, controllers, software and hosts.
static PRESETS: &[Preset] = &[
    preset!("quantum-xp32150w"),
    preset!("maxtor-94098u8"),
    preset!("wdc-wd400bb"),
    preset!("ata-20gb-7200"),
    preset!("wdc-wd1600jd"),
    preset!("hitachi-hds725050"),
    preset!("seagate-st3750640as"),
    preset!("exos-x18-18tb"),
    preset!("samsung-980-pro-1tb"),
    preset!("samsung-870-evo"),
    preset!("scsi-fast-narrow"),
    preset!("scsi-fast-wide"),
    preset!("ata-33"),
    preset!("ata-100"),
    preset!("sata-300"),
    preset!("sata-600"),
    preset!("fc-4"),
    preset!("pci-32-33"),
    preset!("fast-ethernet"),
    preset!("gigabit-2000"),
    preset!("cmd-crd-5500" of "controllers"),
    preset!("raidion-ltx" of "controllers"),
    preset!("infortrend-2008" of "controllers"),
    preset!("ccd" of "software"),
    preset!("raidframe" of "software"),
    preset!("vinum" of "software"),
    preset!("ppro-200-freebsd-2.2" of "hosts"),
    preset!("p3-550-linux-2.2" of "hosts"),
    preset!("p166-openbsd-3.3" of "hosts"),
    preset!("athlon-2400-openbsd-3.3" of "hosts"),
    preset!("p4-2400-netbsd-3" of "hosts"),
    preset!("opteron-2008-solaris-10" of "hosts"),
];

/// The names of all presets: disks by year, then links, controllers, software and
/// hosts.
pub fn preset_names() -> impl Iterator<Item = &'static str> {
    PRESETS.iter().map(|preset| preset.0)
}

/// The parameters of the preset of that name.
pub fn preset(name: &str) -> Result<Parameters, Fault> {
    let Some((_, text)) = PRESETS.iter().find(|preset| preset.0 == name) else {
        let nearest = nearest(name, preset_names());
        return Err(Fault::new(name, Problem::UnknownPreset { nearest }));
    };
    parse_preset(name, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::{Controller, Surroundings};
    use crate::draw::Draw;
    use crate::world::World;
    use std::collections::BTreeSet;

    #[test]
    fn every_preset_parses_and_builds_in_every_draw() {
        for name in preset_names() {
            let parameters = preset(name).unwrap_or_else(|fault| panic!("{fault}"));
            assert_eq!(parameters.name, name);
            for draw in [Draw::nominal(1), Draw::seeded(2), Draw::seeded(3)] {
                let mut world = World::new();
                if parameters.kind.name == "controller" {
                    let around = Surroundings {
                        openings: 1,
                        sorts: true,
                        stripe_bytes: 1 << 18,
                        capacity_bytes: 1 << 30,
                        sets: 1,
                    };
                    Controller::new(&parameters, &draw, around).unwrap();
                } else if parameters.kind.name == "link" {
                    world.add_link(parameters.link(&draw).unwrap());
                } else if parameters.kind.is_disk() {
                    let disk = world.add_disk(&parameters, &draw, &[]);
                    let disk = disk.unwrap_or_else(|fault| panic!("{fault}"));
                    assert!(world.capacity_bytes(disk) > 0);
                }
            }
        }
    }

    #[test]
    fn every_file_is_in_the_table() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/presets");
        let listed = |folder: String| std::fs::read_dir(folder).unwrap();
        let name = |path: std::path::PathBuf| {
            let stem = path.file_name().unwrap().to_str().unwrap();
            stem.strip_suffix(".toml").map(str::to_owned)
        };
        let folders =
            ["", "/controllers", "/software", "/hosts"].map(|part| format!("{folder}{part}"));
        let files = folders.into_iter().flat_map(listed);
        let files: BTreeSet<String> = files
            .filter_map(|file| name(file.unwrap().path()))
            .collect();
        assert_eq!(files, preset_names().map(str::to_owned).collect());
    }

    #[test]
    fn an_unknown_preset_names_the_nearest() {
        let fault = preset("exos-x18").unwrap_err().to_string();
        assert!(fault.contains("exos-x18-18tb"), "{fault}");
    }
}
