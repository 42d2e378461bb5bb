//! `single`: one member by itself, without superblock or engine. Arrays are compared with it.

use super::Opener;
use super::raw::Raw;
use super::system::Needs;
use crate::experiment::systems::kinds::{SINGLE, member_number};

pub(super) static OPENER: Opener = Opener {
    kind: &SINGLE,
    needs: |text| {
        Ok(Needs {
            members: member_number(text)?,
            ..Needs::default()
        })
    },
    prepare: |text, site| {
        Ok(Box::new(Raw {
            name: site.members[member_number(text)? - 1].clone(),
            is_served: site.is_served,
            options: site.open.clone(),
        }))
    },
};
