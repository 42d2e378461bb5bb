//! Replays measured requests on a modelled drive, and the demerit of the modelled responses.

use crate::draw::Draw;
use crate::drive_folder::Measured;
use crate::fault::{Fault, Problem};
use crate::parameters::{Parameters, float, whole};
use crate::world::{Tag, Work, World};
use spindles_block::{Instant, Operation};

/// Replays requests as a closed loop: each is sent its predecessor's gap after the predecessor's
/// modelled answer. Returns the modelled responses in microseconds.
pub fn replay(parameters: &Parameters, requests: &[Measured]) -> Result<Vec<f64>, Fault> {
    let mut world = World::new();
    let disk = world.add_disk(parameters, &Draw::exact(), &[])?;
    let capacity = world.capacity_bytes(disk);
    let mut now = 0_u64;
    let mut answers = Vec::new();
    let mut responses = Vec::with_capacity(requests.len());
    for (request, line) in requests.iter().zip(2_u64..) {
        let end = request.first_sector.checked_add(request.sectors);
        if !end.is_some_and(|end| end <= capacity / 512 && request.sectors > 0) {
            let place = format!("{}: requests.csv, line {line}", parameters.name);
            let expected = format!("1 or more sectors below {}", capacity / 512);
            return Err(Fault::new(place, Problem::Expected { expected }));
        }
        let operation = if request.is_write {
            Operation::Write { fua: false }
        } else {
            Operation::Read
        };
        let work = Work {
            operation,
            offset_bytes: request.first_sector * 512,
            length_bytes: request.sectors * 512,
        };
        world.submit(Instant(now), disk, Tag(line), work);
        answers.clear();
        while answers.is_empty() {
            let at = world.next_event().expect("a request is in flight");
            world.advance(at, &mut answers);
        }
        let at = answers[0].at.0;
        responses.push(float(at - now) / 1e3);
        now = at + whole(request.gap_us * 1e3);
    }
    Ok(responses)
}

/// How far modelled responses lie from measured ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demerit {
    /// The mean of the measured responses.
    pub measured_mean_us: f64,
    /// The mean of the modelled responses.
    pub modelled_mean_us: f64,
    /// The root mean square distance of the two distributions.
    pub demerit_us: f64,
}

impl Demerit {
    /// The demerit as a share of the measured mean.
    pub fn share(&self) -> f64 {
        self.demerit_us / self.measured_mean_us
    }
}

/// The demerit of modelled responses: the root mean square of the distances of the sorted times.
/// Lists of different length are compared at the quantiles of the shorter one. `None` if one is
/// empty.
pub fn demerit(measured_us: &[f64], modelled_us: &[f64]) -> Option<Demerit> {
    let sorted = |times: &[f64]| {
        let mut times = times.to_vec();
        times.sort_by(f64::total_cmp);
        times
    };
    let (measured, modelled) = (sorted(measured_us), sorted(modelled_us));
    let count = measured.len().min(modelled.len());
    if count == 0 {
        return None;
    }
    let at = |times: &[f64], index: usize| {
        let quantile = (2 * index + 1) * times.len() / (2 * count);
        times[quantile.min(times.len() - 1)]
    };
    let squares = (0..count).map(|index| (at(&measured, index) - at(&modelled, index)).powi(2));
    let length = |times: &[f64]| float(u64::try_from(times.len()).expect("64 bits"));
    let mean = |times: &[f64]| times.iter().sum::<f64>() / length(times);
    Some(Demerit {
        measured_mean_us: mean(&measured),
        modelled_mean_us: mean(&modelled),
        demerit_us: (squares.sum::<f64>() / length(&measured[..count])).sqrt(),
    })
}

/// A percentile of times: the least that `share` of them do not exceed.
pub fn percentile(times_us: &[f64], share: f64) -> Option<f64> {
    let mut times = times_us.to_vec();
    times.sort_by(f64::total_cmp);
    let count = float(u64::try_from(times.len()).ok()?);
    let index = usize::try_from(whole((count * share).ceil()).saturating_sub(1)).ok()?;
    times.get(index.min(times.len().checked_sub(1)?)).copied()
}
