//! Own samples: a text, the arrays that it means, and their maps by the systems' own arithmetic.

use super::map::Map;
use super::read;
use spindles_dialects::{Translation, decode, named, recognise};

/// A text with the sizes of its devices, and the arrays as `NAME CHUNK EXPRESSION [spare S]`.
type Row = (
    &'static str,
    &'static str,
    &'static [(&'static str, u64)],
    &'static [&'static str],
);

const FOUR: &[(&str, u64)] = &[
    ("/dev/sd0e", 1064),
    ("/dev/sd1e", 1100),
    ("/dev/sd2e", 2000),
    ("/dev/sd3e", 1063),
];

const ROWS: &[Row] = &[
    // The old counts, and Windows line ends.
    (
        "raidctl",
        "START array\r\n1 2 0\r\nSTART disks\r\n/dev/sd0e\r\n/dev/sd1e\r\nSTART layout\r\n\
         128 1 1 1\r\nSTART queue\r\nfifo 100\r\n",
        &[],
        &["- 65536 raid1(slice(/dev/sd0e,64s),slice(/dev/sd1e,64s))"],
    ),
    // No line end at the end, tabs, a comment after words, sections in another order.
    (
        "raidctl",
        "# raid0.conf\nSTART layout\n# sectPerSU SUsPerParityUnit SUsPerReconUnit\n\t32 1 1 5\n\n\
         START spare\n/dev/sd4e # cold\nSTART disks\n  /dev/sd0e\nabsent\n\t/dev/sd2e\t\n\
         START array\n3 1",
        &[],
        &["- 16384 raid5(slice(/dev/sd0e,64s),missing,slice(/dev/sd2e,64s)) spare /dev/sd4e"],
    ),
    // Level 0 ends at the smallest component.
    (
        "raidctl",
        "START array\n4 0\nSTART disks\n/dev/sd0e\n/dev/sd1e\n/dev/sd2e\n/dev/sd3e\n\
         START layout\n64 1 1 0\nSTART queue\nfifo 100\n",
        FOUR,
        &[
            "- 32768 raid0(slice(/dev/sd0e,64s,960s),slice(/dev/sd1e,64s,960s),\
             slice(/dev/sd2e,64s,960s),slice(/dev/sd3e,64s,960s))",
        ],
    ),
    // Unequal sizes with equal numbers of stripe units need no lengths.
    (
        "raidctl",
        "START array\n1 2 0\nSTART disks\n/dev/sd0e\n/dev/sd3e\nSTART layout\n64 1 1 0\n",
        FOUR,
        &["- 32768 raid0(slice(/dev/sd0e,64s),slice(/dev/sd3e,64s))"],
    ),
    (
        "raidctl",
        "START array\n4 0\nSTART disks\n/dev/sd0e\n/dev/sd1e\n/dev/sd2e\n/dev/sd3e\n\
         START layout\n32 1 1 1\nSTART queue\nfifo 100\n",
        FOUR,
        &[
            "- 16384 raid10(slice(/dev/sd0e,64s),slice(/dev/sd1e,64s),slice(/dev/sd2e,64s),\
             slice(/dev/sd3e,64s))",
        ],
    ),
    (
        "raidctl",
        "START array\n1 3 0\nSTART disks\n/dev/sd0e\n/dev/sd1e\n/dev/sd2e\n\
         START layout\n16 1 1 4\nSTART debug\naccessDebug 0\nmapDebug 1\n",
        FOUR,
        &["- 8192 raid4(slice(/dev/sd0e,64s),slice(/dev/sd1e,64s),slice(/dev/sd2e,64s))"],
    ),
    // 62 stripe units of 16 sectors, in regions of 4.
    (
        "raidctl",
        "START array\n1 3 0\nSTART disks\n/dev/sd0e\n/dev/sd1e\n/dev/sd2e\n\
         START layout\n16 1 1 C\nSTART queue\nfifo 100\n",
        FOUR,
        &[
            "- 8192 raid10:far2(slice(/dev/sd0e,64s,960s),slice(/dev/sd1e,64s,960s),\
             slice(/dev/sd2e,64s,960s))",
        ],
    ),
    (
        "ccd",
        "# ccd\tileave\tflags\tcomponents\nccd0\t16\tnone\t/dev/wd0e /dev/wd1e\n\
         ccd1 0 0x0 \\\n  /dev/wd2e \\\n  /dev/wd3e\n/dev/ccd2c 32 /dev/wd4e",
        &[],
        &[
            "ccd0 8192 raid0(slice(/dev/wd0e,16s),slice(/dev/wd1e,16s))",
            "ccd1 - concat(slice(/dev/wd2e,16s),slice(/dev/wd3e,16s))",
            "ccd2 16384 raid0(slice(/dev/wd4e,16s))",
        ],
    ),
    (
        "ccd:netbsd",
        "ccd0 16 none /dev/wd0e /dev/wd1e\nccd1 0 CCDF_NOLABEL /dev/wd2e /dev/wd3e # old\n\
         ccd3 64 CCDF_MIRROR /dev/wd6e /dev/wd7e\n",
        &[],
        &[
            "ccd0 8192 raid0(/dev/wd0e,/dev/wd1e)",
            "ccd1 - concat(/dev/wd2e,/dev/wd3e)",
            "ccd3 32768 raid1(/dev/wd6e,/dev/wd7e)",
        ],
    ),
    // Commands, and numbers of flags: those of FreeBSD without a flavour.
    (
        "ccd",
        "# ccdconfig -v ccd0 32 CCDF_MIRROR /dev/ad1e /dev/ad2e\n\
         sudo ccdconfig -cv ccd0 32 CCDF_MIRROR /dev/ad1e /dev/ad2e; newfs /dev/ccd0c\n\
         /sbin/ccdconfig ccd1 0 /dev/ad3e\n",
        &[],
        &[
            "ccd0 16384 raid1(slice(/dev/ad1e,16s),slice(/dev/ad2e,16s))",
            "ccd1 - concat(slice(/dev/ad3e,16s))",
        ],
    ),
    (
        "ccd",
        "ccd0 8 4 a0 b0\nccd1 8 6 a1 b1\nccd2 8 8 a2 b2\nccd3 8 0x10 a3 b3\n\
         ccd4 8 0x12 /dev/sd0e /dev/sd1e\n",
        FOUR,
        &[
            "ccd0 4096 raid1(slice(a0,16s),slice(b0,16s))",
            "ccd1 4096 raid1(slice(a1,16s),slice(b1,16s))",
            "ccd2 4096 raid0(a2,b2)",
            "ccd3 8192 raid0(a3,b3)",
            "ccd4 8192 raid0(slice(/dev/sd0e,0s,1056s),slice(/dev/sd1e,0s,1056s))",
        ],
    ),
    (
        "ccd:netbsd",
        "ccd0 16 3 /dev/sd0e /dev/sd1e\n",
        FOUR,
        &["ccd0 8192 raid0(slice(/dev/sd0e,0s,1056s),slice(/dev/sd1e,0s,1056s))"],
    ),
    // Flags by number and as lists; Linux counts the interleave in KiB and keeps no sectors.
    (
        "ccd",
        "ccd0 8 CCDF_UNIFORM,CCDF_NO_OFFSET /dev/sd0e /dev/sd1e\n\
         ccd1 16 linux|uniform /dev/da2 /dev/da3\nccd2 32 6 /dev/sd2e /dev/sd3e\n\
         ccd3 0 4 /dev/da4 /dev/da5\nccd4 32 0x5 /dev/da6 /dev/da7 /dev/da8 /dev/da9\n",
        FOUR,
        &[
            "ccd0 4096 raid0(slice(/dev/sd0e,0s,1064s),slice(/dev/sd1e,0s,1064s))",
            "ccd1 16384 raid0(/dev/da2,/dev/da3)",
            "ccd2 16384 raid1(slice(/dev/sd2e,16s,1024s),slice(/dev/sd3e,16s,1024s))",
            "ccd3 - concat(slice(/dev/da4,16s),slice(/dev/da5,16s))",
            "ccd4 16384 raid1(raid0(slice(/dev/da6,16s),slice(/dev/da7,16s)),\
             raid0(slice(/dev/da8,16s),slice(/dev/da9,16s)))",
        ],
    ),
    (
        "vinum",
        "# mirror\ndrive a device /dev/da1h\ndrive b device \"/dev/da2h\"\nvolume m setupstate\n  \
         plex org concat\n    sd length 512m drive a\n  plex org concat\n    \
         sd length 1048576b drive b\n",
        &[],
        &["m 65536 raid1(slice(a,265s,1048576s),slice(b,265s,1048576s))"],
    ),
    // The output of `vinum printconfig`: all names and offsets, in sectors.
    (
        "vinum",
        "# Vinum configuration of freebie, saved at Mon Jun  5 12:00:00 2000\n\
         drive d0 device /dev/da0e\ndrive d1 device /dev/da1e\nvolume s\n\
         plex name s.p0 org striped 512s vol s\n\
         sd name s.p0.s0 drive d0 plex s.p0 len 20480s driveoffset 265s state up plexoffset 0s\n\
         sd name s.p0.s1 drive d1 plex s.p0 len 20480s driveoffset 777s state up plexoffset 512s\n",
        &[],
        &["s 262144 raid0(slice(d0,265s,20480s),slice(d1,777s,20480s))"],
    ),
    // The largest extent of a drive, after a gap; a stripe that does not divide it is cut off.
    (
        "vinum",
        "drive a device /dev/sd0e\ndrive b device /dev/sd1e\nvolume one\nplex org concat\n\
         sd length 100b driveoffset 400b drive a\nvolume two\nplex org striped 32b\n\
         sd length 0 drive a\nsd length 564b drive b\nvolume three plex x.p0\n\
         plex name x.p0 org concat\nsd len max drive b\nsd drive a\n",
        FOUR,
        &[
            "one - concat(slice(a,400s,100s))",
            "two 16384 raid0(slice(a,500s,544s),slice(b,265s,544s))",
            "three - concat(slice(b,829s,271s),slice(a,265s,135s))",
        ],
    ),
    (
        "vinum",
        "drive a device /dev/da1h\ndrive b device /dev/da2h\ndrive c device /dev/da3h\n\
         drive s device /dev/da4h hotspare\nvol v readpol prefer v.p0\n\
         plex org raid4 \\\n  256k\nsubdisk size 1g drive a\nsubdisk size 1g drive b\n\
         subdisk size 1g drive c\n",
        &[],
        &[
            "v 262144 raid4(slice(a,265s,2097152s),slice(b,265s,2097152s),slice(c,265s,2097152s)) \
             spare s",
        ],
    ),
    // A plex without a volume is an array too; an sd without a length fills its drive.
    (
        "vinum",
        "drive a device /dev/da1h\nplex name alone org concat detached\nsd drive a\n",
        &[],
        &["alone - concat(slice(a,265s))"],
    ),
];

