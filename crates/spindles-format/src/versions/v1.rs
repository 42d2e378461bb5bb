//! Version 1: little-endian, CRC-32C over everything before it.

use spindles_block::{BlockIndex, BlockSize, MEMBERS_MAX, MemberIndex};

use super::{Decoded, MAGIC, Version};
use crate::device_record::AREAS_MAX;
use crate::growth::GROWTH_BYTES;
use crate::{
    Area, AreaKind, ArrayRecord, BITMAPS, ChecksumKind, DecodeError, DeviceRecord, ErrorCounts,
    Features, GrowthRecord, JournalRecord, MEMBER_BLOCKS_MAX, MemberRecord, MemberState,
    PAST_SESSIONS_MAX, PastSession, SUPERBLOCK_BYTES, SharedAreas, Text, Uuid, crc32c,
    room_for_checksums,
};

pub(super) static VERSION: Version = Version {
    number: 1,
    summary: "the first",
    encode,
    decode,
    fields: FIELDS,
    fixture: include_bytes!("v1.bin"),
};

const AREA_BYTES: usize = 32;
const MEMBER_BYTES: usize = 48;
const AREAS_AT: usize = 256;
const ERRORS_AT: usize = AREAS_AT + AREAS_MAX * AREA_BYTES;
const MEMBERS_AT: usize = ERRORS_AT + 32;
const SCRUB_AT: usize = MEMBERS_AT + MEMBERS_MAX as usize * MEMBER_BYTES;
const SESSIONS_AT: usize = SCRUB_AT + 8;
const SCRUB_LEFT_AT: usize = 3968;
const GROWTH_AT: usize = 3976;
const JOURNAL_DEVICE_AT: usize = 4040;
const CHECKSUM_KIND_AT: usize = 4056;
const JOURNAL_ON_DEVICE_AT: usize = 4057;
const DEGRADED_WRITES_AT: usize = 4058;
const BAD_BLOCKS_LISTED_AT: usize = 4060;
const ROW_SUMS_AT: usize = 4059;
const TIMES_AT: usize = 4064;
const SHARED_AT: usize = 4080;
const STAGED_AT: usize = 4090;
const WRITE_BACK_AUTO_AT: usize = 4091;
const CHECKSUM_AT: usize = SUPERBLOCK_BYTES - 4;

const _: () = assert!(SESSIONS_AT + 8 + PAST_SESSIONS_MAX * 16 <= SCRUB_LEFT_AT);
const _: () = assert!(GROWTH_AT + GROWTH_BYTES <= JOURNAL_DEVICE_AT);

const FIELDS: &[(usize, usize, &str)] = &[
    (0, 8, "magic"),
    (8, 4, "version"),
    (12, 4, "superblock bytes"),
    (16, 8, "features, ignorable"),
    (24, 8, "features, read-only if unknown"),
    (32, 8, "features, refuse if unknown"),
    (40, 8, "generation"),
    (48, 16, "array UUID"),
    (64, 64, "array name"),
    (128, 16, "level"),
    (144, 32, "layout"),
    (176, 16, "consistency policy"),
    (192, 4, "block bytes"),
    (196, 4, "chunk blocks"),
    (200, 1, "members"),
    (201, 1, "clean"),
    (202, 1, "this member"),
    (203, 1, "areas"),
    (204, 4, "region groups"),
    (208, 8, "device bytes"),
    (216, 8, "created"),
    (224, 16, "parent UUID"),
    (240, 8, "journal tail"),
    (248, 8, "journal nonce"),
    (256, 480, "area table"),
    (736, 8, "read errors"),
    (744, 8, "corrupt blocks"),
    (752, 8, "repaired blocks"),
    (760, 8, "slow answers"),
    (768, 3072, "member table"),
    (3840, 8, "scrub mark"),
    (3848, 8, "session"),
    (3856, 112, "past sessions"),
    (3968, 8, "scrub left blocks"),
    (3976, 8, "growth mark"),
    (3984, 4, "growth staged blocks"),
    (3988, 4, "growth from chunk blocks"),
    (3992, 4, "first region"),
    (3996, 4, "growth from first region"),
    (4000, 4, "growth from region groups"),
    (4004, 1, "growth from members"),
    (4005, 3, "reserved"),
    (4008, 12, "growth from level"),
    (4020, 20, "growth from layout"),
    (4040, 16, "journal device UUID"),
    (4056, 1, "checksum kind"),
    (4057, 1, "journal on its device"),
    (4058, 1, "degraded writes"),
    (4059, 1, "row sums"),
    (4060, 1, "bad blocks listed"),
    (4061, 3, "reserved"),
    (4064, 8, "last written"),
    (4072, 8, "last scrub"),
    (4080, 2, "bitmap length"),
    (4082, 2, "bad blocks length"),
    (4084, 2, "journal length"),
    (4086, 2, "headroom length"),
    (4088, 2, "stage length"),
    (4090, 1, "staged"),
    (4091, 1, "write-back auto"),
    (4092, 4, "checksum"),
];

