//! Copies: one data chunk, no parity. Every chunk of the group is chunk 0.

use super::Code;

pub(super) static CODE: Code = Code {
    name: "copies",
    summary: "the same data on every member",
    parity_chunks: 0,
    coefficient: |_, _| 1,
};
