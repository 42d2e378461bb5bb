//! A written shape is read back as it was.

use super::read;
use proptest::prelude::*;
use spindles_dialects::{Dialect, Shape, named};
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
            Shape {
                name: (!name.is_empty()).then(|| format!("{name}{number}")),
                expression: kind(count),
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

/// Writes a shape, reads it, and returns the shape on devices.
fn read_back(dialect: &Dialect, shape: &Shape) -> Result<Shape, String> {
    let write = dialect.write.expect("it writes");
    let text = write(shape).map_err(|error| error.to_string())?;
    let translation = read(dialect.name, &text, &[]).map_err(|error| format!("{error}: {text}"))?;
    let [array] = translation.arrays.as_slice() else {
        return Err(text);
    };
    let mut shape = array.shape.clone();
    shape.expression = translation.on_devices(&shape.expression);
    for spare in &mut shape.spares {
        if let Some(device) = translation.devices.get(spare) {
            spare.clone_from(device);
        }
    }
    Ok(shape)
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
    let shape = |expression: &str| Shape {
        name: None,
        expression: Expression::parse(expression).expect(expression),
        chunk_bytes: None,
        spares: Vec::new(),
        journal: None,
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
        let write = named(dialect).expect(dialect).write.expect(dialect);
        let error = write(&shape(expression)).expect_err(expression);
        assert!(error.to_string().contains(words), "{expression}: {error}");
    }
    for dialect in ["raidctl", "ccd", "vinum"] {
        let write = named(dialect).expect(dialect).write.expect(dialect);
        let journal = Some("j".into());
        let with_journal = Shape {
            journal,
            ..shape("raid0(a,b)")
        };
        let error = write(&with_journal).expect_err(dialect);
        assert_eq!(error.to_string(), "a journal");
        let with_chunk = Shape {
            chunk_bytes: Some(700),
            ..shape("raid0(a,b)")
        };
        let error = write(&with_chunk).expect_err(dialect);
        assert_eq!(error.to_string(), "a chunk of 700 bytes");
    }
    let with_spare = Shape {
        spares: vec!["s".into()],
        ..shape("raid0(a,b)")
    };
    let ccd = named("ccd").expect("a row").write.expect("it writes");
    assert_eq!(
        ccd(&with_spare).expect_err("no spares").to_string(),
        "a spare"
    );
    let twice = "drive a device /a\nvolume v\nplex org concat\nsd len 1b\nsd len 1b\n";
    let twice = &read("vinum", twice, &[]).expect(twice).arrays[0].shape;
    let spare = Shape {
        spares: vec!["a".into()],
        ..shape("raid0(a,b)")
    };
    for (dialect, shape) in [("ccd", twice), ("vinum", twice), ("raidctl", &spare)] {
        let write = named(dialect).expect(dialect).write.expect(dialect);
        let error = write(shape).expect_err(dialect);
        assert_eq!(error.to_string(), "several parts of a");
    }
    // A name that can't be said is a comment.
    let mut named_home = shape("raid0(a,b)");
    named_home.name = Some("home".into());
    for (dialect, start) in [
        ("raidctl", "# home\nSTART"),
        ("ccd", "# home\nccd0 128 none a b\n"),
    ] {
        let write = named(dialect).expect(dialect).write.expect(dialect);
        let text = write(&named_home).expect("it can be said");
        assert!(text.starts_with(start), "{text}");
    }
}