/// The texts of the rows and their dialects.
pub(super) fn texts() -> impl Iterator<Item = (&'static str, String)> {
    let rows = ROWS.iter();
    rows.map(|(dialect, given, ..)| (*dialect, (*given).to_owned()))
}

fn summaries(translation: &Translation) -> Vec<String> {
    let arrays = translation.arrays.iter();
    arrays
        .map(|array| {
            let shape = &array.shape;
            let name = shape.name.as_deref().unwrap_or("-");
            let chunk = shape
                .chunk_bytes
                .map_or("-".into(), |bytes| bytes.to_string());
            let spares = shape.spares.iter().map(|spare| format!(" spare {spare}"));
            let spares = spares.collect::<Vec<_>>().concat();
            format!("{name} {chunk} {}{spares}", array.expression)
        })
        .collect()
}

#[test]
fn texts_mean_these_arrays() {
    for (dialect, given, sizes, arrays) in ROWS {
        let translation = read(dialect, given, sizes);
        let translation = translation.unwrap_or_else(|error| panic!("{given}\n{error}"));
        assert_eq!(summaries(&translation), *arrays, "{given}");
        let name = dialect.split(':').next();
        assert_eq!(
            recognise(given).map(|dialect| dialect.name),
            name,
            "{given}"
        );
        // A byte order mark, or bytes of Latin-1 in a comment, change nothing.
        let latin = [b"# Gr\xf6\xdfe\n", given.as_bytes()].concat();
        let again = read(dialect, &decode(&latin), sizes).expect(given);
        assert_eq!(summaries(&again), *arrays, "{given}");
    }
}

