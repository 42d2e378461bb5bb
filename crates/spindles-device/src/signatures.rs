//! Finds existing data on a device that must not be overwritten: file systems, partition tables,
//! members of other arrays. The checks are our own, in one table, from public facts.

use std::io;

/// A known signature on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// The kind of data, with an article: "an ext4 file system".
    pub what: &'static str,
    /// The offset of its magic.
    pub offset_bytes: u64,
    /// The length of its magic.
    pub length_bytes: u64,
}

/// A row of the table. One matching magic identifies this kind of data.
struct Signature {
    what: &'static str,
    places: &'static [MagicOffset],
    /// An additional condition, given the offset of the magic.
    check: fn(&Window, u64) -> bool,
}

/// A possible place of a magic.
struct MagicOffset {
    from: From,
    magic: &'static [u8],
}

/// The point from which an offset counts.
enum From {
    Start(u64),
    /// Back from the end of the device.
    End(u64),
    /// Back by the second number from the last multiple of the first.
    Aligned(u64, u64),
}

impl From {
    fn offset_bytes(&self, device_bytes: u64) -> Option<u64> {
        match self {
            Self::Start(offset) => Some(*offset),
            Self::End(back) => device_bytes.checked_sub(*back),
            Self::Aligned(multiple, back) => {
                (device_bytes / multiple * multiple).checked_sub(*back)
            }
        }
    }
}

const fn start(offset: u64, magic: &'static [u8]) -> MagicOffset {
    MagicOffset {
        from: From::Start(offset),
        magic,
    }
}

const fn end(back: u64, magic: &'static [u8]) -> MagicOffset {
    MagicOffset {
        from: From::End(back),
        magic,
    }
}

const fn aligned(multiple: u64, back: u64, magic: &'static [u8]) -> MagicOffset {
    MagicOffset {
        from: From::Aligned(multiple, back),
        magic,
    }
}

const fn plain(what: &'static str, places: &'static [MagicOffset]) -> Signature {
    Signature {
        what,
        places,
        check: |_, _| true,
    }
}

const MD: &[u8] = &[0xfc, 0x4e, 0x2b, 0xa9];
const EXT: &[MagicOffset] = &[start(1080, &[0x53, 0xef])];
/// Offsets from an ext superblock's magic to its feature words.
const EXT_COMPATIBLE: u64 = 0x5c - 0x38;
const EXT_INCOMPATIBLE: u64 = 0x60 - 0x38;
const EXT_JOURNAL: u32 = 0x4;
/// Extents, 64-bit addresses, flexible block groups.
const EXT4: u32 = 0x40 | 0x80 | 0x200;