/// Writes fields one after another.
struct Writer<'out>(&'out mut [u8]);

impl Writer<'_> {
    fn bytes(&mut self, bytes: &[u8]) {
        let (field, rest) = core::mem::take(&mut self.0).split_at_mut(bytes.len());
        field.copy_from_slice(bytes);
        self.0 = rest;
    }
    fn u8(&mut self, value: u8) {
        self.bytes(&[value]);
    }
    fn u16(&mut self, value: u16) {
        self.bytes(&value.to_le_bytes());
    }
    fn u32(&mut self, value: u32) {
        self.bytes(&value.to_le_bytes());
    }
    fn u64(&mut self, value: u64) {
        self.bytes(&value.to_le_bytes());
    }
    fn skip(&mut self, bytes: usize) {
        self.0 = core::mem::take(&mut self.0).split_at_mut(bytes).1;
    }
}

/// Reads fields one after another. The superblock's fixed size has room for all of them.
struct Reader<'bytes>(&'bytes [u8]);

impl Reader<'_> {
    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let (field, rest) = self
            .0
            .split_first_chunk()
            .expect("a field within the superblock");
        self.0 = rest;
        *field
    }
    fn u8(&mut self) -> u8 {
        let [value] = self.bytes();
        value
    }
    fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.bytes())
    }
    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.bytes())
    }
    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.bytes())
    }
    fn text<const N: usize>(&mut self, what: &'static str) -> Result<Text<N>, DecodeError> {
        Text::from_bytes(&self.bytes()).ok_or(DecodeError::Invalid { what })
    }
    /// Reads a byte that must be 0 or 1.
    fn flag(&mut self, what: &'static str) -> Result<bool, DecodeError> {
        match self.u8() {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(invalid(what)),
        }
    }
}

/// Returns the error of a superblock that breaks a rule of the format.
const fn invalid(what: &'static str) -> DecodeError {
    DecodeError::Invalid { what }
}

/// Returns an error unless a rule of the format holds.
const fn ensure(holds: bool, what: &'static str) -> Result<(), DecodeError> {
    if holds { Ok(()) } else { Err(invalid(what)) }
}

