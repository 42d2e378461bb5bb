//! Asks the linker for a small binary in release builds: it packs relative relocations, and keeps
//! one of the functions with the same code. No code compares addresses of functions.

use std::env;
use std::path::Path;
use std::process::Command;

/// The target for which the compiler links with its own lld.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// The first version of glibc that reads packed relocations.
const PACKED_SINCE: (u32, u32) = (2, 36);

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    if !is("PROFILE", "release") || !is("TARGET", TARGET) || !links_with_lld() {
        return;
    }
    println!("cargo::rustc-link-arg-bins=-Wl,--icf=all");
    if is("HOST", TARGET) && glibc().is_some_and(|version| version >= PACKED_SINCE) {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// Whether the linker is the compiler's own: no setting names another, and the compiler has one.
fn links_with_lld() -> bool {
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let sysroot = env::var("RUSTC").map(|rustc| printed(&rustc, &["--print", "sysroot"]));
    let is_there = |sysroot: String| {
        let linker = format!("lib/rustlib/{TARGET}/bin/gcc-ld/ld.lld");
        Path::new(&sysroot).join(linker).exists()
    };
    env::var_os("RUSTC_LINKER").is_none()
        && !flags.contains("link")
        && sysroot.ok().flatten().is_some_and(is_there)
}

/// The version of this machine's glibc: the binary is for it, and for newer ones.
fn glibc() -> Option<(u32, u32)> {
    let text = printed("getconf", &["GNU_LIBC_VERSION"])?;
    let (major, minor) = text.strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// The output of a program that succeeds.
fn printed(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
