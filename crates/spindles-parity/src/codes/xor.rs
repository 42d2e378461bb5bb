//! P is the xor of the data.

use super::Code;

pub(super) static CODE: Code = Code {
    name: "xor",
    summary: "P: any one chunk may be missing",
    parity_chunks: 1,
    coefficient: |_, _| 1,
};
