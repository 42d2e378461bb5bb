//! An array expression: a fresh array with superblocks on files and devices, without on memory.

use super::device::named;
use super::{Kind, Needs, Site, System};
use crate::arrays;
use spindles_io::{OpenOptions, Target};
use spindles_layout::Expression;

pub(super) static KIND: Kind = Kind {
    name: "array",
    syntax: "LEVEL(COUNT) or LEVEL(DEV,DEV,..)",
    summary: "a fresh array of that many members, or of these devices: raid5(4), raid1(mem:1G,x)",
    exists: false,
    claims: |text| text.contains('('),
    needs: |text| {
        let expression = parse(text)?;
        let leaves = expression.leaves();
        let named_leaves: Vec<&str> = leaves
            .iter()
            .copied()
            .filter(|leaf| !is_number(leaf))
            .collect();
        Ok(Needs {
            members: leaves.len() - named_leaves.len(),
            named: named(&named_leaves),
        })
    },
    prepare,
};

fn parse(text: &str) -> Result<Expression, String> {
    Expression::parse_counted(text).map_err(|error| error.to_string())
}

fn is_number(leaf: &str) -> bool {
    leaf.bytes().all(|byte| byte.is_ascii_digit())
}

fn prepare(text: &str, site: &Site<'_>) -> Result<Box<dyn System>, String> {
    let mut members = site.members.iter();
    let expression = filled_in(&parse(text)?, &mut members);
    let devices: Vec<String> = expression.leaves().iter().map(|&d| d.to_owned()).collect();
    let superblocks = named(&expression.leaves()).len() == devices.len();
    if superblocks {
        arrays::create(&expression, site)?;
    }
    Ok(Box::new(Array {
        expression,
        devices,
        superblocks,
        chunk_bytes: site.chunk_bytes,
        options: site.open.clone(),
    }))
}

/// The expression with the experiment's members in place of numbers.
fn filled_in<'a>(
    expression: &Expression,
    members: &mut impl Iterator<Item = &'a String>,
) -> Expression {
    match expression {
        Expression::Leaf(leaf) if is_number(leaf) => {
            let name = members.next().expect("as many as the target needs");
            Expression::Leaf(name.clone())
        }
        Expression::Leaf(leaf) => Expression::Leaf(leaf.clone()),
        Expression::Array {
            level,
            layout,
            members: inner,
        } => Expression::Array {
            level,
            layout: *layout,
            members: inner.iter().map(|one| filled_in(one, members)).collect(),
        },
    }
}

struct Array {
    expression: Expression,
    devices: Vec<String>,
    /// Whether it is assembled from superblocks at each opening.
    superblocks: bool,
    chunk_bytes: Option<u64>,
    options: OpenOptions,
}

impl System for Array {
    fn open(&mut self) -> Result<Box<dyn Target>, String> {
        if self.superblocks {
            arrays::assemble(&self.devices, &self.options)
        } else {
            arrays::without_superblocks(&self.expression, self.chunk_bytes, &self.options)
        }
    }

    fn open_without_first(&mut self) -> Result<Box<dyn Target>, String> {
        if !self.superblocks {
            return Err(
                "an array on memory has no superblocks to rebuild by: give files".to_owned(),
            );
        }
        arrays::assemble(&self.devices[1..], &self.options)
    }

    fn devices(&self) -> Vec<String> {
        self.devices.clone()
    }
}