fn encode(array: &ArrayRecord, device: &DeviceRecord, out: &mut [u8; SUPERBLOCK_BYTES]) {
    assert_eq!(array.block_size, device.block_size);
    out.fill(0); // No stale bytes on the member.
    encode_head(array, device, out);
    encode_areas(device, &mut out[AREAS_AT..]);
    let mut writer = Writer(&mut out[ERRORS_AT..]);
    writer.u64(device.errors.read_errors);
    writer.u64(device.errors.corrupt_blocks);
    writer.u64(device.errors.repaired_blocks);
    writer.u64(device.errors.slow_answers);
    encode_members(array, &mut out[MEMBERS_AT..]);
    Writer(&mut out[SCRUB_AT..]).u64(array.scrub_mark.0);
    Writer(&mut out[SCRUB_LEFT_AT..]).u64(array.scrub_left_blocks);
    array.growth.encode(&mut out[GROWTH_AT..]);
    Writer(&mut out[JOURNAL_DEVICE_AT..]).bytes(&array.journal.device.0);
    out[CHECKSUM_KIND_AT] = array.checksum.number();
    out[JOURNAL_ON_DEVICE_AT] = u8::from(array.journal.on_device);
    out[ROW_SUMS_AT] = u8::from(array.row_sums);
    out[DEGRADED_WRITES_AT] = u8::from(array.degraded_writes);
    out[BAD_BLOCKS_LISTED_AT] = u8::from(array.bad_blocks_listed);
    out[STAGED_AT] = u8::from(array.staged);
    out[WRITE_BACK_AUTO_AT] = u8::from(array.write_back_auto);
    let mut writer = Writer(&mut out[TIMES_AT..]);
    writer.u64(array.last_written_s);
    writer.u64(array.last_scrub_s);
    Writer(&mut out[SHARED_AT..]).bytes(&array.shared.encode());
    let mut writer = Writer(&mut out[SESSIONS_AT..]);
    writer.u64(array.session);
    for past in &array.past {
        writer.u64(past.nonce);
        writer.u64(past.generation);
    }
    let checksum = crc32c(&out[..CHECKSUM_AT]);
    out[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
}

/// Writes the fields before the area table.
fn encode_head(array: &ArrayRecord, device: &DeviceRecord, out: &mut [u8]) {
    let mut writer = Writer(out);
    writer.bytes(&MAGIC);
    writer.u32(1);
    writer.u32(u32::try_from(SUPERBLOCK_BYTES).expect("4096"));
    // An unknown ignorable feature isn't maintained by this version, so its bit must not stay set.
    writer.u64(array.features.ignorable & Features::KNOWN.ignorable);
    writer.u64(array.features.read_only);
    writer.u64(array.features.refuse);
    writer.u64(array.generation);
    writer.bytes(&array.uuid.0);
    writer.bytes(array.name.as_bytes());
    writer.bytes(array.level.as_bytes());
    writer.bytes(array.layout.as_bytes());
    writer.bytes(array.consistency.as_bytes());
    writer.u32(array.block_size.bytes());
    writer.u32(array.chunk_blocks);
    writer.u8(array.members);
    writer.u8(u8::from(array.clean));
    writer.u8(device.member.0);
    writer.u8(u8::try_from(device.areas().len()).expect("at most 15"));
    writer.u32(array.region_groups);
    writer.u64(device.device_bytes);
    writer.u64(array.created_s);
    writer.bytes(&array.parent.0);
    writer.u64(array.journal.tail);
    writer.u64(array.journal.nonce);
}

/// Writes the area table.
fn encode_areas(device: &DeviceRecord, out: &mut [u8]) {
    let mut writer = Writer(out);
    for area in device.areas() {
        writer.u16(area.kind.0);
        writer.u16(area.version);
        writer.skip(4);
        writer.u64(area.offset_bytes);
        writer.u64(area.length_bytes);
        writer.skip(8);
    }
}

/// Writes the member table.
fn encode_members(array: &ArrayRecord, out: &mut [u8]) {
    let mut writer = Writer(out);
    for member in array.members() {
        let (state, held_out, out_since, mark) = match member.state {
            MemberState::Active => (1, false, 0, 0),
            MemberState::Missing {
                out_since,
                held_out,
            } => (2, held_out, out_since, 0),
            MemberState::Rebuilding { mark, missed_since } => (3, false, missed_since, mark.0),
        };
        writer.bytes(&member.device_uuid.0);
        writer.u64(member.data_blocks);
        writer.u8(state);
        writer.u8(held_out.into());
        writer.skip(6);
        writer.u64(out_since);
        writer.u64(mark);
    }
}

fn decode(bytes: &[u8; SUPERBLOCK_BYTES]) -> Decoded {
    decode_known(bytes, Features::KNOWN.refuse)
}

/// Decodes a superblock, by a reader that knows these features.
fn decode_known(bytes: &[u8; SUPERBLOCK_BYTES], known: u64) -> Decoded {
    let stored = Reader(&bytes[CHECKSUM_AT..]).u32();
    let computed = crc32c(&bytes[..CHECKSUM_AT]);
    if stored != computed {
        return Err(DecodeError::Checksum { stored, computed });
    }
    let mut reader = Reader(&bytes[12..]);
    let features = decode_features(&mut reader, known)?;
    let identity = Identity::decode(&mut reader)?;
    let shape = Shape::decode(&mut reader, features)?;
    let created_s = reader.u64();
    let parent = Uuid(reader.bytes());
    ensure(parent != identity.uuid, "the array is its own parent")?;
    let (tail, nonce) = (reader.u64(), reader.u64());
    let journal = decode_journal(bytes, tail, nonce, features)?;
    let device = decode_device(bytes, &shape, features)?;
    let shared = SharedAreas::decode(Reader(&bytes[SHARED_AT..]).bytes());
    ensure(
        shared.fit(&device),
        "its areas are shorter than the array uses them",
    )?;
    let (checksum, row_sums) = decode_checksums(bytes, features, &device)?;
    let growth = decode_growth(bytes, &shape, features)?;
    let member = decode_members(bytes, shape.members, identity.generation)?;
    check_own_member(&member[usize::from(shape.member_index.0)], &device)?;
    let (session, past) = decode_sessions(bytes, identity.generation)?;
    let degraded_writes = Reader(&bytes[DEGRADED_WRITES_AT..])
        .flag("its field for degraded writes is neither 0 nor 1")?;
    let bad_blocks_listed = Reader(&bytes[BAD_BLOCKS_LISTED_AT..])
        .flag("its field for listed bad blocks is neither 0 nor 1")?;
    let (staged, write_back_auto) = decode_staged(bytes, features, &shared)?;
    let mut times = Reader(&bytes[TIMES_AT..]);
    let array = ArrayRecord {
        uuid: identity.uuid,
        parent,
        name: identity.name,
        created_s,
        last_written_s: times.u64(),
        last_scrub_s: times.u64(),
        scrub_left_blocks: Reader(&bytes[SCRUB_LEFT_AT..]).u64(),
        generation: identity.generation,
        session,
        past,
        block_size: shape.block_size,
        level: identity.level,
        layout: identity.layout,
        chunk_blocks: shape.chunk_blocks,
        region_groups: shape.region_groups,
        members: shape.members,
        clean: shape.clean,
        degraded_writes,
        consistency: identity.consistency,
        journal,
        scrub_mark: BlockIndex(Reader(&bytes[SCRUB_AT..]).u64()),
        growth,
        bad_blocks_listed,
        staged,
        write_back_auto,
        checksum,
        row_sums,
        shared,
        features,
        member,
    };
    ensure(
        array.rebuilding().is_empty() == (features.refuse & Features::REBUILDING == 0),
        "it rebuilds a member without the feature, or the other way round",
    )?;
    Ok((array, device))
}

/// Reads the superblock's size and the features, and refuses unknown ones.
fn decode_features(reader: &mut Reader<'_>, known: u64) -> Result<Features, DecodeError> {
    let superblock_bytes = reader.u32();
    let features = Features {
        ignorable: reader.u64(),
        read_only: reader.u64(),
        refuse: reader.u64(),
    };
    // First, since such a feature may give any other field a new meaning.
    let unknown = features.refuse & !known;
    if unknown != 0 {
        return Err(DecodeError::Features { unknown });
    }
    ensure(
        usize::try_from(superblock_bytes) == Ok(SUPERBLOCK_BYTES),
        "it states another size",
    )?;
    Ok(features)
}

/// The array's identity, and the names of the choices made for it.
struct Identity {
    generation: u64,
    uuid: Uuid,
    name: Text<64>,
    level: Text<16>,
    layout: Text<32>,
    consistency: Text<16>,
}

impl Identity {
    /// Reads the fields from the generation to the consistency policy.
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let generation = reader.u64();
        ensure(generation > 0, "its generation is 0")?;
        let uuid = Uuid(reader.bytes());
        ensure(uuid != Uuid::NIL, "the array's UUID is zero")?;
        let name = reader.text("the array's name is no text")?;
        let level: Text<16> = reader.text("the level is no text")?;
        ensure(!level.is_empty(), "it names no level")?;
        let layout = reader.text("the layout is no text")?;
        let consistency: Text<16> = reader.text("the consistency policy is no text")?;
        ensure(!consistency.is_empty(), "it names no consistency policy")?;
        Ok(Self {
            generation,
            uuid,
            name,
            level,
            layout,
            consistency,
        })
    }
}

