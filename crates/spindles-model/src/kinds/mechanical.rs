//! Disks that turn: zones, surfaces, an arm, a buffer and a queue.

use super::{Kind, NumberRule, Part, Row, SwitchRule};
use crate::disciplines::{self, Discipline, Sweep};
use crate::drive::{Buffer, Drive, Extra, Interface, Overheads, Parts, Queue, Switches, WriteBack};
use crate::fault::{Fault, Problem};
use crate::inference;
use crate::kind::number;
use crate::mechanics::{Geometry, Mechanism, Seeks, Spindle, SurfaceOrder};
use crate::model::Model;
use crate::parameters::ARM;
use crate::parameters::{Extent, Portrait, Values, Zone, float, ns, whole};
use crate::read_ahead::{self, ReadAhead};
use std::collections::VecDeque;

const MS: f64 = 1e4;
const SECTORS: f64 = 1e9;

pub(crate) static ROW: Row = Row {
    kind: Kind {
        name: "mechanical",
        about: "a disk with zones, an arm, a buffer and a queue",
        numbers: NUMBERS,
        switches: SWITCHES,
        parts: PARTS,
    },
    build: Some(build),
    portrait: Some(portrait),
};

static NUMBERS: &[NumberRule] = &[
    number("sectors", 1.0, 1e12, "sectors of 512 bytes"),
    number("rpm", 60.0, 1e5, "turns a minute"),
    number("surfaces", 1.0, 64.0, "surfaces with a head"),
    number("cylinders", 1.0, 2e6, "cylinders"),
    number("zone_count", 1.0, 64.0, "zones, if inferred from rates"),
    number(
        "rate_outer_mb_s",
        0.01,
        1e4,
        "MB/s of long transfers outside",
    ),
    number(
        "rate_inner_mb_s",
        0.01,
        1e4,
        "MB/s of long transfers inside",
    ),
    number("inner_to_outer", 0.1, 1.0, "rate inside by rate outside"),
    number(
        "sectors_per_track_outer",
        1.0,
        1e5,
        "sectors of an outer track",
    ),
    number(
        "sectors_per_track_inner",
        1.0,
        1e5,
        "sectors of an inner track",
    ),
    number("track_skew_ms", 0.0, MS, "ms from track to track"),
    number("cylinder_skew_ms", 0.0, MS, "ms from cylinder to cylinder"),
    number("head_switch_ms", 0.0, MS, "ms of a change of the head"),
    number(
        "write_settle_ms",
        -MS,
        MS,
        "ms added to a move before a write",
    ),
    number("seek_one_ms", 0.0, MS, "ms of a seek of one cylinder"),
    number(
        "seek_average_read_ms",
        0.0,
        MS,
        "ms of an average seek to read",
    ),
    number(
        "seek_average_write_ms",
        0.0,
        MS,
        "ms of an average seek to write",
    ),
    number("seek_full_ms", 0.0, MS, "ms of a seek over all cylinders"),
    number(
        "seek_knee_cylinders",
        1.0,
        2e6,
        "distance at which the curve becomes a line",
    ),
    number(
        "seek_root_ms",
        0.0,
        MS,
        "ms of the root piece at distance 0",
    ),
    number(
        "seek_root_step_ms",
        0.0,
        MS,
        "ms of the root piece for the root of the distance",
    ),
    number("seek_line_ms", 0.0, MS, "ms of the line at distance 0"),
    number(
        "seek_line_step_ms",
        0.0,
        MS,
        "ms of the line for each cylinder",
    ),
    number("segments", 1.0, 4096.0, "segments of the buffer"),
    number("segment_sectors", 1.0, SECTORS, "sectors of a segment"),
    number("write_segments", 1.0, 4096.0, "segments that hold writes"),
    number(
        "read_ahead_min_sectors",
        0.0,
        SECTORS,
        "the least read-ahead",
    ),
    number(
        "read_ahead_max_sectors",
        0.0,
        SECTORS,
        "the most read-ahead",
    ),
    number("depth", 1.0, 65536.0, "requests that the drive queues"),
    number(
        "age_bound_ms",
        0.0,
        1e6,
        "ms after which a request goes first",
    ),
    number("interface_mb_s", 0.01, 1e5, "MB/s of the interface"),
    number(
        "read_sector_ms",
        0.0,
        MS,
        "ms of a sector read over the interface",
    ),
    number(
        "write_sector_ms",
        0.0,
        MS,
        "ms of a sector written over the interface",
    ),
    number(
        "read_mark",
        0.0,
        1.0,
        "share read before the transfer starts",
    ),
    number("write_mark", 0.0, 1.0, "share left before more is fetched"),
    number(
        "overhead_ms",
        0.0,
        MS,
        "ms of the electronics for each request",
    ),
    number(
        "overhead_read_hit_after_read_ms",
        0.0,
        MS,
        "ms of that command",
    ),
    number(
        "overhead_read_hit_after_write_ms",
        0.0,
        MS,
        "ms of that command",
    ),
    number(
        "overhead_read_miss_after_read_ms",
        0.0,
        MS,
        "ms of that command",
    ),
    number(
        "overhead_read_miss_after_write_ms",
        0.0,
        MS,
        "ms of that command",
    ),
    number(
        "overhead_write_hit_after_read_ms",
        0.0,
        MS,
        "ms of that command",
    ),
    number(
        "overhead_write_hit_after_write_ms",
        0.0,
        MS,
        "ms of that command",
    ),
    number(
        "overhead_write_miss_after_read_ms",
        0.0,
        MS,
        "ms of that command",
    ),
    number(
        "overhead_write_miss_after_write_ms",
        0.0,
        MS,
        "ms of that command",
    ),
    number(
        "overhead_read_completion_ms",
        0.0,
        MS,
        "ms after the data of a read",
    ),
    number("overhead_write_completion_ms", 0.0, MS, "ms after a write"),
    number("overhead_data_preparation_ms", 0.0, MS, "ms before data"),
    number(
        "overhead_first_reselect_ms",
        0.0,
        MS,
        "ms of the first reselection",
    ),
    number(
        "overhead_other_reselect_ms",
        0.0,
        MS,
        "ms of later reselections",
    ),
    number(
        "overhead_read_disconnect_after_read_ms",
        0.0,
        MS,
        "ms of a disconnect",
    ),
    number(
        "overhead_read_disconnect_after_write_ms",
        0.0,
        MS,
        "ms of a disconnect",
    ),
    number(
        "overhead_write_disconnect_ms",
        0.0,
        MS,
        "ms of a disconnect",
    ),
    number(
        "overhead_extra_disconnect_command_ms",
        0.0,
        MS,
        "ms of a write's command",
    ),
    number(
        "overhead_extra_disconnect_ms",
        0.0,
        MS,
        "ms of a write's first disconnect",
    ),
    number(
        "overhead_extra_disconnect_gap_ms",
        0.0,
        MS,
        "ms until it reconnects",
    ),
    number(
        "overhead_extra_disconnect_second_ms",
        0.0,
        MS,
        "ms of its second disconnect",
    ),
    number(
        "overhead_extra_disconnect_seek_ms",
        0.0,
        MS,
        "ms from its command to its seek",
    ),
    number(
        "overhead_seek_least_ms",
        0.0,
        MS,
        "least ms from request to seek",
    ),
];

