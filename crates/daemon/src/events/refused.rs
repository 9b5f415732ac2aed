//! Names the sender of a refused packet: RFC 4301 section 5.2, RFC 4303 section 3.4.

use ferrule_base::DropReason;
use ferrule_dataplane::acl::Verdict;
use ferrule_dataplane::audit::{Logged, Sample};
use ferrule_dataplane::classify::Direction;
use ferrule_node::config::AclConfig;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use tracing::{info, warn};

/// SPI, addresses and numbers of a packet that was refused, as far as they are there.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Refused {
    src: Option<IpAddr>,
    dst: Option<IpAddr>,
    protocol: Option<u8>,
    flow_label: Option<u32>,
    spi: Option<u32>,
    number: Option<u32>,
    sci: Option<u64>,
}

fn word(octets: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*octets.get(at..)?.first_chunk()?))
}

impl Refused {
    pub fn of(sample: &Sample) -> Self {
        let head = &sample.head[..sample.len];
        match sample.reason.name().starts_with("macsec") {
            true => Self::frame(head),
            false => Self::packet(head),
        }
    }

    /// 802.1AE clause 9.3: the SecTAG behind two addresses.
    fn frame(head: &[u8]) -> Self {
        const SC: u8 = 0x20;
        if head.get(12..14) != Some(&[0x88, 0xe5]) {
            return Self::default();
        }
        let explicit = head.get(14).is_some_and(|tci| tci & SC != 0);
        let sci = || Some(u64::from(word(head, 20)?) << 32 | u64::from(word(head, 24)?));
        let sci = if explicit { sci() } else { None };
        Self { number: word(head, 16), sci, ..Self::default() }
    }

    fn packet(head: &[u8]) -> Self {
        const UDP: u8 = 17;
        const ESP: u8 = 50;
        const AH: u8 = 51;
        let v4 = |at: usize| Some(Ipv4Addr::from(*head.get(at..)?.first_chunk::<4>()?).into());
        let v6 = |at: usize| Some(Ipv6Addr::from(*head.get(at..)?.first_chunk::<16>()?).into());
        let (mut refused, at) = match head.first().map(|octet| octet >> 4) {
            Some(4) => {
                let protocol = head.get(9).copied();
                let at = usize::from(head[0] & 15) * 4;
                (Self { src: v4(12), dst: v4(16), protocol, ..Self::default() }, at)
            }
            Some(6) => {
                let flow_label = word(head, 0).map(|w| w & 0xf_ffff);
                let protocol = head.get(6).copied();
                (Self { src: v6(8), dst: v6(24), protocol, flow_label, ..Self::default() }, 40)
            }
            _ => return Self::default(),
        };
        let esp = match refused.protocol {
            Some(ESP) => Some(at),
            Some(AH) => Some(at + 4),
            // RFC 3948: behind the header of UDP.
            Some(UDP) => Some(at + 8),
            _ => None,
        };
        if let Some(at) = esp {
            (refused.spi, refused.number) = (word(head, at), word(head, at + 4));
        }
        refused
    }

    /// Logs a packet for a tunnel that has no SA.
    pub fn write_acquire(head: &[u8], tunnel: &str) {
        let packet = Self::packet(head);
        let ports = packet.ports(head);
        info!(target: "ferrule",
            tunnel,
            src = packet.src.map(display),
            dst = packet.dst.map(display),
            protocol = packet.protocol,
            src_port = ports.map(|[src, _]| src),
            dst_port = ports.map(|[_, dst]| dst),
            "acquire"
        );
    }

    /// An IP packet that an entry of an access list had.
    pub fn logged(logged: &Logged) -> Self {
        Self::packet(&logged.head[..logged.len])
    }

    /// Ports of TCP or UDP behind a header without options, as far as they are there.
    fn ports(&self, head: &[u8]) -> Option<[u16; 2]> {
        const TCP: u8 = 6;
        const UDP: u8 = 17;
        let at = if self.src?.is_ipv4() { usize::from(head.first()? & 15) * 4 } else { 40 };
        let later = self.src?.is_ipv4() && word(head, 4)? & 0x1fff != 0;
        let ports =
            word(head, at).filter(|_| matches!(self.protocol, Some(TCP | UDP)) && !later)?;
        Some([(ports >> 16) as u16, ports as u16])
    }

    /// Logs a packet that an entry of an access list permitted or denied with logging.
    pub fn write_acl(&self, logged: &Logged, list: &AclConfig, entry: usize, port: &str) {
        let found = list.entries.get(entry);
        let ports = self.ports(&logged.head[..logged.len]);
        info!(target: "ferrule",
            list = list.name,
            entry = entry + 1,
            name = found.and_then(|entry| entry.name.as_deref()),
            action = found.map(|entry| match entry.verdict {
                Verdict::Permit => "permit",
                Verdict::Deny => "deny",
            }),
            way = match logged.way {
                Direction::Inbound => "in",
                Direction::Outbound => "out",
            },
            count = logged.count,
            port,
            src = self.src.map(display),
            dst = self.dst.map(display),
            protocol = self.protocol,
            src_port = ports.map(|[src, _]| src),
            dst_port = ports.map(|[_, dst]| dst),
            "acl"
        );
    }

    pub fn write(&self, reason: DropReason, count: u64, port: &str) {
        warn!(target: "ferrule",
            reason = reason.name(),
            count,
            port,
            src = self.src.map(display),
            dst = self.dst.map(display),
            protocol = self.protocol,
            flow_label = self.flow_label,
            spi = self.spi.map(|spi| display(format!("0x{spi:08x}"))),
            number = self.number,
            sci = self.sci.map(|sci| display(format!("{sci:016x}"))),
            "refused"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_packets_say_who_they_are() {
        let mut v4 = vec![0x45, 0, 0, 60, 0, 0, 0, 0, 64, 50, 0, 0, 192, 0, 2, 1, 198, 51, 100, 2];
        v4.extend([0, 0, 0x10, 1, 0, 0, 0, 7, 9, 9]);
        let found = Refused::packet(&v4);
        assert_eq!((found.spi, found.number, found.protocol), (Some(0x1001), Some(7), Some(50)));
        assert_eq!(found.src, Some("192.0.2.1".parse().unwrap()));
        let mut v6 = vec![0x60, 0x0a, 0xbc, 0xde, 0, 12, 51, 64];
        v6.extend(Ipv6Addr::LOCALHOST.octets());
        v6.extend(Ipv6Addr::UNSPECIFIED.octets());
        v6.extend([59, 4, 0, 0, 0, 0, 0x20, 2, 0, 0, 0, 8]);
        let found = Refused::packet(&v6);
        assert_eq!((found.spi, found.number), (Some(0x2002), Some(8)));
        assert_eq!(found.flow_label, Some(0xa_bcde));
        let mut frame = vec![2; 12];
        frame.extend([0x88, 0xe5, 0x20, 0, 0, 0, 0, 9, 1, 2, 3, 4, 5, 6, 0, 1]);
        let found = Refused::frame(&frame);
        assert_eq!((found.number, found.sci), (Some(9), Some(0x0102_0304_0506_0001)));
        // Cut anywhere, nothing is made up.
        for whole in [&v4, &v6] {
            for len in 0..whole.len() {
                let cut = Refused::packet(&whole[..len]);
                assert!(cut.spi.is_none() || cut.spi == Refused::packet(whole).spi);
            }
        }
        for len in 0..frame.len() {
            assert!(Refused::frame(&frame[..len]).sci.is_none());
        }
    }
}
