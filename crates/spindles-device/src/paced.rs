//! Operations of a file or device, each answered no sooner than a modelled disk answers it.

use crate::IoChoice;
use crate::at_rest::AtRest;
use crate::buffers::Memory;
use crate::later::{Job, Later};
use crate::queues::{self, Queue, Readiness, Wait};
use crate::transfer::{FileIndex, Tag, Transfer};
use spindles_block::{self as block, MemberResult};
use spindles_model::{Answer, DeviceId, Draw, Fault, Parameters, Work, World};
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::time::{Duration, Instant};

/// Time between two looks at an operation that the device has not done when its model has.
const LATE_PAUSE: Duration = Duration::from_micros(50);

/// The progress of an operation: device and model do it side by side.
#[derive(Clone, Copy, Debug)]
enum Progress {
    Begun,
    /// The model has answered.
    Due,
    /// The device has carried out the operation, with this result.
    Carried(MemberResult),
}

/// A file or device at the pace of a modelled disk.
#[derive(Debug)]
pub(crate) struct Paced {
    io: IoChoice,
    /// `None` once the queue has it.
    file: Option<OwnedFd>,
    /// Carries the operations. Its end waits for those in the kernel.
    queue: Option<(Box<dyn Queue>, FileIndex)>,
    world: World,
    disk: DeviceId,
    /// Where the part in use begins in the file; the disk begins there too.
    start_bytes: u64,
    began: Instant,
    answers: Vec<Answer>,
    /// By tag.
    progress: Vec<Progress>,
    done: VecDeque<(Tag, MemberResult)>,
    /// Operations that the model has answered and the device has not done.
    overdue: usize,
    in_flight: usize,
    late: u64,
}

impl Paced {
    /// Gives a file the pace of a disk with these parameters.
    pub(crate) fn new(
        parameters: &Parameters,
        draw: &Draw,
        file: OwnedFd,
        start_bytes: u64,
        io: IoChoice,
    ) -> Result<Self, Fault> {
        let mut world = World::new();
        let disk = world.add_disk(parameters, draw, &[])?;
        Ok(Self {
            io,
            file: Some(file),
            queue: None,
            world,
            disk,
            start_bytes,
            began: Instant::now(),
            answers: Vec::new(),
            progress: Vec::new(),
            done: VecDeque::new(),
            overdue: 0,
            in_flight: 0,
            late: 0,
        })
    }

    /// Returns the size of the modelled disk.
    pub(crate) fn model_bytes(&self) -> u64 {
        self.world.capacity_bytes(self.disk)
    }

    fn now(&self) -> block::Instant {
        let ns = self.began.elapsed().as_nanos();
        block::Instant(u64::try_from(ns).expect("centuries of nanoseconds"))
    }

    fn progress(&mut self, Tag(tag): Tag) -> &mut Progress {
        let index = usize::try_from(tag).expect("tags are small");
        if self.progress.len() <= index {
            self.progress.resize(index + 1, Progress::Begun);
        }
        &mut self.progress[index]
    }

    fn finish(&mut self, tag: Tag, result: MemberResult) {
        self.done.push_back((tag, result));
    }

    /// Takes note that the model has answered.
    fn answered(&mut self, tag: Tag) {
        match *self.progress(tag) {
            Progress::Carried(result) => self.finish(tag, result),
            Progress::Begun => {
                *self.progress(tag) = Progress::Due;
                self.overdue += 1;
            }
            Progress::Due => panic!("the model answers once"),
        }
    }

    /// Takes note that the device has done an operation.
    fn carried(&mut self, tag: Tag, result: MemberResult) {
        match *self.progress(tag) {
            Progress::Begun => *self.progress(tag) = Progress::Carried(result),
            Progress::Due => {
                self.overdue -= 1;
                self.late += 1;
                self.finish(tag, result);
            }
            Progress::Carried(_) => panic!("the device does it once"),
        }
    }
}

impl Later for Paced {
    fn prepare(&mut self, zeros: Memory) -> io::Result<()> {
        let chosen = queues::open(self.io, zeros).map_err(io::Error::other)?;
        let mut queue = chosen.queue;
        let file = queue.add_file(self.file.take().expect("prepared once"))?;
        self.queue = Some((queue, file));
        Ok(())
    }

    fn cut(&mut self, _start_bytes: u64) {}

    fn start(&mut self, job: Job) {
        let work = Work {
            operation: job.operation,
            offset_bytes: job.offset_bytes.saturating_sub(self.start_bytes),
            length_bytes: job.bytes,
        };
        *self.progress(job.tag) = Progress::Begun;
        let now = self.now();
        let Tag(tag) = job.tag;
        (self.world).submit(now, self.disk, spindles_model::Tag(tag), work);
        self.in_flight += 1;
        let (queue, file) = self.queue.as_mut().expect("prepared");
        let (offset, bytes) = (job.offset_bytes, job.bytes);
        let transfer = Transfer::new(job.tag, *file, job.operation, offset, bytes, job.memory);
        queue.start(transfer.with_pieces(job.pieces));
    }

