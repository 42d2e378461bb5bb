//! Flash drives: dies behind channels, a write buffer, a page map and its cleaning.

mod drive;
mod map;

use super::{Kind, NumberRule, Part, Row, SwitchRule};
use crate::draw::mix;
use crate::fault::{Fault, Problem};
use crate::kind::number;
use crate::model::Model;
use crate::parameters::{SECTOR_BYTES, Values, float, ns, whole};
use drive::{Die, Direction, Flash, Parts};
use map::{Cleaning, Map, Shape};

const MS: f64 = 1e4;

pub(crate) static ROW: Row = Row {
    kind: Kind {
        name: "flash",
        about: "a drive of flash: dies behind channels, a write buffer, a page map",
        numbers: NUMBERS,
        switches: SWITCHES,
        parts: PARTS,
    },
    build: Some(build),
    portrait: None,
};

static NUMBERS: &[NumberRule] = &[
    number("sectors", 1.0, 1e12, "sectors of 512 bytes"),
    number(
        "channels",
        1.0,
        64.0,
        "channels between controller and dies",
    ),
    number("dies_per_channel", 1.0, 64.0, "dies of a channel"),
    number("map_kib", 0.5, 1024.0, "KiB of a unit of the map"),
    number("page_kib", 0.5, 1024.0, "KiB that a die programs at once"),
    number("pages_per_block", 1.0, 65536.0, "pages erased together"),
    number(
        "spare_percent",
        1.0,
        900.0,
        "spare area in percent of the sectors",
    ),
    number("buffer_kib", 0.5, 1e6, "KiB of written data in the buffer"),
    number("cache_gib", 0.0, 1e4, "GiB that are programmed fast"),
    number("page_read_ms", 0.0, MS, "ms of a page read on a die"),
    number(
        "page_program_ms",
        0.0,
        MS,
        "ms of a page programmed on a die",
    ),
    number(
        "cache_program_ms",
        0.0,
        MS,
        "ms of the same in the fast region",
    ),
    number("block_erase_ms", 0.0, MS, "ms of a block erased"),
    number("channel_mb_s", 0.01, 1e6, "MB/s of a channel"),
    number(
        "read_rate_mb_s",
        0.01,
        1e6,
        "MB/s of reads over the interface",
    ),
    number(
        "write_rate_mb_s",
        0.01,
        1e6,
        "MB/s of writes over the interface",
    ),
    number("read_request_ms", 0.0, MS, "ms a read keeps others waiting"),
    number(
        "write_request_ms",
        0.0,
        MS,
        "ms a write keeps others waiting",
    ),
    number("read_latency_ms", 0.0, MS, "ms added to each read"),
    number("write_latency_ms", 0.0, MS, "ms added to each write"),
];

static SWITCHES: &[SwitchRule] = &[
    SwitchRule {
        key: "state",
        words: &["fresh", "worn"],
        about: "empty at first, or filled and overwritten at random",
    },
    SwitchRule {
        key: "cleaning",
        words: &["greedy", "first-in"],
        about: "the block cleaned next: with the least data, or the oldest",
    },
    SwitchRule {
        key: "capacitor",
        words: &["off", "on"],
        about: "the buffer outlives a loss of power: flushes take no program",
    },
];

static PARTS: &[Part] = &[
    Part {
        name: "medium",
        times: &[
            "page_read_ms",
            "page_program_ms",
            "cache_program_ms",
            "block_erase_ms",
        ],
        rates: &[],
    },
    Part {
        name: "channels",
        times: &[],
        rates: &["channel_mb_s"],
    },
    Part {
        name: "interface",
        times: &[],
        rates: &["read_rate_mb_s", "write_rate_mb_s"],
    },
    Part {
        name: "electronics",
        times: &[
            "read_request_ms",
            "write_request_ms",
            "read_latency_ms",
            "write_latency_ms",
        ],
        rates: &[],
    },
];

