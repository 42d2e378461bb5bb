//! The JSON that commands print: one type for each document. Operations on a served array return
//! the same types. The reference of all fields is generated from these types and their comments,
//! which are written for users.

#![expect(clippy::option_option, reason = "a field may be absent, or null")]

pub(crate) mod array;
pub(crate) mod changes;
pub(crate) mod examine;
pub(crate) mod models;
#[cfg(test)]
mod schema;
pub(crate) mod scrub;
pub(crate) mod status;
pub(crate) mod tools;
pub(crate) mod traces;

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
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
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
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

/// The devices of an array, for the operation `devices`.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Devices {
    pub devices: Vec<String>,
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

/// Reads a field that may be absent or null: `Some(None)` is null.
fn null_or<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    field: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(field).map(Some)
}

#[cfg(test)]
mod tests {
    use super::{array, scrub, status};
    use serde::Serialize;
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    fn check<T: DeserializeOwned + Serialize>(document: &Value) {
        let read: T = serde_json::from_value(document.clone()).expect("it is one");
        let again = serde_json::to_value(&read).expect("it has strings as keys");
        assert_eq!(again, *document);
    }

    /// A command prints what it reads from the server.
    #[test]
    fn absent_and_null_fields_pass_through_a_client() {
        let member = |filled: Value| {
            let mut member = json!({
                "state": "active", "device": "/srv/a.img", "lagging": false, "lacks_regions": null,
                "counters": null, "no_space_left_bytes": null, "copied_onto": null,
            });
            if filled != json!("absent") {
                member["filled_bytes"] = filled;
            }
            member
        };
        for filled in [json!("absent"), json!(null), json!(4096)] {
            check::<array::Member>(&member(filled));
        }
        let place = json!({ "what": "rotten", "array": "pool", "array_offset_bytes": null });
        check::<scrub::Place>(&place);
        check::<status::ClearedMember>(&json!({ "array": "pool", "member": 1, "device": null }));
        check::<status::ClearedMember>(&json!({ "array": "pool" }));
        check::<array::Journal>(&json!({ "device": null }));
        check::<array::Incident>(&json!({ "array": "pool", "device": null, "out": true }));
        let work = json!({ "what": "scrub", "done_bytes": 1, "total_bytes": 2, "left_s": null });
        check::<status::Task>(&work);
        check::<status::Task>(&json!({
            "array": "pool", "what": "scrub", "done_bytes": 1, "total_bytes": 2,
            "bytes_per_s": null, "left_s": null, "waits_for": null, "failed": 0,
        }));
        let arrays = json!({ "arrays": [], "state": "unknown" });
        check::<status::Arrays>(&arrays);
    }
}
