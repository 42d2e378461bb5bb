//! The outputs that the driver has not taken yet.

use crate::output::Output;
use alloc::collections::VecDeque;

/// Outputs in order, up to the most that one input can cause.
#[derive(Clone, Debug)]
pub(crate) struct Outbox {
    outputs: VecDeque<Output>,
    most: usize,
}

impl Outbox {
    /// Creates an empty outbox, with room for `most` outputs.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            outputs: VecDeque::with_capacity(most),
            most,
        }
    }

    /// Adds an output. Panics if there is no room: to grow would allocate on the data path. A clone
    /// has to grow once.
    #[inline]
    pub(crate) fn put(&mut self, output: Output) {
        assert!(self.outputs.len() < self.most, "room for outputs");
        self.outputs.push_back(output);
    }

    /// Takes the oldest output.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Returns true if the driver has taken all outputs.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.outputs.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spindles_block::StepId;

    #[test]
    #[should_panic(expected = "room for outputs")]
    fn more_outputs_than_one_input_can_cause_are_refused() {
        let mut outbox = Outbox::new(1);
        outbox.put(Output::Compute(StepId(1)));
        assert_eq!(outbox.take(), Some(Output::Compute(StepId(1))));
        assert!(outbox.is_empty());
        outbox.put(Output::Compute(StepId(2)));
        outbox.put(Output::Compute(StepId(3)));
    }
}
