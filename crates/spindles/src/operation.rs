//! Operations on arrays as values. A command line becomes one operation. This process performs it,
//! or the server that has the array open, which gets absolute names of devices.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use spindles_admin::write_back::WriteBack;
use spindles_layout::{Expression, ExpressionError};

/// An operation on an array.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "name", rename_all = "kebab-case")]
pub(crate) enum Operation {
    Add(Add),
    ClearErrors(ClearErrors),
    Devices(Devices),
    Fail(Fail),
    Grow(Grow),
    GrowAbort(GrowAbort),
    JournalAdd(JournalAdd),
    JournalRemove(JournalRemove),
    Rebuild(Rebuild),
    Remove(Remove),
    Rename(Rename),
    Replace(Replace),
    Resync(Resync),
    Scrub(Scrub),
    Set(Set),
    SpareAdd(SpareAdd),
    SpareRemove(SpareRemove),
    Status(Status),
    Stop(Stop),
    TraceRecord(TraceRecord),
}

/// Adds a device: a member that returned, a new one, or a spare.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Add {
    pub device: String,
    pub member: Option<u8>,
    #[serde(default)]
    pub force: bool,
    #[serde(default)]
    pub degraded: bool,
    pub job_rate: Option<u64>,
}

/// Resets the error counters of a device, or of all members.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ClearErrors {
    pub device: Option<String>,
    /// How the user calls the device or the array.
    pub called: String,
}

/// Takes a member out, given by its device or its position.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Fail {
    pub device: Option<String>,
    pub member: Option<u8>,
    pub degraded: bool,
}

/// Adds members, changes the shape, or uses the room of the members.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Grow {
    pub add: Vec<String>,
    pub chunk_bytes: Option<u64>,
    pub level: Option<String>,
    pub layout: Option<String>,
    pub size: Option<Size>,
    pub force: bool,
    pub degraded: bool,
}

/// Gives the array a journal device.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct JournalAdd {
    pub device: String,
    #[serde(default)]
    pub force: bool,
    #[serde(default)]
    pub degraded: bool,
}

/// Moves the journal back to the members.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub(crate) struct JournalRemove {
    pub degraded: bool,
}

/// Fills a new device in place of a missing member.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Rebuild {
    pub onto: Option<Onto>,
    pub member: Option<u8>,
    pub force: bool,
    pub degraded: bool,
    pub job_rate: Option<u64>,
}

/// Releases a member that is out, or a spare.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Remove {
    pub device: String,
}

/// Renames the array.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Rename {
    pub to: String,
}

/// Copies a member onto a device that takes its place.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Replace {
    pub old: String,
    pub onto: String,
    #[serde(default)]
    pub force: bool,
    #[serde(default)]
    pub degraded: bool,
    pub job_rate: Option<u64>,
}

/// Makes redundancy agree with the data.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Resync {
    pub force: bool,
    pub degraded: bool,
    pub job_rate: Option<u64>,
}

/// Reads and compares everything, and repairs it unless `check`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "options of an operation")]
pub(crate) struct Scrub {
    pub restart: bool,
    pub check: bool,
    pub trust_data: bool,
    pub force: bool,
    pub degraded: bool,
    pub job_rate: Option<u64>,
}

/// Changes settings, or shows them.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Set {
    pub degraded_writes: Option<bool>,
    pub write_back: Option<WriteBackMode>,
    pub write_back_size_bytes: Option<u64>,
    pub degraded: bool,
}

/// The small writes that an array answers from its stage.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize, ValueEnum)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(crate) enum WriteBackMode {
    /// No write, and no stage
    Off,
    /// All small writes
    On,
    /// The small writes that gain from it
    Auto,
}

impl From<WriteBackMode> for WriteBack {
    fn from(mode: WriteBackMode) -> Self {
        match mode {
            WriteBackMode::Off => Self::Off,
            WriteBackMode::On => Self::On,
            WriteBackMode::Auto => Self::Auto,
        }
    }
}

/// Makes devices spares of the array, or shared spares.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct SpareAdd {
    pub devices: Vec<String>,
    #[serde(default)]
    pub shared: bool,
    #[serde(default)]
    pub force: bool,
}

/// Makes plain devices of spares of the array.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct SpareRemove {
    pub devices: Vec<String>,
}