/// The sizes and counts of the array and of this device.
struct Shape {
    block_size: BlockSize,
    chunk_blocks: u32,
    members: u8,
    clean: bool,
    member_index: MemberIndex,
    area_count: usize,
    region_groups: u32,
    device_bytes: u64,
}

impl Shape {
    /// Reads the fields from the block size to the device's length.
    fn decode(reader: &mut Reader<'_>, features: Features) -> Result<Self, DecodeError> {
        let block_size = BlockSize::from_bytes(reader.u32())
            .ok_or(invalid("its block is neither 512 nor 4096 bytes"))?;
        let chunk_blocks = reader.u32();
        ensure(chunk_blocks > 0, "its chunks have no blocks")?;
        let members = reader.u8();
        ensure(
            (1..=MEMBERS_MAX).contains(&members),
            "it has no members, or more than 64",
        )?;
        let clean = reader.flag("it is neither clean nor unclean")?;
        let member_index = MemberIndex(reader.u8());
        ensure(
            member_index.0 < members,
            "its position is beyond the array's members",
        )?;
        let area_count = usize::from(reader.u8());
        ensure(area_count <= AREAS_MAX, "it has more than 15 areas")?;
        let region_groups = reader.u32();
        ensure(
            region_groups == 0 || region_groups.is_power_of_two(),
            "its regions are no power of two of groups",
        )?;
        ensure(
            (region_groups > 0) == (features.refuse & Features::REGIONS != 0),
            "it has regions without the feature, or the other way round",
        )?;
        Ok(Self {
            block_size,
            chunk_blocks,
            members,
            clean,
            member_index,
            area_count,
            region_groups,
            device_bytes: reader.u64(),
        })
    }
}

