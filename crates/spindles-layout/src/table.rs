//! The map as a table for people: one line per stripe, one column per device.

use crate::level::{Period, Shape};
use crate::{Expression, Geometry, GeometryError, Group, Level, Redundancy, Role, Spec};
use alloc::borrow::ToOwned;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::{self, Write as _};
use spindles_block::{BlockIndex, MemberIndex};

/// The numbering of data chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// Restarts in every stripe: shows the contents of a member in it.
    Stripe,
    /// Continues through the array: shows the path of a sequential read.
    Array,
}

/// The contents of a device in one row of chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell {
    /// A data chunk: `D7`.
    Data(u64),
    /// A further copy of a data chunk: `C7`.
    Copy(u64),
    /// A parity chunk: `P`, `Q`, `R`; in lower case if it belongs to an array within an array with
    /// parity.
    Parity {
        /// 0 for P.
        parity: u8,
        /// True for lower case.
        inner: bool,
    },
    /// Not used by the array.
    Unused,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match *self {
            Self::Data(number) => alloc::format!("D{number}"),
            Self::Copy(number) => alloc::format!("C{number}"),
            Self::Parity { parity, inner } => {
                let text = Role::Parity(parity).to_string();
                if inner { text.to_lowercase() } else { text }
            }
            Self::Unused => "-".to_owned(),
        };
        f.pad(&text)
    }
}

/// The map of a small array. Prints as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// The devices.
    pub columns: Vec<String>,
    /// The cells of each row of chunks, in the order of the columns.
    pub rows: Vec<Vec<Cell>>,
    /// Rows at which another section of the devices begins.
    pub sections: Vec<usize>,
    /// The name of a line of the table.
    pub row_name: &'static str,
}

/// An array with the maps of all arrays in it.
enum Node {
    Device,
    Array(Geometry, Vec<Node>),
}

impl Table {
    /// Creates the map of an array whose devices each have `stripes` rows of chunks; with a far
    /// layout, in every section. Nested arrays always use the numbers of the whole array.
    pub fn new(
        expression: &Expression,
        stripes: u32,
        numbers: Numbers,
    ) -> Result<Self, GeometryError> {
        let sections = sections(expression);
        let rows = u64::from(stripes) * sections;
        // Groups that span several rows are cut off at the end of the table.
        let root = node(expression, rows.next_multiple_of(rows_at_once(expression)))?;
        let Node::Array(geometry, members) = &root else {
            unreachable!("an expression is an array");
        };
        let nested = members
            .iter()
            .any(|member| matches!(member, Node::Array(..)));
        let numbers = if nested { Numbers::Array } else { numbers };
        let cell = |path: &[u8], row| cell(&root, path, row, numbers);
        let paths = paths(&root);
        Ok(Self {
            columns: expression
                .leaves()
                .into_iter()
                .map(ToOwned::to_owned)
                .collect(),
            rows: (0..rows)
                .map(|row| paths.iter().map(|path| cell(path, row)).collect())
                .collect(),
            sections: (1..sections)
                .filter_map(|section| usize::try_from(section * u64::from(stripes)).ok())
                .collect(),
            row_name: match geometry.level().redundancy {
                Redundancy::Copies => "row",
                _ => "stripe",
            },
        })
    }

    /// The clearest numbering: within the stripe if there is parity, otherwise through the array.
    pub fn numbers_default(expression: &Expression) -> Numbers {
        match expression {
            Expression::Array { level, .. }
                if matches!(level.redundancy, Redundancy::Parity(_)) =>
            {
                Numbers::Stripe
            }
            _ => Numbers::Array,
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width_of = |column: usize| {
            let cells = self.rows.iter().map(|row| row[column].to_string().len());
            cells
                .chain([self.columns[column].chars().count()])
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width_of).collect();
        let first = self.row_name.len().max(self.rows.len().to_string().len());
        let line = |f: &mut fmt::Formatter<'_>, head: &str, cells: &[String]| {
            let mut line = alloc::format!("{head:>first$} ");
            for (cell, width) in cells.iter().zip(&widths) {
                write!(line, " {cell:<width$}")?;
            }
            writeln!(f, "{}", line.trim_end())
        };
        line(f, self.row_name, &self.columns)?;
        for (number, row) in self.rows.iter().enumerate() {
            if self.sections.contains(&number) {
                writeln!(f)?;
            }
            let cells: Vec<String> = row.iter().map(ToString::to_string).collect();
            line(f, &number.to_string(), &cells)?;
        }
        Ok(())
    }
}

