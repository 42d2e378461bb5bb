//! `array:NAME`, `array:DEV,DEV,..`: an array that exists, assembled from its superblocks.

use super::Opener;
use super::raw::facts_of;
use super::system::{Needs, System};
use crate::experiment::systems::kinds::ASSEMBLED;
use crate::systems::export::Exported;
use spindles_admin::assemble::AssembleOptions;
use spindles_admin::scan;
use spindles_array::Target;
use spindles_device::TargetFacts;
use std::path::Path;

pub(super) static OPENER: Opener = Opener {
    kind: &ASSEMBLED,
    needs: |text| {
        Ok(Needs {
            members: 0,
            named: devices(text)?,
        })
    },
    prepare: |text, site| {
        Ok(Box::new(Assembled {
            devices: devices(text)?,
            options: AssembleOptions {
                open: site.open_as_is(),
                engine: site.engine,
                degraded: site.degraded,
                ..AssembleOptions::default()
            },
        }))
    },
};

fn devices(text: &str) -> Result<Vec<String>, String> {
    let given = scan::resolve(&[text], &[], &[]).map_err(|error| error.to_string())?;
    given.may_have_missed.map_or(Ok(given.devices), Err)
}

struct Assembled {
    devices: Vec<String>,
    options: AssembleOptions,
}

impl System for Assembled {
    fn open(&mut self) -> Result<Box<dyn Target>, String> {
        crate::systems::arrays::assemble(&self.devices, &self.options)
    }

    fn facts(&mut self) -> Result<Option<TargetFacts>, String> {
        facts_of(self.open()?)
    }

    fn export(&mut self, program: &Path) -> Result<Exported, String> {
        Exported::of_array(&self.devices, &self.options, program)
    }

    fn devices(&self) -> Vec<String> {
        self.devices.clone()
    }
}
