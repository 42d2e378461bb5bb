//! The codes. Each is a file and a row of the table.

mod copies;
mod pq;
mod pqr;
mod xor;

/// A linear code: parity chunk p is the sum of `coefficient(p, i) * data chunk i`. Any
/// `data_chunks` of the chunks determine all others.
#[derive(Debug)]
pub struct Code {
    /// As it is written in tables and on the command line.
    pub name: &'static str,
    /// One line for a reader.
    pub summary: &'static str,
    /// How many parity chunks a group has.
    pub parity_chunks: u8,
    /// What data chunk `i` counts in parity chunk `p`: `coefficient(p, i)`.
    pub coefficient: fn(u8, u8) -> u8,
}

/// All codes, by rising number of parity chunks: row n has n.
pub static CODES: &[&Code] = &[&copies::CODE, &xor::CODE, &pq::CODE, &pqr::CODE];

/// The code with that many parity chunks. Panics when there is none.
pub fn by_parity_chunks(parity_chunks: u8) -> &'static Code {
    CODES
        .iter()
        .find(|code| code.parity_chunks == parity_chunks)
        .unwrap_or_else(|| panic!("no code with {parity_chunks} parity chunks"))
}
