//! The JSON of `spindles scrub`.

use super::null_or;
#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use spindles_admin::scrub::Finding;
use spindles_engine::{Fate as EngineFate, Flaw as EngineFlaw};

/// What the scrub read, found and repaired.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Scrubbed {
    pub name: String,
    pub uuid: String,
    /// It reached the end.
    pub through: bool,
    pub done_bytes: u64,
    pub total_bytes: u64,
    pub repaired_bytes: u64,
    /// Wrong and not repaired.
    pub left_bytes: u64,
    /// The same of the part before a stop.
    pub left_before_bytes: u64,
    /// Of metadata, or with lost checksums.
    pub metadata_repaired_bytes: u64,
    /// Of metadata, or with lost checksums.
    pub metadata_left_bytes: u64,
    /// Data and redundancy disagree, and it is unknown which is wrong.
    pub disagreement_bytes: u64,
    pub made_to_agree_bytes: u64,
    /// Of the array; they return errors until they are written.
    pub lost_bytes: u64,
    /// Places that too many lost members hide.
    pub not_looked_at: u64,
    /// Where it continued stopped scrubs.
    pub resumed: Vec<Resumed>,
    pub places: Vec<Place>,
}

/// Where a stopped scrub continued.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Resumed {
    pub array: String,
    pub offset_bytes: u64,
}

/// A finding.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Place {
    pub what: What,
    pub array: String,
    /// The device, or the inner array. Absent if lost, or a disagreement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member: Option<String>,
    /// Of metadata: `superblock`, `dirty bitmap`, `checksums`, `journal` (its device's stamp) and
    /// others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub area: Option<String>,
    /// Of metadata: `unreadable` or `rotten`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flaw: Option<What>,
    /// Start on the member; in the array for lost data and disagreements. Absent if out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset_bytes: Option<u64>,
    /// Length; for a disagreement in each chunk. Absent if out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Start of lost data in the array, or null.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "null_or"
    )]
    pub array_offset_bytes: Option<Option<u64>>,
    /// Start of each chunk in the array, for a disagreement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub array_offsets_bytes: Option<Vec<u64>>,
    /// Absent if out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fate: Option<Fate>,
}

/// The kind of a finding.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "lowercase")]
pub(crate) enum What {
    Unreadable,
    Rotten,
    #[serde(rename = "checksum lost")]
    ChecksumLost,
    Metadata,
    Disagreement,
    Lost,
    /// The member went out.
    Out,
}

/// The outcome of a finding.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "lowercase")]
pub(crate) enum Fate {
    Repaired,
    /// The device refuses to write it.
    Refused,
    Left,
    #[serde(rename = "made to agree")]
    MadeToAgree,
}

impl From<EngineFlaw> for What {
    fn from(flaw: EngineFlaw) -> Self {
        match flaw {
            EngineFlaw::Unreadable => Self::Unreadable,
            EngineFlaw::Rotten => Self::Rotten,
            EngineFlaw::ChecksumLost => Self::ChecksumLost,
        }
    }
}

impl From<EngineFate> for Fate {
    fn from(fate: EngineFate) -> Self {
        match fate {
            EngineFate::Repaired => Self::Repaired,
            EngineFate::Refused => Self::Refused,
            EngineFate::Left => Self::Left,
        }
    }
}

impl Place {
    fn new(what: What, array: &str) -> Self {
        Self {
            what,
            array: array.to_owned(),
            member: None,
            area: None,
            flaw: None,
            offset_bytes: None,
            bytes: None,
            array_offset_bytes: None,
            array_offsets_bytes: None,
            fate: None,
        }
    }

    fn at(self, offset_bytes: u64, bytes: u64, fate: Fate) -> Self {
        Self {
            offset_bytes: Some(offset_bytes),
            bytes: Some(bytes),
            fate: Some(fate),
            ..self
        }
    }

    fn of(self, member: &str) -> Self {
        Self {
            member: Some(member.to_owned()),
            ..self
        }
    }

    /// Converts a finding; `None` for the start of a resumed scrub.
    pub(crate) fn from_finding(finding: &Finding) -> Option<Self> {
        Some(match finding {
            Finding::Place {
                array,
                member,
                offset_bytes,
                bytes,
                array_offset_bytes,
                flaw,
                fate,
            } => Self {
                array_offset_bytes: Some(*array_offset_bytes),
                ..Self::new(What::from(*flaw), array).of(member).at(
                    *offset_bytes,
                    *bytes,
                    Fate::from(*fate),
                )
            },
            Finding::Metadata {
                array,
                member,
                area,
                offset_bytes,
                bytes,
                flaw,
                fate,
            } => Self {
                area: Some((*area).to_owned()),
                flaw: Some(What::from(*flaw)),
                ..Self::new(What::Metadata, array).of(member).at(
                    *offset_bytes,
                    *bytes,
                    Fate::from(*fate),
                )
            },
            Finding::Disagreement {
                array,
                offset_bytes,
                bytes,
                chunks,
                chunk_bytes,
                made_to_agree,
            } => {
                let fate = if *made_to_agree {
                    Fate::MadeToAgree
                } else {
                    Fate::Left
                };
                Self {
                    array_offsets_bytes: Some(offsets(*offset_bytes, *chunks, *chunk_bytes)),
                    ..Self::new(What::Disagreement, array).at(*offset_bytes, *bytes, fate)
                }
            }
            Finding::Lost {
                array,
                offset_bytes,
                bytes,
            } => Self::new(What::Lost, array).at(*offset_bytes, *bytes, Fate::Left),
            Finding::Out { array, member } => Self::new(What::Out, array).of(member),
            Finding::Resumed { .. } => return None,
        })
    }
}

/// Returns the offsets of a stripe's chunks in the array.
pub(crate) fn offsets(offset_bytes: u64, chunks: u8, chunk_bytes: u64) -> Vec<u64> {
    let chunks = 0..u64::from(chunks);
    chunks
        .map(|chunk| offset_bytes + chunk * chunk_bytes)
        .collect()
}
