//! The client: a process that opens the array through the library and gets killed.

use crate::torture::client::{Client, Draw, Stop};
use crate::torture::disk::job::{Creation, Job, Lacking, Work, exit};
use crate::torture::ledger::{Ledger, Wish};
use crate::torture::library::Library;
use crate::torture::random::Random;
use spindles_admin::assemble::{AssembleError, AssembleOptions, assemble};
use spindles_admin::attach::ChangeError;
use spindles_admin::create::{CreateError, CreateOptions, create};
use spindles_admin::grow::{GrowOptions, grow};
use spindles_admin::scrub::{ScrubError, scrub};
use spindles_array::{Target, await_resync};
use spindles_device::{Direct, IoChoice, OpenOptions, TargetFacts};
use spindles_engine::{Repair, Scrub};
use spindles_layout::Expression;
use std::collections::BTreeSet;

/// Runs the job. Returns the exit code, and describes failures on standard error.
pub(crate) fn serve(job: &Job) -> u8 {
    let done = match &job.work {
        Work::Create(creation) => make(job, creation),
        Work::Ask { .. } | Work::Read { .. } => use_array(job),
        Work::Grow { chunk_bytes } => regrow(job, *chunk_bytes),
        Work::Scrub => compare(job),
    };
    done.unwrap_or_else(|ended| {
        eprintln!("{}", ended.why);
        ended.code
    })
}

/// The reason why a client ended early.
struct Ended {
    why: String,
    code: u8,
}

impl Ended {
    fn finding(why: impl std::fmt::Display) -> Self {
        Self {
            why: why.to_string(),
            code: exit::FINDING,
        }
    }
}

impl From<Stop> for Ended {
    fn from(stop: Stop) -> Self {
        Self::finding(String::from(stop))
    }
}

fn open_options(job: &Job) -> OpenOptions {
    OpenOptions {
        requests_max: job.requests_max,
        io: if job.threads {
            IoChoice::Threads
        } else {
            IoChoice::Uring
        },
        direct: if job.cached {
            Direct::Never
        } else {
            Direct::Auto
        },
        ..OpenOptions::default()
    }
}

fn make(job: &Job, creation: &Creation) -> Result<u8, Ended> {
    let expression = Expression::parse(&creation.expression).map_err(Ended::finding)?;
    let options = CreateOptions {
        block_size: creation.block_size(),
        chunk_bytes: Some(creation.chunk_bytes),
        consistency: creation.policy(),
        checksum: Some(creation.checksum()),
        journal: creation.journal.clone(),
        write_back: creation.stage(),
        open: open_options(job),
        ..CreateOptions::new("box")
    };
    match create(&expression, &options, &mut |_, _| true) {
        Ok(_) => Ok(exit::CLOSED),
        Err(
            error @ (CreateError::TooSmall(_)
            | CreateError::NoJournal { .. }
            | CreateError::Inexact { .. }
            | CreateError::Geometry(_)),
        ) => Err(Ended {
            why: error.to_string(),
            code: exit::IMPOSSIBLE,
        }),
        Err(error) => Err(Ended::finding(error)),
    }
}

fn assemble_options(job: &Job) -> AssembleOptions {
    AssembleOptions {
        open: open_options(job),
        // Members are absent on purpose.
        degraded: true,
        only_recovers: matches!(job.work, Work::Read { settles: false }),
        ..AssembleOptions::default()
    }
}

fn names(job: &Job) -> Vec<&str> {
    job.devices.iter().map(String::as_str).collect()
}

/// Changes the chunk size of the array.
fn regrow(job: &Job, chunk_bytes: u64) -> Result<u8, Ended> {
    let options = |chunk_bytes| GrowOptions {
        assemble: assemble_options(job),
        chunk_bytes,
        ..GrowOptions::default()
    };
    let all = &mut |_, _| true;
    let grown = match grow(&names(job), &options(Some(chunk_bytes)), all) {
        Err(ChangeError::Growing { .. }) => grow(&names(job), &options(None), all),
        grown => grown,
    };
    match grown {
        Ok(grown) if grown.through => Ok(exit::CLOSED),
        Ok(grown) => Err(Ended::finding(format!("it stopped: {grown:?}"))),
        Err(ChangeError::Assemble(AssembleError::CantGrow { reason, .. })) => Err(Ended {
            why: reason.to_string(),
            code: exit::REFUSED,
        }),
        Err(error) => Err(Ended::finding(error)),
    }
}

/// Scrubs an array without errors.
fn compare(job: &Job) -> Result<u8, Ended> {
    let scrub_all = Scrub {
        anew: true,
        repair: Repair::Nothing,
    };
    let mut found = Vec::new();
    let scrubbed = scrub(
        &names(job),
        &assemble_options(job),
        scrub_all,
        &mut |event| found.push(event.clone()),
        &mut |_, _| true,
    );
    match scrubbed {
        Err(ScrubError::NoRedundancy { .. }) => Ok(exit::CLOSED),
        Err(error) => Err(Ended::finding(error)),
        Ok(scrubbed) if !scrubbed.through => Err(Ended::finding("the scrub stopped")),
        Ok(_) if found.is_empty() => Ok(exit::CLOSED),
        Ok(_) => Err(Ended::finding(format!("a scrub finds {found:?}"))),
    }
}

