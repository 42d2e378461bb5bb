//! `single`: one member by itself, without superblock or engine. Arrays are compared with it.

use super::{Kind, Needs, Raw};

pub(super) static KIND: Kind = Kind {
    name: "single",
    syntax: "single or single:N",
    summary: "one member by itself, the first or the Nth, without array or engine: the single disk",
    exists: false,
    claims: |text| text == "single" || text.starts_with("single:"),
    check: |text| number(text).map(drop),
    needs: |text| {
        Ok(Needs {
            members: number(text)?,
            ..Needs::default()
        })
    },
    prepare: |text, site| {
        Ok(Box::new(Raw {
            name: site.members[number(text)? - 1].clone(),
            is_served: site.is_served,
            options: site.open.clone(),
        }))
    },
};

/// Parses the number of the member: 1 is the first.
fn number(text: &str) -> Result<usize, String> {
    let Some((_, number)) = text.split_once(':') else {
        return Ok(1);
    };
    let number = number
        .parse()
        .ok()
        .filter(|number| (1..=64).contains(number));
    number.ok_or_else(|| format!("{text} names no member: write single:1, single:2 .."))
}
