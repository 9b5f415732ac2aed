//! The XPN suites: packet numbers of 64 bits, salt and SSCIs (802.1AE-2018 clauses 10.7.8,
//! 10.7.13, 14.7 and 14.8).
//!
//! ```text
//!   key server's MI  ▏ 2 octets │ 2 octets │ 8 octets ▕
//!   XOR              ▏ KN, low  │ KN, high │          ▕   = salt
//!
//!   members by descending SCI: SSCI 1, 2, 3 …
//! ```
//!
//! The Live Peer List of the message that has the SAK is in this order, without the key server;
//! an octet of it is the key server's SSCI (802.1X-2020 clauses 9.10 and 11.11.3). So a member
//! knows all SSCIs, also of members that it has not heard. A key server that does not say its own
//! leaves them to be counted from SCIs.

use ferrule_wire::Sci;
use ferrule_wire::mkpdu::{KeyId, Member, Mi};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The salt of a SAK.
pub fn salt(key: KeyId) -> [u8; 12] {
    let [a, b, c, d] = key.kn.to_be_bytes();
    let mut salt = key.mi.0;
    salt.iter_mut().zip([c, d, a, b]).for_each(|(octet, kn)| *octet ^= kn);
    salt
}

/// SSCIs of the members for which a SAK was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sscis {
    /// This station's.
    pub own: u32,
    peers: BTreeMap<Mi, u32>,
}

impl Sscis {
    /// SSCIs of all members but `own`; nothing if that is not among them, or a member is
    /// there twice.
    fn new(own: Mi, all: impl Iterator<Item = (Mi, u32)>) -> Option<Self> {
        let mut peers = BTreeMap::new();
        for (mi, ssci) in all {
            if peers.insert(mi, ssci).is_some() {
                return None;
            }
        }
        Some(Self { own: peers.remove(&own)?, peers })
    }

    /// Counted from the members' SCIs.
    pub fn by_sci(own: Mi, mut members: Vec<(Mi, Sci)>) -> Option<Self> {
        members.sort_by_key(|&(_, sci)| Reverse(sci));
        let differ = members.is_sorted_by(|(_, a), (_, b)| a > b);
        let all = members.into_iter().map(|(mi, _)| mi).zip(1..);
        Self::new(own, all).filter(|_| differ)
    }

    /// Read from the Live Peer List of a key server that says its own, which is not 0.
    pub fn by_list(own: Mi, (server, ssci): (Mi, u8), list: &[Member]) -> Option<Self> {
        let ssci = u32::from(ssci);
        let free = (1..).filter(|other| *other != ssci);
        let all = list.iter().map(|member| member.mi).zip(free);
        Self::new(own, all.chain([(server, ssci)]))
    }

    /// A peer's; nothing if the SAK was not made for it.
    pub fn of(&self, mi: &Mi) -> Option<u32> {
        self.peers.get(mi).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrule_base::MacAddr;

    fn sci(number: u8, port: u16) -> Sci {
        Sci::new(MacAddr([2, 0, 0, 0, 0, number]), port)
    }

    const fn mi(number: u8) -> Mi {
        Mi([number; 12])
    }

    #[test]
    fn mka_xpn_salt_is_the_identifier_with_the_key_number_in_its_front() {
        let key = KeyId { mi: Mi(*b"0123456789ab"), kn: 0x0a0b_0c0d };
        let front = [b'0' ^ 0x0c, b'1' ^ 0x0d, b'2' ^ 0x0a, b'3' ^ 0x0b];
        assert_eq!(salt(key), *[&front[..], b"456789ab"].concat());
        assert_eq!(salt(KeyId { kn: 1, ..key })[..4], [b'0', b'1' ^ 1, b'2', b'3']);
    }

    #[test]
    fn mka_xpn_greatest_sci_has_ssci_1() {
        let members = [(mi(1), sci(7, 1)), (mi(2), sci(7, 2)), (mi(3), sci(9, 1))];
        let sscis = |own| Sscis::by_sci(own, members.to_vec()).unwrap();
        assert_eq!((sscis(mi(3)).own, sscis(mi(2)).own, sscis(mi(1)).own), (1, 2, 3));
        let first = sscis(mi(1));
        assert_eq!(
            (first.of(&mi(3)), first.of(&mi(2)), first.of(&mi(1))),
            (Some(1), Some(2), None)
        );
        // A peer that is no member, two members with one SCI, a member that is there twice.
        assert_eq!(Sscis::by_sci(mi(4), members.to_vec()), None);
        for more in [(mi(4), sci(7, 1)), (mi(3), sci(1, 1))] {
            assert_eq!(Sscis::by_sci(mi(1), [&members[..], &[more]].concat()), None);
        }
    }

    #[test]
    fn mka_xpn_the_list_passes_over_the_key_server() {
        let member = |number| Member { mi: mi(number), mn: 1 };
        let list = [member(9), member(5), member(3)];
        for (ssci, others) in [(1, [2, 3, 4]), (2, [1, 3, 4]), (4, [1, 2, 3]), (200, [1, 2, 3])] {
            let sscis = Sscis::by_list(mi(3), (mi(7), ssci), &list).unwrap();
            assert_eq!(sscis.own, others[2]);
            assert_eq!([mi(9), mi(5)].map(|mi| sscis.of(&mi)), [Some(others[0]), Some(others[1])]);
            assert_eq!(sscis.of(&mi(7)), Some(ssci.into()));
        }
        let twice = [&list[..], &list[..1]].concat();
        assert_eq!(Sscis::by_list(mi(3), (mi(7), 1), &twice), None);
        assert_eq!(Sscis::by_list(mi(3), (mi(9), 1), &list), None);
        assert_eq!(Sscis::by_list(mi(8), (mi(7), 1), &list), None);
    }
}
