//! Reasons to drop a packet: a closed list with one counter each.
//!
//! A reason names something that an operator can act on. `rust: enum`, `show drops: name`,
//! `metrics: label` are one and the same name.

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+) => {
        /// Reason of a dropped packet.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum DropReason {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl DropReason {
            /// Every reason, in order.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// The name in `show drops` and in the metrics.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// Description in one sentence.
            pub const fn about(self) -> &'static str {
                match self { $(Self::$variant => concat!($($doc),+),)+ }
            }
        }
    };
}

reasons! {
    /// A header is cut short or contradicts itself.
    Malformed = "malformed",
    /// A checksum is wrong: of an IPv4 header, of ICMP, or of UDP around ESP.
    BadChecksum = "bad-checksum",
    /// The frame is not for this node's address.
    NotForUs = "not-for-us",
    /// The EtherType or protocol is not carried here.
    UnknownProtocol = "unknown-protocol",
    /// The VLAN is not configured on the port.
    UnknownVlan = "unknown-vlan",
    /// The port is attached to nothing.
    NotAttached = "not-attached",
    /// A source address that no sender may have: group, loopback, a network's broadcast, our own.
    BadSource = "bad-source",
    /// The bridge would send the frame back where it came from.
    BridgeSamePort = "bridge-same-port",
    /// A link-local group address (01-80-C2-00-00-0X) that a bridge must not forward.
    BridgeReserved = "bridge-reserved",
    /// No route to the source leads back by the interface of arrival (RFC 3704).
    ReversePath = "reverse-path",
    /// An access list denies this traffic.
    AclDenied = "acl-denied",
    /// No route to the destination.
    NoRoute = "no-route",
    /// The route says to discard.
    RouteDiscard = "route-discard",
    /// A group, broadcast, loopback or link-local address, which no router forwards, of the packet or of its frame.
    NotRouted = "not-routed",
    /// TTL or hop limit ended here.
    TtlExpired = "ttl-expired",
    /// Larger than the MTU and must not be fragmented.
    TooBig = "too-big",
    /// The neighbour did not answer.
    NoNeighbour = "no-neighbour",
    /// Too many packets wait for neighbours.
    NeighbourQueueFull = "neighbour-queue-full",
    /// A neighbour message that is not from this link: hop limit below 255, or through a tunnel.
    NeighbourFromAfar = "neighbour-from-afar",
    /// An ARP or ND message whose sender has no address of this link.
    NeighbourOffLink = "neighbour-off-link",
    /// An ARP or ND message whose link address is a group's, zero or our own.
    NeighbourLinkAddress = "neighbour-link-address",
    /// An ARP or ND message about an address that cannot be one host's.
    NeighbourAddress = "neighbour-address",
    /// A solicitation without a source that breaks a rule (RFC 4861 section 7.1.1).
    NeighbourUnspecified = "neighbour-unspecified",
    /// An advertisement to a group that says it was solicited (RFC 4861 section 7.1.2).
    NeighbourSolicited = "neighbour-solicited",
    /// A message of or to routers, which are configured by hand here.
    RouterMessage = "router-message",
    /// More neighbour messages at a time than can be learned from.
    NeighbourBusy = "neighbour-busy",
    /// To or from an own IPv6 address that is still checked, or that another node has (RFC 4862 section 5.4).
    AddressWithheld = "address-withheld",
    /// ICMP errors and replies are rate limited.
    IcmpRateLimited = "icmp-rate-limited",
    /// An ICMP error about a packet that was not sent (no SA has its SPI or number, or its tunnel may not carry it), or of an MTU below 1280 for IPv6.
    IcmpForged = "icmp-forged",
    /// A fragment, where whole datagrams are needed.
    FragmentNotSupported = "fragment-not-supported",
    /// Fragments that overlap or contradict one another: the whole datagram goes (RFC 5722).
    FragmentOverlap = "fragment-overlap",
    /// A fragment that was there already.
    FragmentDuplicate = "fragment-duplicate",
    /// A first fragment too short for the headers that decide about it, or one that says them anew (RFC 3128, RFC 7112).
    FragmentTiny = "fragment-tiny",
    /// The other fragments of the datagram did not come in time.
    ReassemblyTimeout = "reassembly-timeout",
    /// A datagram in fragments made room for a newer one: too many at a time, in all or of its source.
    ReassemblyFull = "reassembly-full",
    /// A datagram in fragments that is too long for one buffer (buffer-size).
    ReassemblyTooBig = "reassembly-too-big",
    /// IP options or extension headers that are not carried here, or that say so themselves.
    IpOption = "ip-option",
    /// No entry for the incoming label.
    NoLabel = "no-label",
    /// A reserved label (0 to 15) where none may be.
    ReservedLabel = "reserved-label",
    /// The bottom-of-stack bit contradicts what the label means.
    LabelStack = "label-stack",
    /// The control word is missing or not one of RFC 4385.
    ControlWord = "control-word",
    /// A pseudowire frame out of sequence (RFC 4385 section 4).
    PwSequence = "pw-sequence",
    /// The pseudowire's mode and the frame's tag do not fit (RFC 4448).
    PwTag = "pw-tag",
    /// A clear frame at a port that must be secured.
    MacsecUntagged = "macsec-untagged",
    /// A SecTAG that breaks a rule of 802.1AE.
    MacsecBadTag = "macsec-bad-tag",
    /// No receive channel for the SCI.
    MacsecUnknownSci = "macsec-unknown-sci",
    /// No association in use for the AN.
    MacsecUnusedSa = "macsec-unused-sa",
    /// Packet number below the lowest acceptable one, or seen before.
    MacsecReplay = "macsec-replay",
    /// The MACsec ICV is wrong: another key, or altered on the way.
    MacsecBadIcv = "macsec-bad-icv",
    /// No transmit association installed.
    MacsecNoTxSa = "macsec-no-tx-sa",
    /// The packet number is used up; a new SAK is needed.
    MacsecPnExhausted = "macsec-pn-exhausted",
    /// The policy discards this traffic.
    PolicyDiscard = "policy-discard",
    /// No SA for the SPI.
    EspUnknownSpi = "esp-unknown-spi",
    /// Sequence number outside the window, or seen before.
    EspReplay = "esp-replay",
    /// The ESP ICV is wrong: another key, or altered on the way.
    EspBadIcv = "esp-bad-icv",
    /// Opened, but padding, next header or inner length are wrong.
    EspBadTrailer = "esp-bad-trailer",
    /// Opened, but not what the SA may carry (RFC 4301 section 5.2).
    EspSelectorMismatch = "esp-selector-mismatch",
    /// Congestion was marked outside, and the inner packet cannot say so (RFC 6040 section 4.2).
    EspEcn = "esp-ecn",
    /// A dummy packet (next header 59).
    EspDummy = "esp-dummy",
    /// ESP came in UDP and its SA has none, or the other way round (RFC 3948).
    EspEncapsulation = "esp-encapsulation",
    /// The packet should have arrived inside another SA, which encloses this one.
    EspNotNested = "esp-not-nested",
    /// Clear traffic that the policy wants protected.
    EspRequired = "esp-required",
    /// No outbound SA for the policy.
    EspNoSa = "esp-no-sa",
    /// The sequence number or its reserved range is used up.
    EspSequenceExhausted = "esp-sequence-exhausted",
    /// The hard lifetime of an SA of ESP or AH is over, in packets, octets or time (RFC 4301 section 4.4.2.1).
    SaExpired = "sa-expired",
    /// No AH SA for the SPI, or addresses that are not the SA's.
    AhUnknownSpi = "ah-unknown-spi",
    /// The AH packet should have arrived inside another SA, which encloses this one.
    AhNotNested = "ah-not-nested",
    /// AH's sequence number outside the window, or seen before.
    AhReplay = "ah-replay",
    /// The ICV of AH is wrong: another key, or altered on the way.
    AhBadIcv = "ah-bad-icv",
    /// AH is not as long as its SA says, or what it carries in tunnel mode is no IP packet.
    AhBadHeader = "ah-bad-header",
    /// Authentic, but not what the AH SA may carry (RFC 4301 section 5.2).
    AhSelectorMismatch = "ah-selector-mismatch",
    /// Congestion was marked outside AH's tunnel, and the inner packet cannot say so (RFC 6040 section 4.2).
    AhEcn = "ah-ecn",
    /// No outbound AH SA for the policy.
    AhNoSa = "ah-no-sa",
    /// AH's sequence number or its reserved range is used up.
    AhSequenceExhausted = "ah-sequence-exhausted",
    /// The crypto engine's queue is full.
    EngineFull = "engine-full",
    /// The crypto engine lost or failed the job.
    EngineFailed = "engine-failed",
    /// The key stream for it is gone or was never made: too late, or unexpected (a key on a token).
    KeystreamGone = "keystream-gone",
    /// No free buffer.
    NoBuffer = "no-buffer",
    /// No head or tail room for another header.
    NoRoom = "no-room",
    /// The port's transmit queue is full.
    TxQueueFull = "tx-queue-full",
    /// The hand-off ring to another worker is full.
    HandoffFull = "handoff-full",
    /// The queue to the node's control part is full.
    ControlQueueFull = "control-queue-full",
    /// EAPOL that the port's MKA entity did not take.
    MkaRefused = "mka-refused",
    /// An MKPDU with a wrong ICV, in more EAPOL of no peer than the MKA entity is shown.
    MkaForged = "mka-forged",
    /// An MKPDU that is not newer than what was heard of its sender, or our own: in more EAPOL of no peer than the MKA entity is shown.
    MkaReplay = "mka-replay",
    /// A datagram at a port of keying programs, of which none listens.
    NoKeyingProgram = "no-keying-program",
    /// The port is down or was removed.
    PortDown = "port-down",
    /// A packet went round in the graph too often.
    GraphLoop = "graph-loop",
    /// The port's card has no tables: it was reset, or it failed. Nothing passes in clear.
    CardDown = "card-down",
}