static SIGNATURES: &[Signature] = &[
    Signature {
        what: "an ext4 file system",
        places: EXT,
        check: |window, magic| window.u32(magic + EXT_INCOMPATIBLE) & EXT4 != 0,
    },
    Signature {
        what: "an ext3 file system",
        places: EXT,
        check: |window, magic| {
            window.u32(magic + EXT_INCOMPATIBLE) & EXT4 == 0
                && window.u32(magic + EXT_COMPATIBLE) & EXT_JOURNAL != 0
        },
    },
    Signature {
        what: "an ext2 file system",
        places: EXT,
        check: |window, magic| {
            window.u32(magic + EXT_INCOMPATIBLE) & EXT4 == 0
                && window.u32(magic + EXT_COMPATIBLE) & EXT_JOURNAL == 0
        },
    },
    plain("an XFS file system", &[start(0, b"XFSB")]),
    plain(
        "a btrfs file system",
        &[start(0x1_0040, b"_BHRfS_M"), start(0x400_0040, b"_BHRfS_M")],
    ),
    plain(
        "a swap area",
        &[
            start(4086, b"SWAPSPACE2"),
            start(4086, b"SWAP-SPACE"),
            start(8182, b"SWAPSPACE2"),
            start(16374, b"SWAPSPACE2"),
            start(65526, b"SWAPSPACE2"),
        ],
    ),
    plain(
        "an LVM physical volume",
        &[
            start(0, b"LABELONE"),
            start(512, b"LABELONE"),
            start(1024, b"LABELONE"),
            start(1536, b"LABELONE"),
        ],
    ),
    plain(
        "a member of a Linux md array",
        &[
            start(0, MD),
            start(4096, MD),
            aligned(65536, 65536, MD),
            aligned(4096, 8192, MD),
            aligned(4096, 12288, MD),
        ],
    ),
    plain(
        "a LUKS encrypted volume",
        &[
            start(0, b"LUKS\xba\xbe"),
            start(0x4000, b"SKUL\xba\xbe"),
            start(0x8000, b"SKUL\xba\xbe"),
            start(0x1_0000, b"SKUL\xba\xbe"),
        ],
    ),
    plain("an NTFS file system", &[start(3, b"NTFS    ")]),
    plain("an exFAT file system", &[start(3, b"EXFAT   ")]),
    plain("a BitLocker volume", &[start(3, b"-FVE-FS-")]),
    plain(
        "a FAT file system",
        &[
            start(54, b"FAT12   "),
            start(54, b"FAT16   "),
            start(82, b"FAT32   "),
        ],
    ),
    plain("an ISO 9660 file system", &[start(32769, b"CD001")]),
    plain("a squashfs file system", &[start(0, b"hsqs")]),
    plain(
        "an EROFS file system",
        &[start(1024, &[0xe2, 0xe1, 0xf5, 0xe0])],
    ),
    plain(
        "an F2FS file system",
        &[start(1024, &[0x10, 0x20, 0xf5, 0xf2])],
    ),
    plain("a JFS file system", &[start(32768, b"JFS1")]),
    plain(
        "a ReiserFS file system",
        &[start(65588, b"ReIsEr"), start(8244, b"ReIsEr")],
    ),
    plain(
        "an HFS+ file system",
        &[start(1024, b"H+\0\x04"), start(1024, b"HX\0\x05")],
    ),
    plain("an APFS container", &[start(32, b"NXSB")]),
    plain(
        "a bcache or bcachefs device",
        &[start(
            4120,
            &[
                0xc6, 0x85, 0x73, 0xf6, 0x4e, 0x1a, 0x45, 0xca, 0x82, 0x65, 0xf5, 0x7f, 0x48, 0xba,
                0x6d, 0x81,
            ],
        )],
    ),
    plain(
        "a Ceph BlueStore device",
        &[start(0, b"bluestore block device")],
    ),
    plain(
        "a member of a DDF RAID",
        &[end(512, &[0xde, 0x11, 0xde, 0x11])],
    ),
    plain(
        "a member of an Intel RAID",
        &[end(1024, b"Intel Raid ISM Cfg Sig. ")],
    ),
    plain("a qcow2 disk image", &[start(0, b"QFI\xfb")]),
    plain("a VMDK disk image", &[start(0, b"KDMV")]),
    plain("a VHDX disk image", &[start(0, b"vhdxfile")]),
    plain(
        "a GPT partition table",
        &[
            start(512, b"EFI PART"),
            start(4096, b"EFI PART"),
            end(512, b"EFI PART"),
            end(4096, b"EFI PART"),
        ],
    ),
    Signature {
        what: "an MBR partition table",
        places: &[start(510, &[0x55, 0xaa])],
        check: |window, _| {
            let entry = |index: u64| window.at(446 + 16 * index, 16);
            let entries: Vec<&[u8]> = (0..4).filter_map(entry).collect();
            // Boot sectors of file systems end like this too, but their code is no table.
            entries.iter().all(|entry| matches!(entry[0], 0 | 0x80))
                && entries.iter().any(|entry| entry[4] != 0)
        },
    },
];

/// Bytes read at each end.
const EDGE_BYTES: u64 = 512 << 10;
/// Bytes read beyond that: the second superblock of btrfs.
const FAR_BYTES: u64 = 4096;
const FAR_OFFSET: u64 = 0x400_0000;

/// The stretches read from a device.
struct Window {
    bytes: u64,
    stretches: Vec<(u64, Vec<u8>)>,
}

impl Window {
    fn at(&self, offset: u64, length: usize) -> Option<&[u8]> {
        self.stretches.iter().find_map(|(begin, bytes)| {
            let from = usize::try_from(offset.checked_sub(*begin)?).ok()?;
            bytes.get(from..from.checked_add(length)?)
        })
    }

    fn u32(&self, offset: u64) -> u32 {
        self.at(offset, 4)
            .and_then(|bytes| bytes.try_into().ok())
            .map_or(0, u32::from_le_bytes)
    }

    fn sightings(&self) -> Vec<Sighting> {
        let mut found = Vec::new();
        for row in SIGNATURES {
            for place in row.places {
                let Some(offset_bytes) = place.from.offset_bytes(self.bytes) else {
                    continue;
                };
                if self.at(offset_bytes, place.magic.len()) == Some(place.magic)
                    && (row.check)(self, offset_bytes)
                {
                    found.push(Sighting {
                        what: row.what,
                        offset_bytes,
                        length_bytes: u64::try_from(place.magic.len()).expect("short"),
                    });
                }
            }
        }
        found.extend(self.zfs());
        found
    }

