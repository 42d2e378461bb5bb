//! Plans as text, for every strategy.

use crate::public::{
    replay::wide,
    world::{BLOCK, World},
};
use spindles_block::{MemberIndex, Operation};
use spindles_engine::{
    plan::{Ask, Contents, Health, Shape, plan},
    slots::SlotSet,
};
use spindles_layout::{Geometry, Group, GroupIndex, Level, Spec};

struct Case<'a> {
    ask: Ask,
    missing: &'a [u8],
    unreadable: &'a [u8],
    settled: bool,
    touched: &'a [u8],
    checksums: bool,
}

fn check(level: &str, members: u8, group: u64, case: &Case<'_>, expected: &str) {
    let geometry = Geometry::new(&Spec {
        level: Level::by_name(level).expect("a level"),
        layout: None,
        chunk_blocks: 4,
        member_blocks: vec![64; usize::from(members)],
    })
    .expect("a legal array");
    let mut filled = Group::empty();
    geometry.group_into(GroupIndex(group), &mut filled);
    let slots_of = |members: &[u8]| {
        (0u8..)
            .zip(filled.slots())
            .filter(|(_, slot)| {
                members
                    .iter()
                    .any(|&member| slot.member == MemberIndex(member))
            })
            .fold(SlotSet::EMPTY, |set, (index, _)| set.with(index))
    };
    let missing = slots_of(case.missing);
    let health = Health {
        missing,
        unreadable: missing.or(slots_of(case.unreadable)),
        settled: case.settled,
        contents: Contents::Written,
        trust_unsettled: false,
        checksums: case.checksums,
    };
    let shape = Shape {
        data: geometry.data_chunks(),
        slots: geometry.data_chunks() + geometry.redundancy(),
        copies: geometry.parity_chunks() == 0,
    };
    let touched = case
        .touched
        .iter()
        .fold(SlotSet::EMPTY, |set, &slot| set.with(slot));
    let preferred = shape.all().minus(health.unreadable).first().unwrap_or(0);
    let found = plan(shape, health, case.ask, touched, preferred)
        .map_or("none".into(), |plan| plan.describe(&filled).to_string());
    assert_eq!(found, expected, "{level} of {members}, group {group}");
}

fn rebuild<'a>(missing: &'a [u8], unreadable: &'a [u8]) -> Case<'a> {
    Case {
        ask: Ask::Rebuild,
        missing,
        unreadable,
        settled: true,
        touched: &[],
        checksums: false,
    }
}

#[test]
fn rebuilds_read_what_suffices_and_write_what_lacks() {
    // Left-symmetric: parity of group 0 lies on the last member.
    let nothing = "Direct";
    check("raid5", 4, 0, &rebuild(&[], &[]), nothing);
    check("raid5", 4, 0, &rebuild(&[1], &[]), nothing);
    let data = "Rebuild; read 0:d0 2:d2 3:p0; recover 1:d1; commit; write 1:d1";
    check("raid5", 4, 0, &rebuild(&[], &[1]), data);
    let parity = "Rebuild; read 0:d0 1:d1 2:d2; encode 3:p0; commit; write 3:p0";
    check("raid5", 4, 0, &rebuild(&[], &[3]), parity);
    check("raid5", 4, 0, &rebuild(&[0], &[1]), "none");
    // Q of group 0 lies on the first member, P on the last.
    let one = "Rebuild; read 2:d1 3:d2 4:p0; recover 1:d0; commit; write 1:d0";
    check("raid6", 5, 0, &rebuild(&[], &[1]), one);
    let by_q = "Rebuild; read 0:p1 2:d1 3:d2; recover 1:d0; commit; write 1:d0";
    check("raid6", 5, 0, &rebuild(&[4], &[1]), by_q);
    // Parity needs data that is missing for good.
    let both = "Rebuild; read 0:p1 2:d1 3:d2; recover 1:d0; encode 4:p0; commit; write 4:p0";
    check("raid6", 5, 0, &rebuild(&[1], &[4]), both);
    let two = "Rebuild; read 0:p1 2:d1 3:d2; recover 1:d0; encode 4:p0; commit; write 1:d0 4:p0";
    check("raid6", 5, 0, &rebuild(&[], &[1, 4]), two);
    let copy = "Rebuild; read 1:d0; commit; write 0:d0";
    check("raid1", 3, 0, &rebuild(&[2], &[0]), copy);
}

