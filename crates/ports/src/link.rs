//! A network interface as the kernel sees it: index, address, MTU, state, and
//! the offloads that stand in a port's way.

use crate::error::{Doing, OpenError};
use crate::sys::{check, socket, take_error};
use ferrule_base::{Duration, Instant, MacAddr};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// Properties of an interface. Reading them needs no privilege.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its name.
    pub name: String,
    /// Its index.
    pub index: u32,
    /// Its address.
    pub mac: MacAddr,
    /// Its MTU: octets behind the Ethernet header.
    pub mtu: u32,
    /// Administratively up.
    pub up: bool,
    /// Up, and the carrier is there. The kernel may say so a second late.
    pub running: bool,
    /// Its driver, as `ethtool -i` says; empty where the driver does not say.
    pub driver: String,
}

const ETHTOOL_GDRVINFO: u32 = 0x03;
const ETHTOOL_GTSO: u32 = 0x1e;
const ETHTOOL_GGSO: u32 = 0x23;

/// Offloads that make or keep frames unfinished, and that a veth's own end can switch off.
/// Command, as in `linux/ethtool.h`, and name, as in `ethtool -K`.
const OFFLOADS: [(u32, &str); 5] = [
    (0x17, "tx"),  // ETHTOOL_STXCSUM
    (0x19, "sg"),  // ETHTOOL_SSG
    (0x1f, "tso"), // ETHTOOL_STSO
    (0x24, "gso"), // ETHTOOL_SGSO
    (0x2c, "gro"), // ETHTOOL_SGRO
];

#[repr(C)]
struct DriverInfo {
    cmd: u32,
    driver: [u8; 32],
    rest: [u8; 160],
}

#[repr(C)]
struct EthtoolValue {
    cmd: u32,
    data: u32,
}

/// A request about an interface: its name and 24 octets of argument or answer.
pub(crate) fn request(name: &str) -> Result<libc::ifreq, OpenError> {
    // SAFETY: all zeros are a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.is_empty() || name.len() >= libc::IFNAMSIZ || name.contains('\0') {
        return Err(OpenError::missing(name));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    Ok(request)
}

fn ask(fd: RawFd, command: libc::c_ulong, request: &mut libc::ifreq) -> io::Result<()> {
    // SAFETY: the commands used here read and write one ifreq, or the data that its pointer
    // names, which the caller keeps alive and large enough.
    check(unsafe { libc::ioctl(fd, command as _, request as *mut libc::ifreq) }).map(drop)
}

fn control() -> Result<OwnedFd, OpenError> {
    socket(libc::AF_INET, libc::SOCK_DGRAM, 0).doing(|| "a control socket".into())
}

impl Link {
    /// Looks an interface up in this thread's network namespace.
    pub fn by_name(name: &str) -> Result<Self, OpenError> {
        let control = control()?;
        let fd = control.as_raw_fd();
        let mut r = request(name)?;
        let mut answer = |command| match ask(fd, command, &mut r) {
            Err(e) if e.raw_os_error() == Some(libc::ENODEV) => Err(OpenError::missing(name)),
            result => result.doing(|| format!("asking about {name}")).map(|()| r.ifr_ifru),
        };
        let (index, mtu) = (answer(libc::SIOCGIFINDEX)?, answer(libc::SIOCGIFMTU)?);
        let (flags, address) = (answer(libc::SIOCGIFFLAGS)?, answer(libc::SIOCGIFHWADDR)?);
        // SAFETY: each command filled in the field that is read; all are plain
        // numbers.
        let (index, mtu, flags, address) = unsafe {
            (index.ifru_ifindex, mtu.ifru_mtu, flags.ifru_flags, address.ifru_hwaddr.sa_data)
        };
        let mut mac = [0; 6];
        mac.iter_mut().zip(address).for_each(|(to, from)| *to = from as u8);
        Ok(Self {
            name: name.into(),
            index: index as u32,
            mac: MacAddr(mac),
            mtu: mtu as u32,
            up: has(flags, libc::IFF_UP),
            running: has(flags, libc::IFF_UP | libc::IFF_RUNNING),
            driver: driver(fd, name)?,
        })
    }

    /// True if this is one end of a virtual pair in memory.
    pub fn is_veth(&self) -> bool {
        self.driver == "veth"
    }

    /// True if the far end of a veth makes super-frames; nothing if this is no veth, or the
    /// far end is in another namespace.
    pub fn far_end_makes_supers(&self) -> Option<bool> {
        let far = self.far_end().filter(|far| far.is_veth() && self.is_veth())?;
        // An index of another namespace may belong to another interface here.
        far.far_index().filter(|&back| back == self.index)?;
        [ETHTOOL_GTSO, ETHTOOL_GGSO]
            .iter()
            .map(|&command| far.has(command))
            .reduce(|tso, gso| Some(tso? || gso?))?
    }

    fn far_end(&self) -> Option<Self> {
        let mut name = [0_u8; libc::IFNAMSIZ];
        // SAFETY: the kernel writes a name with its zero into a place of that size.
        let found = unsafe { libc::if_indextoname(self.far_index()?, name.as_mut_ptr().cast()) };
        let len = (!found.is_null()).then(|| name.iter().position(|&c| c == 0))??;
        Self::by_name(std::str::from_utf8(&name[..len]).ok()?).ok()
    }

    /// The index of the interface at its other end, in the namespace of that.
    fn far_index(&self) -> Option<u32> {
        let path = format!("/sys/class/net/{}/iflink", self.name);
        std::fs::read_to_string(path).ok()?.trim().parse().ok()
    }