/// Words without effect are noted, with their lines.
#[test]
fn words_without_effect_are_noted() {
    for (dialect, given, line, words) in [
        (
            "raidctl",
            "START array\n1 2 1\nSTART disks\na\nb\nSTART layout\n8 1 2 0\nSTART queue\nfifo 100\n",
            8,
            "START queue",
        ),
        (
            "raidctl",
            "START array\n1 2 1\nSTART disks\na\nb\nSTART layout\n8 1 2 0\n",
            7,
            "SUsPerReconUnit 2",
        ),
        (
            "raidctl",
            "START array\n1 2 1\nSTART disks\na\nb\nSTART layout\n8 1 2 0\n",
            1,
            "START spare is missing",
        ),
        (
            "raidctl",
            "START array\n1 2 0\nSTART disks\na\nb\nSTART layout\n8 1 1 0\n",
            7,
            "not known",
        ),
        (
            "raidctl",
            "START array\n2 0\nSTART disks\ncomponent0\nNAME=safe\nSTART layout\n8 1 1 1\n",
            4,
            "component0 is RAIDframe's name for a component that is not there",
        ),
        (
            "raidctl",
            "START array\n2 0\nSTART disks\ncomponent0\nNAME=safe\nSTART layout\n8 1 1 1\n",
            5,
            "NAME=safe is the name of a wedge",
        ),
        (
            "raidctl",
            "START array\n2 0\nSTART disks\nsmall\nlarge\nSTART layout\n8 1 1 0\n",
            7,
            "a new array of whole devices uses all of each",
        ),
        (
            "ccd",
            "ccd0 8 uniform small large\n",
            1,
            "a new array of whole devices uses all of each",
        ),
        (
            "ccd",
            "ccd0 8 4 a b\n",
            1,
            "4 is read as a number of FreeBSD's flags",
        ),
        (
            "ccd",
            "ccdconfig ccd0 8 none a b\nnewfs x\n",
            2,
            "'newfs x' is not ccdconfig",
        ),
        ("ccd", "ccd0 8 CCDF_SWAP a b\n", 1, "CCDF_SWAP"),
        ("ccd", "\nccd0 8 mirror a b\n", 2, "not known"),
        ("ccd", "\nccd0 0 mirror a b\n", 2, "disables CCDF_MIRROR"),
        (
            "ccd",
            "ccd0 8 none a b\nccd1 8 none /dev/ccd0c c\n",
            2,
            "lies on ccd0",
        ),
        (
            "vinum",
            "drive a device /a\nvolume v setupstate\nplex org concat\nsd drive a\n",
            2,
            "setupstate",
        ),
        (
            "vinum",
            "drive a device /a\nvolume v\nplex org concat\nsd drive a\n",
            2,
            "not known",
        ),
        (
            "vinum",
            "drive a device /a\nvolume v\nplex org concat\nsd len 1m drive a\nsd len 1m\n",
            2,
            "several parts of drive a, and so has a new array",
        ),
        (
            "vinum",
            "drive a device /a\nvolume v\nplex org concat\nsd len 1m\nsd name x len 1m detached\n",
            5,
            "belongs to no plex",
        ),
    ] {
        let sizes = [("small", 1000), ("large", 2000)];
        let translation = read(dialect, given, &sizes).expect(given);
        let mut notes = translation.notes.iter();
        let found = notes.any(|note| note.line == line && note.text.contains(words));
        assert!(found, "{given}\n{:?}", translation.notes);
    }
}

