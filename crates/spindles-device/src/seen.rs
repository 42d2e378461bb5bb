//! The labels of a device as a command examined it. Another command may write to the device before
//! this one holds it for writing.

use crate::OpenError;
use crate::errors::failed;
use crate::probe::{Edges, Probe};

/// The start and the end of a device, where labels and signatures lie, as it was examined. The
/// default is of a device that was not examined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Examined(Option<Edges>);

impl Examined {
    /// Reads the edges of a device, before it is examined.
    #[must_use]
    pub fn now(device: &str) -> Self {
        let probe = Probe::glance(device);
        Self(probe.and_then(|probe| probe.edges().ok().flatten()))
    }

    /// Checks a device that is held for writing, before the first write.
    ///
    /// # Errors
    ///
    /// Another command has written to the device since it was examined.
    pub fn is_unchanged(self, device: &str) -> Result<(), OpenError> {
        let Some(before) = self.0 else {
            return Ok(());
        };
        let edges = Probe::held(device).and_then(|probe| probe.edges());
        let edges = edges.map_err(|source| failed(device, "read", source))?;
        if edges == Some(before) {
            return Ok(());
        }
        Err(OpenError::ChangedMeanwhile {
            device: device.to_owned(),
        })
    }
}