/// Stops serving the array.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Stop {
    pub force: bool,
    pub place: bool,
}

/// Records what the array is asked.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct TraceRecord {
    pub seconds: u64,
}

/// Shows the state.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Status {}

/// Cancels a growth that has moved nothing.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct GrowAbort {}

/// Lists the devices of the array.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Devices {}

/// What takes the place of a missing member.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Onto {
    /// An expression such as `raid0(DEV,DEV)`.
    Array(String),
    Device(String),
}

impl From<&Expression> for Onto {
    fn from(expression: &Expression) -> Self {
        match expression {
            Expression::Leaf(device) => Self::Device(device.clone()),
            Expression::Array { .. } | Expression::Slice { .. } => {
                Self::Array(expression.to_string())
            }
        }
    }
}

impl Onto {
    pub(crate) fn expression(&self) -> Result<Expression, ExpressionError> {
        match self {
            Self::Array(text) => Expression::parse(text),
            Self::Device(device) => Ok(Expression::Leaf(device.clone())),
        }
    }
}

/// A new size of an array.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Size {
    /// All the room that the members have.
    Max,
    Bytes(u64),
}

impl Operation {
    /// Returns the devices that it names, in any role.
    pub(crate) fn devices(&self) -> Vec<String> {
        match self {
            Self::Add(Add { device, .. })
            | Self::JournalAdd(JournalAdd { device, .. })
            | Self::Remove(Remove { device }) => vec![device.clone()],
            Self::ClearErrors(ClearErrors { device, .. }) | Self::Fail(Fail { device, .. }) => {
                device.iter().cloned().collect()
            }
            Self::Replace(Replace { old, onto, .. }) => vec![old.clone(), onto.clone()],
            Self::Rebuild(Rebuild { onto, .. }) => {
                let onto = onto.as_ref().map(Onto::expression);
                let onto = onto.and_then(Result::ok);
                let devices = onto.as_ref().map_or_else(Vec::new, Expression::leaves);
                devices.into_iter().map(str::to_owned).collect()
            }
            Self::Grow(Grow { add: devices, .. })
            | Self::SpareAdd(SpareAdd { devices, .. })
            | Self::SpareRemove(SpareRemove { devices }) => devices.clone(),
            Self::Devices(_)
            | Self::GrowAbort(_)
            | Self::JournalRemove(_)
            | Self::Rename(_)
            | Self::Resync(_)
            | Self::Scrub(_)
            | Self::Set(_)
            | Self::Status(_)
            | Self::Stop(_)
            | Self::TraceRecord(_) => Vec::new(),
        }
    }

    /// Returns true if a server performs it on an array that has failed.
    pub(crate) const fn is_for_failed(&self) -> bool {
        matches!(
            self,
            Self::ClearErrors(_) | Self::Devices(_) | Self::Status(_) | Self::Stop(_)
        )
    }

    /// Returns true if a server performs it on an array that is served for reading only.
    pub(crate) const fn is_for_read_only(&self) -> bool {
        self.is_for_failed()
            || matches!(
                self,
                Self::Resync(_) | Self::Scrub(_) | Self::TraceRecord(_)
            )
    }

    /// Returns true if it only shows the array.
    pub(crate) const fn only_shows(&self) -> bool {
        matches!(self, Self::Devices(_) | Self::Status(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn operations_are_documented() {
        let schema = include_str!("../../../docs/reference/json.schema.json");
        let schema: serde_json::Value = serde_json::from_str(schema).expect("it is JSON");
        let documented = schema["$defs"]["operation"]["oneOf"].to_string();
        let unknown = serde_json::from_value::<Operation>(json!({ "name": "unknown" }));
        let error = unknown.expect_err("it is unknown").to_string();
        let names: Vec<&str> = error.split('`').skip(3).step_by(2).collect();
        assert!(names.len() > 15, "{error}");
        for name in names {
            let tag = format!("\"const\":\"{name}\"");
            assert!(documented.contains(&tag), "{name}");
        }
    }

    #[test]
    fn devices_include_those_of_new_arrays() {
        let rebuild = json!({ "name": "rebuild", "onto": { "array": "raid0(/d,\"/e,f\")" } });
        let rebuild: Operation = serde_json::from_value(rebuild).expect("it is one");
        assert_eq!(rebuild.devices(), ["/d", "/e,f"]);
    }
}
