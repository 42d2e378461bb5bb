//! An array expression: a fresh array, with superblocks on files and devices, without them on
//! memory.

use super::Opener;
use super::device::named;
use super::raw::facts_of;
use super::site::Site;
use super::system::{Needs, System};
use crate::experiment::systems::kinds::{ARRAY, is_number, parse};
use crate::systems::arrays;
use crate::systems::export::{self, Exported};
use spindles_admin::assemble::AssembleOptions;
use spindles_admin::grow;
use spindles_array::Target;
use spindles_device::TargetFacts;
use spindles_device::{Examined, OpenOptions};
use spindles_layout::Expression;
use std::path::Path;

pub(super) static OPENER: Opener = Opener {
    kind: &ARRAY,
    needs: |text| {
        let expression = parse(text)?;
        let leaves = expression.leaves();
        let named_leaves: Vec<&str> = leaves
            .iter()
            .copied()
            .filter(|leaf| !is_number(leaf))
            .collect();
        Ok(Needs {
            members: leaves.len() - named_leaves.len(),
            named: named(&named_leaves),
        })
    },
    prepare,
};

fn prepare(text: &str, site: &Site<'_>) -> Result<Box<dyn System>, String> {
    let mut members = site.members.iter();
    let expression = filled_in(&parse(text)?, &mut members);
    let devices: Vec<String> = expression.leaves().iter().map(|&d| d.to_owned()).collect();
    let spares = members.cloned().collect();
    let superblocks = named(&expression.leaves()).len() == devices.len();
    if superblocks {
        arrays::create(&expression, site)?;
    }
    Ok(Box::new(Array {
        expression,
        devices,
        spares,
        journal: site.journal.map(str::to_owned),
        superblocks,
        chunk_bytes: site.chunk_bytes,
        options: site.open.clone(),
    }))
}

/// Replaces the numbers in an expression by the experiment's members.
fn filled_in<'a>(
    expression: &Expression,
    members: &mut impl Iterator<Item = &'a String>,
) -> Expression {
    expression.with_leaves(&mut |leaf| {
        if is_number(leaf) {
            let name = members.next().expect("as many as the target needs");
            return name.clone();
        }
        leaf.to_owned()
    })
}

struct Array {
    expression: Expression,
    devices: Vec<String>,
    /// Devices for jobs, the next one last.
    spares: Vec<String>,
    journal: Option<String>,
    /// True if the array is assembled from superblocks at each opening.
    superblocks: bool,
    chunk_bytes: Option<u64>,
    options: OpenOptions,
}

/// Error for operations that need an array with superblocks.
const ON_MEMORY: &str =
    "an array in memory can't be rebuilt or grown, because it has no superblocks: give files";

impl Array {
    /// Assembles the array from these of its devices, and its journal.
    fn assemble(&self, devices: &[String]) -> Result<Box<dyn Target>, String> {
        let all: Vec<_> = devices.iter().chain(&self.journal).cloned().collect();
        let options = AssembleOptions {
            open: self.options.clone(),
            ..AssembleOptions::default()
        };
        arrays::assemble(&all, &options)
    }
}

impl System for Array {
    fn open(&mut self) -> Result<Box<dyn Target>, String> {
        if self.superblocks {
            self.assemble(&self.devices)
        } else {
            arrays::without_superblocks(&self.expression, self.chunk_bytes, &self.options)
        }
    }

    fn open_without_first(&mut self) -> Result<Box<dyn Target>, String> {
        if !self.superblocks {
            return Err(ON_MEMORY.to_owned());
        }
        self.assemble(&self.devices[1..])
    }

    fn replace_first(&mut self, open: &mut dyn Target) -> Result<(), String> {
        let spare = self.spares.last_mut().expect("its jobs were looked at");
        let begun = open.replace(&self.devices[0], spare, Examined::now(spare));
        begun.map_err(|error| error.to_string())?;
        std::mem::swap(&mut self.devices[0], spare);
        Ok(())
    }

    fn open_growing(&mut self) -> Result<Box<dyn Target>, String> {
        if !self.superblocks {
            return Err(ON_MEMORY.to_owned());
        }
        let spare = self.spares.pop().expect("its jobs were looked at");
        let all = self.devices.iter().chain(&self.journal);
        let all: Vec<&str> = all.map(String::as_str).collect();
        let target = grow::begin(&all, &spare, &self.options);
        let target = target.map_err(|error| error.to_string())?;
        self.devices.push(spare);
        Ok(target)
    }

    fn facts(&mut self) -> Result<Option<TargetFacts>, String> {
        facts_of(self.open()?)
    }

    fn export(&mut self, program: &Path) -> Result<Exported, String> {
        if !self.superblocks {
            return Err(
                "an array in memory can't be a block device of the kernel: give files".to_owned(),
            );
        }
        let all: Vec<_> = self.devices.iter().chain(&self.journal).cloned().collect();
        Exported::of_array(&all, &self.options, program)
    }

    fn exported_how(&self) -> &'static str {
        export::served_how()
    }

    fn devices(&self) -> Vec<String> {
        self.devices.clone()
    }
}
