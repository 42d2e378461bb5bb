//! `single`: the first member by itself, without superblock or engine. What arrays are compared
//! with.

use super::{Kind, Needs, Raw};

pub(super) static KIND: Kind = Kind {
    name: "single",
    syntax: "single",
    summary: "one member by itself, without array or engine: the single disk",
    exists: false,
    claims: |text| text == "single",
    check: |_| Ok(()),
    needs: |_| {
        Ok(Needs {
            members: 1,
            ..Needs::default()
        })
    },
    prepare: |_, site| {
        Ok(Box::new(Raw {
            name: site.members[0].clone(),
            options: site.open.clone(),
        }))
    },
};
