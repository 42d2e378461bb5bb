//! Disk models: the contents of a member, what of it is durable, and the latency of operations. One
//! file each, one row in the table; the conformance test below runs on all of them.

mod in_order;
mod memory;
mod write_through;

use crate::random::Random;

/// A disk model.
#[derive(Debug)]
pub struct Model {
    /// The name that users type.
    pub name: &'static str,
    /// One line for help.
    pub about: &'static str,
    /// Set if writes stay in a cache until they are flushed; power loss empties it.
    pub volatile_cache: bool,
    /// Draws the latency of an operation, in nanoseconds. Operations don't wait for one another:
    /// they overtake, as on a real disk with a queue.
    pub service_ns: fn(&mut Random, Work) -> u64,
}

/// The kind and size of an operation, which determine its latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// A read of this many bytes.
    Read(u64),
    /// A write of this many bytes.
    Write(u64),
    /// A flush of the cache.
    Flush,
}

/// Every model; the first is the default.
pub static MODELS: &[&Model] = &[&memory::MODEL, &write_through::MODEL, &in_order::MODEL];

impl Model {
    /// Returns the model of that name.
    pub fn by_name(name: &str) -> Option<&'static Self> {
        MODELS.iter().find(|model| model.name == name).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{Disk, Landing, PowerLoss, WriteData};

    const SECTOR: usize = 512;

    fn disk(model: &'static Model) -> Disk {
        Disk::new(model, 512, 64)
    }

    fn sector(fill: u8) -> Vec<u8> {
        vec![fill; SECTOR]
    }

    fn read(disk: &Disk, first: u64) -> u8 {
        let mut out = sector(0xff);
        disk.read(first, &mut out).unwrap();
        assert!(out.iter().all(|&byte| byte == out[0]));
        out[0]
    }

    fn lose_power(disk: &mut Disk, how: PowerLoss) {
        disk.lose_power(&mut Random::new(1, "power"), how, &[]);
    }

    #[test]
    fn names_are_unique() {
        for (index, row) in MODELS.iter().enumerate() {
            assert!(MODELS[..index].iter().all(|other| other.name != row.name));
            assert!(Model::by_name(row.name).is_some());
        }
    }

    #[test]
    fn reads_return_the_last_write() {
        for model in MODELS {
            let mut disk = disk(model);
            assert_eq!(read(&disk, 3), 0);
            disk.write(3, &sector(1), false);
            disk.write(3, &sector(2), false);
            disk.write(4, &sector(3), true);
            assert_eq!([3, 4, 5].map(|first| read(&disk, first)), [2, 3, 0]);
        }
    }

    #[test]
    fn flushed_and_fua_writes_survive_power_loss() {
        for model in MODELS {
            let mut disk = disk(model);
            disk.write(0, &sector(1), false);
            let flush = disk.flush_begins();
            disk.write(0, &sector(2), false); // After the flush began: not covered.
            disk.write(1, &sector(3), false);
            disk.flush_ends(flush);
            disk.write(2, &sector(4), true);
            let durable = [0, 1, 2].map(|first| disk.durable(first)[0]);
            lose_power(&mut disk, PowerLoss::CacheLost);
            let expected = if model.volatile_cache {
                [1, 0, 4]
            } else {
                [2, 3, 4]
            };
            assert_eq!([0, 1, 2].map(|first| read(&disk, first)), expected);
            assert_eq!(durable, expected, "{}", model.name);
        }
    }

    #[test]
    fn power_loss_leaves_the_durable_or_a_later_version_of_each_sector() {
        let mut seen = [false; 4];
        for seed in 0..60 {
            let mut disk = disk(&memory::MODEL);
            let mut random = Random::new(seed, "test");
            disk.write(0, &sector(1), true);
            disk.write(0, &sector(2), false);
            disk.write(0, &[sector(3), sector(13)].concat(), false);
            let flying = WriteData {
                first: 0,
                bytes: [sector(4), sector(14)].concat(),
            };
            let how = PowerLoss::random(&mut random);
            disk.lose_power(&mut random, how, &[&flying]);
            let values = (read(&disk, 0), read(&disk, 1));
            assert!((1..=4).contains(&values.0) && [0, 13, 14].contains(&values.1));
            seen[usize::from(values.0) - 1] = true;
            // The state is on the media now: another power loss changes nothing.
            lose_power(&mut disk, PowerLoss::CacheLost);
            assert_eq!((read(&disk, 0), read(&disk, 1)), values);
        }
        assert_eq!(seen, [true; 4]);
    }

    #[test]
    fn a_process_crash_keeps_the_cache() {
        for model in MODELS {
            let mut disk = disk(model);
            disk.write(0, &sector(1), false);
            let flying = WriteData {
                first: 1,
                bytes: sector(2),
            };
            disk.land(&mut Random::new(1, "x"), &flying, Landing::Whole);
            assert_eq!((read(&disk, 0), read(&disk, 1)), (1, 2));
            lose_power(&mut disk, PowerLoss::CacheLost);
            let kept = u8::from(!model.volatile_cache);
            assert_eq!((read(&disk, 0), read(&disk, 1)), (kept, 2 * kept));
        }
    }

    #[test]
    fn latent_sector_errors_last_until_they_are_overwritten() {
        for model in MODELS {
            let mut disk = disk(model);
            disk.write(8, &[sector(1), sector(2)].concat(), true);
            disk.make_unreadable(9);
            let mut out = [0; 2 * SECTOR];
            assert!(disk.read(8, &mut out).is_err());
            assert_eq!(read(&disk, 8), 1);
            assert_eq!(disk.unreadable().collect::<Vec<_>>(), [9]);
            // The contents below the error are intact.
            assert_eq!(disk.current(9)[0], 2);
            disk.write(9, &sector(5), false);
            assert_eq!(read(&disk, 9), 5);
            lose_power(&mut disk, PowerLoss::CacheLost);
            let mut out = [0; SECTOR];
            assert_eq!(disk.read(9, &mut out).is_err(), model.volatile_cache);
        }
    }

    #[test]
    #[should_panic(expected = "beyond the end")]
    fn an_access_beyond_the_end_panics() {
        disk(&memory::MODEL).write(64, &sector(1), false);
    }

    #[test]
    fn every_operation_takes_time_and_the_seed_decides() {
        for model in MODELS {
            for work in [Work::Read(512), Work::Write(1 << 20), Work::Flush] {
                let times = |seed| {
                    let mut random = Random::new(seed, "time");
                    [(); 8].map(|()| (model.service_ns)(&mut random, work))
                };
                assert_eq!(times(1), times(1));
                assert!(times(1).iter().all(|&ns| ns > 0 && ns < 10_000_000_000));
            }
        }
    }
}