/// Reads the location of the journal, whose tail and nonce are in the head.
fn decode_journal(
    bytes: &[u8; SUPERBLOCK_BYTES],
    tail: u64,
    nonce: u64,
    features: Features,
) -> Result<JournalRecord, DecodeError> {
    let journal = JournalRecord {
        tail,
        nonce,
        device: Uuid(Reader(&bytes[JOURNAL_DEVICE_AT..]).bytes()),
        on_device: bytes[JOURNAL_ON_DEVICE_AT] == 1,
    };
    let has_device = journal.device != Uuid::NIL;
    ensure(
        has_device == (features.refuse & Features::JOURNAL_DEVICE != 0),
        "its journal has a device without the feature, or the other way round",
    )?;
    ensure(
        bytes[JOURNAL_ON_DEVICE_AT] <= u8::from(has_device),
        "its journal is neither on the members nor on a device",
    )?;
    Ok(journal)
}

/// Reads whether the stage may hold records, and what it takes. Checks its length.
fn decode_staged(
    bytes: &[u8; SUPERBLOCK_BYTES],
    features: Features,
    shared: &SharedAreas,
) -> Result<(bool, bool), DecodeError> {
    let has_stage = shared.stage_bytes > 0;
    ensure(
        has_stage == (features.refuse & Features::STAGE != 0),
        "its stage and the feature of a stage do not agree",
    )?;
    let staged =
        Reader(&bytes[STAGED_AT..]).flag("its field for staged writes is neither 0 nor 1")?;
    ensure(
        !staged || has_stage,
        "it has records of a stage, and no stage",
    )?;
    let auto = Reader(&bytes[WRITE_BACK_AUTO_AT..])
        .flag("its stage takes neither all small writes nor some of them")?;
    ensure(
        !auto || has_stage,
        "its stage takes writes, and it has none",
    )?;
    Ok((staged, auto))
}

/// Reads the area table and the error counts.
fn decode_device(
    bytes: &[u8; SUPERBLOCK_BYTES],
    shape: &Shape,
    features: Features,
) -> Result<DeviceRecord, DecodeError> {
    let mut reader = Reader(&bytes[AREAS_AT..]);
    let areas: [Area; AREAS_MAX] = core::array::from_fn(|_| {
        let kind = AreaKind(reader.u16());
        let version = reader.u16();
        let _reserved: [u8; 4] = reader.bytes();
        let offset_bytes = reader.u64();
        let length_bytes = reader.u64();
        let _reserved: [u8; 8] = reader.bytes();
        Area {
            kind,
            version,
            offset_bytes,
            length_bytes,
        }
    });
    let mut reader = Reader(&bytes[ERRORS_AT..]);
    let errors = ErrorCounts {
        read_errors: reader.u64(),
        corrupt_blocks: reader.u64(),
        repaired_blocks: reader.u64(),
        slow_answers: reader.u64(),
    };
    let areas = &areas[..shape.area_count];
    let mut device = DeviceRecord::new(
        shape.member_index,
        shape.block_size,
        shape.device_bytes,
        areas,
    )
    .map_err(invalid)?;
    device.errors = errors;
    ensure(
        shape.region_groups == 0 || BITMAPS.into_iter().all(|kind| is_in_use(&device, kind)),
        "it has regions and no bitmaps",
    )?;
    ensure(
        is_in_use(&device, AreaKind::BAD_BLOCKS) == (features.refuse & Features::BAD_BLOCKS != 0),
        "it has a list of bad blocks without the feature, or the other way round",
    )?;
    Ok(device)
}

