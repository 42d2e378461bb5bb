//! Opens plain arrays, `plain:EXPR`, and fresh arrays on memory.

use super::Opener;
use super::device::named;
use super::raw::facts_of;
use super::system::{Needs, System};
use crate::experiment::systems::kinds::{PLAIN, parse_plain};
use spindles_admin::plain::{self, PlainOptions};
use spindles_array::Target;
use spindles_device::TargetFacts;
use spindles_layout::Expression;

pub(super) static OPENER: Opener = Opener {
    kind: &PLAIN,
    needs: |text| {
        Ok(Needs {
            members: 0,
            named: named(&plain::devices(&parse_plain(text)?.expression)),
        })
    },
    prepare: |text, site| {
        let target = parse_plain(text)?;
        Ok(Box::new(Plain {
            expression: target.expression,
            options: PlainOptions {
                open: site.open_as_is(),
                engine: site.engine,
                chunk_bytes: site.chunk_bytes.or(target.chunk_bytes),
                unclean: target.unclean,
                ..PlainOptions::default()
            },
        }))
    },
};

/// An array that has no superblocks.
pub(super) struct Plain {
    pub(super) expression: Expression,
    pub(super) options: PlainOptions,
}

impl System for Plain {
    fn open(&mut self) -> Result<Box<dyn Target>, String> {
        let opened = plain::open(&self.expression, &self.options);
        Ok(opened.map_err(|error| error.to_string())?.target)
    }

    fn facts(&mut self) -> Result<Option<TargetFacts>, String> {
        facts_of(self.open()?)
    }

    fn devices(&self) -> Vec<String> {
        let devices = plain::devices(&self.expression).into_iter();
        devices.map(str::to_owned).collect()
    }
}