    /// ZFS keeps rings of uberblocks in four labels of 256 KiB, two at each end. The latest ones
    /// may be anywhere in the second half of a label.
    fn zfs(&self) -> impl Iterator<Item = Sighting> {
        const LABEL: u64 = 256 << 10;
        const MAGICS: [[u8; 8]; 2] = [
            0x00ba_b10c_u64.to_le_bytes(),
            [0, 0, 0, 0, 0, 0xba, 0xb1, 0x0c],
        ];
        let end = self.bytes / LABEL * LABEL;
        let labels = [
            Some(0),
            Some(LABEL),
            end.checked_sub(2 * LABEL),
            end.checked_sub(LABEL),
        ];
        let mut offsets: Vec<u64> = labels
            .into_iter()
            .flatten()
            .flat_map(|label| (0..128).map(move |slot| label + LABEL / 2 + slot * 1024))
            .collect();
        offsets.sort_unstable();
        offsets.dedup();
        offsets.into_iter().filter_map(|offset_bytes| {
            let bytes = self.at(offset_bytes, 8)?;
            MAGICS
                .iter()
                .any(|magic| magic == bytes)
                .then_some(Sighting {
                    what: "a ZFS pool member",
                    offset_bytes,
                    length_bytes: 8,
                })
        })
    }
}

/// Searches a device of that size for all signatures in the table. `read` fills a buffer from an
/// offset. All its ranges lie within the device, and are aligned to 4096 bytes or end at the
/// device's end.
pub fn look(
    device_bytes: u64,
    read: &mut dyn FnMut(u64, &mut [u8]) -> io::Result<()>,
) -> io::Result<Vec<Sighting>> {
    let mut stretches = Vec::new();
    let tail = device_bytes.saturating_sub(EDGE_BYTES) / 4096 * 4096;
    let mut wanted = vec![(0, EDGE_BYTES.min(device_bytes))];
    if device_bytes > EDGE_BYTES {
        wanted.push((tail, device_bytes - tail));
    }
    if device_bytes >= FAR_OFFSET + FAR_BYTES {
        wanted.push((FAR_OFFSET, FAR_BYTES));
    }
    for (offset, length) in wanted {
        let mut bytes = vec![0; usize::try_from(length).expect("half a MiB")];
        read(offset, &mut bytes)?;
        stretches.push((offset, bytes));
    }
    let window = Window {
        bytes: device_bytes,
        stretches,
    };
    Ok(window.sightings())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look_at(image: &[u8]) -> Vec<Sighting> {
        let bytes = u64::try_from(image.len()).unwrap();
        look(bytes, &mut |offset, into| {
            assert_eq!(offset % 4096, 0);
            let from = usize::try_from(offset).unwrap();
            into.copy_from_slice(&image[from..from + into.len()]);
            Ok(())
        })
        .unwrap()
    }

    /// Tests each magic of each row at each of its places, on devices of several sizes.
    #[test]
    fn every_signature_is_found_at_each_of_its_offsets() {
        for size in [1 << 20, (1 << 20) + 512, 3 << 20, (65 << 20) + 4096] {
            let mut image = vec![0_u8; size];
            for row in SIGNATURES {
                for place in row.places {
                    let offset = place.from.offset_bytes(image.len().try_into().unwrap());
                    let at = usize::try_from(offset.unwrap()).unwrap();
                    if at + place.magic.len() > image.len() {
                        continue; // Beyond the end of the smaller devices.
                    }
                    image[at..at + place.magic.len()].copy_from_slice(place.magic);
                    match row.what {
                        "an ext4 file system" => image[1080 + 40] = 0x40,
                        "an ext3 file system" => image[1080 + 36] = 0x04,
                        "an MBR partition table" => image[446 + 4] = 0x83,
                        _ => {}
                    }
                    let found = look_at(&image);
                    assert!(
                        found.iter().any(|sighting| sighting.what == row.what
                            && Some(sighting.offset_bytes) == offset),
                        "{} at {at} of {size}: {found:?}",
                        row.what
                    );
                    image[..=65600].fill(0);
                    image[at..at + place.magic.len()].fill(0);
                    assert_eq!(look_at(&image), [], "{}", row.what);
                }
            }
        }
    }

    #[test]
    fn zfs_is_found_in_each_label() {
        let size = (4 << 20) + 4096;
        let label = 256 << 10;
        for begin in [0, label, (4 << 20) - 2 * label, (4 << 20) - label] {
            for slot in [0, 5, 127] {
                let mut image = vec![0_u8; size];
                let at = begin + label / 2 + slot * 1024;
                image[at..at + 4].copy_from_slice(&[0x0c, 0xb1, 0xba, 0]);
                assert_eq!(look_at(&image)[0].what, "a ZFS pool member");
            }
        }
    }

    /// A boot sector's code is not a partition table.
    #[test]
    fn boot_code_is_not_read_as_a_partition_table() {
        let mut image = vec![0_u8; 1 << 20];
        image[3..11].copy_from_slice(b"NTFS    ");
        image[440..510].fill(0xcc);
        image[510..512].copy_from_slice(&[0x55, 0xaa]);
        let found = look_at(&image);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].what, "an NTFS file system");
    }

    #[test]
    fn small_devices_are_probed_without_errors() {
        for size in [0, 1, 511, 512, 4096, 100_000, 524_288, 524_289] {
            assert_eq!(look_at(&vec![0; size]), [], "{size}");
        }
    }
}
