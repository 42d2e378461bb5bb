//! The array of a session, and the members that may be missing.

use crate::torture::disk::job::Creation;
use crate::torture::random::Random;
use spindles_block::{MemberIndex, MemberSet};
use spindles_layout::{Expression, Geometry, LEVELS, Level, Redundancy, Spec};

/// The name of the journal disk.
const JOURNAL: &str = "journal";
const JOURNAL_BYTES: u64 = 9 << 20;

/// The size of disks that have room for a stage.
const STAGED_BYTES: u64 = 256 << 20;

/// An array and its disks.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    /// The names and sizes of all disks, the journal disk last.
    pub(crate) disks: Vec<(String, u64)>,
    /// The array; its leaves are those names.
    pub(crate) expression: Expression,
    pub(crate) has_journal: bool,
    /// True if its chunks may become smaller, for which its members have room.
    pub(crate) grows: bool,
    pub(crate) creation: Creation,
}

/// Returns a level with a random layout over these members, such as `raid5:left-symmetric(a,b,c)`.
fn level_of(level: &'static Level, members: &[String], random: &mut Random) -> String {
    let count = u8::try_from(members.len()).expect("few");
    let layouts: Vec<_> = level.layouts_on(count).collect();
    let layout = match random
        .choose(&layouts)
        .to_string()
        .replace(' ', "")
        .as_str()
    {
        "" => String::new(),
        name => format!(":{name}"),
    };
    format!("{}{layout}({})", level.name, members.join(","))
}

fn members_of(level: &Level, random: &mut Random, most: u64) -> usize {
    let least = u64::from(level.members_min);
    let members = random.between(least, most.max(least));
    usize::try_from(members).expect("few")
}

impl Shape {
    pub(crate) fn draw(random: &mut Random) -> Self {
        let mut names: Vec<String> = Vec::new();
        let mut take = |count: usize| -> Vec<String> {
            let from = names.len();
            let name = |number: usize| format!("d{number}");
            names.extend((from..from + count).map(name));
            names[from..].to_vec()
        };
        let nested = random.percent(12);
        let text = if nested {
            let redundant = |level: &&&Level| level.redundancy != Redundancy::None;
            let few: Vec<&&Level> = LEVELS.iter().filter(|l| l.members_min <= 3).collect();
            let outer = **random.choose(&few);
            // At least one of the two levels has redundancy.
            let inner: Vec<&&Level> = few
                .into_iter()
                .filter(|level| outer.redundancy != Redundancy::None || redundant(level))
                .collect();
            let arrays: Vec<String> = (0..members_of(outer, random, 2))
                .map(|_| {
                    let level = **random.choose(&inner);
                    let members = take(members_of(level, random, 2));
                    level_of(level, &members, random)
                })
                .collect();
            level_of(outer, &arrays, random)
        } else {
            // Levels with redundancy have more failure modes, so they come more often.
            let mut level = *random.choose(LEVELS);
            if level.redundancy == Redundancy::None && random.percent(60) {
                level = *random.choose(LEVELS);
            }
            let members = take(members_of(level, random, 5));
            level_of(level, &members, random)
        };
        let expression = Expression::parse(&text).expect("an expression");
        let block_bytes = if random.percent(25) { 512 } else { 4096 };
        let grows = !nested && random.percent(10);
        // The metadata areas differ more on larger disks.
        let (least, most) = match random.below(10) {
            _ if grows => (4 << 20, 7 << 20),
            0 => (320 << 10, 80 << 20),
            _ => (320 << 10, 3 << 20),
        };
        let may_stage = !nested && !grows && has_parity(&expression);
        let write_back = random.percent(40) && may_stage;
        let size = |random: &mut Random| {
            if write_back {
                STAGED_BYTES
            } else {
                random.doubling(least, most) / 4096 * 4096
            }
        };
        let chunk_bytes = 4096 << random.below(if grows { 3 } else { 5 });
        let (bytes, differ) = (size(random), random.percent(40));
        let mut disks: Vec<(String, u64)> = names
            .iter()
            .map(|name| (name.clone(), if differ { size(random) } else { bytes }))
            .collect();
        let has_journal = !nested && !write_back && random.percent(20);
        if has_journal {
            disks.push((JOURNAL.to_owned(), JOURNAL_BYTES));
        }
        let checksums = random.percent(60);
        let consistency =
            (!checksums && !write_back && random.percent(30)).then(|| "resync".to_owned());
        Self {
            disks,
            expression,
            has_journal,
            grows,
            creation: Creation {
                expression: String::new(),
                block_bytes,
                chunk_bytes,
                checksums,
                consistency,
                journal: None,
                write_back,
            },
        }
    }

    /// The number of disks that are members.
    pub(crate) fn members(&self) -> usize {
        self.disks.len() - usize::from(self.has_journal)
    }

    /// Returns the parameters to create it on these files, in the order of `disks`.
    pub(crate) fn creation(&self, files: &[String]) -> Creation {
        let expression = self.expression.with_leaves(&mut |name| {
            let place = self.disks.iter().position(|disk| disk.0 == *name);
            files[place.expect("a leaf is a disk")].clone()
        });
        Creation {
            expression: expression.to_string(),
            journal: self.has_journal.then(|| files[self.members()].clone()),
            ..self.creation.clone()
        }
    }

    /// Returns true if the data is complete without these members, given as indices of disks.
    pub(crate) fn survives(&self, missing: &[usize]) -> bool {
        let is_missing = |name: &str| missing.iter().any(|disk| self.disks[*disk].0 == name);
        survives(&self.expression, &is_missing)
    }