/// One counter for each reason.
#[derive(Clone, Debug)]
pub struct Drops([u64; DropReason::ALL.len()]);

impl Drops {
    /// Counts one packet.
    #[inline]
    pub const fn count(&mut self, reason: DropReason) {
        self.0[reason as usize] += 1;
    }

    /// Packets dropped for `reason`.
    pub const fn get(&self, reason: DropReason) -> u64 {
        self.0[reason as usize]
    }

    /// Sum over all reasons.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The reasons that happened.
    pub fn iter(&self) -> impl Iterator<Item = (DropReason, u64)> + '_ {
        DropReason::ALL.iter().map(|&r| (r, self.get(r))).filter(|&(_, n)| n > 0)
    }

    /// Adds another worker's counts.
    pub fn merge(&mut self, other: &Self) {
        for (a, b) in self.0.iter_mut().zip(&other.0) {
            *a += b;
        }
    }
}

impl Default for Drops {
    fn default() -> Self {
        Self([0; DropReason::ALL.len()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_drop_reason_has_a_name_of_its_own() {
        let mut names: Vec<_> = DropReason::ALL.iter().map(|r| r.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), DropReason::ALL.len());
        let mut d = Drops::default();
        d.count(DropReason::EspReplay);
        assert_eq!(d.iter().collect::<Vec<_>>(), [(DropReason::EspReplay, 1)]);
    }
}
