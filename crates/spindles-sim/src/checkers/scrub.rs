//! A scrub finds exactly the corrupt blocks.

use super::{Checker, Seen, Stateless};
use spindles_engine::{Event, Finding, Flaw, MetadataFinding};

pub(super) static CHECKER: Checker = Checker {
    name: "scrub",
    about: "a scrub reports exactly the corrupt blocks, durably repairs exactly those that it can \
        locate, and leaves the rest",
    start: || {
        Box::new(Stateless(|scene, seen| match *seen {
            Seen::Scrubbed { scrubbed } => scrubbed.check(scene.stack),
            Seen::MetadataScrubbed { left: [] } => Ok(()),
            Seen::MetadataScrubbed { left } => Err(left.join("; ")),
            Seen::Reported {
                event:
                    event @ Event::MetadataFound(MetadataFinding {
                        member,
                        block,
                        blocks,
                        flaw: Flaw::Rotten,
                        ..
                    }),
            } => {
                if scene.stack.did_rot(*member, *block, *blocks) {
                    Ok(())
                } else {
                    Err(format!("no metadata is corrupt, and it reported {event:?}"))
                }
            }
            Seen::Reported {
                event:
                    Event::Found(Finding {
                        member,
                        block,
                        blocks,
                        flaw: Flaw::Rotten,
                        ..
                    }),
            } if scene.stack.did_rot(*member, *block, *blocks) => Ok(()),
            Seen::Reported {
                event:
                    event @ (Event::Disagreement { .. }
                    | Event::Found(Finding {
                        flaw: Flaw::Rotten, ..
                    })),
            } => Err(format!("nothing is corrupt, and it reported {event:?}")),
            _ => Ok(()),
        }))
    },
};
