//! A written shape is read back as it was.

use super::read;
use proptest::prelude::*;
use spindles_dialects::{Dialect, Shape, Unsayable, Writing, named};
use spindles_layout::{Expression, Level};

fn leaves(from: usize, count: usize) -> Vec<Expression> {
    let numbers = from..from + count;
    numbers
        .map(|number| Expression::Leaf(format!("/dev/da{number}s1e")))
        .collect()
}

fn array(level: &str, layout: &str, members: Vec<Expression>) -> Expression {
    let level = Level::named(level).expect(level);
    let layout = Some(layout).filter(|layout| !layout.is_empty());
    Expression::Array {
        level,
        layout: layout.map(|layout| level.layout(layout).expect(layout)),
        members,
    }
}

/// A kind of array that a dialect can write, of this many members or pairs.
type Kind = fn(usize) -> Expression;

fn shapes(
    kinds: &'static [(Kind, bool)],
    name: &'static str,
    spares_max: usize,
) -> impl Strategy<Value = Shape> {
    let kind = prop::sample::select(kinds);
    (kind, 0..14_usize, 1..2049_u64, 0..=spares_max, 0..100_u8).prop_map(
        move |((kind, has_chunk), count, sectors, spares, number)| {
            let spares = (0..spares).map(|number| format!("/dev/spare{number}"));
            let expression = kind(count);
            // Without sizes, raidctl's level 0 may end at the smallest.
            let is_striped = expression.to_string().starts_with("raid0");
            Shape {
                is_uniform: name.is_empty() && is_striped,
                no_offset: false,
                name: (!name.is_empty()).then(|| format!("{name}{number}")),
                expression,
                chunk_bytes: has_chunk.then_some(sectors * 512),
                spares: spares.collect(),
                journal: None,
            }
        },
    )
}

const RAIDCTL: &[(Kind, bool)] = &[
    (|count| array("raid0", "", leaves(0, count + 1)), true),
    (|_| array("raid1", "", leaves(0, 2)), true),
    (|count| array("raid10", "", leaves(0, 2 * count + 4)), true),
    (|count| array("raid10", "far2", leaves(0, count + 2)), true),
    (|count| array("raid4", "", leaves(0, count + 3)), true),
    (|count| array("raid5", "", leaves(0, count + 2)), true),
    (
        |count| {
            let missing = Expression::Leaf("missing".into());
            array("raid5", "", [leaves(0, count + 2), vec![missing]].concat())
        },
        true,
    ),
];

const CCD: &[(Kind, bool)] = &[
    (|count| array("concat", "", leaves(0, count + 1)), false),
    (|count| array("raid0", "", leaves(0, count + 1)), true),
    (|_| array("raid1", "", leaves(0, 2)), true),
    (
        |count| {
            let half = |from| array("raid0", "", leaves(from, count + 2));
            array("raid1", "", vec![half(0), half(count + 2)])
        },
        true,
    ),
];

const VINUM: &[(Kind, bool)] = &[
    (|count| array("concat", "", leaves(0, count + 1)), false),
    (|count| array("raid0", "", leaves(0, count + 2)), true),
    (|count| array("raid4", "", leaves(0, count + 3)), true),
    (
        |count| array("raid5", "left-asymmetric", leaves(0, count + 3)),
        true,
    ),
    (|count| array("raid1", "", leaves(0, count % 7 + 2)), false),
    (
        |count| {
            let plex = |plex| array("raid0", "", leaves(plex * (count + 2), count + 2));
            array("raid1", "", (0..count % 7 + 2).map(plex).collect())
        },
        true,
    ),
    (
        |count| {
            let concat = array("concat", "", leaves(0, count + 2));
            let raid5 = array("raid5", "left-asymmetric", leaves(count + 2, count + 3));
            array("raid1", "", vec![concat, raid5])
        },
        true,
    ),
];

