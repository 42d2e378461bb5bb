//! A control group with a limit on memory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The usual mount point of control groups.
const MOUNTED: &str = "/sys/fs/cgroup";

/// Names of the control files in one version.
struct Version {
    limit: &'static str,
    peak: &'static str,
    /// The file that counts how often the limit was reached: a number, or one line of several.
    reached: &'static str,
    reached_line: &'static str,
    /// Set if a process that needs memory waits for the writes of others.
    waits_for_writes: bool,
}

const V1: Version = Version {
    limit: "memory.limit_in_bytes",
    peak: "memory.max_usage_in_bytes",
    reached: "memory.failcnt",
    reached_line: "",
    waits_for_writes: true,
};
const V2: Version = Version {
    limit: "memory.max",
    peak: "memory.peak",
    reached: "memory.events",
    reached_line: "max ",
    waits_for_writes: false,
};

/// A control group, removed when dropped; by then its processes have ended.
pub(crate) struct Group {
    folder: PathBuf,
    version: &'static Version,
}

impl Group {
    /// Creates a group below the one of this process. An error gives the reason if that is
    /// impossible.
    pub(crate) fn new(limit_bytes: u64) -> Result<Self, String> {
        let own = fs::read_to_string("/proc/self/cgroup").map_err(|error| error.to_string())?;
        let mut why = "no control group limits memory here".to_owned();
        for line in own.lines() {
            let mut parts = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else {
                continue;
            };
            let path = path.trim_start_matches('/');
            let made = if controllers == "memory" {
                let own = Path::new(MOUNTED).join("memory").join(path);
                Self::below(&own, &V1, limit_bytes)
            } else if controllers.is_empty() {
                Self::of_version_2(&Path::new(MOUNTED).join(path), limit_bytes)
            } else {
                continue;
            };
            match made {
                Ok(group) => return Ok(group),
                Err(error) => why = error,
            }
        }
        Err(why)
    }

    /// In version 2, only groups without processes may have children with limits: tries the group
    /// of this process and those above.
    fn of_version_2(own: &Path, limit_bytes: u64) -> Result<Self, String> {
        let mut why = String::new();
        for above in own
            .ancestors()
            .take_while(|ancestor| ancestor.starts_with(MOUNTED))
        {
            // The controller may be on already; if it can't be turned on, creating the group fails.
            drop(fs::write(above.join("cgroup.subtree_control"), "+memory"));
            match Self::below(above, &V2, limit_bytes) {
                Ok(group) => return Ok(group),
                Err(error) => why = error,
            }
        }
        Err(why)
    }

    fn below(above: &Path, version: &'static Version, limit_bytes: u64) -> Result<Self, String> {
        let folder = above.join(format!("spindles-soak-{}", std::process::id()));
        let explain = |error| format!("no control group: {}: {error}", folder.display());
        fs::create_dir(&folder).map_err(explain)?;
        let group = Self { folder, version };
        let limited = fs::write(group.folder.join(version.limit), limit_bytes.to_string());
        let explain = |error| format!("no limit on memory: {}: {error}", group.folder.display());
        limited.map_err(explain)?;
        Ok(group)
    }

    /// Returns the command so that it runs in the group from its first instruction on.
    pub(crate) fn enter(&self, inside: &Command) -> Command {
        let mut command = Command::new("sh");
        let enter = r#"echo $$ >"$0" && exec "$@""#;
        command.args(["-c", enter]);
        command.arg(self.folder.join("cgroup.procs"));
        command.arg(inside.get_program()).args(inside.get_args());
        command.envs(
            inside
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        );
        if let Some(folder) = inside.get_current_dir() {
            command.current_dir(folder);
        }
        command
    }

    /// Returns true if a server in the group could wait for itself, unless it is exempt: the kernel
    /// writes to it.
    pub(crate) fn waits_for_writes(&self) -> bool {
        self.version.waits_for_writes
    }

    fn read(&self, file: &str, line: &str) -> u64 {
        // Old kernels do not record a peak.
        let text = fs::read_to_string(self.folder.join(file)).unwrap_or_default();
        let value = text.lines().find_map(|it| it.strip_prefix(line));
        value
            .and_then(|value| value.trim().parse().ok())
            .unwrap_or(0)
    }

    /// How often processes had to wait for memory because of the limit.
    pub(crate) fn times_reached(&self) -> u64 {
        self.read(self.version.reached, self.version.reached_line)
    }

    /// The peak memory of the group, in bytes.
    pub(crate) fn peak_bytes(&self) -> u64 {
        self.read(self.version.peak, "")
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let end = Instant::now() + Duration::from_secs(5);
        // Ended processes leave the group a moment later.
        while fs::remove_dir(&self.folder).is_err() && Instant::now() < end {
            sleep(Duration::from_millis(20));
        }
    }
}
