//! P is the xor of the data, Q the sum of 2^i, R the sum of 4^i times data chunk i. Every square
//! submatrix of these three rows is invertible, since squaring is one-to-one in the field.

use super::Code;
use crate::gf;

pub(super) static CODE: Code = Code {
    name: "pqr",
    summary: "P, Q and R: any three chunks may be missing",
    parity_chunks: 3,
    coefficient: |parity, data| gf::exp(u16::from(parity) * u16::from(data)),
};