/// The number of sections that the devices are divided into.
fn sections(expression: &Expression) -> u64 {
    product(expression, &|period, _| period.sections.into())
}

/// The number of rows that a group needs all or none of.
fn rows_at_once(expression: &Expression) -> u64 {
    product(expression, &|period, level| match level.redundancy {
        Redundancy::Copies => period.rows.into(),
        _ => 1,
    })
}

/// The product of `of` along the deepest nest.
fn product(expression: &Expression, of: &dyn Fn(Period, &Level) -> u64) -> u64 {
    let Expression::Array {
        level,
        layout,
        members,
    } = expression.uncut()
    else {
        return 1;
    };
    let layout = layout.unwrap_or_else(|| level.layout_default());
    let period = (layout.row.period)(Shape {
        members: u8::try_from(members.len()).unwrap_or(u8::MAX),
        copies: layout.copies().max(1),
        sections: layout.counts[1],
        first_chunk: 0,
    });
    let inner = members.iter().map(|member| product(member, of)).max();
    of(period, level) * inner.unwrap_or(1)
}

/// In these maps a block is a chunk, and a slice of an array is all of it.
fn node(expression: &Expression, rows: u64) -> Result<Node, GeometryError> {
    let Expression::Array {
        level,
        layout,
        members,
    } = expression.uncut()
    else {
        return Ok(Node::Device);
    };
    let nodes: Result<Vec<Node>, _> = members.iter().map(|member| node(member, rows)).collect();
    let nodes = nodes?;
    let blocks = |node: &Node| match node {
        Node::Device => rows,
        Node::Array(geometry, _) => geometry.blocks(),
    };
    let geometry = Geometry::new(&Spec {
        level,
        layout: *layout,
        chunk_blocks: 1,
        member_blocks: nodes.iter().map(blocks).collect(),
    })?;
    Ok(Node::Array(geometry, nodes))
}

/// The path to each device, from left to right: the member to descend to at each level.
fn paths(node: &Node) -> Vec<Vec<u8>> {
    match node {
        Node::Device => vec![vec![]],
        Node::Array(_, members) => (0..)
            .zip(members)
            .flat_map(|(index, member)| {
                let below = paths(member).into_iter();
                below.map(move |path| [&[index], path.as_slice()].concat())
            })
            .collect(),
    }
}

/// The contents of row `row` of the device at the end of the path.
fn cell(root: &Node, path: &[u8], row: u64, numbers: Numbers) -> Cell {
    match (find(root, path, row), root, numbers) {
        (Found::Unused, ..) => Cell::Unused,
        (Found::Parity { parity, inner }, ..) => Cell::Parity { parity, inner },
        (Found::Block { block, copy }, Node::Array(geometry, _), Numbers::Stripe) => {
            let number = u64::from(geometry.locate(BlockIndex(block)).data_index);
            if copy {
                Cell::Copy(number)
            } else {
                Cell::Data(number)
            }
        }
        (Found::Block { block, copy: true }, ..) => Cell::Copy(block),
        (Found::Block { block, copy: false }, ..) => Cell::Data(block),
    }
}

/// The meaning of a place on a device for the array above it.
enum Found {
    /// This block of the array.
    Block { block: u64, copy: bool },
    /// Parity of the array or of an array in it.
    Parity { parity: u8, inner: bool },
    /// Unused.
    Unused,
}

fn find(node: &Node, path: &[u8], row: u64) -> Found {
    let (Node::Array(geometry, members), [member, path @ ..]) = (node, path) else {
        return Found::Block {
            block: row,
            copy: false,
        };
    };
    let (block, copy) = match find(&members[usize::from(*member)], path, row) {
        Found::Block { block, copy } => (block, copy),
        Found::Parity { parity, inner } => {
            let inner = inner || geometry.parity_chunks() > 0;
            return Found::Parity { parity, inner };
        }
        Found::Unused => return Found::Unused,
    };
    let Some((group_index, slot, _)) = geometry.find(MemberIndex(*member), BlockIndex(block))
    else {
        return Found::Unused;
    };
    let mut group = Group::empty();
    geometry.group_into(group_index, &mut group);
    let block = |data: u8| group.first_block.0 + u64::from(data);
    match group.slots()[usize::from(slot)].role {
        Role::Data(data) => Found::Block {
            block: block(data),
            copy,
        },
        Role::Copy(_) => Found::Block {
            block: block(0),
            copy: true,
        },
        Role::Parity(parity) => Found::Parity {
            parity,
            inner: false,
        },
    }
}