    fn advance(&mut self) {
        if self.in_flight == 0 {
            return;
        }
        let (queue, _) = self.queue.as_mut().expect("prepared");
        queue.turn(Wait::No);
        while let Some((tag, result)) = self.queue.as_mut().and_then(|(queue, _)| queue.next_done())
        {
            self.carried(tag, result);
        }
        let mut answers = std::mem::take(&mut self.answers);
        self.world.advance(self.now(), &mut answers);
        for answer in answers.drain(..) {
            self.answered(Tag(answer.tag.0));
        }
        self.answers = answers;
    }

    fn next_watch(&mut self, _place: usize) -> Option<(RawFd, Readiness)> {
        None
    }

    fn ready(&mut self, _place: usize) {}

    fn next_done(&mut self) -> Option<(Tag, MemberResult)> {
        let done = self.done.pop_front()?;
        self.in_flight -= 1;
        Some(done)
    }

    fn has_done(&self) -> bool {
        !self.done.is_empty()
    }

    fn wake_at(&self) -> Option<Instant> {
        let late = (self.overdue > 0).then(|| Instant::now() + LATE_PAUSE);
        let due = self.world.next_event();
        let due = due.map(|at| self.began + Duration::from_nanos(at.0));
        late.into_iter().chain(due).min()
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn late(&self) -> u64 {
        self.late
    }

    fn restart_threads(&mut self) -> io::Result<()> {
        let queue = self.queue.as_mut();
        queue.map_or(Ok(()), |(queue, _)| queue.restart_threads())
    }

    fn end(&mut self) {
        if let Some((queue, file)) = &mut self.queue {
            queue.remove_file(*file);
        }
    }

    fn at_rest(self: Box<Self>) -> Box<dyn AtRest> {
        Box::new(File::from(self.file.expect("not prepared")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffers::Region;
    use spindles_block::{BufferId, Operation};
    use spindles_model::parse_preset;
    use std::ptr::NonNull;

    fn paced(latency_ms: u32, io: IoChoice) -> Paced {
        let text = format!(
            "name = \"test\"\nkind = \"fixed\"\n\
             sectors = {{ value = 2048, how = \"stated\", source = \"test\" }}\n\
             read_rate_mb_s = {{ value = 1000, how = \"stated\", source = \"test\" }}\n\
             read_latency_ms = {{ value = {latency_ms}, how = \"stated\", source = \"test\" }}\n\
             write_latency_ms = {{ value = {latency_ms}, how = \"stated\", source = \"test\" }}\n"
        );
        let parameters = parse_preset("test.toml", &text).unwrap();
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 20).unwrap();
        Paced::new(&parameters, &Draw::exact(), file.into(), 4096, io).unwrap()
    }

    /// Carries out an operation, and returns how long it took.
    fn carry(paced: &mut Paced, operation: Operation, memory: Memory) -> Duration {
        let began = Instant::now();
        paced.start(Job {
            tag: Tag(5),
            operation,
            offset_bytes: 8192,
            bytes: 4096,
            memory,
            pieces: None,
        });
        loop {
            paced.advance();
            if let Some(done) = paced.next_done() {
                assert_eq!(done, (Tag(5), Ok(())));
                return began.elapsed();
            }
            let at = paced.wake_at().expect("something is in flight");
            std::thread::sleep(at.saturating_duration_since(Instant::now()));
        }
    }

    #[test]
    fn an_operation_takes_at_least_as_long_as_its_model() {
        for io in [IoChoice::Auto, IoChoice::Threads] {
            let mut region = Region::new(8192).unwrap();
            region.bytes_mut()[..4096].fill(7);
            let memory = |at: usize| Memory {
                start: NonNull::from(&region.bytes()[at]),
                buffer: BufferId(1),
            };
            let mut paced = paced(5, io);
            paced.prepare(Memory::NONE).unwrap();
            let write = Operation::Write { fua: false };
            let took = carry(&mut paced, write, memory(0));
            assert!(took >= Duration::from_millis(5), "{took:?}");
            let took = carry(&mut paced, Operation::Read, memory(4096));
            assert!(took >= Duration::from_millis(5), "{took:?}");
            assert_eq!((paced.in_flight(), paced.wake_at()), (0, None));
            drop(paced);
            assert_eq!(region.bytes()[4096..], [7; 4096], "the device has it");
        }
    }

    #[test]
    fn operations_that_the_device_does_too_late_are_counted() {
        let mut paced = paced(5, IoChoice::Threads);
        for (tag, is_late) in [(Tag(3), false), (Tag(0), true), (Tag(3), true)] {
            *paced.progress(tag) = Progress::Begun;
            let late = paced.late();
            if is_late {
                paced.answered(tag);
                assert!(!paced.has_done() && paced.wake_at().is_some());
                paced.carried(tag, Ok(()));
            } else {
                paced.carried(tag, Ok(()));
                assert!(!paced.has_done(), "the model has not answered");
                paced.answered(tag);
            }
            paced.in_flight = 1;
            assert_eq!(paced.next_done(), Some((tag, Ok(()))));
            assert_eq!(paced.late() - late, u64::from(is_late));
        }
    }
}