/// Writes a shape alone, its devices having these sizes in sectors; returns the text and its notes.
fn written(
    dialect: &Dialect,
    shape: &Shape,
    sectors: &[(&str, u64)],
) -> Result<(String, Vec<String>), Unsayable> {
    let bytes_of = |name: &str| {
        let known = sectors.iter().find(|(known, _)| *known == name);
        known.map(|(_, sectors)| sectors * 512)
    };
    let mut writing = Writing::new([shape], &bytes_of);
    let text = dialect.write.expect("it writes")(shape, &mut writing)?;
    Ok((text, writing.notes().to_vec()))
}

fn shape(expression: &str) -> Shape {
    Shape {
        name: None,
        expression: Expression::parse(expression).expect(expression),
        chunk_bytes: None,
        spares: Vec::new(),
        journal: None,
        is_uniform: false,
        no_offset: false,
    }
}

/// Writes a shape, reads it, and returns the shape on devices.
fn read_back(dialect: &Dialect, shape: &Shape) -> Result<Shape, String> {
    let (text, _) = written(dialect, shape, &[]).map_err(|error| error.to_string())?;
    let translation = read(dialect.name, &text, &[]).map_err(|error| format!("{error}: {text}"))?;
    let [array] = translation.arrays.as_slice() else {
        return Err(text);
    };
    Ok(translation.shape_on_devices(&array.shape))
}

proptest! {
    #[test]
    fn raidctl_reads_what_it_writes(shape in shapes(RAIDCTL, "", 3)) {
        let dialect = named("raidctl").expect("a row");
        prop_assert_eq!(read_back(dialect, &shape), Ok(shape));
    }

    #[test]
    fn ccd_reads_what_it_writes(shape in shapes(CCD, "ccd", 0)) {
        let dialect = named("ccd").expect("a row");
        prop_assert_eq!(read_back(dialect, &shape), Ok(shape));
    }

    #[test]
    fn vinum_reads_what_it_writes(shape in shapes(VINUM, "vol", 3)) {
        let dialect = named("vinum").expect("a row");
        prop_assert_eq!(read_back(dialect, &shape), Ok(shape));
    }
}

/// A shape that a dialect has no words for is refused by its name.
#[test]
fn unsayable_shapes_are_named() {
    let error_of = |dialect: &str, shape: &Shape| {
        let row = named(dialect).expect(dialect);
        let error = written(row, shape, &[]).expect_err(dialect);
        error.to_string()
    };
    for (dialect, expression, words) in [
        (
            "raidctl",
            "raid6(a,b,c,d)",
            "raid6:left-symmetric of 4 members",
        ),
        ("raidctl", "raid1(a,b,c)", "raid1 of 3 members"),
        ("raidctl", "raid5:left-asymmetric(a,b,c)", "left-asymmetric"),
        (
            "raidctl",
            "raid0(raid1(a,b),raid1(c,d),e)",
            "an array as a component",
        ),
        ("raidctl", "raid0(\"a b\",c)", "the name 'a b'"),
        ("raidctl", "raid0(absent,c)", "'absent'"),
        ("ccd", "raid5(a,b,c)", "raid5"),
        ("ccd", "raid1(a,b,c)", "3 copies"),
        ("ccd", "raid1(raid0(a,b),raid0(c))", "unequal"),
        ("ccd", "raid0(a,missing)", "missing"),
        ("ccd", "concat(a,raid0(b,c))", "an array as a component"),
        ("vinum", "raid5(a,b,c)", "raid5"),
        ("vinum", "raid0(a)", "raid0 of 1 member"),
        (
            "vinum",
            "raid0(raid1(a,b),raid1(c,d))",
            "an array as a subdisk",
        ),
        ("vinum", "raid1(a,missing)", "missing"),
    ] {
        let error = error_of(dialect, &shape(expression));
        assert!(error.contains(words), "{expression}: {error}");
    }
    for dialect in ["raidctl", "ccd", "vinum"] {
        let journal = Some("j".into());
        let with_journal = Shape {
            journal,
            ..shape("raid0(a,b)")
        };
        assert_eq!(error_of(dialect, &with_journal), "a journal");
        let with_chunk = Shape {
            chunk_bytes: Some(700),
            ..shape("raid0(a,b)")
        };
        assert_eq!(error_of(dialect, &with_chunk), "a chunk of 700 bytes");
    }
    let with_spare = Shape {
        spares: vec!["s".into()],
        ..shape("raid0(a,b)")
    };
    assert_eq!(error_of("ccd", &with_spare), "a spare");
    let twice = "drive a device /a\nvolume v\nplex org concat\nsd len 1b\nsd len 1b\n";
    let twice = &read("vinum", twice, &[]).expect(twice).arrays[0].shape;
    let spare = Shape {
        spares: vec!["a".into()],
        ..shape("raid0(a,b)")
    };
    for (dialect, shape) in [
        ("ccd", twice),
        ("vinum", twice),
        ("mdadm", twice),
        ("raidctl", &spare),
    ] {
        assert_eq!(error_of(dialect, shape), "several parts of a");
    }
    // A name that can't be said is a comment.
    let mut named_home = shape("raid0(a,b)");
    named_home.name = Some("home".into());
    for (dialect, start) in [
        ("raidctl", "# home\nSTART"),
        ("ccd", "# home\nccd0 128 none a b\n"),
    ] {
        let row = named(dialect).expect(dialect);
        let (text, _) = written(row, &named_home, &[]).expect("it can be said");
        assert!(text.starts_with(start), "{text}");
    }
}