/// Notes on a new array, or on the array as it lies, say nothing of the words.
#[test]
fn notes_about_arrays_here_are_marked() {
    for (dialect, given, expected) in [
        ("ccd", "ccd0 8 uniform small large\n", [false, true]),
        ("mdadm", "mdadm -C x -l1 -n2 -e1.2 a b\n", [true, false]),
    ] {
        let sizes = [("small", 1000), ("large", 2000)];
        let notes = read(dialect, given, &sizes).expect(given).notes;
        let found: Vec<bool> = notes.iter().map(|note| note.is_about_here).collect();
        assert_eq!(found, expected, "{notes:?}");
    }
}

/// A note appears only where it applies to the devices of the text.
#[test]
fn notes_are_about_what_is_there() {
    for (dialect, given, words) in [
        // Another volume uses the device.
        (
            "lvm",
            "vgcreate vg a b c\nlvcreate -m1 -n x vg\nlvcreate --type raid5 -i2 -n y vg\n",
            "not needed",
        ),
        // All numbers mean the same in each system.
        ("ccd", "ccd0 8 2 a b\n", "FreeBSD's flags"),
        ("ccd", "ccd0 8 uniform even a\n", "uses all of each"),
        ("ccd", "ccd0 8 mirror small large\n", "uses all of each"),
    ] {
        let sizes = [("small", 1000), ("large", 2000), ("even", 9), ("a", 9)];
        let sizes = sizes.map(|(name, sectors)| (name, sectors * 100));
        let translation = read(dialect, given, &sizes).expect(given);
        let mut notes = translation.notes.iter();
        let found = notes.find(|note| note.text.contains(words));
        assert_eq!(found, None, "{given}");
    }
    // A component that is not there has no device.
    let given = "START array\n2 0\nSTART disks\ncomponent0\n/component1\nSTART layout\n8 1 1 1\n";
    let translation = read("raidctl", given, &[]).expect(given);
    let expected = "raid1(missing,slice(/component1,64s))";
    assert_eq!(translation.arrays[0].expression.to_string(), expected);
}