/// The longest request.
const REQUEST_BYTES: u32 = 192 << 10;
/// The most blocks read at once when everything is read.
const READ_BLOCKS: u64 = 48;

/// Arrays with more blocks are not read completely.
const ALL_BLOCKS: u64 = 2048;

fn open(job: &Job) -> Result<Box<dyn Target>, Ended> {
    let assembled = assemble(&names(job), &assemble_options(job)).map_err(|error| Ended {
        why: format!("it does not open: {error}"),
        code: match error {
            AssembleError::UncleanDegraded { .. } => exit::REFUSED,
            _ if job.beyond => exit::REFUSED,
            _ => exit::FINDING,
        },
    })?;
    for device in &assembled.target.facts().devices {
        if device.physical_sector_bytes > job.tear_bytes {
            return Err(Ended::finding(format!(
                "{} is taken for a disk that writes {} bytes at once",
                device.name, device.physical_sector_bytes
            )));
        }
    }
    Ok(assembled.target)
}

fn requests(facts: &TargetFacts, random: &mut Random) -> Draw {
    let longest = facts.request_blocks_max;
    let longest = longest.min(REQUEST_BYTES / facts.block_size.bytes());
    let longest = u64::from(longest).min(facts.blocks);
    let stripe = facts.array.as_ref().and_then(|array| {
        let blocks = u64::from(array.chunk_blocks) * u64::from(array.data_chunks);
        (blocks <= longest).then_some(blocks)
    });
    Draw {
        blocks: facts.blocks,
        longest,
        stripe,
        hot: random.below(facts.blocks),
    }
}

/// Opens the array, sends requests or reads everything, and closes it.
fn use_array(job: &Job) -> Result<u8, Ended> {
    let ledger = Ledger::open(&job.log, job.seed, job.sector_bytes);
    let mut ledger = ledger.map_err(Ended::finding)?;
    ledger.beyond = job.beyond;
    if job.lacking != Lacking::Nothing {
        ledger.lacks();
    }
    let target = open(job)?;
    let mut random = Random::of(job.seed, &format!("client {}", job.life));
    let mut draw = requests(target.facts(), &mut random);
    let sectors_per_block = target.facts().block_size.bytes() / job.sector_bytes;
    ledger.opened(draw.blocks, u64::from(sectors_per_block));
    let mut depth = 1;
    match job.work {
        Work::Ask { depth: most, .. } => depth = most,
        _ => draw.longest = draw.longest.min(READ_BLOCKS),
    }
    let longest = u32::try_from(draw.longest).expect("few");
    let link = Library::new(target, depth, longest);
    let mut client = Client::new(link, &mut ledger);
    match job.work {
        Work::Ask {
            operations,
            scrubs,
            closes,
            ..
        } => {
            if scrubs {
                // If there is redundancy to compare.
                let target = &mut client.link.target;
                target.begin_scrub(Scrub::default()).unwrap_or(());
            }
            client.work(&draw, &mut random, operations, depth)?;
            if !closes {
                // Skip all cleanup.
                std::mem::forget(client);
                return Ok(exit::LEFT);
            }
        }
        _ => read_all(&mut client, &draw, &mut random)?,
    }
    let settles = matches!(job.work, Work::Read { settles: true });
    let settled = !settles || await_resync(client.link.target.as_mut(), &mut |_, _| true);
    if settles && settled {
        client.ledger.settled();
    }
    // The redundancy of a lost block is not repaired.
    if !settled && client.ledger.may_fail.is_empty() {
        return Err(Ended::finding(
            "redundancy does not come to agree with data",
        ));
    }
    let flush = client.ledger.asks(Wish::Flush, 0..0);
    let closed = client.link.target.close().map(|()| &[][..]);
    match client.ledger.answered(flush, closed) {
        Err(why) if !job.beyond => Err(Ended::finding(why)),
        _ => Ok(exit::CLOSED),
    }
}

/// Reads every block, or, of a long array, the written blocks and some others.
fn read_all(
    client: &mut Client<'_, Library>,
    draw: &Draw,
    random: &mut Random,
) -> Result<(), Ended> {
    let all = draw.blocks;
    let mut left: BTreeSet<u64> = if all <= ALL_BLOCKS {
        (0..all).collect()
    } else {
        let others = (0..ALL_BLOCKS / 4).map(|_| random.below(all));
        client.ledger.touched().into_iter().chain(others).collect()
    };
    while let Some(block) = left.pop_first() {
        let most = random.between(1, draw.longest);
        let mut end = block + 1;
        while end < block + most && left.remove(&end) {
            end += 1;
        }
        client.read(block..end)?;
    }
    Ok(())
}
