//! Results in the output formats of the original tools, folded.

use spindles_measure::Analysis;

use super::{Body, Section, section};
use crate::legacy::{Block, CAUTION, FORMATS, Format};
use crate::svg::escape;

pub(super) static SECTION: Section = Section {
    name: "legacy",
    title: "As the originals print it",
    body: Body::One(body),
};

fn body(analysis: &Analysis) -> String {
    let formats = FORMATS.iter();
    let formats: String = formats
        .map(|format| printed(format, &(format.blocks)(analysis)))
        .collect();
    if formats.is_empty() {
        return String::new();
    }
    section(SECTION.name, SECTION.title, CAUTION, &formats)
}

fn printed(format: &Format, blocks: &[Block]) -> String {
    if blocks.is_empty() {
        return String::new();
    }
    let printed: String = blocks
        .iter()
        .map(|block| {
            format!(
                "<details><summary>{}</summary><pre class=\"printed\" \
                 tabindex=\"0\">{}</pre></details>",
                escape(&block.of()),
                escape(&block.text),
            )
        })
        .collect();
    format!(
        "<div class=\"legacy\"><h3>{}</h3><p>{}</p>{printed}</div>",
        format.title, format.remark
    )
}