/// The devices of vinum's drives replace their names, in slices too.
#[test]
fn drives_have_devices() {
    let given = "drive a device /dev/da1h\ndrive b device x,y\n\
                 drive c device /dev/da3h hotspare\nvolume v\nplex org concat\n\
                 sd length 1m drive a\nsd length 1m drive b\n";
    let translation = read("vinum", given, &[]).expect(given);
    let expression = translation.on_devices(&translation.arrays[0].expression);
    let expected = "concat(slice(/dev/da1h,265s,2048s),slice(\"x,y\",265s,2048s))";
    assert_eq!(expression.to_string(), expected);
    let shape = translation.shape_on_devices(&translation.arrays[0].shape);
    let expected = "concat(/dev/da1h,\"x,y\")";
    assert_eq!(shape.expression.to_string(), expected);
    assert_eq!(shape.spares, ["/dev/da3h"]);
}

/// A map as a system computes it: the component and sector of each copy of a sector.
type Places = Vec<(usize, u64)>;

/// `RAIDframe`'s map of a sector, by its published formulas.
fn raidframe(level: char, components: u64, chunk: u64, units: u64, sector: u64) -> Places {
    let (unit, within) = (sector / chunk, sector % chunk);
    let at = |component: u64, unit: u64| {
        (
            usize::try_from(component).expect("small"),
            64 + unit * chunk + within,
        )
    };
    match level {
        '0' => vec![at(unit % components, unit / components)],
        '1' => {
            let pairs = components / 2;
            let pair = unit % pairs * 2;
            vec![at(pair, unit / pairs), at(pair + 1, unit / pairs)]
        }
        '4' => vec![at(unit % (components - 1), unit / (components - 1))],
        '5' => vec![at(unit % components, unit / (components - 1))],
        'C' => {
            let half = units / (2 * components - 2) * (components - 1);
            let first = unit % components;
            let second = (first + 1) % components;
            vec![
                at(first, unit / components),
                at(second, half + unit / components),
            ]
        }
        other => panic!("{other}"),
    }
}