/// Returns true if an area has contents in the version that this code knows.
fn is_in_use(device: &DeviceRecord, kind: AreaKind) -> bool {
    device.area(kind).is_some_and(|area| area.version == 1)
}

/// Reads the kind of the checksums, and whether the array keeps row sums.
fn decode_checksums(
    bytes: &[u8; SUPERBLOCK_BYTES],
    features: Features,
    device: &DeviceRecord,
) -> Result<(ChecksumKind, bool), DecodeError> {
    let checksum = ChecksumKind::of_number(bytes[CHECKSUM_KIND_AT])
        .ok_or(invalid("its blocks have checksums of an unknown kind"))?;
    let has_checksums = checksum != ChecksumKind::None;
    ensure(
        has_checksums == (features.refuse & Features::CHECKSUMS != 0),
        "it has checksums without the feature, or the other way round",
    )?;
    ensure(
        !has_checksums || is_in_use(device, AreaKind::CHECKSUMS) && room_for_checksums(device),
        "it has checksums but no space for them, so it was made before version 0.1.0 and can't be \
         opened: create it again",
    )?;
    let row_sums =
        Reader(&bytes[ROW_SUMS_AT..]).flag("its field for row sums is neither 0 nor 1")?;
    ensure(
        !row_sums || has_checksums,
        "it has row sums without checksums",
    )?;
    Ok((checksum, row_sums))
}

/// Reads the record of growth.
fn decode_growth(
    bytes: &[u8; SUPERBLOCK_BYTES],
    shape: &Shape,
    features: Features,
) -> Result<GrowthRecord, DecodeError> {
    let growth = bytes[GROWTH_AT..]
        .first_chunk()
        .expect("within the superblock");
    let growth = GrowthRecord::decode(growth, shape.members).map_err(invalid)?;
    ensure(
        growth.is_used() == (features.refuse & Features::GROWTH != 0),
        "it has grown without the feature, or the other way round",
    )?;
    ensure(
        !growth.is_used() || shape.region_groups > 0,
        "it has grown without regions",
    )?;
    Ok(growth)
}

/// Reads the member table.
fn decode_members(
    bytes: &[u8; SUPERBLOCK_BYTES],
    members: u8,
    generation: u64,
) -> Result<[MemberRecord; MEMBERS_MAX as usize], DecodeError> {
    let mut member = [MemberRecord::NONE; MEMBERS_MAX as usize];
    let mut reader = Reader(&bytes[MEMBERS_AT..]);
    for index in 0..usize::from(members) {
        let device_uuid = Uuid(reader.bytes());
        ensure(device_uuid != Uuid::NIL, "a member's UUID is zero")?;
        let twice = member[..index].iter().any(|m| m.device_uuid == device_uuid);
        ensure(!twice, "two members have the same UUID")?;
        let data_blocks = reader.u64();
        ensure(
            data_blocks <= MEMBER_BLOCKS_MAX,
            "a member is longer than any may be",
        )?;
        let state = reader.u8();
        let held_out = reader.u8() == 1;
        let _reserved: [u8; 6] = reader.bytes();
        let out_since = reader.u64();
        let mark = BlockIndex(reader.u64());
        let state = match state {
            1 if out_since == 0 => MemberState::Active,
            3 if out_since <= generation => MemberState::Rebuilding {
                mark,
                missed_since: out_since,
            },
            2 if (1..=generation).contains(&out_since) => MemberState::Missing {
                out_since,
                held_out,
            },
            _ => return Err(invalid("a member's state is unknown")),
        };
        member[index] = MemberRecord {
            device_uuid,
            data_blocks,
            state,
        };
    }
    Ok(member)
}

