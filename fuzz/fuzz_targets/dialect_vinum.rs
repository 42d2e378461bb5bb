//! Any text is read as Vinum's configurations or refused.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "shared/dialect.rs"]
mod shared;

const WORDS: shared::Words = &[
    "drive a device /dev/a\n",
    "drive b device /dev/b\n",
    "drive c device /dev/c\n",
    "drive d device /dev/d\n",
    "drive h device /dev/h hotspare\n",
    "volume v\n",
    "volume w setupstate\n",
    "volume x plex p\n",
    "plex org concat\n",
    "plex org striped 8b\n",
    "plex org raid5 16k\n",
    "plex org raid4 8b\n",
    "plex name p org concat",
    "sd len 64b drive a\n",
    "sd len 64b drive b\n",
    "sd len 64b drive c\n",
    "sd length 1m ",
    "sd ",
    "drive a",
    "drive b",
    "length 0 ",
    "len max ",
    "driveoffset 300b ",
    "plexoffset 64b ",
    "name n ",
    "plex p ",
    " detached",
    "state up ",
    "\\\n",
    "\n",
    "\"",
    "# ",
];

fuzz_target!(|data: &[u8]| shared::check("vinum", WORDS, data));