    /// True if an offload is on; nothing if the kernel does not tell.
    fn has(&self, command: u32) -> Option<bool> {
        let control = control().ok()?;
        let mut value = EthtoolValue { cmd: command, data: 0 };
        let mut r = request(&self.name).ok()?;
        r.ifr_ifru.ifru_data = (&raw mut value).cast();
        ask(control.as_raw_fd(), libc::SIOCETHTOOL, &mut r).ok()?;
        Some(value.data != 0)
    }

    /// True if frames come out of another system's memory and not off a wire: then nothing
    /// breaks on the way, and checksums may be left unfinished.
    pub fn is_memory(&self) -> bool {
        matches!(self.driver.as_str(), "veth" | "virtio_net" | "tun")
    }

    /// Fails, with the remedy, unless the interface is up.
    pub fn require_up(&self) -> Result<(), OpenError> {
        if self.up {
            return Ok(());
        }
        Err(OpenError::os(
            format!("{} is down", self.name),
            io::Error::from_raw_os_error(libc::ENETDOWN),
        )
        .remedy(format!("Bring it up: `ip link set {} up`.", self.name)))
    }

    /// Switches off, at this end, the offloads that make frames unfinished: checksum,
    /// segmentation and receive offloads. Returns the names of those that the driver would
    /// not switch. Needs CAP_NET_ADMIN.
    ///
    /// On a veth the frames that arrive here were made at the *other* end: that
    /// end wants the same (`ethtool -K NAME tx off tso off gso off`), or a port
    /// kind that finishes frames itself, see the crate's table.
    pub fn offloads_off(&self) -> Result<Vec<&'static str>, OpenError> {
        let control = control()?;
        let mut refused = Vec::new();
        for (cmd, name) in OFFLOADS {
            let mut value = EthtoolValue { cmd, data: 0 };
            let mut r = request(&self.name)?;
            r.ifr_ifru.ifru_data = (&raw mut value).cast();
            match ask(control.as_raw_fd(), libc::SIOCETHTOOL, &mut r) {
                Ok(()) => {}
                Err(e) if matches!(e.raw_os_error(), Some(libc::EPERM | libc::ENODEV)) => {
                    return Err(e).doing(|| format!("switching {name} off at {}", self.name));
                }
                Err(_) => refused.push(name),
            }
        }
        Ok(refused)
    }
}

fn driver(fd: RawFd, name: &str) -> Result<String, OpenError> {
    let mut info = DriverInfo { cmd: ETHTOOL_GDRVINFO, driver: [0; 32], rest: [0; 160] };
    let mut r = request(name)?;
    r.ifr_ifru.ifru_data = (&raw mut info).cast();
    if ask(fd, libc::SIOCETHTOOL, &mut r).is_err() {
        return Ok(String::new());
    }
    let name: Vec<u8> = info.driver.into_iter().take_while(|&b| b != 0).collect();
    Ok(String::from_utf8_lossy(&name).into_owned())
}

fn has(flags: libc::c_short, all: i32) -> bool {
    i32::from(flags) & all == all
}

/// Interval at which a port checks that its interface is still up.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Keeps an eye on an interface's state, rarely enough to cost nothing. Another interface
/// of the same name is not the port's: that one is gone.
pub(crate) struct Watch {
    control: OwnedFd,
    request: libc::ifreq,
    index: u32,
    socket: RawFd,
    next: Instant,
    up: bool,
    running: bool,
}

// SAFETY: the request's union holds no live pointer.
unsafe impl Send for Watch {}

impl Watch {
    /// `socket` is the port's own, whose pending error is cleared on each look:
    /// an interface that went down would else keep `poll` awake.
    pub(crate) fn new(name: &str, index: u32, socket: RawFd) -> Result<Self, OpenError> {
        let mut watch = Self {
            control: control()?,
            request: request(name)?,
            index,
            socket,
            next: Instant::ZERO,
            up: false,
            running: false,
        };
        watch.look();
        Ok(watch)
    }

    fn look(&mut self) {
        let fd = self.control.as_raw_fd();
        let asked = ask(fd, libc::SIOCGIFINDEX, &mut self.request);
        // SAFETY: the command just filled in the index, else it is not read.
        let index = asked.ok().map(|()| unsafe { self.request.ifr_ifru.ifru_ifindex } as u32);
        let is_ours = index == Some(self.index);
        let asked = ask(fd, libc::SIOCGIFFLAGS, &mut self.request);
        let flags = match is_ours && asked.is_ok() {
            // SAFETY: as above, of the flags.
            true => unsafe { self.request.ifr_ifru.ifru_flags },
            false => 0,
        };
        self.up = has(flags, libc::IFF_UP);
        self.running = has(flags, libc::IFF_UP | libc::IFF_RUNNING);
        take_error(self.socket);
    }

    #[inline]
    pub(crate) fn refresh(&mut self, now: Instant) {
        if now >= self.next {
            self.next = now + LOOK_EVERY;
            self.look();
        }
    }

    /// Administratively up: worth trying to send.
    #[inline]
    pub(crate) fn may_send(&self) -> bool {
        self.up
    }

    /// True if the interface is up and has a carrier.
    #[inline]
    pub(crate) fn is_up(&self) -> bool {
        self.running
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::OpenFault;

    #[test]
    fn link_knows_the_loopback_and_names_what_is_missing() {
        let lo = Link::by_name("lo").unwrap();
        assert_eq!((lo.index, lo.mac), (1, MacAddr::ZERO));
        for name in ["", "no-such-link", "much-too-long-for-an-interface"] {
            assert_eq!(Link::by_name(name).unwrap_err().fault, OpenFault::MissingInterface);
        }
    }
}
