//! `--ublk` on kernels without ublk. On others, `cargo xtask fleet guest-uml` tests it.

use super::array;
use std::path::Path;

/// One sentence says what is missing, and names other ways to a block device.
#[test]
fn a_kernel_without_ublk_is_reported() {
    if Path::new("/dev/ublk-control").exists() {
        return println!("SKIPPED a_kernel_without_ublk_is_reported: this kernel has ublk");
    }
    let pool = array("raid1", "a.img,b.img", 8 << 20);
    let refused = pool.ends("serve pool --ublk auto", 1);
    let message = refused.error;
    let wanted = "spindles: this kernel has no ublk, or its module is not loaded (modprobe \
        ublk_drv): serve with --nbd and make a block device with nbd-client, or with --fuse and \
        losetup\n";
    assert_eq!(message, wanted);
    // The server did not start, and left the array healthy.
    pool.does("status pool");
    pool.ends("serve pool --ublk /dev/ublkb0", 2)
        .warns("--ublk /dev/ublkb0: give auto, or the N of /dev/ublkbN");
}
