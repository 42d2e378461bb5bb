//! Rules for numbers that follow from others. A result counts as inferred, with 15 % each way.

use crate::parameters::{Extent, Number, Zone, float, whole};

/// A skew hides the move it is for: a tenth more than the move and settling.
pub(crate) fn skew_from_move(move_ms: f64, settle_ms: f64) -> Number {
    let skew = 1.1 * (move_ms + settle_ms.max(0.0));
    Number::inferred(skew, "skew from the move and settling")
}

/// A head switch takes three quarters of a seek of one cylinder.
pub(crate) fn head_switch_from_one_track(seek_one_ms: f64) -> Number {
    Number::inferred(
        0.75 * seek_one_ms,
        "head switch from the seek of one cylinder",
    )
}

/// A seek of one cylinder takes an eighth of the average seek.
pub(crate) fn one_track_from_average(average_ms: f64) -> Number {
    Number::inferred(average_ms / 8.0, "seek of one cylinder from the average")
}

/// The full stroke takes twice the average seek.
pub(crate) fn full_from_average(average_ms: f64) -> Number {
    Number::inferred(2.0 * average_ms, "full stroke from the average")
}

/// The inner rate of drives with zones.
pub(crate) fn inner_to_outer() -> Number {
    Number::inferred(0.58, "ratio of drives of the time")
}

/// A long transfer waits for the skew once a track.
pub(crate) fn sectors_per_track_from_rate(rate_mb_s: f64, turn_ms: f64, skew_ms: f64) -> f64 {
    rate_mb_s * 1e3 * (turn_ms + skew_ms) / 512.0
}

/// The tracks of a disk without a list of zones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tracks {
    pub(crate) sectors: u64,
    pub(crate) surfaces: u32,
    pub(crate) outer: f64,
    pub(crate) inner: f64,
    pub(crate) zones: u32,
    /// In turns.
    pub(crate) track_skew: f64,
    pub(crate) cylinder_skew: f64,
}

/// Zones of equal width. Their tracks shrink evenly from the outer to the inner one.
pub(crate) fn zones_from_tracks(tracks: &Tracks) -> Vec<Zone> {
    let count = tracks.zones.max(1);
    let steps = f64::from(count.max(2) - 1);
    let per_track = |index: u32| {
        let shrunk = (tracks.outer - tracks.inner) * f64::from(index) / steps;
        (tracks.outer - shrunk).round().max(1.0)
    };
    let sum: f64 = (0..count).map(per_track).sum();
    let per_cylinder = sum * f64::from(tracks.surfaces);
    let width = (float(tracks.sectors) / per_cylinder)
        .ceil()
        .clamp(1.0, 2e6 / f64::from(count));
    let width = u32::try_from(whole(width)).expect("bounded above");
    let zone = |index: u32| {
        let sectors = per_track(index);
        let sectors_per_track = u32::try_from(whole(sectors)).expect("bounded by its rule");
        Zone {
            first_cylinder: index * width,
            last_cylinder: (index + 1) * width - 1,
            sectors_per_track,
            used_sectors_per_track: sectors_per_track,
            first_angle_sectors: 0.0,
            track_skew_sectors: (sectors * tracks.track_skew).ceil(),
            cylinder_skew_sectors: (sectors * tracks.cylinder_skew).ceil(),
        }
    };
    (0..count).map(zone).collect()
}

/// One extent a zone: sectors fill all places in order, up to `most`.
pub(crate) fn extents_in_order(zones: &[Zone], surfaces: u32, most: u64) -> Vec<Extent> {
    let mut extents = Vec::new();
    let mut first_sector = 0;
    for (zone, index) in zones.iter().zip(0..) {
        let cylinders = u64::from(zone.last_cylinder - zone.first_cylinder + 1);
        let places = cylinders * u64::from(surfaces) * u64::from(zone.used_sectors_per_track);
        let sectors = places.min(most - first_sector);
        if sectors == 0 {
            break;
        }
        extents.push(Extent {
            first_sector,
            sectors,
            zone: index,
            place: 0,
        });
        first_sector += sectors;
    }
    extents
}
