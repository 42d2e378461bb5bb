//! Who has a file open.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// So many are named.
const NAMED_MAX: usize = 5;

/// Loop devices and processes that have the file open, as far as this user may know. None of them is asked, and the file
/// is not either.
pub(crate) fn users(path: &Path) -> Vec<String> {
    let mut users = loop_devices(path);
    users.extend(processes(path));
    users.into_iter().collect()
}

/// As a part of a sentence.
pub(crate) fn sentence(users: &[String]) -> String {
    let named = users.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>();
    let others = users.len() - named.len();
    match (named.is_empty(), others) {
        (true, _) => "by whom can't be seen".to_owned(),
        (false, 0) => format!("by {}", named.join(", ")),
        (false, _) => format!("by {} and {others} more", named.join(", ")),
    }
}

fn loop_devices(path: &Path) -> BTreeSet<String> {
    let devices = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let on_it = devices.filter(|device| {
        let backing = fs::read(device.path().join("loop/backing_file"));
        backing.is_ok_and(|backing| backing.trim_ascii_end() == path.as_os_str().as_bytes())
    });
    let names = on_it.map(|device| format!("/dev/{}", device.file_name().display()));
    names.collect()
}

fn processes(path: &Path) -> BTreeSet<String> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let with_it = pids.filter(|pid| {
        let open = fs::read_dir(format!("/proc/{pid}/fd"));
        let mut open = open.into_iter().flatten().flatten();
        open.any(|open| fs::read_link(open.path()).is_ok_and(|target| target == path))
    });
    let named = with_it.map(|pid| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        format!("{} (process {pid})", name.trim_end())
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_what_it_opened() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let found = users(&file.path().canonicalize().unwrap());
        let process = format!("(process {})", std::process::id());
        assert!(
            found.len() == 1 && found[0].ends_with(&process),
            "{found:?}"
        );
        assert!(users(Path::new("/nothing/here")).is_empty());
    }

    #[test]
    fn not_all_are_named() {
        let users: Vec<String> = (0..7).map(|number| format!("p{number}")).collect();
        assert_eq!(sentence(&users), "by p0, p1, p2, p3, p4 and 2 more");
        assert_eq!(sentence(&users[..1]), "by p0");
        assert_eq!(sentence(&[]), "by whom can't be seen");
    }
}