/// Returns the sectors of a `RAIDframe` array.
fn raidframe_sectors(level: char, components: u64, chunk: u64, units: u64) -> u64 {
    let units = match level {
        '0' => units * components,
        '1' => units * components / 2,
        '4' | '5' => units * (components - 1),
        'C' => units / (2 * components - 2) * (components - 1) * components,
        other => panic!("{other}"),
    };
    units * chunk
}

#[test]
fn raidframe_maps_equal_sector_by_sector() {
    let names: Vec<String> = (0..6).map(|number| format!("d{number}")).collect();
    for (level, counts) in [
        ('0', &[1, 2, 3, 5][..]),
        ('1', &[2, 4, 6]),
        ('4', &[3, 4]),
        ('5', &[3, 4, 5]),
        ('C', &[2, 3, 4, 5]),
    ] {
        for (count, chunk) in counts.iter().flat_map(|count| [(*count, 1), (*count, 8)]) {
            let names = &names[..count];
            let sizes: Vec<(&str, u64)> = (names.iter().zip([400, 457, 403, 399, 900, 500]))
                .map(|(name, sectors)| (name.as_str(), sectors))
                .collect();
            let given = format!(
                "START array\n{count} 0\nSTART disks\n{}\nSTART layout\n{chunk} 1 1 {level}\n",
                names.join("\n")
            );
            let translation = read("raidctl", &given, &sizes).expect(&given);
            let chunk_sectors = u32::try_from(chunk).expect("small");
            let map = Map::new(
                &translation.arrays[0].expression,
                chunk_sectors,
                &|device| {
                    sizes
                        .iter()
                        .find(|(name, _)| *name == device)
                        .expect(device)
                        .1
                },
            );
            let smallest = sizes
                .iter()
                .map(|(_, sectors)| sectors)
                .min()
                .expect("some");
            let units = (smallest - 64) / chunk;
            let components = u64::try_from(count).expect("small");
            let sectors = raidframe_sectors(level, components, chunk, units);
            assert_eq!(map.sectors(), sectors, "{given}");
            for sector in 0..sectors {
                let expected = raidframe(level, components, chunk, units, sector);
                let expected: Vec<(&str, u64)> = (expected.iter())
                    .map(|(component, sector)| (names[*component].as_str(), *sector))
                    .collect();
                assert_eq!(map.places(sector), expected, "{given}: {sector}");
            }
        }
    }
}

/// The places of all sectors of a ccd, by its interleave tables, one per size of component.
fn ccd(interleave: u64, offset: u64, is_mirror: bool, usable: &[u64]) -> Vec<Places> {
    let mut places = Vec::new();
    if interleave == 0 {
        for (component, sectors) in usable.iter().enumerate() {
            places.extend((0..*sectors).map(|sector| vec![(component, offset + sector)]));
        }
        return places;
    }
    let half = usable.len() / 2;
    let mut done = 0;
    loop {
        let reach = usable
            .iter()
            .enumerate()
            .filter(|(_, sectors)| **sectors > done);
        let end = reach.clone().map(|(_, sectors)| *sectors).min();
        let Some(end) = end else {
            return places;
        };
        let components: Vec<usize> = reach.map(|(component, _)| component).collect();
        let data = if is_mirror {
            &components[..half]
        } else {
            &components[..]
        };
        for row in (done..end).step_by(usize::try_from(interleave).expect("small")) {
            for component in data {
                for sector in row..row + interleave {
                    let mut copies = vec![(*component, offset + sector)];
                    if is_mirror {
                        copies.push((component + half, offset + sector));
                    }
                    places.push(copies);
                }
            }
        }
        done = end;
    }
}

