//! The start of an enumeration: fresh disks, the base contents on them, and engines.

use super::assemble::{Assembled, superblock};
use super::explore::Explorer;
use super::machine::{METADATA, Machine, SCRATCH};
use super::media::{Media, Write};
use super::scenario::{
    ATOM_BYTES, ATOMS_PER_BLOCK, BLOCK_SIZE, CHUNK_BLOCKS, MEMBER_BLOCKS, STAGE_BYTES,
    STAGED_BLOCKS, Scenario, atoms,
};
use super::store::{Content, POISON};
use crate::create;
use crate::opening::plain_config;
use crate::random::Random;
use spindles_block::{MemberIndex, MemberSet, Operation};
use spindles_engine::{Limits, OpenError, WriteBack, WriteBackMode};
use spindles_format::{
    AreaKind, ArrayRecord, Assembly, BITMAPS, ChecksumKind, DeviceRecord, JOURNAL_DEVICE_BYTES_MIN,
    JournalDevice, SLOT_BYTES, Uuid, blank_bad_blocks, blank_bitmap, give_bad_blocks,
    give_checksums, give_regions,
};
use std::rc::Rc;

/// Stripe ranges of the engine: more than the requests need at once.
const RANGES: u32 = 4;

/// The description on a fresh journal device.
const JOURNAL_DEVICE: JournalDevice = JournalDevice {
    device_uuid: Uuid([0xd1; 16]),
    array: Uuid([0xa1; 16]), // Not used.
    device_bytes: JOURNAL_DEVICE_BYTES_MIN,
    stamps: 0,
    nonce: 0,
    ended: 0,
};

/// Returns the number of the atom at this byte of a disk.
fn atom_of(bytes: u64) -> u16 {
    let atom_bytes = u64::try_from(ATOM_BYTES).expect("small");
    u16::try_from(bytes / atom_bytes).expect("small")
}

/// Returns the length of the disks: enough for a member, and for the journal device if there is
/// one.
fn disk_bytes(scenario: &Scenario) -> u64 {
    if !scenario.journal_device {
        return scenario.device_bytes();
    }
    // Journals of positions that the array does not have are left out.
    let rings = u64::from(scenario.members()) * JOURNAL_DEVICE.ring_blocks(BLOCK_SIZE);
    let blocks = JOURNAL_DEVICE.first_block(BLOCK_SIZE).0 + rings;
    scenario
        .device_bytes()
        .max(blocks * u64::from(BLOCK_SIZE.bytes()))
}

/// Returns the first records of the array and of its devices.
fn fresh_array(scenario: &Scenario) -> (ArrayRecord, Vec<DeviceRecord>) {
    let mut array = create::fresh_record(
        &scenario.geometry,
        BLOCK_SIZE,
        &scenario.devices,
        scenario.policy,
        &mut Random::new(0, "enumerate"),
    );
    let mut devices = scenario.devices.clone();
    if scenario.regions {
        let given = give_regions(&mut array, &mut devices, scenario.geometry.groups(), 0);
        assert!(given, "its bitmaps have room");
        array.region_groups = 1;
    }
    if scenario.is_logged() || scenario.regions {
        give_bad_blocks(&mut array, &mut devices);
    }
    if scenario.checksums {
        let row_sums = scenario.geometry.level().grows();
        // Fresh disks are zeros.
        give_checksums(&mut array, &mut devices, ChecksumKind::Crc32c, row_sums);
    }
    if scenario.staged {
        create::give_stage(&mut array, STAGE_BYTES);
    }
    if scenario.journal_device {
        array.journal.device = JOURNAL_DEVICE.device_uuid;
        array.note_journal_device();
    }
    (array, devices)
}

