//! P is the xor of the data, Q the sum of 2^i times data chunk i.

use super::Code;
use crate::gf;

pub(super) static CODE: Code = Code {
    name: "pq",
    summary: "P and Q: any two chunks may be missing",
    parity_chunks: 2,
    coefficient: |parity, data| gf::exp(u16::from(parity) * u16::from(data)),
};
