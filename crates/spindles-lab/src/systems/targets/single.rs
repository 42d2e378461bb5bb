//! `single`: one member by itself, without superblock or engine. Arrays are compared with it.

use super::Opener;
use super::raw::Raw;
use super::system::Needs;
use crate::experiment::systems::kinds::{SINGLE, member_number};
use crate::experiment::systems::modelled::is_modelled;
use spindles_block::BlockSize;

pub(super) static OPENER: Opener = Opener {
    kind: &SINGLE,
    needs: |text| {
        Ok(Needs {
            members: member_number(text)?,
            ..Needs::default()
        })
    },
    prepare: |text, site| {
        let name = site.members[member_number(text)? - 1].clone();
        let mut options = site.open.clone();
        // A modelled disk by itself takes the requests of a trace as they are.
        if is_modelled(&name) {
            options.block_size = Some(BlockSize::B512);
        }
        Ok(Box::new(Raw {
            name,
            is_served: site.is_served,
            options,
        }))
    },
};
