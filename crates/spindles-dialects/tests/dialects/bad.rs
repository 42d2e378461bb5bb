//! Bad input is an error with line, column and the expected words.

use super::read;
use spindles_dialects::{DIALECTS, Source, decode, recognise};
use std::fmt::Write as _;
use std::time::Duration;

/// A text, and the line, the column and words of its error.
type Row = (&'static str, &'static str, usize, usize, &'static str);

const RAIDCTL: &[Row] = &[
    ("raidctl", "", 1, 1, "START array is missing"),
    (
        "raidctl",
        "\u{feff}garbage",
        1,
        2,
        "START array is expected here, not 'garbage'",
    ),
    (
        "raidctl",
        "START\n",
        1,
        6,
        "the name of a section is missing here",
    ),
    (
        "raidctl",
        "START arrays\n1 2 0\n",
        1,
        7,
        "'arrays' is no section: there are array, disks",
    ),
    (
        "raidctl",
        "START array\n1 2 0\nSTART array\n",
        3,
        1,
        "START array is there twice",
    ),
    (
        "raidctl",
        "START array now\n",
        1,
        13,
        "'now' is one word too many",
    ),
    (
        "raidctl",
        "START array\n1 2 0\nSTART disks\na\nb\n",
        6,
        1,
        "START layout is missing",
    ),
    (
        "raidctl",
        "START array\n1 2 0\nSTART layout\n8 1 1 0",
        4,
        8,
        "START disks is missing",
    ),
    (
        "raidctl",
        "@\n2\nSTART disks\na\nb\n#",
        2,
        2,
        "the number of spares is missing",
    ),
    (
        "raidctl",
        "@\n2 0\n3 0\n#",
        3,
        1,
        "START array has one line only",
    ),
    ("raidctl", "@\n#", 1, 12, "START array lacks the numbers"),
    ("raidctl", "@\n2 2 0\n#", 2, 1, "an array of 2 rows"),
    ("raidctl", "@\n1 2 0 9\n#", 2, 7, "'9' is one word too many"),
    (
        "raidctl",
        "@\ntwo 0\n#",
        2,
        1,
        "a number of components is expected here, not 'two'",
    ),
    ("raidctl", "@\n-2 0\n#", 2, 1, "a number of components"),
    (
        "raidctl",
        "@\n100000000000000000000 0\n#",
        2,
        1,
        "is too large",
    ),
    (
        "raidctl",
        "@\n3 0\nSTART disks\na\nb\n#",
        3,
        1,
        "3 components announced, 2 named",
    ),
    (
        "raidctl",
        "@\n1 0\nSTART disks\na\nb\n#",
        3,
        1,
        "1 component announced, 2 named",
    ),
    (
        "raidctl",
        "@\n2 1\nSTART disks\na\nb\nSTART spare\n#",
        6,
        1,
        "1 spare announced, 0 named",
    ),
    (
        "raidctl",
        "@\n2 0\nSTART disks\na\na\n#",
        5,
        1,
        "a is named twice",
    ),
    (
        "raidctl",
        "@\n2 1\nSTART disks\na\nb\nSTART spare\nb\n#",
        7,
        1,
        "b is a member already",
    ),
    (
        "raidctl",
        "@\n2 0\nSTART disks\na b\nc\n#",
        4,
        3,
        "'b' is one word too many",
    ),
    (
        "raidctl",
        "@\n2 0\nSTART disks\nabsent\nabsent\n#",
        3,
        1,
        "no component is there",
    ),
    (
        "raidctl",
        "@\n0 0\nSTART disks\n#",
        3,
        1,
        "no component is there",
    ),
    (
        "raidctl",
        "@\n2 0\nSTART disks\n/dev/sd[01]e\nb\n#",
        4,
        1,
        "is a pattern",
    ),
    (
        "raidctl",
        "@\n2 0\nSTART disks\nmissing\nb\n#",
        4,
        1,
        "'missing'",
    ),
    (
        "raidctl",
        "@\n2 0\nSTART disks\na\u{7}\nb\n#",
        4,
        1,
        "no device has such a name",
    ),
    (
        "raidctl",
        "@\n2 0\nSTART disks\n\u{fffd}\nb\n#",
        4,
        1,
        "no device has such a name",
    ),
    ("raidctl", "%0 1 1 0\n", 7, 1, "a stripe unit of 0"),
    (
        "raidctl",
        "%100000000000000000000 1 1 0\n",
        7,
        1,
        "is too large",
    ),
    (
        "raidctl",
        "%36028797018963968 1 1 0\n",
        7,
        1,
        "a stripe unit of 36028797018963968",
    ),
    ("raidctl", "%8 0 1 0\n", 7, 3, "SUsPerParityUnit can't be 0"),
    (
        "raidctl",
        "%8 1 x 0\n",
        7,
        5,
        "SUsPerReconUnit is expected here, not 'x'",
    ),
    ("raidctl", "%8 1 1\n", 7, 6, "the level is missing here"),
    (
        "raidctl",
        "%8 1 1 7\n",
        7,
        7,
        "'7' is no level of RAIDframe",
    ),
    (
        "raidctl",
        "%8 1 1 55\n",
        7,
        7,
        "'55' is no level of RAIDframe",
    ),
    (
        "raidctl",
        "%8 1 1 0\n8 1 1 0\n",
        8,
        1,
        "START layout has one line only",
    ),
    ("raidctl", "%8 1 1 0 5\n", 7, 9, "one word too many"),
    ("raidctl", "%\n", 6, 13, "START layout lacks its line"),
    (
        "raidctl",
        "%8 1 1 4",
        3,
        1,
        "raid4 needs at least 3 members, and there are 2",
    ),
    ("raidctl", "%8 1 1 6", 7, 7, "P+Q, level 6, 6"),
    (
        "raidctl",
        "%8 1 1 D\nfile\nmap\n",
        7,
        7,
        "parity declustering with distributed sparing, D",
    ),
    ("raidctl", "%8 1 1 E", 7, 7, "EvenOdd, E"),
    ("raidctl", "%8 1 1 I", 7, 7, "interleaved declustering, I"),
    ("raidctl", "%8 1 1 L", 7, 7, "parity logging, L"),
    ("raidctl", "%8 1 1 Q", 7, 7, "declustered P+Q, Q"),
    (
        "raidctl",
        "%8 1 1 R",
        7,
        7,
        "level 5 with rotated sparing, R",
    ),
    (
        "raidctl",
        "%8 1 1 T\n/etc/raid.bd\n",
        7,
        7,
        "parity declustering, T",
    ),
    ("raidctl", "%8 1 1 e", 7, 7, "declustered EvenOdd, e"),
    (
        "raidctl",
        "@\n3 0\nSTART disks\na\nb\nc\nSTART layout\n8 1 1 1",
        8,
        7,
        "an even number",
    ),
    (
        "raidctl",
        "@\n2 0\nSTART disks\na\nsmall\nSTART layout\n8 1 1 0",
        5,
        1,
        "71 sectors: too few",
    ),
    (
        "raidctl",
        "@\n3 0\nSTART disks\nx\ny\nz\nSTART layout\n16 1 1 C",
        8,
        8,
        "4 stripe units",
    ),
    ("raidctl", "%8 1 1 0\0", 7, 8, "a zero byte"),
    (
        "raidctl",
        "raidctl -C raid0.conf raid0\n",
        1,
        1,
        "the file of raidctl, with START array, is expected here, not 'raidctl -C'",
    ),
];

const CCD: &[Row] = &[
    ("ccd", "", 1, 1, "a line such as"),
    ("ccd", "# nothing\n", 2, 1, "a line such as"),
    (
        "ccd",
        "md0 16 none a b\n",
        1,
        1,
        "a ccd such as ccd0 is expected here, not 'md0'",
    ),
    ("ccd", "ccd 16 none a b\n", 1, 1, "a ccd such as ccd0"),
    (
        "ccd",
        "ccd0\n",
        1,
        5,
        "the interleave, a number of sectors is missing here",
    ),
    ("ccd", "ccd0 16\n", 1, 8, "a component is missing here"),
    (
        "ccd",
        "ccd0 16 none\n",
        1,
        13,
        "a component is missing here",
    ),
    ("ccd", "ccd0 16 0x4\n", 1, 12, "a component is missing here"),
    (
        "ccd",
        "ccd0 none 16 a b\n",
        1,
        6,
        "an interleave in sectors is expected here, not 'none'",
    ),
    (
        "ccd",
        "ccd0 16 /dev/da0e /dev/da1e\n",
        1,
        9,
        "'/dev/da0e' is no flag of ccd: there are none",
    ),
    (
        "ccd",
        "ccd0 16 CCDF_UNIFORM,CCDF_RAID a b\n",
        1,
        22,
        "'CCDF_RAID' is no flag",
    ),
    (
        "ccd",
        "ccd0 16 CCDF_PARITY a b c\n",
        1,
        9,
        "CCDF_PARITY, parity",
    ),
    (
        "ccd",
        "ccd0 16 0x20 a b c\n",
        1,
        9,
        "0x20 is no number of flags",
    ),
    (
        "ccd",
        "ccdconfig -C -f /etc/my.conf\n",
        1,
        11,
        "ccdconfig -C describes no ccd: give the file that it reads",
    ),
    (
        "ccd",
        "ccdconfig -u ccd0\n",
        1,
        11,
        "ccdconfig -u describes no ccd",
    ),
    (
        "ccd",
        "ccdconfig -c\n",
        1,
        13,
        "a ccd such as ccd0 is missing here",
    ),
    (
        "ccd",
        "ccdconfig ccd0 16 fast a b\n",
        1,
        19,
        "'fast' is no flag of ccd",
    ),
    (
        "ccd",
        "ccd0 16 0777777777777777777777777 a b\n",
        1,
        9,
        "is no flag of ccd",
    ),
    ("ccd:netbsd", "ccd0 16 4 a b\n", 1, 9, "write the names"),
    ("ccd:netbsd", "ccd0 16 6 a b\n", 1, 9, "write the names"),
    ("ccd:netbsd", "ccd0 16 8 a b\n", 1, 9, "write the names"),
    ("ccd:netbsd", "ccd0 16 0x10 a b\n", 1, 9, "write the names"),
    ("ccd:netbsd", "ccd0 16 0x12 a b\n", 1, 9, "write the names"),
    (
        "ccd",
        "\nccd0 32 \\\nmirror a b c\n",
        3,
        1,
        "a mirror needs an even number of components, not 3",
    ),
    (
        "ccd",
        "ccd0 32 mirror,linux a b c d\n",
        1,
        9,
        "exactly two components",
    ),
    ("ccd", "ccd0 16 none a a\n", 1, 16, "a is named twice"),
    (
        "ccd",
        "ccd0 16 none a b\nccd1 16 none c a\n",
        2,
        16,
        "a is named twice",
    ),
    (
        "ccd",
        "ccd0 16 none a b\nccd0 16 none c d\n",
        2,
        1,
        "ccd0 is there twice",
    ),
    (
        "ccd",
        "ccd0 100000000000000000000 none a b\n",
        1,
        6,
        "is too large",
    ),
    (
        "ccd",
        "ccd0 9223372036854775807 linux a b\n",
        1,
        6,
        "an interleave of 9223372036854775807",
    ),
    (
        "ccd",
        "ccd0 64 none a small\n",
        1,
        16,
        "small has 71 sectors: too few",
    ),
    (
        "ccd:openbsd",
        "ccd0 16 none a b\n",
        1,
        1,
        "ccd is freebsd or netbsd, not openbsd",
    ),
    (
        "ccd",
        "ccd0 16 none \"a b\"\n",
        1,
        14,
        "a name in quotes is not possible here",
    ),
    (
        "ccd",
        "ccd0 16 none a\nbinary \0\u{1}\u{2}\n",
        2,
        8,
        "a zero byte",
    ),
    (
        "ccd",
        "include other.conf\n",
        1,
        1,
        "a ccd such as ccd0 is expected here, not 'include'",
    ),
];

const VINUM: &[Row] = &[
    ("vinum", "", 1, 1, "a volume is missing"),
    ("vinum", "drive a device /a\n", 2, 1, "a volume is missing"),
    (
        "vinum",
        "include x\n",
        1,
        1,
        "drive, volume, plex or sd is expected here, not 'include'",
    ),
    ("vinum", "drive\n", 1, 6, "the drive's name is missing here"),
    ("vinum", "drive a\n", 1, 8, "drive a has no device"),
    (
        "vinum",
        "drive a device\n",
        1,
        15,
        "the drive's device is missing here",
    ),
    (
        "vinum",
        "drive a disk /a\n",
        1,
        9,
        "'disk' is no word of drive: there are device",
    ),
    (
        "vinum",
        "drive a device /a\ndrive a device /b\n",
        2,
        7,
        "drive a is there twice",
    ),
    (
        "vinum",
        "drive a device /a\ndrive b device /a\n",
        2,
        16,
        "/a is the device of drive a already",
    ),
    (
        "vinum",
        "drive a device /a device /a\n",
        1,
        26,
        "/a is the device of drive a already",
    ),
    (
        "vinum",
        "drive a device \"/a\n",
        1,
        16,
        "the \" that ends this is missing",
    ),
    (
        "vinum",
        "vinum mirror -n m /dev/da1 /dev/da2\n",
        1,
        1,
        "or the output of vinum printconfig is expected here, not 'vinum mirror'",
    ),
    ("vinum", "volume\n", 1, 7, "the volume's name is missing"),
    (
        "vinum",
        "volume v\nvolume v\n",
        2,
        8,
        "volume v is there twice",
    ),
    ("vinum", "volume v\n", 1, 8, "volume v has no plex"),
    (
        "vinum",
        "volume v fast\n",
        1,
        10,
        "'fast' is no word of volume",
    ),
    (
        "vinum",
        "volume v plex p\n",
        1,
        8,
        "plex p of volume v has no line",
    ),
    (
        "vinum",
        "volume v readpol best\n",
        1,
        18,
        "'best' is no word of readpol",
    ),
    (
        "vinum",
        "plex org concat\n",
        1,
        1,
        "this plex has no volume",
    ),
    (
        "vinum",
        "volume v\nplex\n",
        2,
        5,
        "the organization is missing",
    ),
    (
        "vinum",
        "volume v\nplex org\n",
        2,
        9,
        "concat, striped, raid4 or raid5 is missing here",
    ),
    (
        "vinum",
        "volume v\nplex org raid6 1m\n",
        2,
        10,
        "'raid6' is no word of org",
    ),
    (
        "vinum",
        "volume v\nplex org striped\n",
        2,
        17,
        "a stripe is missing here",
    ),
    (
        "vinum",
        "volume v\nplex org striped 700\n",
        2,
        18,
        "a stripe of 700 bytes is no multiple of 512",
    ),
    (
        "vinum",
        "volume v\nplex org striped 0\n",
        2,
        18,
        "a stripe of 0",
    ),
    (
        "vinum",
        "volume v\nplex org striped 1q\n",
        2,
        18,
        "a stripe is expected here, not '1q'",
    ),
    (
        "vinum",
        "volume v\nplex org striped 100000000000000000000b\n",
        2,
        18,
        "is too large",
    ),
    (
        "vinum",
        "volume v\nplex org striped 9999999999g\n",
        2,
        18,
        "a stripe of 9999999999g",
    ),
    (
        "vinum",
        "volume v\nplex org striped 18446744073709551615k\n",
        2,
        18,
        "is too large",
    ),
    (
        "vinum",
        "volume v\nplex org concat vol w\n",
        2,
        21,
        "there is no volume w",
    ),
    (
        "vinum",
        "volume v\nplex org concat\n",
        2,
        1,
        "plex v.p0 needs at least 1 subdisks",
    ),
    ("vinum", "$sd length 1m\n", 3, 13, "drive is missing here"),
    (
        "vinum",
        "volume v\nsd length 1m drive a\n",
        2,
        1,
        "this sd has no plex",
    ),
    (
        "vinum",
        "$sd length 1m drive a\n",
        3,
        20,
        "there is no drive a",
    ),
    (
        "vinum",
        "$sd length 700 drive a\n",
        3,
        11,
        "a length of 700 bytes is no multiple of 512",
    ),
    (
        "vinum",
        "$sd length drive a\n",
        3,
        11,
        "a length is expected here, not 'drive'",
    ),
    (
        "vinum",
        "$sd length 1m drive a plex q\n",
        3,
        27,
        "there is no plex q",
    ),
    (
        "vinum",
        "$sd length 1m wheel a\n",
        3,
        14,
        "'wheel' is no word of sd",
    ),
    (
        "vinum",
        "$sd len 900b drive s\ndrive s device small\n",
        4,
        7,
        "drive s has 71 sectors: too few",
    ),
    (
        "vinum",
        "drive s device x\n$sd len 100b drive s\n",
        4,
        1,
        "no space for sd v.p0.s0 on drive s",
    ),
    (
        "vinum",
        "drive s device x\n$sd driveoffset 1b drive s\n",
        4,
        1,
        "at sector 1",
    ),
    (
        "vinum",
        "drive s device x\n$sd len 9b driveoffset 300b drive s\n",
        4,
        1,
        "at sector 300",
    ),
    (
        "vinum",
        "drive s device /s\n$sd len 9b driveoffset 300b drive s\nsd len 9b driveoffset 305b\n",
        5,
        1,
        "no space for sd v.p0.s1 on drive s at sector 305",
    ),
    (
        "vinum",
        "drive s device /s hotspare\n$sd len 9b drive s\n",
        4,
        17,
        "drive s is a hot spare",
    ),
    (
        "vinum",
        "drive a device /a\n$sd name x len 9b\nsd name x len 9b\n",
        5,
        9,
        "sd x is there twice",
    ),
    (
        "vinum",
        "drive a device /a\n$sd len 9b plexoffset 1b\n",
        4,
        1,
        "holes and overlaps",
    ),
    (
        "vinum",
        "drive a device /a\ndrive b device /b\nvolume v\nplex org striped 8b\nsd len 16b drive a\n\
         sd len 24b drive b\n",
        6,
        1,
        "plex v.p0 needs subdisks of one size, and v.p0.s0 has 16 sectors, v.p0.s1 24",
    ),
    (
        "vinum",
        "drive a device /a\nvolume v\nplex org striped 8b\nsd len 16b drive a\n",
        3,
        1,
        "plex v.p0 needs at least 2 subdisks, not 1",
    ),
    (
        "vinum",
        "drive a device /a\nvolume v\nplex org raid5 8b\nsd len 16b\nsd len 16b\n",
        3,
        1,
        "plex v.p0 needs at least 3 subdisks, not 2",
    ),
    (
        "vinum",
        "drive a device /a\nvolume v\nplex org striped 8b\nsd len 4b\nsd len 4b\n",
        4,
        1,
        "sd v.p0.s0 is shorter than a stripe of 8 sectors",
    ),
    (
        "vinum",
        "drive a device /a\nvolume v\nplex org concat\nsd len 8b\nplex org concat\nsd len 9b\n",
        5,
        1,
        "plexes v.p0 and v.p1 differ in size, 8 and 9 sectors",
    ),
    (
        "vinum",
        "drive a device /a\nvolume v\nplex org striped 4b\nsd len 8b\nsd len 8b\n\
         plex org striped 8b\nsd len 8b\nsd len 8b\n",
        6,
        1,
        "plexes v.p0 and v.p1 differ in stripe size, 4 and 8 sectors",
    ),
];

pub(super) const SIZES: &[(&str, u64)] = &[("small", 71), ("x", 304), ("y", 112), ("z", 5000)];

/// The wrong texts and their dialects.
pub(super) fn texts() -> impl Iterator<Item = (&'static str, String)> {
    let rows = [RAIDCTL, CCD, VINUM].concat().into_iter();
    rows.map(|(dialect, given, ..)| (dialect, in_full(given)))
}

/// Replaces the short forms of the rows.
pub(super) fn in_full(given: &str) -> String {
    let given = given
        .replace('@', "START array")
        .replace('$', "volume v\nplex org concat\n");
    let array = "START array\n2 0\n";
    let disks = "START disks\na\nb\n";
    match (given.strip_prefix('%'), given.strip_suffix("\n#")) {
        (Some(layout), _) => format!("{array}{disks}START layout\n{layout}"),
        (None, Some(start)) => {
            let disks = if start.contains("START disks") {
                ""
            } else {
                disks
            };
            format!("{start}\n{disks}START layout\n8 1 1 0\n")
        }
        (None, None) => given,
    }
}

#[test]
fn bad_texts_are_errors_with_line_and_column() {
    let mut wrong = String::new();
    for (dialect, given, line, column, words) in [RAIDCTL, CCD, VINUM].concat() {
        let given = in_full(given);
        let error = match read(dialect, &given, SIZES) {
            Ok(_) => format!("{given}\nis read"),
            Err(error) => error.to_string(),
        };
        let start = format!("line {line}, column {column}: ");
        if !error.starts_with(&start) || !error.contains(words) {
            writeln!(wrong, "{given}\nis {error}\nnot {start}{words}\n").expect("a string");
        }
        // With Windows line ends it is the same error on the same line.
        let windows = read(dialect, &given.replace('\n', "\r\n"), SIZES);
        let windows = windows.map_or_else(|error| error.to_string(), |_| String::new());
        let message = |error: &str| error.split_once(": ").map(|(_, rest)| rest.to_owned());
        assert_eq!(message(&windows), message(&error), "{given}");
        assert!(windows.starts_with(&format!("line {line},")), "{given}");
    }
    assert_eq!(wrong, "");
}

/// Large texts and bytes of all kinds are refused within a moment.
#[test]
fn large_and_binary_texts_end_soon() {
    const BYTES: usize = 400_000;
    let mut random = 1_u32;
    let noise = (0..BYTES).map(|_| {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        random.to_le_bytes()[3]
    });
    let noise: Vec<u8> = noise.collect();
    let without_zeros: Vec<u8> = noise.iter().copied().filter(|byte| *byte != 0).collect();
    let lines = |line: &str| line.repeat(BYTES / line.len());
    let devices = |prefix: &str| {
        let numbers = 0..BYTES / 40;
        let names: Vec<String> = numbers.map(|number| format!("{prefix}{number}")).collect();
        names.concat()
    };
    for text in [
        decode(&noise).into_owned(),
        decode(&without_zeros).into_owned(),
        lines("# a comment\r\n"),
        lines("a"),
        lines("\\\n"),
        format!("START disks\n{}", lines("a\n")),
        format!("START disks\n{}", devices("\n")),
        lines("ccd0 16 none a b\n"),
        format!("ccd0 16 none{}", devices(" d")),
        format!(
            "drive a device /a\nvolume v\nplex org concat\n{}",
            lines("sd len 1b\n")
        ),
        devices("\ndrive x device "),
        format!("volume \"{}", lines("a")),
    ] {
        let started = processor_time();
        let start: String = text.chars().take(40).collect();
        let _recognised = recognise(&text);
        for dialect in DIALECTS {
            let source = Source {
                text: &text,
                bytes_of: &|_| None,
                flavour: None,
            };
            assert!(dialect.read(&source).is_err(), "{}: {start}", dialect.name);
        }
        assert!(
            processor_time() < started + Duration::from_secs(2),
            "{start}"
        );
    }
}

/// The time that this thread has used a processor: a busy machine does not count.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux has it");
    let used_ns = text.split(' ').next().and_then(|used| used.parse().ok());
    Duration::from_nanos(used_ns.expect("its first number"))
}
