//! The commands that make, start, take over and end devices. Each is waited for.

#![expect(unsafe_code, reason = "the kernel works on memory by address")]

use super::messages::{
    COMMAND_BYTES, DeviceInfo, INFO_BYTES, NewDevice, Parameters, command, header,
};
use super::operations;
use io_uring::types::Fd;
use io_uring::{IoUring, cqueue, opcode, squeue};
use rustix::io::Errno;
use std::fmt::{self, Debug};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;

const DEVICE: &str = "/dev/ublk-control";
/// Where the kernel names devices.
const NAMED_IN: &str = "/sys/class/ublk-char";

/// The driver.
pub struct Control {
    ring: IoUring<squeue::Entry128, cqueue::Entry>,
    device: File,
}

impl Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Control")
    }
}

impl Control {
    /// The way to the driver.
    ///
    /// # Errors
    ///
    /// `NotFound` where the kernel has no such driver; otherwise as the system says.
    pub fn open() -> io::Result<Self> {
        let device = File::options().read(true).write(true).open(DEVICE)?;
        let ring = IoUring::builder().build(2)?;
        Ok(Self { ring, device })
    }

    /// Waits until no other control is locked, of any process. Unlocked when it is dropped.
    ///
    /// # Errors
    ///
    /// As the system says.
    pub fn lock(&self) -> io::Result<()> {
        self.device.lock()
    }

    /// Lets others go on.
    ///
    /// # Errors
    ///
    /// As the system says.
    pub fn unlock(&self) -> io::Result<()> {
        self.device.unlock()
    }

    /// The numbers of all devices that there are.
    #[must_use]
    pub fn numbers() -> Vec<u32> {
        let names = std::fs::read_dir(NAMED_IN).into_iter().flatten().flatten();
        let names = names.filter_map(|entry| entry.file_name().into_string().ok());
        let numbers = names.filter_map(|name| name.strip_prefix("ublkc")?.parse().ok());
        let mut numbers: Vec<u32> = numbers.collect();
        numbers.sort_unstable();
        numbers
    }

    /// What the driver can do.
    ///
    /// # Errors
    ///
    /// As the driver says; one that is older than Linux 6.5 does not know the question.
    pub fn features(&mut self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.run(operations::FEATURES, None, Some(&mut bytes), 0)?;
        #[expect(
            clippy::host_endian_bytes,
            reason = "the byte order of the driver is the machine's"
        )]
        Ok(u64::from_ne_bytes(bytes))
    }

    /// Makes a device. Nobody can open it yet.
    ///
    /// # Errors
    ///
    /// As the driver says.
    pub fn add(&mut self, device: &NewDevice) -> io::Result<DeviceInfo> {
        let mut bytes = device.encode();
        self.run(operations::ADD, device.number, Some(&mut bytes), 0)?;
        Ok(DeviceInfo::decode(&bytes))
    }

    /// How a device is.
    ///
    /// # Errors
    ///
    /// As the driver says.
    pub fn info(&mut self, number: u32) -> io::Result<DeviceInfo> {
        let mut bytes = [0; INFO_BYTES];
        self.run(operations::INFO, Some(number), Some(&mut bytes), 0)?;
        Ok(DeviceInfo::decode(&bytes))
    }

    /// Says what a device is, before it is started.
    ///
    /// # Errors
    ///
    /// As the driver says.
    pub fn set_parameters(&mut self, number: u32, parameters: &Parameters) -> io::Result<()> {
        let mut bytes = parameters.encode();
        let operation = operations::SET_PARAMETERS;
        self.run(operation, Some(number), Some(&mut bytes), 0)
    }

    /// What a device is to programs.
    ///
    /// # Errors
    ///
    /// As the driver says.
    pub fn parameters(&mut self, number: u32) -> io::Result<Parameters> {
        let mut bytes = header();
        let operation = operations::PARAMETERS;
        self.run(operation, Some(number), Some(&mut bytes), 0)?;
        Parameters::decode(&bytes).ok_or_else(|| Errno::PROTO.into())
    }

    /// Lets programs open a device. All requests of its queue must have been fetched, and somebody must answer them
    /// meanwhile, in the process `server`: the kernel reads the table of partitions.
    ///
    /// # Errors
    ///
    /// As the driver says.
    pub fn start(&mut self, number: u32, server: u32) -> io::Result<()> {
        self.run(operations::START, Some(number), None, server.into())
    }

    /// Begins to take over a device whose server died: its queue may be opened.
    ///
    /// # Errors
    ///
    /// As the driver says: `EBUSY` while the dead process still has it.
    pub fn begin_recovery(&mut self, number: u32) -> io::Result<()> {
        self.run(operations::BEGIN_RECOVERY, Some(number), None, 0)
    }

    /// Ends that: all requests have been fetched, by the process `server`, and those come that were not answered.
    ///
    /// # Errors
    ///
    /// As the driver says.
    pub fn end_recovery(&mut self, number: u32, server: u32) -> io::Result<()> {
        self.run(operations::END_RECOVERY, Some(number), None, server.into())
    }

    /// Ends a device: whoever has it open gets errors. Waits until what is under way is answered; then all tags of its
    /// queue end.
    ///
    /// # Errors
    ///
    /// As the driver says.
    pub fn stop(&mut self, number: u32) -> io::Result<()> {
        self.run(operations::STOP, Some(number), None, 0)
    }

    /// Deletes a device; where somebody has it open, its number is free when that has ended.
    ///
    /// # Errors
    ///
    /// As the driver says.
    pub fn delete(&mut self, number: u32) -> io::Result<()> {
        match self.run(operations::DELETE_LATER, Some(number), None, 0) {
            // Before Linux 6.9: who deletes waits for that end.
            Err(error) if is_unknown(&error) => self.run(operations::DELETE, Some(number), None, 0),
            other => other,
        }
    }

    fn run(
        &mut self,
        operation: u32,
        number: Option<u32>,
        buffer: Option<&mut [u8]>,
        data: u64,
    ) -> io::Result<()> {
        let extent = buffer.map(|buffer| {
            let address = u64::try_from(buffer.as_mut_ptr().expose_provenance());
            let length = u16::try_from(buffer.len());
            (address.expect("64 bits"), length.expect("short"))
        });
        let command: [u8; COMMAND_BYTES] = command(number, extent, data);
        let entry = opcode::UringCmd80::new(Fd(self.device.as_raw_fd()), operation);
        let entry = entry.cmd(command).build();
        // SAFETY: the buffer is borrowed until the command has ended: this returns only then.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.expect("one at a time");
        let result = loop {
            if let Some(done) = { self.ring.completion() }.next() {
                break done.result();
            }
            if let Err(error) = self.ring.submit_and_wait(1) {
                let passing = [Errno::INTR, Errno::AGAIN, Errno::BUSY];
                let passes = passing.map(Errno::raw_os_error).map(Some);
                assert!(
                    passes.contains(&error.raw_os_error()),
                    "io_uring broke: {error}"
                );
            }
        };
        if result < 0 {
            return Err(io::Error::from_raw_os_error(-result));
        }
        Ok(())
    }
}

/// What drivers answer to commands that they don't know: not all of them the same.
fn is_unknown(error: &io::Error) -> bool {
    const NOT_SUPPORTED_INSIDE: i32 = 524;
    let unknown = [
        Errno::OPNOTSUPP.raw_os_error(),
        Errno::INVAL.raw_os_error(),
        NOT_SUPPORTED_INSIDE,
    ];
    let code = error.raw_os_error();
    code.is_some_and(|code| unknown.contains(&code))
}
