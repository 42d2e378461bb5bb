//! The permitted system calls; all others fail with EPERM. A call by a new version of the C library
//! then causes one local error, whereas killing the process would end all connections.

use super::{Needs, Restriction};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter_all_threads,
};
use std::collections::BTreeMap;

const EPERM: u32 = 1;

/// Calls of a server from its first client to its end, and of commands on its array.
const ALLOWED: &[libc::c_long] = &[
    // Open files.
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_preadv2,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_pwritev2,
    libc::SYS_lseek,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_fallocate,
    libc::SYS_ftruncate,
    libc::SYS_flock,
    libc::SYS_fcntl,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_close,
    libc::SYS_fstat,
    libc::SYS_fstatfs,
    // A restructured array is assembled again, with a new ring.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // Names; Landlock restricts them.
    libc::SYS_openat,
    libc::SYS_unlinkat,
    libc::SYS_mkdirat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_statfs,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_readlinkat,
    libc::SYS_getdents64,
    libc::SYS_getcwd,
    libc::SYS_chdir,
    // Clients.
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_shutdown,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_socketpair,
    libc::SYS_pipe2,
    // Waiting.
    libc::SYS_ppoll,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_eventfd2,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_settime,
    libc::SYS_futex,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_clock_gettime,
    libc::SYS_gettimeofday,
    libc::SYS_restart_syscall,
    libc::SYS_wait4,
    libc::SYS_waitid,
    // Memory.
    libc::SYS_brk,
    libc::SYS_mmap,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    // Threads and their end.
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_membarrier,
    libc::SYS_prctl,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_sigaltstack,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_tgkill,
    libc::SYS_exit,
    libc::SYS_exit_group,
    // Process identity and environment.
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getrandom,
    libc::SYS_getrusage,
    libc::SYS_prlimit64,
    libc::SYS_sysinfo,
    libc::SYS_uname,
];

/// Older calls, absent on newer architectures.
#[cfg(target_arch = "x86_64")]
const OLDER: &[libc::c_long] = &[
    libc::SYS_open,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_unlink,
    libc::SYS_mkdir,
    libc::SYS_poll,
    libc::SYS_epoll_wait,
    libc::SYS_pipe,
    libc::SYS_dup2,
    libc::SYS_getrlimit,
    libc::SYS_time,
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[libc::c_long] = &[];

/// Calls that make connections, and look up host names.
const CONNECTING: &[libc::c_long] = &[
    libc::SYS_socket,
    libc::SYS_bind,
    libc::SYS_connect,
    libc::SYS_sendmmsg,
    libc::SYS_recvmmsg,
];

/// Requests that insert characters into a terminal, as if its user had typed them.
const TYPING: &[libc::Ioctl] = &[libc::TIOCSTI, libc::TIOCLINUX];

pub(super) static SECCOMP: Restriction = Restriction {
    name: |_| "seccomp",
    for_all_threads: true,
    enter: |needs| enter(needs).is_ok(),
};

fn enter(needs: &Needs) -> Result<(), seccompiler::Error> {
    let connecting = if needs.connects { CONNECTING } else { &[] };
    let all = [ALLOWED, OLDER, connecting].concat();
    let mut rules: BTreeMap<_, _> = all.into_iter().map(|call| (call, Vec::new())).collect();
    let other_than = |what: &libc::Ioctl| {
        SeccompCondition::new(1, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, *what)
    };
    let conditions: Result<Vec<_>, _> = TYPING.iter().map(other_than).collect();
    rules.insert(libc::SYS_ioctl, vec![SeccompRule::new(conditions?)?]);
    let filter = SeccompFilter::new(
        rules,
        SeccompAction::Errno(EPERM),
        SeccompAction::Allow,
        std::env::consts::ARCH.try_into()?,
    )?;
    let program: BpfProgram = filter.try_into()?;
    apply_filter_all_threads(&program)
}