    /// Returns every set of members that may be missing while the members in `stale` are stale, the
    /// empty set first. No inner array may be left with stale members only: the stale members would
    /// continue without the missing members, and the missing members without them.
    pub(crate) fn tolerated(&self, stale: &[usize]) -> Vec<Vec<usize>> {
        let members = self.members();
        let set = |bits: u32| (0..members).filter(move |disk| bits >> disk & 1 == 1);
        let sets = (0..1_u32 << members).map(|bits| set(bits).collect::<Vec<usize>>());
        let is_in = |name: &str, set: &[usize]| set.iter().any(|disk| self.disks[*disk].0 == name);
        sets.filter(|away| {
            let lost = [&away[..], stale].concat();
            let splits = |array: &Expression| {
                survives(array, &|name| is_in(name, away))
                    && !survives(array, &|name| is_in(name, &lost))
            };
            self.survives(&lost) && !any_array(&self.expression, &splits)
        })
        .collect()
    }

    /// Describes the array in words.
    pub(crate) fn describe(&self) -> String {
        let Creation {
            block_bytes,
            chunk_bytes,
            checksums,
            consistency,
            write_back,
            ..
        } = &self.creation;
        let size = |disk: &(String, u64)| (disk.1 >> 10).to_string();
        let mut sizes: Vec<String> = self.disks[..self.members()].iter().map(size).collect();
        if sizes.iter().all(|size| *size == sizes[0]) {
            sizes.truncate(1);
        }
        format!(
            "{} on disks of {} KiB, blocks of {block_bytes}, chunks of {} KiB{}{}{}{}",
            self.expression,
            sizes.join(", "),
            chunk_bytes >> 10,
            if *checksums { ", checksums" } else { "" },
            consistency
                .as_deref()
                .map_or(String::new(), |name| format!(", {name}")),
            if self.has_journal {
                ", a journal of its own"
            } else {
                ""
            },
            if *write_back { ", a stage" } else { "" },
        )
    }
}

/// Returns true if the outermost level has parity.
fn has_parity(expression: &Expression) -> bool {
    let Expression::Array { level, .. } = expression else {
        return false;
    };
    matches!(level.redundancy, Redundancy::Parity(_))
}

/// Returns true if `is_match` holds for the array or for one inside it.
fn any_array(expression: &Expression, is_match: &dyn Fn(&Expression) -> bool) -> bool {
    match expression.uncut() {
        Expression::Leaf(_) | Expression::Slice { .. } => false,
        Expression::Array { members, .. } => {
            is_match(expression.uncut()) || members.iter().any(|member| any_array(member, is_match))
        }
    }
}

fn survives(expression: &Expression, is_missing: &dyn Fn(&str) -> bool) -> bool {
    match expression {
        Expression::Leaf(name) => !is_missing(name),
        Expression::Slice { of, .. } => survives(of, is_missing),
        Expression::Array {
            level,
            layout,
            members,
        } => {
            let lost = (0_u8..).zip(members);
            let lost: MemberSet = lost
                .filter(|(_, member)| !survives(member, is_missing))
                .map(|(index, _)| MemberIndex(index))
                .collect();
            let geometry = Geometry::new(&Spec {
                level,
                layout: *layout,
                chunk_blocks: 1,
                member_blocks: vec![1 << 10; members.len()],
            });
            geometry.is_ok_and(|geometry| geometry.survives(lost))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tolerated_missing_members_follow_from_the_levels() {
        let mut shape = Shape::draw(&mut Random::of(1, "test"));
        let names = ["a", "b", "c", "d"];
        shape.disks = names.iter().map(|name| ((*name).to_owned(), 1)).collect();
        shape.has_journal = false;
        let sets = |shape: &mut Shape, expression: &str| {
            shape.expression = Expression::parse(expression).expect("a test");
            shape.tolerated(&[])
        };
        assert_eq!(sets(&mut shape, "raid0(a,b,c,d)"), [Vec::<usize>::new()]);
        assert_eq!(sets(&mut shape, "raid5(a,b,c,d)").len(), 5);
        assert_eq!(sets(&mut shape, "raid6(a,b,c,d)").len(), 11);
        assert_eq!(
            sets(&mut shape, "raid1(raid0(a,b),raid0(c,d))"),
            [
                vec![],
                vec![0],
                vec![1],
                vec![0, 1],
                vec![2],
                vec![3],
                vec![2, 3]
            ]
        );
        // If d is stale, its pair must not be left with d alone.
        shape.expression = Expression::parse("raid5(raid1(a,b),raid1(c,d))").expect("a test");
        let sets = shape.tolerated(&[3]);
        assert_eq!(sets.len(), 11);
        assert!(sets.iter().all(|set| !set.contains(&2) || set.contains(&3)));
        shape.expression = Expression::parse("raid1(raid0(a,b),raid0(c,d))").expect("a test");
        let creation = shape.creation(&["/x/1", "/x/2", "/x/3", "/x/4"].map(str::to_owned));
        assert_eq!(
            creation.expression,
            "raid1(raid0(/x/1,/x/2),raid0(/x/3,/x/4))"
        );
    }

    #[test]
    fn every_level_is_drawn() {
        let mut random = Random::of(1, "test");
        let shapes: Vec<Shape> = (0..400).map(|_| Shape::draw(&mut random)).collect();
        for level in LEVELS {
            let begins = |shape: &&Shape| shape.expression.to_string().starts_with(level.name);
            assert!(shapes.iter().filter(begins).count() > 10, "{}", level.name);
        }
        assert!(shapes.iter().all(|shape| shape.survives(&[])));
        assert!(shapes.iter().any(|shape| shape.has_journal));
    }
}