/// Sizes of devices in sectors.
const SIZES: &[(&str, u64)] = &[("a", 4096), ("b", 4096), ("c", 8192)];

/// Writes the arrays of a text, or an expression of ours; returns the words with their notes.
fn translated(from: &str, text: &str, to: &str) -> String {
    let shapes = if from.is_empty() {
        vec![shape(text)]
    } else {
        let translation = read(from, text, SIZES).expect(text);
        let arrays = translation.arrays.iter();
        arrays
            .map(|array| translation.shape_on_devices(&array.shape))
            .collect()
    };
    let bytes_of = |name: &str| {
        let known = SIZES.iter().find(|(known, _)| *known == name);
        known.map(|(_, sectors)| sectors * 512)
    };
    let mut writing = Writing::new(&shapes, &bytes_of);
    let write = named(to).expect(to).write.expect("it writes");
    let words = shapes.iter().map(|shape| match write(shape, &mut writing) {
        Ok(text) => text,
        Err(error) => format!("! {error}\n"),
    });
    let mut words: Vec<String> = words.collect();
    words.extend(writing.notes().iter().map(|note| format!("~ {note}\n")));
    words.concat()
}

#[test]
fn an_array_in_other_words_has_the_same_map_or_a_note() {
    const LEVEL0: &str = "START array\n2 0\nSTART disks\na\nc\nSTART layout\n16 1 1 0\n";
    for (from, text, to, expected) in [
        // The chunk of a mirror of stripes is that of the stripes.
        (
            "",
            "raid1(raid0(d,e),raid0(f,g))",
            "ccd",
            "ccd0 128 CCDF_MIRROR d e f g\n",
        ),
        ("", "raid0(a,c)", "ccd", "ccd0 128 none a c\n"),
        (
            "ccd",
            "ccd0 16 uniform a c\n",
            "ccd",
            "ccd0 16 CCDF_UNIFORM a c\n",
        ),
        (
            "ccd",
            "ccd0 16 uniform,no_offset d e\n",
            "ccd",
            "ccd0 16 CCDF_UNIFORM,CCDF_NO_OFFSET d e\n",
        ),
        (
            "ccd",
            "ccd0 16 linux a c\n",
            "ccd",
            "ccd0 32 CCDF_NO_OFFSET a c\n",
        ),
        ("raidctl", LEVEL0, "ccd", "ccd0 16 CCDF_UNIFORM a c\n"),
        (
            "raidctl",
            LEVEL0,
            "zpool",
            "zpool create pool0 a c\n~ the array ends at its smallest member, and ZFS uses all of \
             each\n~ ZFS has no chunk: it chooses places by itself\n",
        ),
        (
            "ccd",
            "ccd0 16 uniform a c\n",
            "mdadm",
            "mdadm --create /dev/md/ccd0 --level=raid0 --layout=alternate --chunk=8 \
             --raid-devices=2 a c\n~ the array ends at its smallest member, and md uses all of \
             each\n",
        ),
        (
            "ccd",
            "ccd0 16 uniform a b\n",
            "mdadm",
            "mdadm --create /dev/md/ccd0 --level=raid0 --layout=alternate --chunk=8 \
             --raid-devices=2 a b\n",
        ),
        (
            "",
            "raid0(a,c)",
            "raidctl",
            "START array\n2 0\nSTART disks\na\nc\nSTART layout\n128 1 1 0\nSTART queue\nfifo 100\n\
             ~ RAIDframe ends level 0 at the smallest component: it holds less\n",
        ),
        (
            "",
            "raid0(a,c)",
            "vinum",
            "! raid0 of devices that differ in size: its subdisks have one size\n",
        ),
        (
            "",
            "raid1(a,c)",
            "vinum",
            "! raid1 of devices that differ in size: its subdisks have one size\n",
        ),
        (
            "",
            "concat(a,c)",
            "vinum",
            "drive d0 device a\ndrive d1 device c\nvolume v0\n  plex org concat\n\
             \x20   sd length 0 drive d0\n    sd length 0 drive d1\n",
        ),
        (
            "",
            "raid10(d,e,f,g)",
            "zpool",
            "zpool create pool0 mirror d e mirror f g\n",
        ),
        ("", "raid10(d,e,f)", "zpool", "! raid10\n"),
        ("", "raid10:far2(d,e,f,g)", "zpool", "! raid10\n"),
    ] {
        assert_eq!(translated(from, text, to), expected, "{text} --to {to}");
    }
}

