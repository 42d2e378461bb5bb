//! Assembles arrays from the contents of the disks, with the code that assembles real ones. Results
//! are cached by the superblocks.

use super::media::{Media, Write};
use super::scenario::{ATOM_BYTES, BLOCK_SIZE, DEVICE_BYTES, Scenario};
use super::store::{Content, Store};
use spindles_block::{BlockIndex, MemberIndex, MemberSet};
use spindles_format::{
    Assembly, DeviceRecord, Found, JournalDevice, SLOT_BYTES, SUPERBLOCK_BYTES, encode,
};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The result of an assembly.
#[derive(Debug)]
pub(super) struct Assembled {
    /// The array, or the reason why there is none.
    pub(super) result: Result<Assembly, String>,
    /// Set if the engine refused to open the array as unclean and degraded. Apart from the array,
    /// this depends only on the journal device: index 0 without the device, index 1 with it.
    pub(super) refused: [Cell<bool>; 2],
}

/// Cache of assemblies, keyed by superblock contents.
#[derive(Debug, Default)]
pub(super) struct Assemblies {
    known: BTreeMap<Vec<Content>, Rc<Assembled>>,
    /// The members that the newest superblock of a member relies on, by the contents of its slots.
    counts_on: BTreeMap<Vec<Content>, Option<MemberSet>>,
    /// The description on the journal device, by the contents of its slots.
    journals: BTreeMap<Vec<Content>, JournalDevice>,
}

fn atoms(bytes: u64) -> u16 {
    let atom_bytes = u64::try_from(ATOM_BYTES).expect("small");
    u16::try_from(bytes / atom_bytes).expect("small")
}

fn slot_atoms() -> usize {
    usize::from(atoms(u64::try_from(SUPERBLOCK_BYTES).expect("4096")))
}

impl Assemblies {
    /// Assembles the array from the superblocks of all members but the missing ones.
    pub(super) fn assemble(
        &mut self,
        store: &Store,
        scenario: &Scenario,
        media: &Media,
        missing: MemberSet,
    ) -> Rc<Assembled> {
        let there = MemberSet::all(scenario.members()).difference(missing);
        let mut key = Vec::new();
        for member in there.iter() {
            read_slots(media, member, &mut key);
        }
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let parts = key.chunks_exact(1 + 2 * slot_atoms());
        let found: Vec<Found> = parts
            .map(|slots| find(store, slots, scenario.device_bytes()))
            .collect();
        let members: Vec<_> = there.iter().collect();
        let result = match spindles_format::choose(&found) {
            Err(error) => Err(error.to_string()),
            Ok(assembly) if !is_in_place(&assembly, &members) => {
                Err("a device got another's position".to_owned())
            }
            Ok(assembly) => Ok(assembly),
        };
        let assembled = Rc::new(Assembled {
            result,
            refused: Default::default(),
        });
        self.known.insert(key, assembled.clone());
        assembled
    }

    /// Returns the members that the newest superblock of a member relies on. `None` if no
    /// superblock is valid.
    pub(super) fn counts_on(
        &mut self,
        store: &Store,
        media: &Media,
        member: MemberIndex,
    ) -> Option<MemberSet> {
        let mut key = Vec::new();
        read_slots(media, member, &mut key);
        if let Some(known) = self.counts_on.get(&key) {
            return *known;
        }
        let found = find(store, &key, DEVICE_BYTES); // No matter how long it is.
        let counts_on = found
            .record()
            .ok()
            .map(|(array, _)| MemberSet::all(array.members).difference(array.missing()));
        self.counts_on.insert(key, counts_on);
        counts_on
    }

    /// Returns the description on the journal device.
    pub(super) fn journal_device(
        &mut self,
        store: &Store,
        scenario: &Scenario,
        media: &Media,
    ) -> JournalDevice {
        let mut key = Vec::new();
        read_slots(media, MemberIndex(scenario.members()), &mut key);
        *(self.journals.entry(key)).or_insert_with_key(|key| {
            let slots = key[1..].chunks_exact(slot_atoms());
            let said = slots.filter_map(|slot| JournalDevice::decode(&store.bytes(slot)).ok());
            let newest = said.max_by_key(|device| device.stamps);
            newest.expect("a crash tears one of them at most")
        })
    }
}

/// Adds a device and the contents of its superblock slots.
fn read_slots(media: &Media, member: MemberIndex, out: &mut Vec<Content>) {
    out.push(Content::from(member.0));
    for slot in SLOT_BYTES {
        let start = out.len();
        out.resize(start + slot_atoms(), 0);
        media.read(member.0, atoms(slot), &mut out[start..]);
    }
}

/// Returns a member as found, from the data that `read_slots` added.
fn find(store: &Store, slots: &[Content], device_bytes: u64) -> Found {
    let name = format!("member {}", slots[0]);
    let slots = [0, 1].map(|slot| store.bytes(&slots[1 + slot * slot_atoms()..][..slot_atoms()]));
    Found::new(name, device_bytes, [Ok(&slots[0][..]), Ok(&slots[1][..])])
}

fn is_in_place(assembly: &Assembly, members: &[MemberIndex]) -> bool {
    let mut devices = (0_u8..).map(MemberIndex).zip(&assembly.devices);
    devices.all(|(position, device)| device.is_none_or(|device| members[device] == position))
}

/// Returns the write of a superblock to a lagging member.
pub(super) fn superblock(store: &mut Store, assembly: &Assembly, member: MemberIndex) -> Write {
    let device = assembly.records[usize::from(member.0)].as_ref();
    let device: &DeviceRecord = device.expect("a lagging member is there");
    let mut bytes = vec![0; SUPERBLOCK_BYTES];
    encode(&assembly.array, device, &mut bytes);
    let BlockIndex(block) = device.slot_block(assembly.array.generation);
    Write {
        disk: member.0,
        first: atoms(block * u64::from(BLOCK_SIZE.bytes())),
        atoms: store.atoms(&bytes),
    }
}
