//! The JSON that commands print: one type for each document. The reference of all fields is
//! generated from these types and their comments, which are written for users.

#![expect(clippy::option_option, reason = "a field may be absent, or null")]

pub(crate) mod array;
pub(crate) mod changes;
pub(crate) mod examine;
#[cfg(test)]
mod schema;
pub(crate) mod scrub;
pub(crate) mod status;
pub(crate) mod tools;

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;
use spindles_admin::scan;

/// A document with the common fields.
#[derive(Debug, Serialize)]
pub(crate) struct Document<'a, T> {
    pub schema: &'a str,
    pub version: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_given: Option<Vec<NotGiven>>,
    #[serde(flatten)]
    pub result: &'a T,
}

/// A device that belongs to an array of the command and was left out.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct NotGiven {
    pub device: String,
    pub array: String,
    pub uuid: String,
    pub role: Role,
    /// The position of a member, or null.
    pub member: Option<u8>,
}

/// What a device is to an array.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "lowercase")]
pub(crate) enum Role {
    Member,
    Journal,
    Spare,
}

impl From<&scan::Forgotten> for NotGiven {
    fn from(forgotten: &scan::Forgotten) -> Self {
        let (role, member) = match forgotten.role {
            scan::Role::Member(member) => (Role::Member, Some(member.0)),
            scan::Role::Journal => (Role::Journal, None),
            scan::Role::Spare => (Role::Spare, None),
        };
        Self {
            device: forgotten.device.clone(),
            array: forgotten.array.clone(),
            uuid: forgotten.uuid.to_string(),
            role,
            member,
        }
    }
}

/// The command failed before its result was printed. Unrepaired places of a scrub are a result.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Error<'a> {
    /// The text on standard error.
    pub error: &'a str,
    /// The exit status.
    pub status: u8,
}

/// The text of `help`, `--help` and `--version`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Help<'a> {
    pub help: &'a str,
}

/// The command on several arrays.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Several {
    /// The document of each array, or `spindles.error`.
    pub arrays: Vec<serde_json::Value>,
}
