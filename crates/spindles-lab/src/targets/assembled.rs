//! `array:DEV,DEV,..`: an array that exists, assembled from its superblocks.

use super::{Kind, Needs, System};
use spindles_io::{OpenOptions, Target};

pub(super) static KIND: Kind = Kind {
    name: "assembled",
    syntax: "array:DEV,DEV,..",
    summary: "an existing array, assembled from the superblocks on these devices",
    exists: true,
    claims: |text| text.starts_with("array:"),
    needs: |text| {
        let named = devices(text);
        if named.iter().any(String::is_empty) {
            return Err(format!(
                "{text} lacks a device: write array:DEV,DEV,.. with every device of the array"
            ));
        }
        Ok(Needs { members: 0, named })
    },
    prepare: |text, site| {
        Ok(Box::new(Assembled {
            devices: devices(text),
            options: site.open_as_is(),
        }))
    },
};

fn devices(text: &str) -> Vec<String> {
    let list = text.strip_prefix("array:").unwrap_or(text);
    list.split(',').map(|name| name.trim().to_owned()).collect()
}

struct Assembled {
    devices: Vec<String>,
    options: OpenOptions,
}

impl System for Assembled {
    fn open(&mut self) -> Result<Box<dyn Target>, String> {
        crate::arrays::assemble(&self.devices, &self.options)
    }

    fn devices(&self) -> Vec<String> {
        self.devices.clone()
    }
}
