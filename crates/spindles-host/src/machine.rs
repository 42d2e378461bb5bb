//! The numbers of a host: the costs of its processor, its memory, and its rules of caching.

/// How far a host reads ahead in a file that is read in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadAhead {
    /// Always this many bytes.
    Fixed(u64),
    /// Windows that double up to this many.
    Growing(u64),
}

/// Which processors copy data at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Memory {
    /// Every processor at once.
    Ample,
    /// One processor at a time.
    Shared,
}

/// Limits of changed bytes in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shares {
    written_bytes: u64,
    most_bytes: u64,
}

impl Shares {
    /// Returns the bytes beyond which the oldest are written.
    pub(crate) fn written(self) -> u64 {
        self.written_bytes
    }

    /// Returns the bytes beyond which writers wait.
    pub(crate) fn most(self) -> u64 {
        self.most_bytes
    }
}

/// The ages at which changed blocks are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ages {
    data_ns: u64,
    metadata_ns: u64,
}

impl Ages {
    pub(crate) fn data_ns(self) -> u64 {
        self.data_ns
    }

    /// Returns the age of metadata, if that is written sooner.
    pub(crate) fn metadata_ns(self) -> Option<u64> {
        Some(self.metadata_ns).filter(|age_ns| *age_ns < self.data_ns)
    }
}

/// The numbers of a host in one draw. Times are in nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    pub(crate) cpus: usize,
    memory: Memory,
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
    pub(crate) shares: Shares,
    pub(crate) cluster_bytes: u64,
    pub(crate) read_ahead: ReadAhead,
    pub(crate) write_behind_bytes_max: u64,
    pub(crate) ages: Ages,
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
        let dirty_percent = find("dirty_percent")?;
        let memory_mib = find("cache_mib")?;
        let share = |percent: f64| whole(memory_mib * 10_485.76 * percent);
        let read_ahead_bytes = cluster_bytes * whole(find("read_ahead_clusters")?);
        let write_back_age_ns = seconds("write_back_age_s")?;
        Ok(Self {
            cpus: usize::try_from(whole(find("cpus")?))
                .expect("bounded")
                .max(1),
            memory: if word("memory") == Some("shared") {
                Memory::Shared
            } else {
                Memory::Ample
            },
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
            shares: Shares {
                written_bytes: share(dirty_percent),
                most_bytes: share(find("throttle_percent").unwrap_or(dirty_percent)),
            },
            cluster_bytes,
            read_ahead: if word("read_ahead") == Some("growing") {
                ReadAhead::Growing(read_ahead_bytes)
            } else {
                ReadAhead::Fixed(read_ahead_bytes)
            },
            write_behind_bytes_max: mib("write_behind_mib")?,
            ages: Ages {
                data_ns: write_back_age_ns,
                metadata_ns: seconds("metadata_age_s").unwrap_or(write_back_age_ns),
            },
            write_back_period_ns: seconds("write_back_period_s")?.max(1),
            keeps_written: word("written_pages") == Some("kept"),
            locks_files: word("file_lock") == Some("on"),
            spreads_directories: word("directories") != Some("near"),
        })
    }
}

impl Machine {
    /// Returns true if processors copy data one at a time.
    pub(crate) fn shares_memory(&self) -> bool {
        self.memory == Memory::Shared
    }

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
