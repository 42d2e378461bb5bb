//! `spindles layout`: prints the map of an array as a table.

use super::Command;
use crate::documents::tools as documents;
use crate::failure::Usage;
use crate::ui::Ui;
use clap::{ArgMatches, Args, FromArgMatches as _, ValueEnum};
use spindles_admin::configuration::Configuration;
use spindles_admin::create::size_of;
use spindles_block::{BlockSize, SizeBytes};
use spindles_layout::{Expression, LEVELS, Numbers, Redundancy, Slice, Table, chunk_blocks};

pub(crate) static COMMAND: Command = Command {
    name: "layout",
    about: "Show where an array places its data, as a table: D0 D1 D2 P",
    details: "Each line is a stripe, each column a device: D data, C a further copy of the \
              data chunk of that number, - unused. P Q R are parity (p q r: of an array within \
              an array with parity). Reads and writes nothing. The devices need not exist: \
              give their number or their names.\n\n\
              spindles layout 'raid6(5)' --stripes 5\n\
              spindles layout 'raid10:far2(5)'\n\
              spindles layout 'raid5(4)' --layout left-asymmetric --numbers array\n\
              spindles layout 'raid0(raid5(3),raid5(3))'\n\
              spindles layout /etc/raid0.conf --stripes 8",
    hidden: false,
    arguments: |command| {
        let levels = LEVELS.iter().map(|level| {
            let rows = level.layouts.iter().filter(|row| !row.name.is_empty());
            let names: Vec<String> = rows
                .map(|row| level.written(row).replace(' ', ""))
                .collect();
            let layouts = match (names.join(", "), level.redundancy) {
                (names, _) if names.is_empty() => names,
                (names, Redundancy::Copies) => format!("; N copies as {names}"),
                (names, _) => format!("; {names}"),
            };
            format!("\n  {:<7} {}{layouts}", level.name, level.summary)
        });
        let details = format!(
            "{}\n\nLevels:{}",
            COMMAND.details,
            levels.collect::<String>()
        );
        Arguments::augment_args(command).after_help(details)
    },
    run,
};

#[derive(Args)]
struct Arguments {
    /// The array: raid5(4) for four devices, with their names, raid5(a,b,c,d), or the file of its
    /// configuration by another system
    #[arg(value_name = "EXPR|FILE")]
    expression: String,
    /// How many stripes to show; with a far layout, of each section [default: one rotation]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=STRIPES_MAX))]
    stripes: Option<u32>,
    /// How chunks are placed on the members, if the level has a choice
    #[arg(long, value_name = "NAME")]
    layout: Option<String>,
    /// The chunk size, any multiple of the block [default: the level's]
    #[arg(long, value_name = "SIZE")]
    chunk: Option<SizeBytes>,
    /// Number data chunks within each stripe, or through the whole array [default: by the level]
    #[arg(long, value_name = "FROM")]
    numbers: Option<NumbersFrom>,
}

const STRIPES_MAX: i64 = 10_000;

/// What the table of members of unequal size does not show.
const UNEQUAL: &str = "the members differ in size, and the table shows members of one size: it \
    is wrong behind the end of the smallest";

/// Returns true if the sizes of two members are known and differ.
fn differ_in_size(expression: &Expression) -> bool {
    let bytes_of = |leaf: &str| match Slice::parse(leaf) {
        Ok(slice) if Slice::is_text(leaf) => slice.length_bytes.or_else(|| {
            let bytes = size_of(&slice.device).ok()?;
            bytes.checked_sub(slice.start_bytes)
        }),
        _ => size_of(leaf).ok(),
    };
    let mut sizes = expression.leaves().into_iter().filter_map(bytes_of);
    let first = sizes.next();
    sizes.any(|bytes| Some(bytes) != first)
}

#[derive(Clone, Copy, ValueEnum)]
enum NumbersFrom {
    /// Shows what a member holds in the stripe
    Stripe,
    /// Shows where a sequential read goes
    Array,
}

impl Arguments {
    /// Returns the array and what to know of it. The chunk becomes that of a configuration.
    fn array(&mut self) -> anyhow::Result<(Expression, Vec<String>)> {
        let Some(configuration) = Configuration::find(&self.expression)? else {
            let expression = Expression::parse_counted(&self.expression);
            return Ok((expression.map_err(Usage::error)?, Vec::new()));
        };
        let described = configuration.read(None, None)?;
        let array = described.only()?;
        let mut notes = described.notes();
        if differ_in_size(&array.expression) {
            notes.push(UNEQUAL.to_owned());
        }
        self.chunk = self.chunk.or(array.shape.chunk_bytes.map(SizeBytes));
        Ok((array.shape.expression, notes))
    }
}

fn run(matches: &ArgMatches, ui: &Ui) -> anyhow::Result<()> {
    let mut arguments = Arguments::from_arg_matches(matches)?;
    let (mut expression, mut notes) = arguments.array()?;
    if let Some(layout) = &arguments.layout {
        expression = expression.with_layout(layout).map_err(Usage::error)?;
    }
    let Expression::Array {
        level,
        layout,
        members,
    } = &expression
    else {
        unreachable!("expressions are arrays");
    };
    let layout = layout.unwrap_or_else(|| level.layout_default()).to_string();
    let chunk = arguments
        .chunk
        .unwrap_or(SizeBytes(level.chunk_bytes.into()));
    chunk_blocks(chunk.0, BlockSize::B512)
        .map_err(|error| Usage::error(format!("--chunk {}: {error}", chunk.typed())))?;
    let numbers = match arguments.numbers {
        None => Table::numbers_default(&expression),
        Some(NumbersFrom::Stripe) => Numbers::Stripe,
        Some(NumbersFrom::Array) => Numbers::Array,
    };
    let one_rotation = u32::try_from(expression.leaves().len().max(2))?;
    let stripes = arguments.stripes.unwrap_or(one_rotation);
    let table = Table::new(&expression, stripes, numbers).map_err(Usage::error)?;

    let spaced_layout = match layout.as_str() {
        "" => String::new(),
        layout => format!(" {layout}"),
    };
    ui.line(format!(
        "{level}{spaced_layout}: {} members, chunks of {chunk}; holds {}; survives {}\n",
        members.len(),
        level.capacity,
        level.survives,
    ));
    ui.line(table.to_string().trim_end());
    notes.extend(expression.notes().into_iter().map(str::to_owned));
    for note in &notes {
        ui.note(note);
    }
    let rows = table
        .rows
        .iter()
        .map(|row| row.iter().map(ToString::to_string));
    ui.json(&documents::LayoutTable {
        expression: expression.to_string(),
        level: level.name,
        layout,
        members: members.len(),
        chunk_bytes: chunk.0,
        capacity: level.capacity,
        survives: level.survives,
        columns: &table.columns,
        sections: &table.sections,
        rows: rows.map(Iterator::collect).collect(),
        notes,
    });
    Ok(())
}
