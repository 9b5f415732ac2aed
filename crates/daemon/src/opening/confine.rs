//! Confinement of the companion: it keeps as little of root's rights as its grants need.
//!
//! | | what is left | needs |
//! | --- | --- | --- |
//! | capabilities | of `NET_RAW`, `NET_ADMIN`, `BPF` those that a granted port takes | – |
//! | programs | none can be started | – |
//! | system calls | those that opening a port makes, by number and argument | seccomp |
//! | files | `/dev/net/tun`, and removing from the folders of the management socket and of its link | Landlock (Linux 5.13) |
//! | signals, TCP | none out of here | Landlock (Linux 6.12, 6.7) |
//!
//! Where the kernel has no Landlock the rest holds without it.

use super::message::{Grant, Kind};
use landlock::{
    ABI, Access, AccessFs, AccessNet, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, Scope,
};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capability_is_in_bounding_set, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};
use std::os::fd::OwnedFd;

/// Through which a TAP or TUN is made.
const TUN: &str = "/dev/net/tun";
/// The newest rules that are asked for; an older kernel applies what it knows.
const LANDLOCK: ABI = ABI::V6;

/// `_IOW('T', 202, int)` and `_IOW('T', 208, unsigned)` of `linux/if_tun.h`.
const TUNSETIFF: u64 = 0x4004_54ca;
const TUNSETOFFLOAD: u64 = 0x4004_54d0;
/// Commands of `bpf(2)`.
const BPF_MAP_CREATE: u64 = 0;
const BPF_PROG_LOAD: u64 = 5;
const BPF_LINK_CREATE: u64 = 28;

/// Gives up, for good, all but what the grants need and removing from `folders`.
pub(super) fn confine<'a>(
    grants: &[Grant],
    folders: impl Iterator<Item = &'a OwnedFd>,
) -> Result<(), String> {
    let failed = |what: &'static str| move |e: rustix::io::Errno| format!("{what}: {e}");
    let needed = Needed::by(grants);
    set_no_new_privs(true).map_err(failed("no_new_privs"))?;
    for capability in CapabilitySet::all().iter() {
        // Refused where CAP_SETPCAP is not there: then none is gained by a
        // program either, since none may be started.
        if capability_is_in_bounding_set(capability).unwrap_or(false) {
            let _ = remove_capability_from_bounding_set(capability);
        }
    }
    clear_ambient_capability_set().map_err(failed("ambient capabilities"))?;
    restrict_files(&needed, folders).map_err(|e| format!("Landlock: {e}"))?;
    let kept = needed.capabilities();
    let sets =
        CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    set_capabilities(None, sets).map_err(failed("capabilities"))?;
    restrict_calls(&needed).map_err(|e| format!("seccomp: {e}"))
}

/// Kinds of ports that are granted.
struct Needed {
    xdp: bool,
    packet: bool,
    tap: bool,
}

impl Needed {
    fn by(grants: &[Grant]) -> Self {
        let any = |kind| grants.iter().any(|g| g.kind.is_none_or(|granted| granted == kind));
        Self { xdp: any(Kind::Xdp), packet: any(Kind::Packet), tap: any(Kind::Tap) }
    }

    fn capabilities(&self) -> CapabilitySet {
        let none = CapabilitySet::empty();
        let (raw, admin) = (CapabilitySet::NET_RAW, CapabilitySet::NET_ADMIN);
        let xdp = if self.xdp { raw | admin | CapabilitySet::BPF } else { none };
        let packet = if self.packet { raw } else { none };
        let tap = if self.tap { admin } else { none };
        xdp | packet | tap
    }
}

fn restrict_files<'a>(
    needed: &Needed,
    folders: impl Iterator<Item = &'a OwnedFd>,
) -> Result<(), RulesetError> {
    let mut rules = Ruleset::default()
        .handle_access(AccessFs::from_all(LANDLOCK))?
        .handle_access(AccessNet::from_all(LANDLOCK))?
        .scope(Scope::from_all(LANDLOCK))?
        .create()?;
    if let (true, Ok(tun)) = (needed.tap, PathFd::new(TUN)) {
        let access = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev;
        rules = rules.add_rule(PathBeneath::new(tun, access))?;
    }
    for folder in folders {
        rules = rules.add_rule(PathBeneath::new(folder, AccessFs::RemoveFile))?;
    }
    rules.restrict_self().map(drop)
}

/// System calls of any arguments: memory, descriptors that are there, the end.
const CALLS: [libc::c_long; 31] = [
    libc::SYS_brk,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_close,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_fcntl,
    libc::SYS_fstat,
    libc::SYS_futex,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_getsockopt,
    libc::SYS_gettid,
    libc::SYS_madvise,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_newfstatat,
    libc::SYS_openat,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_restart_syscall,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_setsockopt,
    libc::SYS_sigaltstack,
    libc::SYS_unlinkat,
];

/// Questions about an interface.
const QUESTIONS: [u64; 5] = [
    libc::SIOCGIFINDEX,
    libc::SIOCGIFMTU,
    libc::SIOCGIFFLAGS,
    libc::SIOCGIFHWADDR,
    libc::SIOCETHTOOL,
];

fn restrict_calls(needed: &Needed) -> Result<(), seccompiler::Error> {
    let families = [
        (true, libc::AF_INET),
        (needed.xdp, libc::AF_XDP),
        (needed.packet, libc::AF_PACKET),
        (needed.tap, libc::AF_NETLINK),
    ];
    let families = families.iter().filter(|(wanted, _)| *wanted).map(|(_, f)| *f as u64);
    let tun = [TUNSETIFF, TUNSETOFFLOAD];
    let tun = if needed.tap { &tun[..] } else { &[] };
    let bpf = [BPF_MAP_CREATE, BPF_PROG_LOAD, BPF_LINK_CREATE];
    let mut rules: Vec<_> = CALLS.iter().map(|&call| (call, Vec::new())).collect();
    // Standard error, and nothing else that can be written.
    rules.push((libc::SYS_write, one_of(0, [libc::STDERR_FILENO as u64])?));
    rules.push((libc::SYS_socket, one_of(0, families)?));
    rules.push((libc::SYS_ioctl, one_of(1, QUESTIONS.iter().chain(tun).copied())?));
    if needed.xdp {
        rules.push((libc::SYS_bpf, one_of(0, bpf)?));
    }
    let arch = std::env::consts::ARCH.try_into()?;
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    let rules = rules.into_iter().collect();
    let filter = SeccompFilter::new(rules, refused, SeccompAction::Allow, arch)?;
    seccompiler::apply_filter(&BpfProgram::try_from(filter)?)
}

/// Rules for a call of which an argument must be one of these.
fn one_of(
    argument: u8,
    values: impl IntoIterator<Item = u64>,
) -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    let rule = |value| {
        let (len, is) = (SeccompCmpArgLen::Dword, SeccompCmpOp::Eq);
        SeccompRule::new(vec![SeccompCondition::new(argument, len, is, value)?])
    };
    values.into_iter().map(rule).collect()
}
