//! The arrays that a set of devices can become: every level over all devices, and stripes over
//! equal groups of devices. If the devices differ in size, also arrays in which smaller devices
//! together stand for a larger device.

use crate::{Expression, LEVELS, Level, Redundancy, level::Sizes};
use alloc::string::String;
use alloc::vec::Vec;

/// More copies than this are rarely intended inside a stripe.
const COPIES_MAX: usize = 3;

/// Returns the arrays that these devices, given by name and size, can become.
pub fn choices(devices: &[(String, u64)]) -> Vec<Expression> {
    let mut by_size: Vec<&(String, u64)> = devices.iter().collect();
    by_size.sort_by_key(|device| core::cmp::Reverse(device.1));
    let mut choices: Vec<Expression> = levels_for(devices.len())
        .map(|level| array(level, leaves(devices.iter())))
        .collect();
    choices.extend(stripes_over_groups(&by_size));
    choices.extend(redundant().filter_map(|level| joined(level, &by_size)));
    choices
}

/// The levels for which this many members suffice.
fn levels_for(members: usize) -> impl Iterator<Item = &'static Level> {
    LEVELS.iter().copied().filter(move |level| {
        let usual = level.note.map_or(level.members_min, |(usual, _)| usual);
        members >= usize::from(usual.max(level.members_min))
    })
}

/// The levels whose redundancy does not depend on a layout.
fn redundant() -> impl Iterator<Item = &'static Level> {
    LEVELS.iter().copied().filter(|level| {
        matches!(
            level.redundancy,
            Redundancy::CopyOnEveryMember | Redundancy::Parity(_)
        )
    })
}

/// The level that stripes over members of any sizes.
fn stripe() -> &'static Level {
    let mut levels = LEVELS.iter().copied();
    let stripe = levels.find(|level| level.sizes == Sizes::Zones);
    stripe.expect("a row of the table")
}

fn array(level: &'static Level, members: Vec<Expression>) -> Expression {
    Expression::Array {
        level,
        layout: None,
        members,
    }
}

fn leaves<'a>(devices: impl IntoIterator<Item = &'a (String, u64)>) -> Vec<Expression> {
    let leaf = |device: &(String, u64)| Expression::Leaf(device.0.clone());
    devices.into_iter().map(leaf).collect()
}

/// Stripes over groups of equally many devices. Devices of similar size share a group.
fn stripes_over_groups(by_size: &[&(String, u64)]) -> Vec<Expression> {
    let count = by_size.len();
    let mut stripes = Vec::new();
    for in_group in (2..=count / 2).filter(|in_group| count.is_multiple_of(*in_group)) {
        for level in levels_for(in_group) {
            let is_meant = match level.redundancy {
                Redundancy::CopyOnEveryMember => in_group <= COPIES_MAX,
                Redundancy::Parity(parity) => in_group > usize::from(parity) + 1,
                Redundancy::None | Redundancy::Copies => false,
            };
            if is_meant {
                let groups = by_size.chunks(in_group);
                let groups = groups.map(|group| array(level, leaves(group.iter().copied())));
                stripes.push(array(stripe(), groups.collect()));
            }
        }
    }
    stripes
}

/// An array of this level in which smaller devices stripe to stand for a larger one. `None` unless
/// it holds more than the level over all devices.
fn joined(level: &'static Level, by_size: &[&(String, u64)]) -> Option<Expression> {
    let holds = |members: usize, smallest: u64| -> u64 {
        let data = match level.redundancy {
            Redundancy::Parity(parity) => members.saturating_sub(usize::from(parity)),
            _ => 1,
        };
        smallest.saturating_mul(u64::try_from(data).expect("few members"))
    };
    let (largest, smallest) = (by_size.first()?.1, by_size.last()?.1);
    if largest - smallest <= smallest / 100 {
        return None; // Devices of one size need not join.
    }
    let plain = holds(by_size.len(), smallest);
    let counts = 2..by_size.len();
    let counts = counts.filter(|count| levels_for(*count).any(|possible| possible == level));
    let members = counts.map(|count| spread(by_size, count));
    let best = members.max_by_key(|members| {
        let smallest = members.iter().map(|member| bytes(member)).min();
        holds(members.len(), smallest.unwrap_or(0))
    })?;
    let smallest = best.iter().map(|member| bytes(member)).min()?;
    let members = best.iter().map(|member| match member[..] {
        [one] => Expression::Leaf(one.0.clone()),
        _ => array(stripe(), leaves(member.iter().copied())),
    });
    (holds(best.len(), smallest) > plain + plain / 100).then(|| array(level, members.collect()))
}

/// Distributes devices, the largest first, over this many members of about the same size.
fn spread<'a>(by_size: &[&'a (String, u64)], count: usize) -> Vec<Vec<&'a (String, u64)>> {
    let mut members: Vec<Vec<&(String, u64)>> = alloc::vec![Vec::new(); count];
    for device in by_size {
        let least = members.iter_mut().min_by_key(|member| bytes(member));
        least.expect("there are members").push(device);
    }
    members
}

fn bytes(member: &[&(String, u64)]) -> u64 {
    let sizes = member.iter().map(|device| device.1);
    sizes.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString as _;

    fn of_sizes(sizes: &[u64]) -> String {
        let names = ('a'..).map(String::from);
        let devices: Vec<_> = names.zip(sizes.iter().copied()).collect();
        let choices = choices(&devices);
        let printed: Vec<_> = choices.iter().map(Expression::to_string).collect();
        printed.join(" ")
    }

    #[test]
    fn all_fitting_levels_are_offered() {
        assert_eq!(of_sizes(&[9]), "concat(a) raid0(a)");
        assert_eq!(
            of_sizes(&[9, 9]),
            "concat(a,b) raid0(a,b) raid1(a,b) raid10(a,b)"
        );
        assert_eq!(
            of_sizes(&[9; 4]),
            "concat(a,b,c,d) raid0(a,b,c,d) raid1(a,b,c,d) raid10(a,b,c,d) raid4(a,b,c,d) \
             raid5(a,b,c,d) raid6(a,b,c,d) raid0(raid1(a,b),raid1(c,d))"
        );
    }

    #[test]
    fn unequal_devices_are_paired_by_size_or_concatenated() {
        let choices = of_sizes(&[400, 200, 400, 200]);
        assert!(
            choices.contains("raid0(raid1(a,c),raid1(b,d))"),
            "{choices}"
        );
        assert!(choices.contains("raid5(a,c,raid0(b,d))"), "{choices}");
        assert!(
            choices.contains("raid1(raid0(a,b),raid0(c,d))"),
            "{choices}"
        );
    }

    #[test]
    fn many_devices_have_few_choices() {
        let choices = of_sizes(&[9; 24]);
        assert!(choices.contains("raid0(raid6(a,b,c,d,e,f,g,h,i,j,k,l),"));
        assert!(choices.split(' ').count() < 32, "{choices}");
    }
}
