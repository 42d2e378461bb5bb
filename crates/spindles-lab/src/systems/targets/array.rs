//! An array expression: a fresh array, with superblocks on files and devices, plain on memory, or
//! if nothing fills it.

use super::Opener;
use super::device::named;
use super::plain::Plain;
use super::raw::facts_of;
use super::site::Site;
use super::system::{Needs, System};
use crate::experiment::systems::kinds::{ARRAY, is_number, parse};
use crate::systems::arrays;
use crate::systems::export::{self, Exported};
use spindles_admin::assemble::AssembleOptions;
use spindles_admin::grow;
use spindles_admin::plain::PlainOptions;
use spindles_array::Target;
use spindles_device::{Examined, TargetFacts};
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
    let expression = parse(text)?.with_leaves(&mut |leaf| {
        let member = is_number(leaf).then(|| members.next().expect("as many as it needs"));
        member.map_or_else(|| leaf.to_owned(), String::clone)
    });
    let devices: Vec<String> = expression.leaves().iter().map(|&d| d.to_owned()).collect();
    if site.is_plain || named(&expression.leaves()).len() < devices.len() {
        return Ok(Box::new(Plain {
            expression,
            options: PlainOptions {
                open: site.open.clone(),
                engine: site.engine,
                chunk_bytes: site.chunk_bytes,
                ..PlainOptions::default()
            },
        }));
    }
    arrays::create(&expression, site)?;
    Ok(Box::new(Array {
        devices,
        spares: members.cloned().collect(),
        journal: site.journal.map(str::to_owned),
        options: AssembleOptions {
            open: site.open.clone(),
            engine: site.engine,
            ..AssembleOptions::default()
        },
    }))
}

/// An array that is assembled from superblocks at each opening.
struct Array {
    devices: Vec<String>,
    /// Devices for jobs, the next one last.
    spares: Vec<String>,
    journal: Option<String>,
    options: AssembleOptions,
}

impl Array {
    /// Assembles the array from these of its devices, and its journal.
    fn assemble(&self, devices: &[String]) -> Result<Box<dyn Target>, String> {
        let all: Vec<_> = devices.iter().chain(&self.journal).cloned().collect();
        arrays::assemble(&all, &self.options)
    }
}

impl System for Array {
    fn open(&mut self) -> Result<Box<dyn Target>, String> {
        self.assemble(&self.devices)
    }

    fn open_without_first(&mut self) -> Result<Box<dyn Target>, String> {
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