#[test]
fn ccd_maps_equal_sector_by_sector() {
    let sizes: &[(&str, u64)] = &[("d0", 400), ("d1", 457), ("d2", 403), ("d3", 399)];
    for (dialect, offset, flags) in [
        ("ccd", 16, "none"),
        ("ccd", 16, "uniform"),
        ("ccd", 16, "mirror"),
        ("ccd", 0, "no_offset"),
        ("ccd", 0, "mirror,no_offset"),
        ("ccd:netbsd", 0, "none"),
        ("ccd:netbsd", 0, "CCDF_UNIFORM"),
    ] {
        for (interleave, count) in [(0, 2), (0, 4), (1, 4), (8, 2), (8, 4)] {
            let names: Vec<&str> = sizes[..count].iter().map(|(name, _)| *name).collect();
            let given = format!("ccd0 {interleave} {flags} {}", names.join(" "));
            let translation = read(dialect, &given, sizes).expect(&given);
            let chunk_sectors = u32::try_from(interleave.max(1)).expect("small");
            let map = Map::new(
                &translation.arrays[0].expression,
                chunk_sectors,
                &|device| {
                    sizes
                        .iter()
                        .find(|(name, _)| *name == device)
                        .expect(device)
                        .1
                },
            );
            let usable = sizes[..count].iter().map(|(_, sectors)| sectors - offset);
            let mut usable: Vec<u64> = usable
                .map(|sectors| sectors - sectors % interleave.max(1))
                .collect();
            let is_mirror = flags.contains("mirror") && interleave > 0;
            if is_mirror || flags.to_lowercase().contains("uniform") {
                let smallest = usable.iter().min().copied().expect("some");
                usable.fill(smallest);
            }
            let expected = ccd(interleave, offset, is_mirror, &usable);
            assert_eq!(
                map.sectors(),
                u64::try_from(expected.len()).expect("small"),
                "{given}"
            );
            for (sector, expected) in (0..).zip(expected) {
                let expected: Vec<(&str, u64)> = expected
                    .iter()
                    .map(|(component, at)| (names[*component], *at))
                    .collect();
                assert_eq!(map.places(sector), expected, "{given}: {sector}");
            }
        }
    }
}

/// A mirror of plexes whose size no usual chunk divides loses no sector.
#[test]
fn a_mirror_of_concatenations_keeps_its_last_sectors() {
    let given = "drive a device /a\ndrive b device /b\nvolume v\nplex org concat\n\
                 sd len 600b drive a\nsd len 36b drive b\nplex org concat\nsd len 636b drive b\n";
    let translation = read("vinum", given, &[]).expect(given);
    let array = &translation.arrays[0];
    assert_eq!(array.shape.chunk_bytes, Some(2048));
    let map = Map::new(&array.expression, 4, &|_| 10_000);
    assert_eq!(map.sectors(), 636);
    assert_eq!(map.places(635), [("b", 265 + 35), ("b", 301 + 635)]);
}

/// Each dialect's own row is complete.
#[test]
fn rows_are_complete() {
    for dialect in spindles_dialects::DIALECTS {
        assert!(named(dialect.name).is_some_and(|found| found.name == dialect.name));
        assert!(
            !dialect.summary.is_empty() && !dialect.reads.is_empty(),
            "{}",
            dialect.name
        );
        assert!(!dialect.recognises(""), "{}", dialect.name);
    }
    assert!(recognise("raid5(a,b,c)").is_none());
    let plex = recognise("plex org striped 64k\n").map(|dialect| dialect.name);
    assert_eq!(
        plex,
        Some("vinum"),
        "a plex without a volume is vinum's error"
    );
    assert!(named("").is_none());
}