/// A discard and a write may settle the rows of a resync before it has their lock.
#[test]
fn what_is_settled_is_not_settled_again() {
    let settle = |settled| Case {
        ask: Ask::Settle,
        settled,
        ..rebuild(&[1], &[])
    };
    check("raid5", 4, 0, &settle(true), "Direct");
    check("raid5", 4, 0, &settle(false), "none");
    check("raid1", 3, 0, &settle(true), "Direct");
}

fn write<'a>(missing: &'a [u8], touched: &'a [u8]) -> Case<'a> {
    Case {
        ask: Ask::Write,
        missing,
        unreadable: &[],
        settled: true,
        touched,
        checksums: false,
    }
}

fn read<'a>(missing: &'a [u8], touched: &'a [u8]) -> Case<'a> {
    Case {
        ask: Ask::Read,
        missing,
        unreadable: &[],
        settled: true,
        touched,
        checksums: false,
    }
}

#[test]
fn writes() {
    check(
        "raid0",
        3,
        1,
        &write(&[], &[0]),
        "Direct; commit; write 1:d0",
    );
    check("raid0", 3, 1, &write(&[1], &[0]), "none");
    check(
        "raid1",
        3,
        0,
        &write(&[1], &[0]),
        "Direct; commit; write 0:d0 2:d0",
    );
    check(
        "raid5",
        5,
        0,
        &write(&[], &[0]),
        "ReadModifyWrite; read 0:d0 4:p0; update; commit; write 0:d0 4:p0",
    );
    check(
        "raid5",
        5,
        0,
        &write(&[0], &[0]),
        "ReconstructWrite; read 1:d1 2:d2 3:d3; encode 4:p0; commit; write 4:p0",
    );
    check(
        "raid5",
        5,
        0,
        &write(&[4], &[0]),
        "Direct; commit; write 0:d0",
    );
    check("raid5", 5, 0, &write(&[0, 1], &[0]), "none");
    check(
        "raid5",
        5,
        0,
        &write(&[], &[0, 1, 2, 3]),
        "FullStripeWrite; encode 4:p0; commit; write 0:d0 1:d1 2:d2 3:d3 4:p0",
    );
    // A write of a chunk on raid6 of six members is a tie: the plan without old parity wins it.
    check(
        "raid6",
        6,
        0,
        &write(&[], &[0]),
        "ReconstructWrite; read 2:d1 3:d2 4:d3; encode 0:p1 5:p0; commit; write 0:p1 1:d0 5:p0",
    );
    check(
        "raid6",
        6,
        0,
        &write(&[5, 1], &[3]),
        "ReadModifyWrite; read 0:p1 4:d3; update; commit; write 0:p1 4:d3",
    );
    // Touched and untouched data are both lost: recover the untouched, then compute parity.
    check(
        "raid6",
        6,
        0,
        &write(&[1, 2], &[0]),
        "RecoverWrite; read 0:p1 3:d2 4:d3 5:p0; recover 1:d0 2:d1; encode 0:p1 5:p0; commit; \
         write 0:p1 5:p0",
    );
}

#[test]
fn reads() {
    check("raid1", 3, 0, &read(&[0], &[0]), "Direct; read 1:d0");
    check("raid5", 5, 0, &read(&[], &[1, 2]), "Direct; read 1:d1 2:d2");
    check(
        "raid5",
        5,
        0,
        &read(&[2], &[1, 2]),
        "Reconstruct; read 0:d0 1:d1 3:d3 4:p0; recover 2:d2",
    );
    check("raid5", 5, 0, &read(&[2, 3], &[1]), "Direct; read 1:d1");
    check("raid5", 5, 0, &read(&[2, 3], &[2]), "none");
    check(
        "raid6",
        5,
        0,
        &read(&[1, 2], &[0, 1]),
        "Reconstruct; read 0:p1 3:d2 4:p0; recover 1:d0 2:d1",
    );
}

