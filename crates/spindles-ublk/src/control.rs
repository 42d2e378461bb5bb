//! The commands that create, start, take over and delete devices. Each call waits for its command.

#![expect(unsafe_code, reason = "the kernel works on memory by address")]

use crate::messages::{
    COMMAND_BYTES, DeviceInfo, INFO_BYTES, NewDevice, Parameters, command, header,
};
use crate::operations;
use io_uring::types::Fd;
use io_uring::{IoUring, cqueue, opcode, squeue};
use rustix::io::Errno;
use std::fmt::{self, Debug};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;

const DEVICE: &str = "/dev/ublk-control";
/// The folder in which the kernel lists devices.
const NAMED_IN: &str = "/sys/class/ublk-char";

/// A connection to the driver.
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
    /// Opens the driver.
    ///
    /// # Errors
    ///
    /// `NotFound` if the kernel has no such driver; otherwise the error of the system.
    pub fn open() -> io::Result<Self> {
        let device = File::options().read(true).write(true).open(DEVICE)?;
        let ring = IoUring::builder().build(2)?;
        Ok(Self { ring, device })
    }

    /// Locks out the other controls of all processes; waits for the lock. Dropping the control
    /// unlocks it.
    ///
    /// # Errors
    ///
    /// The error of the system.
    pub fn lock(&self) -> io::Result<()> {
        self.device.lock()
    }

    /// Releases the lock, so that other controls can take it.
    ///
    /// # Errors
    ///
    /// The error of the system.
    pub fn unlock(&self) -> io::Result<()> {
        self.device.unlock()
    }

    /// Returns the numbers of all existing devices.
    #[must_use]
    pub fn numbers() -> Vec<u32> {
        let names = std::fs::read_dir(NAMED_IN).into_iter().flatten().flatten();
        let names = names.filter_map(|entry| entry.file_name().into_string().ok());
        let numbers = names.filter_map(|name| name.strip_prefix("ublkc")?.parse().ok());
        let mut numbers: Vec<u32> = numbers.collect();
        numbers.sort_unstable();
        numbers
    }

    /// Returns the features of the driver.
    ///
    /// # Errors
    ///
    /// The error of the driver. Before Linux 6.5 the driver does not know this command.
    pub fn features(&mut self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.run(operations::FEATURES, None, Some(&mut bytes), 0)?;
        #[expect(
            clippy::host_endian_bytes,
            reason = "the byte order of the driver is the machine's"
        )]
        Ok(u64::from_ne_bytes(bytes))
    }

    /// Creates a device. No program can open it yet.
    ///
    /// # Errors
    ///
    /// The error of the driver.
    pub fn add(&mut self, device: &NewDevice) -> io::Result<DeviceInfo> {
        let mut bytes = device.encode();
        self.run(operations::ADD, device.number, Some(&mut bytes), 0)?;
        Ok(DeviceInfo::decode(&bytes))
    }

    /// Returns the state of a device.
    ///
    /// # Errors
    ///
    /// The error of the driver.
    pub fn info(&mut self, number: u32) -> io::Result<DeviceInfo> {
        let mut bytes = [0; INFO_BYTES];
        self.run(operations::INFO, Some(number), Some(&mut bytes), 0)?;
        Ok(DeviceInfo::decode(&bytes))
    }

    /// Sets the parameters of a device, before it is started.
    ///
    /// # Errors
    ///
    /// The error of the driver.
    pub fn set_parameters(&mut self, number: u32, parameters: &Parameters) -> io::Result<()> {
        let mut bytes = parameters.encode();
        let operation = operations::SET_PARAMETERS;
        self.run(operation, Some(number), Some(&mut bytes), 0)
    }

    /// Returns the parameters of a device.
    ///
    /// # Errors
    ///
    /// The error of the driver.
    pub fn parameters(&mut self, number: u32) -> io::Result<Parameters> {
        let mut bytes = header();
        let operation = operations::PARAMETERS;
        self.run(operation, Some(number), Some(&mut bytes), 0)?;
        Parameters::decode(&bytes).ok_or_else(|| Errno::PROTO.into())
    }

    /// Lets programs open a device. The server must have sent a fetch command for every tag of the
    /// queue. Another thread of the process `server` must answer them during the call, because the
    /// kernel reads the partition table.
    ///
    /// # Errors
    ///
    /// The error of the driver.
    pub fn start(&mut self, number: u32, server: u32) -> io::Result<()> {
        self.run(operations::START, Some(number), None, server.into())
    }

    /// Begins to take over a device whose server died; its queue may be opened then.
    ///
    /// # Errors
    ///
    /// The error of the driver: `EBUSY` while the dead process still has it.
    pub fn begin_recovery(&mut self, number: u32) -> io::Result<()> {
        self.run(operations::BEGIN_RECOVERY, Some(number), None, 0)
    }

    /// Ends the takeover: the process `server` has fetched all requests, and the unanswered ones
    /// arrive again.
    ///
    /// # Errors
    ///
    /// The error of the driver.
    pub fn end_recovery(&mut self, number: u32, server: u32) -> io::Result<()> {
        self.run(operations::END_RECOVERY, Some(number), None, server.into())
    }

    /// Stops a device; programs that have it open get errors. Waits until pending requests are
    /// answered; then all tags of its queue end.
    ///
    /// # Errors
    ///
    /// The error of the driver.
    pub fn stop(&mut self, number: u32) -> io::Result<()> {
        self.run(operations::STOP, Some(number), None, 0)
    }

    /// Deletes a device. The number of an open device becomes free once the device is closed.
    ///
    /// # Errors
    ///
    /// The error of the driver.
    pub fn delete(&mut self, number: u32) -> io::Result<()> {
        match self.run(operations::DELETE_LATER, Some(number), None, 0) {
            // Before Linux 6.9 the deletion waits for the last close.
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

/// Returns true for the answers to an unknown command, which differ between drivers.
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