const fn part(
    name: &'static str,
    times: &'static [&'static str],
    rates: &'static [&'static str],
) -> Part {
    Part { name, times, rates }
}

/// Where tracks are given by their sectors, a faster spindle makes transfers faster, too.
static PARTS: &[Part] = &[
    part(ARM, &["seek_", "head_switch_ms"], &[]),
    part("spindle", &[], &["rpm"]),
    part("medium", &[], &["rate_outer_mb_s", "rate_inner_mb_s"]),
    part(
        "interface",
        &["read_sector_ms", "write_sector_ms"],
        &["interface_mb_s"],
    ),
    part("electronics", &["overhead_"], &[]),
];

const ON: &[&str] = &["on", "off"];
const OFF: &[&str] = &["off", "on"];

const fn switch(
    key: &'static str,
    words: &'static [&'static str],
    about: &'static str,
) -> SwitchRule {
    SwitchRule { key, words, about }
}

static SWITCHES: &[SwitchRule] = &[
    switch(
        "surface_order",
        &["same", "alternating", "alternating-in-zone"],
        "which surface a cylinder starts on",
    ),
    switch(
        "read_ahead",
        read_ahead::WORDS,
        "how far a drive reads ahead",
    ),
    switch(
        "stops_when_asked",
        OFF,
        "a command ends read-ahead under way, even one for what is read next",
    ),
    switch("read_ahead_after_hit", ON, "read-ahead after a hit"),
    switch(
        "read_ahead_over_requested",
        ON,
        "read-ahead may push out requested sectors",
    ),
    switch(
        "stops_within_sector",
        ON,
        "read-ahead stops within a sector",
    ),
    switch(
        "reads_what_passes_before",
        OFF,
        "keeps what passes before the first sector",
    ),
    switch("keeps_data", ON, "the buffer answers later reads"),
    switch(
        "write_back",
        &["none", "appending", "any"],
        "writes answered from the buffer",
    ),
    switch("joins_writes", ON, "writes in a row are written together"),
    switch("reads_hit_written", ON, "reads hit written data"),
    switch(
        "separate_write_segment",
        OFF,
        "one segment is kept for writes",
    ),
    switch(
        "zero_latency_read",
        OFF,
        "read for information only: reads are in order",
    ),
    switch(
        "zero_latency_write",
        OFF,
        "read for information only: writes are in order",
    ),
    switch(
        "never_disconnects",
        OFF,
        "the drive never lets go of its link",
    ),
    switch(
        "holds_for_reads",
        OFF,
        "holds the link for a read's whole transfer",
    ),
    switch(
        "holds_for_writes",
        OFF,
        "holds the link for a write's whole transfer",
    ),
    switch("discipline", disciplines::WORDS, "the drive's queue"),
    switch(
        "host_discipline",
        disciplines::WORDS,
        "the host's queue before it",
    ),
    switch("destage", disciplines::WORDS, "the order of written data"),
];