#[test]
fn what_is_not_settled() {
    let case = |ask, unreadable, touched| Case {
        ask,
        missing: &[],
        unreadable,
        settled: false,
        touched,
        checksums: false,
    };
    check(
        "raid5",
        3,
        0,
        &case(Ask::Settle, &[], &[]),
        "Settle; read 0:d0 1:d1 2:p0; encode 2:p0; compare; commit; write 2:p0",
    );
    check(
        "raid5",
        3,
        0,
        &case(Ask::Read, &[], &[0]),
        "Settle; read 0:d0 1:d1 2:p0; encode 2:p0; compare; commit; write 2:p0",
    );
    // Unreadable parity is recomputed; unreadable data is not recovered from it.
    check(
        "raid5",
        3,
        0,
        &case(Ask::Settle, &[2], &[]),
        "Settle; read 0:d0 1:d1; encode 2:p0; commit; write 2:p0",
    );
    check("raid5", 3, 0, &case(Ask::Settle, &[1], &[]), "none");
    check(
        "raid5",
        5,
        0,
        &case(Ask::Write, &[], &[0]),
        "ReconstructWrite; read 1:d1 2:d2 3:d3; encode 4:p0; commit; write 0:d0 4:p0",
    );
    check(
        "raid1",
        3,
        0,
        &case(Ask::Read, &[0], &[0]),
        "Settle; read 1:d0 2:d0; compare; commit; write 0:d0 2:d0",
    );
    // The last copy has nothing to agree with, readable or not.
    let last = Case {
        missing: &[1, 2],
        ..case(Ask::Settle, &[0], &[])
    };
    check("raid1", 3, 0, &last, "Direct");
    // Without parity, the data chunks have nothing to agree with either. But parity used for a
    // missing data chunk may be wrong: such a row can't be settled.
    let without = |missing| Case {
        missing,
        ..case(Ask::Settle, &[], &[])
    };
    check("raid5", 3, 0, &without(&[2]), "Direct");
    check("raid5", 3, 0, &without(&[0]), "none");
    check("raid6", 4, 0, &without(&[1]), "none");
    check("raid6", 4, 0, &without(&[1, 2]), "none");
}

/// Plans of arrays whose blocks have checksums.
#[test]
fn checksums_are_steps() {
    let check = |level, members, case: Case<'_>, expected| {
        let checksums = true;
        check(level, members, 0, &Case { checksums, ..case }, expected);
    };
    let read_one = "Direct; read 1:d1; verify";
    check("raid5", 4, read(&[], &[1]), read_one);
    let recovered = "Reconstruct; read 0:d0 2:d2 3:p0; verify; recover 1:d1; prove";
    check("raid5", 4, read(&[1], &[1]), recovered);
    let modified = "ReadModifyWrite; read 0:d0 4:p0; verify; update; commit; write 0:d0 4:p0";
    check("raid5", 5, write(&[], &[0]), modified);
    let whole = "FullStripeWrite; encode 3:p0; commit; write 0:d0 1:d1 2:d2 3:p0";
    check("raid5", 4, write(&[], &[0, 1, 2]), whole);
    let filled = "Rebuild; read 0:d0 2:d2 3:p0; verify; recover 1:d1; prove; commit; write 1:d1";
    check("raid5", 4, rebuild(&[], &[1]), filled);
}

/// Carries out something. Returns the plans of its stripe ranges, with the steps that were added
/// while they were carried out.
fn plans_of(world: &mut World, act: impl FnOnce(&mut World)) -> String {
    world.plans.clear();
    act(world);
    world.run();
    let plans = core::mem::take(&mut world.plans);
    plans.into_values().collect::<Vec<String>>().join(" | ")
}

