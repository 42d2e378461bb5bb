//! `--ublk` on kernels without ublk. On others, `cargo xtask fleet guest-uml` tests it.

use super::Pool;
use std::path::Path;

/// One sentence says what is missing, and names other ways to a block device.
#[test]
fn a_kernel_without_ublk_is_reported() {
    if Path::new("/dev/ublk-control").exists() {
        return println!("SKIPPED a_kernel_without_ublk_is_reported: this kernel has ublk");
    }
    let pool = Pool::new("raid1", "a.img,b.img", 8 << 20);
    let refused = pool.spindles(&["serve", "pool", "--ublk", "auto"]);
    assert_eq!(refused.status.code(), Some(1));
    let message = String::from_utf8_lossy(&refused.stderr);
    let wanted = "spindles: this kernel has no ublk, or its module is not loaded (modprobe \
        ublk_drv): serve with --nbd, of which nbd-client makes a block device, or with --fuse, of \
        which losetup does\n";
    assert_eq!(message, wanted);
    // The server did not start, and left the array healthy.
    let status = pool.spindles(&["status", "pool"]);
    assert!(status.status.success(), "{status:?}");
    let wrong = pool.spindles(&["serve", "pool", "--ublk", "/dev/ublkb0"]);
    assert_eq!(wrong.status.code(), Some(2));
    let message = String::from_utf8_lossy(&wrong.stderr);
    assert!(
        message.contains("--ublk /dev/ublkb0: give auto, or the N of /dev/ublkbN"),
        "{message}"
    );
}