fn build(values: &Values, angle: u64) -> Result<Box<dyn Model>, Fault> {
    let rpm = values.number("rpm")?;
    let sectors = whole(values.number("sectors")?);
    let surfaces = count(values.number("surfaces")?);
    let shape = shape(values, sectors, surfaces, rpm)?;
    let order = match values.word("surface_order", "same") {
        "alternating" => SurfaceOrder::Alternating,
        "alternating-in-zone" => SurfaceOrder::AlternatingInZone,
        _ => SurfaceOrder::Same,
    };
    let spindle = Spindle::new(rpm, angle);
    let geometry = Geometry::new(surfaces, order, &shape.zones, &shape.extents, &spindle);
    if geometry.sectors() < sectors {
        let place = format!("{}: sectors", values.parameters.name);
        let problem = Problem::Sectors {
            found: sectors,
            expected: geometry.sectors(),
            from: "the map of extents",
        };
        return Err(Fault::new(place, problem));
    }
    let write_settle = write_settle_ms(values);
    let mechanism = Mechanism {
        geometry,
        spindle,
        seeks: seeks(values, shape.cylinders)?,
        head_switch_ns: ns(head_switch_ms(values)),
        write_settle_ns: signed_ns(write_settle),
        cylinder: 0,
        surface: 0,
        free_at: 0,
        seek_ns: 0,
        rotation_ns: 0,
        transfer_ns: 0,
    };
    Ok(Box::new(Drive::new(Parts {
        sectors,
        mechanism,
        buffer: buffer(values),
        switches: switches(values),
        interface: interface(values),
        overheads: overheads(values),
        queue: queue(values),
    })))
}

fn portrait(values: &Values) -> Result<Portrait, Fault> {
    let rpm = values.number("rpm")?;
    let surfaces = count(values.number("surfaces")?);
    let shape = shape(values, whole(values.number("sectors")?), surfaces, rpm)?;
    let seeks = seeks(values, shape.cylinders)?;
    let step = usize::try_from((shape.cylinders / 200).max(1)).expect("32 bits");
    let point = |distance: u32| (f64::from(distance), float(seeks.ns(distance)) / 1e6);
    let all: u64 = shape.extents.iter().map(|extent| extent.sectors).sum();
    let mut rates = Vec::new();
    let mut before = 0;
    for (zone, index) in shape.zones.iter().zip(0..) {
        let extents = shape.extents.iter().filter(|extent| extent.zone == index);
        let sectors: u64 = extents.map(|extent| extent.sectors).sum();
        let rate = zone_rate(zone, surfaces, rpm);
        rates.push((float(before) / float(all), rate));
        before += sectors;
        rates.push((float(before) / float(all), rate));
    }
    Ok(Portrait {
        seek: (1..shape.cylinders).step_by(step).map(point).collect(),
        rates,
    })
}

/// Returns a skew: in no draw is it less than the move that it hides.
fn skew(values: &Values, key: &str, move_ms: f64) -> f64 {
    let settle_ms = write_settle_ms(values);
    let skew_ms = values.or(key, || inference::skew_from_move(move_ms, settle_ms));
    skew_ms.max(move_ms + settle_ms.max(0.0))
}

