//! The recorded runs of two invented experiments, with realistic figures.

use spindles_measure::{Record, from_lines};

/// Requests on block targets, with at most eight repetition blocks.
pub(crate) fn records(blocks: u32) -> Vec<Record> {
    recorded("blocks", blocks)
}

/// Files on two disks, a stripe and a mirror, with at most three repetition blocks: phases, sweeps,
/// timed runs with slots, an open loop, prices and evidence.
pub(crate) fn file_records(blocks: u32) -> Vec<Record> {
    recorded("files", blocks)
}

fn recorded(name: &str, blocks: u32) -> Vec<Record> {
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../spindles-measure/tests/fixtures"
    );
    let text = std::fs::read_to_string(format!("{folder}/{name}.jsonl")).expect("a fixture");
    let next = text.find(&format!("\"repetition_block\":{blocks},"));
    let end = next.and_then(|at| text[..at].rfind('\n'));
    let kept = end.map_or(&*text, |end| &text[..=end]);
    let mut records = from_lines(kept).expect("records");
    let experiment = records[0].experiment_mut().expect("it comes first");
    assert!(
        blocks <= experiment.repetition_blocks,
        "fewer blocks were recorded"
    );
    experiment.repetition_blocks = blocks;
    records
}