impl Explorer<'_> {
    /// Creates fresh disks with their first superblocks; then the engine writes the base contents.
    pub(super) fn create(&mut self) -> Result<Media, String> {
        let scenario = self.scenario;
        let members = scenario.members();
        let mut media = Media::new(scenario.disks(), atom_of(disk_bytes(scenario)));
        let (array, devices) = fresh_array(scenario);
        if scenario.journal_device {
            let write = Write {
                disk: members,
                first: atom_of(SLOT_BYTES[0]),
                atoms: self.store.atoms(&JOURNAL_DEVICE.encode()),
            };
            media.write(&write, true);
        }
        for (disk, device) in (0..).zip(&devices).filter(|_| scenario.new) {
            let write = Write {
                disk,
                first: atoms(device.data_start().0),
                atoms: vec![POISON; usize::from(atoms(MEMBER_BLOCKS))].into(),
            };
            media.write(&write, true);
        }
        self.devices.clone_from(&devices);
        for kind in BITMAPS.into_iter().filter(|_| scenario.regions) {
            let bytes = blank_bitmap(array.uuid, kind, scenario.geometry.groups());
            self.write_area(&mut media, &devices, kind, &bytes);
        }
        let pages = array.bad_blocks_pages();
        if pages > 0 {
            let bytes = blank_bad_blocks(array.uuid, pages);
            self.write_area(&mut media, &devices, AreaKind::BAD_BLOCKS, &bytes);
        }
        let records: Vec<_> = devices.into_iter().map(Some).collect();
        let fresh = Assembly {
            array,
            devices: (0..usize::from(members)).map(Some).collect(),
            records,
            missing: MemberSet::EMPTY,
            lagging: MemberSet::EMPTY,
            refused: Vec::new(),
            read_only: false,
        };
        for member in (0..members).map(MemberIndex) {
            let write = superblock(&mut self.store, &fresh, member);
            media.write(&write, true);
        }
        if scenario.new {
            return Ok(media);
        }
        self.write_base(media)
    }

    /// Durably writes the same contents to an area of every device.
    fn write_area(
        &mut self,
        media: &mut Media,
        devices: &[DeviceRecord],
        kind: AreaKind,
        bytes: &[u8],
    ) {
        for (disk, device) in (0..).zip(devices) {
            let area = device.area(kind).expect("it has all areas");
            let write = Write {
                disk,
                first: atom_of(area.offset_bytes),
                atoms: self.store.atoms(bytes),
            };
            media.write(&write, true);
        }
    }

    /// Opens the fresh array, writes the base contents, and closes it cleanly.
    fn write_base(&mut self, media: Media) -> Result<Media, String> {
        let mut machine = self.open_whole(media, MemberSet::EMPTY)?;
        let blocks = self.scenario.geometry.blocks();
        let base = (0..self.candidates.atoms()).map(|atom| self.candidates.content(atom, 0));
        let base: Vec<Content> = base
            .map(|content| content.expect("there is a base"))
            .collect();
        let operation = Operation::Write { fua: true };
        machine.ask(&mut self.store, 0, operation, 0..blocks, &base);
        machine.settle(&mut self.store, |_, _| Ok(()))?;
        machine.close(&mut self.store);
        machine.settle(&mut self.store, |_, _| Ok(()))?;
        if machine.closed != Some(true) {
            return Err("a fresh array could not be closed".to_owned());
        }
        machine.media.lose_caches();
        Ok(machine.media)
    }

    /// Brings the stage into use: writes the first block again.
    pub(super) fn begin_to_stage(&mut self, machine: &mut Machine) -> Result<(), String> {
        let atoms = usize::try_from(ATOMS_PER_BLOCK).expect("2");
        let base = (0..atoms).map(|atom| self.candidates.content(atom, 0));
        let base: Option<Vec<Content>> = base.collect();
        let base = base.expect("there is a base");
        let write = Operation::Write { fua: true };
        machine.ask(&mut self.store, 0, write, 0..1, &base);
        machine.settle(&mut self.store, |_, _| Ok(()))?;
        machine.replies.clear();
        Ok(())
    }

    /// Opens an unused array and waits until it is idle.
    pub(super) fn open_whole(
        &mut self,
        media: Media,
        missing: MemberSet,
    ) -> Result<Machine, String> {
        let assembled = self.assemble(&media, missing);
        let assembly = assembled.result.as_ref().map_err(Clone::clone)?;
        let opened = self.machine(media, assembly, self.scenario.journal_device, false);
        let mut machine = opened.map_err(|error| error.to_string())?;
        machine.settle(&mut self.store, |_, _| Ok(()))?;
        Ok(machine)
    }

    pub(super) fn assemble(&mut self, media: &Media, missing: MemberSet) -> Rc<Assembled> {
        self.assemblies
            .assemble(&self.store, self.scenario, media, missing)
    }

    /// Returns the description on the journal device.
    pub(super) fn journal_device(&mut self, media: &Media) -> JournalDevice {
        self.assemblies
            .journal_device(&self.store, self.scenario, media)
    }

    /// Opens an array, with or without its journal device.
    pub(super) fn machine(
        &mut self,
        media: Media,
        assembly: &Assembly,
        journal: bool,
        read_only: bool,
    ) -> Result<Machine, OpenError> {
        let filling = assembly.array.rebuilding().difference(assembly.missing);
        let blocks = u32::try_from(self.scenario.geometry.blocks()).expect("small");
        let requests = blocks.max(self.bounds.requests + 1);
        let limits = Limits {
            requests,
            ranges: RANGES,
            hedges: 0,
            range_blocks: CHUNK_BLOCKS,
            checksum_pages: 0,
            dirty_bytes: 0,
            fua_bytes_max: u32::MAX,
        };
        let device = journal.then(|| self.journal_device(&media));
        let mut config = plain_config(&self.scenario.geometry, assembly, limits, SCRATCH, METADATA);
        if let Some(persistence) = &mut config.persistence {
            persistence.journal_device = device;
        }
        config.read_only = read_only;
        if self.scenario.staged {
            config.write_back = WriteBack {
                mode: WriteBackMode::On,
                memory_blocks: STAGED_BLOCKS,
            };
        }
        config.mutation = self.bounds.planted.mutation();
        let mut machine = Machine::open(
            &mut self.store,
            &self.scenario.geometry,
            media,
            config,
            requests,
            filling,
            self.bounds.planted,
        )?;
        machine.journal_is_gone = self.scenario.journal_device && !journal;
        Ok(machine)
    }
}