/// Names and devices of several arrays in one text don't collide.
#[test]
fn several_arrays_in_other_words_have_names_of_their_own() {
    let two = "mkfs.btrfs -d raid1 a b\nmkfs.btrfs -d raid1 d e\n";
    let line = |number: u8, devices: &str| {
        format!("mdadm --create /dev/md{number} --level=raid1 --raid-devices=2 {devices}\n")
    };
    assert_eq!(
        translated("btrfs", two, "mdadm"),
        line(0, "a b") + &line(1, "d e")
    );
    let vinum = translated("btrfs", two, "vinum");
    assert!(read("vinum", &vinum, &[]).is_ok_and(|read| read.arrays.len() == 2));
    let ccd = translated("btrfs", two, "ccd");
    assert!(read("ccd", &ccd, &[]).is_ok_and(|read| read.arrays.len() == 2));
    let raidctl = translated("btrfs", two, "raidctl");
    assert!(
        raidctl
            .ends_with("~ a file describes one array: give each START array a file of its own\n")
    );
    // A name that an array has already is not given to another.
    let one_named = "mkfs.btrfs -d raid1 a b\nmkfs.btrfs -L md0 -d raid1 d e\n";
    assert_eq!(
        translated("btrfs", one_named, "mdadm"),
        line(1, "a b") + &line(0, "d e")
    );
    // Volumes on parts of one drive can't be said over whole devices.
    let shared = "drive p device a\nvolume v\nplex org concat\nsd len 512k drive p\nvolume w\n\
                  plex org concat\nsd len 512k drive p\n";
    assert!(translated("vinum", shared, "vinum").contains("! several parts of a\n"));
}
