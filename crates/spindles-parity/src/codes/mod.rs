//! The codes: each is a file and a row of the table.

mod copies;
mod pq;
mod pqr;
mod xor;

/// A linear code: parity chunk p is the sum of `coefficient(p, i) * data chunk i`. Any
/// `data_chunks` chunks of a group determine the remaining chunks.
#[derive(Debug)]
pub struct Code {
    /// The name in tables and on the command line.
    pub name: &'static str,
    /// A one-line description.
    pub summary: &'static str,
    /// The number of parity chunks of a group.
    pub parity_chunks: u8,
    /// The factor of data chunk `i` in parity chunk `p`: `coefficient(p, i)`.
    pub coefficient: fn(u8, u8) -> u8,
}

/// The codes, ordered by number of parity chunks: row n has n parity chunks.
pub static CODES: &[&Code] = &[&copies::CODE, &xor::CODE, &pq::CODE, &pqr::CODE];

/// Returns the code with this many parity chunks. Panics if the table lacks such a code.
pub fn by_parity_chunks(parity_chunks: u8) -> &'static Code {
    CODES
        .iter()
        .find(|code| code.parity_chunks == parity_chunks)
        .unwrap_or_else(|| panic!("no code with {parity_chunks} parity chunks"))
}