/// MB/s of long reads in a zone: every track but the last of a cylinder waits for the track skew.
fn zone_rate(zone: &Zone, surfaces: u32, rpm: f64) -> f64 {
    let surfaces = f64::from(surfaces);
    let per_track = f64::from(zone.sectors_per_track);
    let skews = (surfaces - 1.0) * zone.track_skew_sectors + zone.cylinder_skew_sectors;
    let turns = surfaces + skews / per_track;
    let bytes = surfaces * f64::from(zone.used_sectors_per_track) * 512.0;
    bytes / (turns * 60.0 / rpm) / 1e6
}

/// Zones and extents of a disk.
struct Shape {
    cylinders: u32,
    zones: Vec<Zone>,
    extents: Vec<Extent>,
}

fn shape(values: &Values, sectors: u64, surfaces: u32, rpm: f64) -> Result<Shape, Fault> {
    let parameters = values.parameters;
    if let Some(last) = parameters.zones.last() {
        let cylinders = values
            .find("cylinders")
            .map_or(last.last_cylinder + 1, count);
        let zones = parameters.zones.clone();
        let extents = if parameters.extents.is_empty() {
            inference::extents_in_order(&zones, surfaces, u64::MAX)
        } else {
            parameters.extents.clone()
        };
        return Ok(Shape {
            cylinders,
            zones,
            extents,
        });
    }
    let turn_ms = 60e3 / rpm;
    let track_skew = skew(values, "track_skew_ms", head_switch_ms(values));
    let cylinder_skew = skew(values, "cylinder_skew_ms", seek_one_ms(values));
    let per_track = |key: &str, rate_key: &'static str| -> Result<f64, Fault> {
        if let Some(sectors) = values.find(key) {
            return Ok(sectors);
        }
        let rate = values.number(rate_key)?;
        Ok(inference::sectors_per_track_from_rate(
            rate, turn_ms, track_skew,
        ))
    };
    let outer = per_track("sectors_per_track_outer", "rate_outer_mb_s")?;
    let has_inner = ["sectors_per_track_inner", "rate_inner_mb_s"]
        .iter()
        .any(|key| parameters.numbers.contains_key(*key));
    let inner = if has_inner {
        per_track("sectors_per_track_inner", "rate_inner_mb_s")?
    } else {
        outer * values.or("inner_to_outer", inference::inner_to_outer)
    };
    let zones = inference::zones_from_tracks(&inference::Tracks {
        sectors,
        surfaces,
        outer,
        inner: inner.min(outer),
        zones: values.find("zone_count").map_or(12, count),
        track_skew: track_skew / turn_ms,
        cylinder_skew: cylinder_skew / turn_ms,
    });
    let cylinders = zones.last().map_or(1, |zone| zone.last_cylinder + 1);
    let extents = inference::extents_in_order(&zones, surfaces, sectors);
    Ok(Shape {
        cylinders,
        zones,
        extents,
    })
}

fn head_switch_ms(values: &Values) -> f64 {
    values.or("head_switch_ms", || {
        inference::head_switch_from_one_track(seek_one_ms(values))
    })
}

fn seek_one_ms(values: &Values) -> f64 {
    if let Some(point) = values.parameters.seek.first() {
        return point.1;
    }
    values.or("seek_one_ms", || {
        inference::one_track_from_average(values.find("seek_average_read_ms").unwrap_or(8.0))
    })
}

/// The published write average is the read average and settling.
fn write_settle_ms(values: &Values) -> f64 {
    let average = |key: &str| values.find(key);
    values.find("write_settle_ms").unwrap_or_else(|| {
        match (
            average("seek_average_write_ms"),
            average("seek_average_read_ms"),
        ) {
            (Some(write), Some(read)) => (write - read).max(0.0),
            _ => 0.0,
        }
    })
}

fn seeks(values: &Values, cylinders: u32) -> Result<Seeks, Fault> {
    if !values.parameters.seek.is_empty() {
        return Ok(Seeks::from_points(cylinders, &values.parameters.seek));
    }
    if let Some(knee) = values.find("seek_knee_cylinders") {
        let root = [
            values.number("seek_root_ms")?,
            values.number("seek_root_step_ms")?,
        ];
        let line = [
            values.number("seek_line_ms")?,
            values.number("seek_line_step_ms")?,
        ];
        return Ok(Seeks::from_two_pieces(cylinders, knee, root, line));
    }
    let average = values.number("seek_average_read_ms")?;
    let full = values.or("seek_full_ms", || inference::full_from_average(average));
    Ok(Seeks::from_published(
        cylinders,
        seek_one_ms(values),
        average,
        full,
    ))
}

