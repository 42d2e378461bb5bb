//! The five measured drives: replays each one's requests and compares the responses.

use spindles_model::{
    DriveTexts, Measured, demerit, parse_drive, parse_requests, percentile, replay,
};
use std::path::{Path, PathBuf};

#[test]
fn measured_drives_are_met() {
    for folder in folders() {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let text = |file: &str| std::fs::read_to_string(folder.join(file)).unwrap();
        let (drive, seek, extents) = (text("drive.toml"), text("seek.csv"), text("extents.csv"));
        let parameters = parse_drive(&DriveTexts {
            folder: &name,
            drive: &drive,
            seek: &seek,
            extents: &extents,
        })
        .unwrap_or_else(|fault| panic!("{fault}"));
        let requests = parse_requests("requests.csv", &text("requests.csv")).unwrap();
        let modelled = replay(&parameters, &requests).unwrap();
        report(&name, "all", &requests, &modelled, |_| true);
        report(&name, "reads", &requests, &modelled, |request| {
            !request.is_write
        });
        report(&name, "writes", &requests, &modelled, |request| {
            request.is_write
        });
        if let Ok(out) = std::env::var("MODEL_OUT") {
            let lines = requests.iter().zip(&modelled).map(|(request, us)| {
                let operation = if request.is_write { 'W' } else { 'R' };
                format!(
                    "{operation},{},{},{},{},{us}\n",
                    request.first_sector, request.sectors, request.response_us, request.gap_us
                )
            });
            let header = "operation,first_sector,sectors,measured,gap,response_us\n".to_owned();
            let all: String = std::iter::once(header).chain(lines).collect();
            std::fs::write(format!("{out}/{name}.csv"), all).unwrap();
        }
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

fn report(
    name: &str,
    what: &str,
    requests: &[Measured],
    modelled: &[f64],
    takes: impl Fn(&Measured) -> bool,
) {
    let pairs = requests
        .iter()
        .zip(modelled)
        .filter(|(request, _)| takes(request));
    let (measured, modelled): (Vec<f64>, Vec<f64>) = pairs
        .map(|(request, us)| (request.response_us, *us))
        .unzip();
    let result = demerit(&measured, &modelled).unwrap();
    let off = |share| percentile(&modelled, share).unwrap() / percentile(&measured, share).unwrap();
    println!(
        "{name:22} {what:7} {:6} measured {:8.4} modelled {:8.4} demerit {:7.4} ms {:5.2} %  p95 {:6.3} p99 {:6.3}",
        measured.len(),
        result.measured_mean_us / 1e3,
        result.modelled_mean_us / 1e3,
        result.demerit_us / 1e3,
        result.share() * 100.0,
        off(0.95),
        off(0.99),
    );
}
