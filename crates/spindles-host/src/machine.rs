//! The numbers of a host: the costs of its processor, its memory, and its rules of caching.

/// The numbers of a host in one draw. Times are in nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    pub(crate) cpus: usize,
    pub(crate) putc_ns_per_kib: u64,
    pub(crate) getc_ns_per_kib: u64,
    pub(crate) write_ns_per_kib: u64,
    pub(crate) overwrite_ns_per_kib: u64,
    pub(crate) read_ns_per_kib: u64,
    pub(crate) array_write_ns_per_kib: u64,
    pub(crate) array_read_ns_per_kib: u64,
    pub(crate) syscall_ns: u64,
    pub(crate) create_ns: u64,
    pub(crate) remove_ns: u64,
    pub(crate) set_times_ns: u64,
    pub(crate) entry_scan_ns: u64,
    pub(crate) loop_ps: u64,
    pub(crate) cache_bytes: u64,
    pub(crate) dirty_bytes_max: u64,
    pub(crate) cluster_bytes: u64,
    pub(crate) read_ahead_bytes: u64,
    pub(crate) write_behind_bytes_max: u64,
    pub(crate) write_back_age_ns: u64,
    pub(crate) write_back_period_ns: u64,
    pub(crate) keeps_written: bool,
    pub(crate) spreads_directories: bool,
    pub(crate) locks_files: bool,
}

impl Machine {
    /// Builds a machine; `number` and `word` return the values of a draw by key.
    ///
    /// # Errors
    ///
    /// The key of a missing number.
    pub fn new<'w>(
        number: impl Fn(&str) -> Option<f64>,
        word: impl Fn(&str) -> Option<&'w str>,
    ) -> Result<Self, &'static str> {
        let find = |key: &'static str| number(key).ok_or(key);
        let us = |key| find(key).map(|value| whole(value * 1e3));
        let seconds = |key| find(key).map(|value| whole(value * 1e9));
        let mib = |key| find(key).map(|value| whole(value * 1_048_576.0));
        let cache_bytes = mib("cache_mib")?;
        let cluster_bytes = whole(find("cluster_kib")? * 1024.0);
        Ok(Self {
            cpus: usize::try_from(whole(find("cpus")?))
                .expect("bounded")
                .max(1),
            putc_ns_per_kib: us("putc_us_per_kib")?,
            getc_ns_per_kib: us("getc_us_per_kib")?,
            write_ns_per_kib: us("write_us_per_kib")?,
            overwrite_ns_per_kib: us("overwrite_us_per_kib")?,
            read_ns_per_kib: us("read_us_per_kib")?,
            array_write_ns_per_kib: us("array_write_us_per_kib")?,
            array_read_ns_per_kib: us("array_read_us_per_kib")?,
            syscall_ns: us("syscall_us")?,
            create_ns: us("create_us")?,
            remove_ns: us("remove_us")?,
            set_times_ns: us("set_times_us")?,
            entry_scan_ns: us("entry_scan_us")?,
            loop_ps: whole(find("loop_ns")? * 1e3),
            cache_bytes,
            dirty_bytes_max: whole(find("cache_mib")? * 10_485.76 * find("dirty_percent")?),
            cluster_bytes,
            read_ahead_bytes: cluster_bytes * whole(find("read_ahead_clusters")?),
            write_behind_bytes_max: mib("write_behind_mib")?,
            write_back_age_ns: seconds("write_back_age_s")?,
            write_back_period_ns: seconds("write_back_period_s")?.max(1),
            keeps_written: word("written_pages") == Some("kept"),
            locks_files: word("file_lock") == Some("on"),
            spreads_directories: word("directories") != Some("near"),
        })
    }
}

impl Machine {
    /// Multiplies the costs of arrays.
    #[must_use]
    pub fn with_array_costs(mut self, factor: f64) -> Self {
        for ns in [
            &mut self.array_read_ns_per_kib,
            &mut self.array_write_ns_per_kib,
        ] {
            *ns = whole(float(*ns) * factor);
        }
        self
    }
}

/// Converts a cost to a float.
#[expect(clippy::cast_precision_loss, reason = "costs are far below 2^53")]
fn float(value: u64) -> f64 {
    value as f64
}

/// Rounds to a whole number; negative numbers become 0.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates, which is the intent"
)]
fn whole(value: f64) -> u64 {
    (value + 0.5) as u64
}
