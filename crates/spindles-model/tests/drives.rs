//! The measured drives: replays each one's requests and compares the responses. The test passes
//! where the measurements are not at hand.

use spindles_model::{
    Demerit, DriveTexts, Measured, Parameters, demerit, parse_drive, parse_requests, percentile,
    replay,
};
use std::path::{Path, PathBuf};

/// Demerits of `DiskSim` 4.0 in per cent, from `reference.csv`.
const DISKSIM: &[(&str, f64)] = &[
    ("dec-rz26", 2.16),
    ("hp-c2247a", 0.61),
    ("quantum-qm39100td-sw", 6.04),
    ("seagate-st32171w", 5.26),
    ("seagate-st39102lw", 2.52),
];

#[test]
fn measured_drives_are_met() {
    for folder in folders() {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let (parameters, requests) = read(&folder, &name);
        let modelled = replay(&parameters, &requests).unwrap();
        let all = report(&name, "all", &requests, &modelled, |_| true);
        report(&name, "reads", &requests, &modelled, |request| {
            !request.is_write
        });
        report(&name, "writes", &requests, &modelled, |request| {
            request.is_write
        });
        let Some((_, disksim)) = DISKSIM.iter().find(|row| row.0 == name) else {
            continue;
        };
        assert!(all.share() * 100.0 <= disksim + 1.0, "{name}: {all:?}");
        let measured: Vec<f64> = requests.iter().map(|request| request.response_us).collect();
        for share in [0.95, 0.99] {
            let of = |times| percentile(times, share).unwrap();
            let ratio = of(&modelled) / of(&measured);
            assert!((0.95..=1.05).contains(&ratio), "{name}: {share} {ratio}");
        }
    }
}

/// Every switch of the buffer matters, as the README of the drives says.
#[test]
fn switches_matter() {
    for (name, key, word, least) in [
        ("seagate-st32171w", "write_back", "none", 40.0),
        ("seagate-st39102lw", "write_back", "none", 40.0),
        ("seagate-st39102lw", "read_ahead", "none", 12.0),
        ("hp-c2247a", "read_ahead", "none", 5.0),
        ("dec-rz26", "read_ahead", "none", 5.0),
    ] {
        let Some(folder) = folders().into_iter().find(|path| path.ends_with(name)) else {
            continue;
        };
        let (mut parameters, requests) = read(&folder, name);
        parameters.set(key, word).unwrap();
        let modelled = replay(&parameters, &requests).unwrap();
        let all = report(name, &format!("{key} {word}"), &requests, &modelled, |_| {
            true
        });
        assert!(all.share() * 100.0 > least, "{name} without {key}: {all:?}");
    }
}

fn folders() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/predict/drives");
    let Ok(entries) = std::fs::read_dir(root) else {
        return Vec::new();
    };
    let mut folders: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("drive.toml").exists())
        .collect();
    folders.sort();
    folders
}

fn read(folder: &Path, name: &str) -> (Parameters, Vec<Measured>) {
    let text = |file: &str| std::fs::read_to_string(folder.join(file)).unwrap();
    let (drive, seek, extents) = (text("drive.toml"), text("seek.csv"), text("extents.csv"));
    let parameters = parse_drive(&DriveTexts {
        folder: name,
        drive: &drive,
        seek: &seek,
        extents: &extents,
    })
    .unwrap_or_else(|fault| panic!("{fault}"));
    let requests = parse_requests("requests.csv", &text("requests.csv")).unwrap();
    (parameters, requests)
}

fn report(
    name: &str,
    what: &str,
    requests: &[Measured],
    modelled: &[f64],
    takes: impl Fn(&Measured) -> bool,
) -> Demerit {
    let pairs = requests
        .iter()
        .zip(modelled)
        .filter(|(request, _)| takes(request));
    let (measured, modelled): (Vec<f64>, Vec<f64>) = pairs
        .map(|(request, us)| (request.response_us, *us))
        .unzip();
    let result = demerit(&measured, &modelled).unwrap();
    let of = |times: &[f64], share| percentile(times, share).unwrap();
    let ratio = |share| of(&modelled, share) / of(&measured, share);
    println!(
        "{name:21} {what:16} mean {:8.4} ms, modelled {:8.4} ms, demerit {:5.2} %, \
         p95 x {:.3}, p99 x {:.3}",
        result.measured_mean_us / 1e3,
        result.modelled_mean_us / 1e3,
        result.share() * 100.0,
        ratio(0.95),
        ratio(0.99),
    );
    result
}
