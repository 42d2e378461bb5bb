//! The drive's buffer: segments of sectors in a row.

/// The use of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Read,
    Write,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub(crate) first: u64,
    /// One past the last sector; equal to `first` if the segment is empty.
    pub(crate) end: u64,
    pub(crate) holds: Use,
    /// Writes of it that are not on the medium.
    pub(crate) dirty: u32,
    /// Grows with each use.
    stamp: u64,
}

#[derive(Debug)]
pub(crate) struct Buffer {
    pub(crate) segments: Vec<Segment>,
    pub(crate) segment_sectors: u64,
    write_segments: usize,
    /// Segment 0 is kept for writes.
    separate: bool,
    stamp: u64,
}

impl Buffer {
    pub(crate) fn new(
        segments: usize,
        segment_sectors: u64,
        write_segments: usize,
        separate: bool,
    ) -> Self {
        let empty = Segment {
            first: 0,
            end: 0,
            holds: Use::Read,
            dirty: 0,
            stamp: 0,
        };
        let mut buffer = Self {
            segments: vec![empty; segments],
            segment_sectors,
            write_segments: write_segments.clamp(1, segments),
            separate: separate && segments > 1,
            stamp: 0,
        };
        if buffer.separate {
            buffer.segments[0].holds = Use::Write;
        }
        buffer
    }

    pub(crate) fn touch(&mut self, index: usize) {
        self.stamp += 1;
        self.segments[index].stamp = self.stamp;
    }

    /// The segment that holds `sector`, and as much as possible after it.
    pub(crate) fn find(&self, sector: u64, with_written: bool) -> Option<usize> {
        let holds = |segment: &Segment| {
            segment.first <= sector
                && sector < segment.end
                && (with_written || segment.holds == Use::Read)
        };
        let indices = 0..self.segments.len();
        indices
            .filter(|index| holds(&self.segments[*index]))
            .max_by_key(|index| self.segments[*index].end)
    }

    /// The write segment that a write at `sector` continues.
    pub(crate) fn appended(&self, sector: u64) -> Option<usize> {
        self.segments.iter().position(|segment| {
            segment.holds == Use::Write && segment.end == sector && segment.first < segment.end
        })
    }

    /// The segment to reuse for a read; `None` if all hold writes that are not on the medium.
    pub(crate) fn take_for_read(&mut self) -> Option<usize> {
        let indices = usize::from(self.separate)..self.segments.len();
        let index = self.oldest_clean(indices, |_| true)?;
        self.segments[index].holds = Use::Read;
        Some(index)
    }

    /// The segment to reuse for a write; `None` if all that may hold writes are dirty.
    pub(crate) fn take_for_write(&mut self) -> Option<usize> {
        let writes = |segment: &&Segment| segment.holds == Use::Write;
        let count = self.segments.iter().filter(writes).count();
        let indices = 0..self.segments.len();
        let index = if count < self.write_segments {
            self.oldest_clean(indices, |_| true)?
        } else {
            self.oldest_clean(indices, |segment| segment.holds == Use::Write)?
        };
        self.segments[index].holds = Use::Write;
        Some(index)
    }

    fn oldest_clean(
        &self,
        indices: std::ops::Range<usize>,
        fits: impl Fn(&Segment) -> bool,
    ) -> Option<usize> {
        indices
            .filter(|index| self.segments[*index].dirty == 0 && fits(&self.segments[*index]))
            .min_by_key(|index| self.segments[*index].stamp)
    }

    /// Fills a segment with sectors `first` to `end`, the last of them if they are too many.
    pub(crate) fn fill(&mut self, index: usize, first: u64, end: u64) {
        let segment = &mut self.segments[index];
        segment.first = first.max(end.saturating_sub(self.segment_sectors));
        segment.end = end;
    }

    /// Drops older copies of sectors that are written.
    pub(crate) fn forget(&mut self, first: u64, end: u64, but: Option<usize>) {
        for (index, segment) in self.segments.iter_mut().enumerate() {
            if but != Some(index) && segment.first < end && first < segment.end {
                if segment.first < first {
                    segment.end = first;
                } else {
                    segment.end = segment.first;
                }
            }
        }
    }

    pub(crate) fn is_dirty(&self) -> bool {
        self.segments.iter().any(|segment| segment.dirty > 0)
    }
}
