//! Arrays that lack members: what of them is read, what may be written, and how members and whole inner
//! arrays take the places of those that are lost.
#![expect(clippy::unwrap_used, reason = "tests")]

mod common;

use common::run;
use spindles_block::{BlockSize, BufferSlice, Operation};
use spindles_io::OpenOptions;
use spindles_io::assemble::{AssembleError, AssembleOptions, Assembled, assemble};
use spindles_io::create::{CreateOptions, create};
use spindles_layout::Expression;
use std::fs::{self, File};

/// A folder with devices.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new(names: &[&str]) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        for name in names {
            let file = File::create(folder.path(name)).unwrap();
            file.set_len(8 << 20).unwrap();
        }
        folder
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    /// `raid5(a,b,c)` with the devices of this folder, which all have names of one letter.
    fn create(&self, text: &str, options: &CreateOptions) {
        let mut whole = String::new();
        let letters: Vec<char> = text.chars().collect();
        for (at, letter) in letters.iter().enumerate() {
            let ends = matches!(letters.get(at + 1), Some(',' | ')'));
            let begins = at > 0 && matches!(letters[at - 1], '(' | ',');
            if begins && ends {
                whole.push_str(&self.path(&letter.to_string()));
            } else {
                whole.push(*letter);
            }
        }
        let expression = Expression::parse(&whole).unwrap();
        create(&expression, options, &mut |_, _| true).unwrap();
    }

    fn assemble(
        &self,
        names: &[&str],
        options: &AssembleOptions,
    ) -> Result<Assembled, AssembleError> {
        let paths: Vec<String> = names.iter().map(|name| self.path(name)).collect();
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        assemble(&paths, options)
    }

    /// Writes `byte` to the beginning of the array, and closes it or lets it crash.
    fn write(&self, names: &[&str], options: &AssembleOptions, byte: u8, closes: bool) {
        let mut target = self.assemble(names, options).unwrap().target;
        let buffer = target.allocate(BLOCKS);
        target.buffer_mut(buffer).fill(byte);
        let place = BufferSlice {
            buffer,
            first_block: 0,
        };
        let write = Operation::Write { fua: true };
        run(target.as_mut(), write, 0, BLOCKS, place).unwrap();
        if closes {
            target.close().unwrap();
        }
    }

    /// What the beginning of the array holds, where that is the same byte.
    fn read(&self, names: &[&str], options: &AssembleOptions) -> Option<u8> {
        let mut target = self.assemble(names, options).unwrap().target;
        let buffer = target.allocate(BLOCKS);
        let place = BufferSlice {
            buffer,
            first_block: 0,
        };
        let read = run(target.as_mut(), Operation::Read, 0, BLOCKS, place);
        let bytes = target.buffer(buffer);
        let same = bytes.iter().all(|byte| *byte == bytes[0]);
        let byte = bytes[0];
        target.close().unwrap();
        read.ok().filter(|()| same).map(|()| byte)
    }

    /// All that is in the folder, to be compared.
    fn contents(&self) -> Vec<(String, Vec<u8>)> {
        let files = fs::read_dir(self.0.path()).unwrap();
        let mut contents: Vec<_> = files
            .map(|entry| entry.unwrap())
            .map(|entry| {
                let name = entry.file_name().into_string().unwrap();
                (name, fs::read(entry.path()).unwrap())
            })
            .collect();
        contents.sort_unstable();
        contents
    }
}

/// So much is written: some stripes.
const BLOCKS: u32 = 128;

fn options() -> CreateOptions {
    CreateOptions {
        block_size: BlockSize::B4096,
        chunk_bytes: Some(64 << 10),
        ..CreateOptions::new("test")
    }
}

fn read_only() -> AssembleOptions {
    AssembleOptions {
        open: OpenOptions {
            read_only: true,
            ..OpenOptions::default()
        },
        ..AssembleOptions::default()
    }
}

/// The superblock of the outer array is on the member that is lost, and the inner one was not closed: it is
/// known what the arrays are, for who only reads them too.
#[test]
fn an_inner_array_that_crashed_and_lacks_a_member_is_known_for_what_it_is() {
    for expression in ["raid0(raid5(a,b,c),d)", "raid1(raid6(a,b,c,d),e)"] {
        let names = &["a", "b", "c", "d", "e"][..expression.matches(',').count() + 1];
        let folder = Folder::new(names);
        folder.create(expression, &options());
        let writing = AssembleOptions::default();
        folder.write(names, &writing, 0x5a, false);
        let before = folder.contents();
        let looked = folder.assemble(&names[1..], &read_only()).unwrap();
        assert!(looked.report.missing().is_empty(), "{:?}", looked.report);
        assert!(!looked.report.is_clean());
        drop(looked);
        // Data has no such checksums: what only a replay would tell is not taken for it.
        assert_eq!(folder.read(&names[1..], &read_only()), None, "{expression}");
        assert!(before == folder.contents(), "{expression} was written to");
        assert_eq!(folder.read(&names[1..], &writing), Some(0x5a));
    }
}