/// The executor takes only steps that are in the plan, so that the printed plan of each request
/// below is what happened.
#[test]
fn the_steps_after_the_commit_are_added_to_the_plan() {
    let mut found = Vec::new();
    for (kind, checksums, policy) in [
        ("log", false, "journal"),
        ("checksums", true, "resync"),
        ("both", true, "journal"),
    ] {
        let mut setup = wide("raid5", 4, checksums);
        setup.policy = policy;
        let mut world = setup.open().unwrap();
        let whole = [1; 12 * BLOCK];
        let mut note = |what: &str, world: &mut World, act: &dyn Fn(&mut World)| {
            let plan = plans_of(world, act).replace("; commit", ";\n    commit");
            found.push(format!("{kind}, {what}:\n  {plan}\n"));
        };
        note("whole row", &mut world, &|world| {
            world.write(12, &whole).unwrap();
        });
        note("part", &mut world, &|world| {
            world.write(13, &[2; BLOCK]).unwrap();
        });
        note("durably", &mut world, &|world| {
            world.submit(Operation::Write { fua: true }, 13, vec![3; BLOCK], 1);
        });
        note("zeros", &mut world, &|world| {
            world.submit(Operation::WriteZeroes { fua: false }, 12, Vec::new(), 12);
        });
        world.fail(1);
        note("lost block", &mut world, &|world| {
            drop(world.read(20, 1).unwrap());
        });
        note("part without it", &mut world, &|world| {
            world.write(12, &[2; BLOCK]).unwrap();
        });
        note("lost part", &mut world, &|world| {
            world.write(20, &[2; BLOCK]).unwrap();
        });
    }
    assert_eq!(found.concat(), PLANS);
}

const PLANS: &str = "\
log, whole row:
  FullStripeWrite; encode 2:p0;
    commit; checksum; log; keep; write 0:d1 1:d2 2:p0 3:d0
log, part:
  ReconstructWrite; read 0:d1 1:d2; encode 2:p0;
    commit; checksum; log; keep; write 2:p0 3:d0
log, durably:
  ReconstructWrite; read 0:d1 1:d2; encode 2:p0;
    commit; checksum; log; keep; write 2:p0 3:d0
log, zeros:
  Direct;
    commit; log; write 0:d1 1:d2 2:p0 3:d0
log, lost block:
  Reconstruct; read 0:d1 2:p0 3:d0; recover 1:d2
log, part without it:
  ReadModifyWrite; read 2:p0 3:d0; update;
    commit; checksum; log; keep; write 2:p0 3:d0
log, lost part:
  ReconstructWrite; read 0:d1 3:d0; encode 2:p0;
    commit; checksum; log; keep; write 2:p0
checksums, whole row:
  FullStripeWrite; encode 2:p0;
    commit; checksum; write 0:d1 1:d2 2:p0 3:d0
checksums, part:
  ReconstructWrite; read 0:d1 1:d2; verify; encode 2:p0;
    commit; checksum; write 2:p0 3:d0
checksums, durably:
  ReconstructWrite; read 0:d1 1:d2; verify; encode 2:p0;
    commit; checksum; write 2:p0 3:d0; flush
checksums, zeros:
  Direct;
    commit; write 0:d1 1:d2 2:p0 3:d0
checksums, lost block:
  Reconstruct; read 0:d1 2:p0 3:d0; verify; recover 1:d2; prove
checksums, part without it:
  ReadModifyWrite; read 2:p0 3:d0; verify; update;
    commit; checksum; write 2:p0 3:d0
checksums, lost part:
  ReconstructWrite; read 0:d1 3:d0; verify; encode 2:p0;
    commit; checksum; write 2:p0
both, whole row:
  FullStripeWrite; encode 2:p0;
    commit; checksum; log; keep; write 0:d1 1:d2 2:p0 3:d0
both, part:
  ReconstructWrite; read 0:d1 1:d2; verify; encode 2:p0;
    commit; checksum; log; keep; write 2:p0 3:d0
both, durably:
  ReconstructWrite; read 0:d1 1:d2; verify; encode 2:p0;
    commit; checksum; log; keep; write 2:p0 3:d0
both, zeros:
  Direct;
    commit; log; write 0:d1 1:d2 2:p0 3:d0
both, lost block:
  Reconstruct; read 0:d1 2:p0 3:d0; verify; recover 1:d2; prove
both, part without it:
  ReadModifyWrite; read 2:p0 3:d0; verify; update;
    commit; checksum; log; keep; write 2:p0 3:d0
both, lost part:
  ReconstructWrite; read 0:d1 3:d0; verify; encode 2:p0;
    commit; checksum; log; keep; write 2:p0
";