/// Checks this device's row of the member table.
fn check_own_member(own: &MemberRecord, device: &DeviceRecord) -> Result<(), DecodeError> {
    ensure(own.state.takes_part(), "it calls its own device missing")?;
    ensure(
        own.data_blocks <= device.data_blocks(),
        "its data area is shorter than the array counts on",
    )
}

/// Reads the current session and the past ones.
fn decode_sessions(
    bytes: &[u8; SUPERBLOCK_BYTES],
    generation: u64,
) -> Result<(u64, [PastSession; PAST_SESSIONS_MAX]), DecodeError> {
    let mut reader = Reader(&bytes[SESSIONS_AT..]);
    let session = reader.u64();
    let past: [PastSession; PAST_SESSIONS_MAX] = core::array::from_fn(|_| PastSession {
        nonce: reader.u64(),
        generation: reader.u64(),
    });
    ensure(
        past.iter().all(|past| past.generation <= generation),
        "it remembers a later generation than its own",
    )?;
    Ok((session, past))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StageLayout;

    const KNOWN: u64 = Features::KNOWN.refuse;

    /// A record with a stage, and the device of one of its members.
    fn with_stage() -> (ArrayRecord, DeviceRecord) {
        let (mut array, fixture) = decode(VERSION.fixture).unwrap();
        let joins = crate::areas_to_join(&array, 4 << 30, fixture.member);
        let device = joins.unwrap();
        let room = StageLayout::room_bytes(core::slice::from_ref(&device), &array.shared);
        array.shared.stage_bytes = room;
        array.features.refuse |= Features::STAGE;
        (array, device)
    }

    #[test]
    fn a_stage_round_trips_and_is_refused_by_readers_without_it() {
        let (mut array, device) = with_stage();
        assert!(array.shared.stage_bytes > 16 << 20);
        let mut bytes = [0; SUPERBLOCK_BYTES];
        for (staged, auto) in [(false, false), (true, false), (false, true), (true, true)] {
            (array.staged, array.write_back_auto) = (staged, auto);
            encode(&array, &device, &mut bytes);
            let decoded = decode_known(&bytes, KNOWN);
            let mut written = array.clone();
            written.features.ignorable &= Features::KNOWN.ignorable;
            assert_eq!(decoded, Ok((written, device)));
            let unknown = Features::STAGE;
            let known = KNOWN & !Features::STAGE;
            let refused = decode_known(&bytes, known);
            assert_eq!(refused, Err(DecodeError::Features { unknown }));
        }
    }

    #[test]
    fn impossible_stages_are_refused() {
        let (array, device) = with_stage();
        let refused = |change: fn(&mut ArrayRecord), at: Option<(usize, u8)>| {
            let mut array = array.clone();
            change(&mut array);
            let mut bytes = [0; SUPERBLOCK_BYTES];
            encode(&array, &device, &mut bytes);
            if let Some((at, value)) = at {
                bytes[at] = value;
                let checksum = crc32c(&bytes[..CHECKSUM_AT]);
                bytes[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
            }
            matches!(
                decode_known(&bytes, KNOWN),
                Err(DecodeError::Invalid { .. })
            )
        };
        assert!(!refused(|_| (), None));
        assert!(refused(|_| (), Some((STAGED_AT, 2))));
        assert!(refused(|_| (), Some((WRITE_BACK_AUTO_AT, 2))));
        assert!(refused(
            |array| array.features.refuse &= !Features::STAGE,
            None
        ));
        assert!(refused(|array| array.shared.stage_bytes = 0, None));
        assert!(refused(|array| array.shared.stage_bytes += 64 << 20, None));
        let unused = |array: &mut ArrayRecord| {
            array.features.refuse &= !Features::STAGE;
            array.shared.stage_bytes = 0;
            array.staged = true;
        };
        assert!(refused(unused, None));
        let unused = |array: &mut ArrayRecord| {
            array.set_stage(0);
            array.write_back_auto = true;
        };
        assert!(refused(unused, None));
    }
}
