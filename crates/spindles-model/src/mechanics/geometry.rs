//! Where sectors lie: zones, the order of surfaces, skews, and the map of extents.

use super::spindle::{Spindle, angle};
use crate::parameters::{Extent, Zone};

/// Which surface holds the first track of a cylinder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SurfaceOrder {
    /// Always surface 0.
    Same,
    /// The last surface in odd cylinders.
    Alternating,
    /// The last surface in cylinders at an odd distance from the start of their zone.
    AlternatingInZone,
}

/// Sectors in a row on one track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) first: u64,
    pub(crate) count: u64,
    pub(crate) cylinder: u32,
    pub(crate) surface: u32,
    /// The angle at which the first sector starts.
    pub(crate) angle: u64,
    pub(crate) sector_fs: u64,
    /// Sectors in a row before the first on the same track.
    pub(crate) before: u64,
}

#[derive(Debug)]
struct ZoneAngles {
    first_cylinder: u32,
    used: u64,
    sector_fs: u64,
    first: u64,
    track_skew: u64,
    cylinder_skew: u64,
    sector: u64,
}

#[derive(Debug)]
pub(crate) struct Geometry {
    surfaces: u32,
    order: SurfaceOrder,
    zones: Vec<ZoneAngles>,
    extents: Vec<Extent>,
}

impl Geometry {
    /// Zones in order, and extents in order of their sectors, without overlaps.
    pub(crate) fn new(
        surfaces: u32,
        order: SurfaceOrder,
        zones: &[Zone],
        extents: &[Extent],
        spindle: &Spindle,
    ) -> Self {
        let angles = |zone: &Zone| {
            let part = |sectors: f64| angle(sectors / f64::from(zone.sectors_per_track));
            ZoneAngles {
                first_cylinder: zone.first_cylinder,
                used: zone.used_sectors_per_track.into(),
                sector_fs: spindle.sector_fs(zone.sectors_per_track),
                first: part(zone.first_angle_sectors),
                track_skew: part(zone.track_skew_sectors),
                cylinder_skew: part(zone.cylinder_skew_sectors),
                sector: u64::MAX / u64::from(zone.sectors_per_track),
            }
        };
        Self {
            surfaces,
            order,
            zones: zones.iter().map(angles).collect(),
            extents: extents.to_vec(),
        }
    }

    /// One past the last sector of the map.
    pub(crate) fn sectors(&self) -> u64 {
        self.extents
            .last()
            .map_or(0, |last| last.first_sector + last.sectors)
    }

    fn extent(&self, sector: u64) -> &Extent {
        let after = self
            .extents
            .partition_point(|extent| extent.first_sector <= sector);
        &self.extents[after.saturating_sub(1)]
    }

    fn zone(&self, extent: &Extent) -> &ZoneAngles {
        &self.zones[usize::try_from(extent.zone).expect("32 bits")]
    }

    /// The first of `count` sectors from `sector` on, as far as they lie in a row on one track.
    pub(crate) fn piece(&self, sector: u64, count: u64) -> Piece {
        let extent = self.extent(sector);
        let zone = self.zone(extent);
        let place = extent.place + (sector - extent.first_sector);
        let (track, on_track) = (place / zone.used, place % zone.used);
        let surfaces = u64::from(self.surfaces);
        let (distance, order) = (track / surfaces, track % surfaces);
        let relative = u32::try_from(distance).expect("cylinders are checked");
        let cylinder = zone.first_cylinder + relative;
        let order32 = u32::try_from(order).expect("less than surfaces");
        let is_reversed = match self.order {
            SurfaceOrder::Same => false,
            SurfaceOrder::Alternating => cylinder % 2 == 1,
            SurfaceOrder::AlternatingInZone => relative % 2 == 1,
        };
        let tracks = order + (surfaces - 1) * distance;
        let angle = zone
            .first
            .wrapping_add(tracks.wrapping_mul(zone.track_skew))
            .wrapping_add(distance.wrapping_mul(zone.cylinder_skew))
            .wrapping_add(on_track.wrapping_mul(zone.sector));
        let in_extent = extent.first_sector + extent.sectors - sector;
        Piece {
            first: sector,
            count: count.min(zone.used - on_track).min(in_extent.max(1)),
            cylinder,
            surface: if is_reversed {
                self.surfaces - 1 - order32
            } else {
                order32
            },
            angle,
            sector_fs: zone.sector_fs,
            before: on_track.min(sector - extent.first_sector),
        }
    }

    /// The first sector on the track of `sector`, as far as they lie in a row.
    pub(crate) fn track_start(&self, sector: u64) -> u64 {
        sector - self.piece(sector, 1).before
    }

    /// One past the last sector on the track of `sector`.
    pub(crate) fn track_end(&self, sector: u64) -> u64 {
        self.span_end(sector, 1)
    }

    /// One past the last sector on the cylinder of `sector`.
    pub(crate) fn cylinder_end(&self, sector: u64) -> u64 {
        self.span_end(sector, self.surfaces.into())
    }

    /// One past the last sector in the span of `tracks` tracks around `sector`.
    fn span_end(&self, sector: u64, tracks: u64) -> u64 {
        let mut extent = self.extent(sector);
        let zone = extent.zone;
        let places = self.zone(extent).used * tracks;
        let place = extent.place + (sector - extent.first_sector);
        let end_place = (place / places + 1) * places;
        loop {
            let end = extent.first_sector + extent.sectors;
            let in_extent = end_place - extent.place;
            if in_extent <= extent.sectors || end >= self.sectors() {
                return end.min(extent.first_sector + in_extent);
            }
            let next = self.extent(end);
            if next.zone != zone || next.place < extent.place || next.place >= end_place {
                return end;
            }
            extent = next;
        }
    }
}
