//! The dialects from outside: own samples as table rows, samples of other people if they are
//! there, bad input, and texts that are written and read back.

mod bad;
mod map;
mod rows;
mod samples;
mod written;

use spindles_dialects::{DialectError, Source, Translation, named};
use spindles_layout::{Expression, quoted};

/// Reads a text with devices of these sizes in sectors.
fn read(dialect: &str, text: &str, sectors: &[(&str, u64)]) -> Result<Translation, DialectError> {
    let (dialect, flavour) = match dialect.split_once(':') {
        None => (dialect, None),
        Some((dialect, flavour)) => (dialect, Some(flavour)),
    };
    let dialect = named(dialect).expect(dialect);
    dialect.read(&Source {
        text,
        bytes_of: &|name| {
            let known = sectors.iter().find(|(known, _)| *known == name);
            known.map(|(_, sectors)| sectors * 512)
        },
        flavour,
    })
}

/// The text of an expression, with slices as they are typed.
fn text(expression: &Expression) -> String {
    match expression {
        Expression::Leaf(name) if name.starts_with("slice(") => name.clone(),
        Expression::Leaf(name) => quoted(name).into_owned(),
        Expression::Array {
            level,
            layout,
            members,
        } => {
            let layout = layout.map(|layout| format!(":{layout}").replace(' ', ""));
            let members: Vec<_> = members.iter().map(text).collect();
            format!(
                "{}{}({})",
                level.name,
                layout.unwrap_or_default(),
                members.join(",")
            )
        }
    }
}