fn build(values: &Values, seed: u64) -> Result<Box<dyn Model>, Fault> {
    let sizes = Sizes::new(values)?;
    let Sizes {
        sectors,
        unit_bytes,
        page_bytes,
        block_pages,
    } = sizes;
    let map = map(values, &sizes, seed)?;
    let optional = |key: &str| ns(values.find(key).unwrap_or(0.0));
    let program_ns = ns(values.number("page_program_ms")?);
    let cache_bytes = values.find("cache_gib").unwrap_or(0.0) * 1_073_741_824.0;
    let channels = count(values.number("channels")?);
    let dies = channels * count(values.number("dies_per_channel")?);
    let buffer_pages = bytes(values.number("buffer_kib")?) / page_bytes;
    if buffer_pages == 0 {
        let expected = format!("at least page_kib, {}", kib(page_bytes));
        return Err(fault(values, "buffer_kib", expected));
    }
    let direction = |rate, request, latency| -> Result<Direction, Fault> {
        Ok(Direction {
            ps_per_byte: ps_per_byte(values.number(rate)?),
            request_ns: optional(request),
            latency_ns: optional(latency),
        })
    };
    Ok(Box::new(Flash::new(Parts {
        capacity_bytes: sectors * SECTOR_BYTES,
        map,
        unit_bytes,
        page_bytes,
        dies: vec![Die::default(); dies],
        channels: vec![0; channels],
        buffer: vec![0; index(buffer_pages)],
        read: direction("read_rate_mb_s", "read_request_ms", "read_latency_ms")?,
        write: direction("write_rate_mb_s", "write_request_ms", "write_latency_ms")?,
        channel_ps_per_byte: ps_per_byte(values.number("channel_mb_s")?),
        page_read_ns: ns(values.number("page_read_ms")?),
        page_program_ns: program_ns,
        page_erase_ns: ns(values.number("block_erase_ms")?) / block_pages,
        cache_program_ns: values.find("cache_program_ms").map_or(program_ns, ns),
        cache_pages: whole(cache_bytes / float(page_bytes)),
        has_capacitor: values.is_on("capacitor", false),
    })))
}

/// What a drive is divided into.
struct Sizes {
    sectors: u64,
    unit_bytes: u64,
    page_bytes: u64,
    block_pages: u64,
}

impl Sizes {
    /// Reads them. In a draw, a page is a whole number of units.
    fn new(values: &Values) -> Result<Self, Fault> {
        let [unit, page] = [values.number("map_kib")?, values.number("page_kib")?].map(bytes);
        let stated = values.parameters.numbers["page_kib"].value;
        if page < unit || !bytes(stated).is_multiple_of(unit) {
            let expected = format!("a multiple of map_kib, {}", kib(unit));
            return Err(fault(values, "page_kib", expected));
        }
        let sectors = whole(values.number("sectors")?);
        if sectors * SECTOR_BYTES < unit {
            let expected = format!("at least one unit of map_kib, {}", kib(unit));
            return Err(fault(values, "sectors", expected));
        }
        Ok(Self {
            sectors,
            unit_bytes: unit,
            page_bytes: page - page % unit,
            block_pages: whole(values.number("pages_per_block")?).max(1),
        })
    }
}

fn fault(values: &Values, key: &str, expected: String) -> Fault {
    let place = format!("{}: {key}", values.parameters.name);
    Fault::new(place, Problem::Expected { expected })
}

fn map(values: &Values, sizes: &Sizes, seed: u64) -> Result<Map, Fault> {
    let units = sizes.sectors * SECTOR_BYTES / sizes.unit_bytes;
    let page_units = sizes.page_bytes / sizes.unit_bytes;
    let spare = values.number("spare_percent")?;
    let cleaning = match values.word("cleaning", "greedy") {
        "first-in" => Cleaning::FirstIn,
        _ => Cleaning::Greedy,
    };
    let shape = Shape {
        units,
        block_units: page_units * sizes.block_pages,
        over_provision: 1.0 + spare / 100.0,
        cleaning,
    };
    let mut map = Map::new(&shape).map_err(|least| {
        let percent = 100.0 * float(least - units) / float(units);
        let expected = format!(
            "a spare area of at least two blocks of pages_per_block * page_kib: {percent:.1} \
             percent"
        );
        fault(values, "spare_percent", expected)
    })?;
    if values.word("state", "fresh") == "worn" {
        map.wear(mix(seed));
    }
    Ok(map)
}

/// Rounds KiB to bytes of whole sectors.
fn bytes(kib: f64) -> u64 {
    whole(kib * 2.0).max(1) * SECTOR_BYTES
}

fn kib(bytes: u64) -> f64 {
    float(bytes) / 1024.0
}

/// Rounds a count of at least one.
fn count(value: f64) -> usize {
    index(whole(value).max(1))
}

fn index(count: u64) -> usize {
    usize::try_from(count).expect("bounded by its rule")
}

fn ps_per_byte(rate_mb_s: f64) -> u64 {
    whole(1e6 / rate_mb_s)
}