fn buffer(values: &Values) -> Buffer {
    let number = |key: &str, default: f64| whole(values.find(key).unwrap_or(default));
    let index = |value: u64| usize::try_from(value).expect("bounded by its rule");
    Buffer::new(
        index(number("segments", 1.0)),
        number("segment_sectors", 256.0),
        index(number("write_segments", 1.0)),
        values.is_on("separate_write_segment", false),
    )
}

fn switches(values: &Values) -> Switches {
    let bound = |key: &str, default: f64| whole(values.find(key).unwrap_or(default));
    let segment = values.find("segment_sectors").unwrap_or(256.0);
    Switches {
        keeps_data: values.is_on("keeps_data", true),
        read_ahead: ReadAhead::by_name(values.word("read_ahead", "none")).expect("checked"),
        read_ahead_least: bound("read_ahead_min_sectors", 0.0),
        read_ahead_most: bound("read_ahead_max_sectors", segment),
        over_requested: values.is_on("read_ahead_over_requested", true),
        stops_when_asked: values.is_on("stops_when_asked", false),
        after_hit: values.is_on("read_ahead_after_hit", true),
        keeps_what_passes_before: values.is_on("reads_what_passes_before", false),
        write_back: match values.word("write_back", "none") {
            "appending" => WriteBack::Appending,
            "any" => WriteBack::Any,
            _ => WriteBack::None,
        },
        joins_writes: values.is_on("joins_writes", true),
        hits_written: values.is_on("reads_hit_written", true),
        stops_within_sector: values.is_on("stops_within_sector", true),
        never_disconnects: values.is_on("never_disconnects", false),
    }
}

fn interface(values: &Values) -> Interface {
    let rate = values.find("interface_mb_s");
    let default_ms = rate.map_or(0.0, |rate| 512.0 / rate / 1e3);
    let sector_ps = |key: &str| whole(values.find(key).unwrap_or(default_ms) * 1e9);
    Interface {
        read_sector_ps: sector_ps("read_sector_ms"),
        write_sector_ps: sector_ps("write_sector_ms"),
        read_mark: values.find("read_mark").unwrap_or(0.0),
    }
}

fn overheads(values: &Values) -> Overheads {
    let all = values.find("overhead_ms").unwrap_or(0.0);
    let time = |key: &str| ns(values.find(&format!("overhead_{key}_ms")).unwrap_or(0.0));
    let command = |kind: &str| {
        ["read", "write"].map(|before| {
            let key = format!("overhead_{kind}_after_{before}_ms");
            ns(values.find(&key).unwrap_or(all))
        })
    };
    let extra = values
        .find("overhead_extra_disconnect_command_ms")
        .map(|_| Extra {
            command: time("extra_disconnect_command"),
            disconnect: time("extra_disconnect"),
            gap: time("extra_disconnect_gap"),
            second: time("extra_disconnect_second"),
            seek: time("extra_disconnect_seek"),
        });
    Overheads {
        command: [
            [command("read_miss"), command("read_hit")],
            [command("write_miss"), command("write_hit")],
        ],
        completion: [time("read_completion"), time("write_completion")],
        data_preparation: time("data_preparation"),
        first_reselect: time("first_reselect"),
        other_reselect: time("other_reselect"),
        read_disconnect: [
            time("read_disconnect_after_read"),
            time("read_disconnect_after_write"),
        ],
        write_disconnect: time("write_disconnect"),
        seek_least: time("seek_least"),
        extra,
    }
}

fn queue(values: &Values) -> Queue {
    let row = |key: &str| Discipline::by_name(values.word(key, "fifo")).expect("checked");
    let depth = whole(values.find("depth").unwrap_or(1.0));
    Queue {
        depth: usize::try_from(depth).expect("bounded by its rule"),
        discipline: row("discipline"),
        host_discipline: row("host_discipline"),
        destage: row("destage"),
        age_bound_ns: ns(values.find("age_bound_ms").unwrap_or(1e6)),
        sweep: Sweep::default(),
        host_sweep: Sweep::default(),
        destage_sweep: Sweep::default(),
        waiting: VecDeque::new(),
        host: VecDeque::new(),
    }
}

fn count(value: f64) -> u32 {
    u32::try_from(whole(value)).expect("bounded by its rule")
}

fn signed_ns(ms: f64) -> i64 {
    let size = i64::try_from(ns(ms.abs())).expect("bounded by its rule");
    if ms < 0.0 { -size } else { size }
}
