//! Checks of a device's MKPDUs, clause by clause of 802.1X-2020.

use crate::test::clauses::{Check, Found, Tally};
use ferrule_base::{Duration, Instant};
use ferrule_control::mka::Keys;
use ferrule_control::mka::config::HELLO;
use ferrule_wire::eapol::{self, BODY_AT, Kind};
use ferrule_wire::mkpdu::{Ckn, DistributedSak, ICV_LEN, KeyId, Mi, Repr, Set};
use ferrule_wire::{EtherType, Sci, ethernet};

/// A message may be so much later than the hello time.
const LATE: Duration = Duration::from_millis(500);

/// The device, as far as it was seen. (Of several, the one whose message was first.)
pub struct Device {
    keys: Keys,
    ckn: Ckn,
    own: Sci,
    priority: u8,
    /// Since when it is watched.
    begun: Instant,
    /// The device's channel.
    pub sci: Option<Sci>,
    actor: Option<(Mi, u32)>,
    last: Option<Instant>,
    longest: Duration,
    /// When it first had this station as a live peer, after so long.
    pub live: Option<Duration>,
    icvs: Tally,
    other_names: u32,
    formats: Tally,
    versions: Tally,
    numbers: Tally,
    elections: Tally,
    saks: Tally,
    key_numbers: Tally,
    last_key: Option<KeyId>,
    /// SAK uses: receives before it transmits.
    uses: Tally,
    /// The last of this station's messages that it named.
    pub echoed: u32,
}

impl Device {
    pub fn new(now: Instant, (ckn, keys): (Ckn, Keys), (own, priority): (Sci, u8)) -> Self {
        Self {
            keys,
            ckn,
            own,
            priority,
            begun: now,
            sci: None,
            actor: None,
            last: None,
            longest: Duration::ZERO,
            live: None,
            icvs: Tally::default(),
            other_names: 0,
            formats: Tally::default(),
            versions: Tally::default(),
            numbers: Tally::default(),
            elections: Tally::default(),
            saks: Tally::default(),
            key_numbers: Tally::default(),
            last_key: None,
            uses: Tally::default(),
            echoed: 0,
        }
    }

    /// A frame that came; `mi` is this station's own identifier.
    pub fn note(&mut self, now: Instant, frame: &[u8], mi: Option<Mi>) {
        let Ok((ethernet, payload)) = ethernet::Repr::parse(frame) else { return };
        if ethernet.ethertype != EtherType::EAPOL || ethernet.src == self.own.system() {
            return;
        }
        let Ok((eapol, body)) = eapol::Repr::parse(payload) else {
            return self.formats.note(false);
        };
        if eapol.kind != Kind::MKA {
            return;
        }
        let Ok((repr, icv)) = Repr::parse(body) else { return self.formats.note(false) };
        self.formats.note(true);
        self.versions.note(eapol.version >= eapol::Repr::VERSION);
        if repr.ckn != self.ckn {
            self.other_names += 1;
            return;
        }
        let covered = &frame[..BODY_AT + body.len() - ICV_LEN];
        let is_good = self.keys.is_icv(covered, icv);
        self.icvs.note(is_good);
        if !is_good || *self.sci.get_or_insert(repr.sci) != repr.sci {
            return;
        }
        self.message(now, &repr, mi);
    }

    fn message(&mut self, now: Instant, repr: &Repr, own: Option<Mi>) {
        if let Some(last) = self.last.replace(now) {
            self.longest = self.longest.max(now.since(last));
        }
        let known = self.actor.replace((repr.actor.mi, repr.actor.mn));
        if let Some((_, mn)) = known.filter(|(mi, _)| *mi == repr.actor.mi) {
            self.numbers.note(repr.actor.mn > mn);
        }
        let is_live = repr.set(|set| match set {
            Set::Live { peers, .. } => Some(peers.iter().any(|peer| Some(peer.mi) == own)),
            _ => None,
        });
        if is_live == Some(true) {
            self.live.get_or_insert(now.since(self.begun));
        }
        let echo = repr.set(|set| {
            let (Set::Live { peers, .. } | Set::Potential(peers)) = set else { return None };
            peers.iter().find(|peer| Some(peer.mi) == own).map(|peer| peer.mn)
        });
        self.echoed = echo.unwrap_or(self.echoed);
        if self.live.is_some() {
            let is_better = (repr.priority, repr.sci) < (self.priority, self.own);
            self.elections.note(repr.key_server == is_better);
        }
        for set in &repr.sets {
            match set {
                Set::DistributedSak(sak) => self.sak(repr.actor.mi, sak),
                Set::SakUse(sak_use) => {
                    for used in sak_use.keys.into_iter().flatten().filter(|u| u.key.kn != 0) {
                        self.uses.note(used.receives || !used.transmits);
                    }
                }
                _ => {}
            }
        }
    }

    fn sak(&mut self, mi: Mi, sak: &DistributedSak) {
        let Some(key) = &sak.key else { return };
        self.saks.note(self.keys.unwrap(&key.wrapped).is_some());
        let id = KeyId { mi, kn: key.kn };
        let last = self.last_key.replace(id).filter(|last| last.mi == mi);
        self.key_numbers.note(last.is_none_or(|last| id.kn >= last.kn));
    }

    /// The checks that watching gives.
    pub fn checks(&self) -> Vec<Check> {
        let check = Check::new;
        let seconds = |time: Duration| format!("{:.2} s", time.as_secs_f64());
        let live = match (self.live, self.last) {
            (Some(after), _) => Found::Holds(format!("after {}", seconds(after))),
            (None, Some(_)) => Found::Broken("it does not name this station as live".into()),
            (None, None) => Found::NotSeen("no message by this CKN".into()),
        };
        let hello = match self.longest {
            Duration::ZERO => Found::NotSeen("less than two messages".into()),
            longest if longest <= HELLO + LATE => {
                Found::Holds(format!("at most {} apart", seconds(longest)))
            }
            longest => Found::Broken(format!("{} apart", seconds(longest))),
        };
        let icv = match self.icvs {
            Tally { good: 0, bad: 0 } if self.other_names > 0 => {
                Found::NotSeen("messages by other CKNs alone".into())
            }
            Tally { good: 0, bad } if bad > 0 => {
                Found::Broken("by this CKN it has another CAK".into())
            }
            icvs => icvs.found("message", ""),
        };
        vec![
            check("11.11.2", "MKPDUs are well-formed", self.formats.found("message", "")),
            check("11.3.1", "EAPOL version 3 or later", self.versions.found("message", "")),
            check("9.4.1", "the ICV is that of the CAK", icv),
            check("9.4.2", "message numbers rise", self.numbers.found("message", "")),
            check("9.4.3", "a station that answers is live", live),
            check("table 9-3", "a message every 2 s", hello),
            check(
                "9.5",
                "the better priority, then SCI, is key server",
                self.elections.found("message", ""),
            ),
            check("9.8", "SAKs unwrap under the KEK", self.saks.found("message", " with one")),
            check("9.8", "key numbers do not fall", self.key_numbers.found("message", " with one")),
            check(
                "12.4",
                "who transmits with a SAK receives with it",
                self.uses.found("message", ""),
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrule_base::{MacAddr, Secret};
    use ferrule_wire::mkpdu::{AGILITY, KeyUse, Member, SakUse, WrappedSak};

    const OWN: Mi = Mi([7; 12]);

    fn ckn() -> Ckn {
        Ckn::new(b"name").unwrap()
    }

    fn keys(octet: u8) -> Keys {
        Keys::new(Secret::new(vec![octet; 16]), &ckn()).unwrap()
    }

    /// A device that is watched, second by second.
    struct Watched(Device, u64);

    impl Watched {
        fn new() -> Self {
            let own = Sci::new(MacAddr([2, 0, 0, 0, 0, 2]), 1);
            Self(Device::new(Instant::ZERO, (ckn(), keys(1)), (own, 16)), 0)
        }

        /// A message of the device, a second after the last one.
        fn says(&mut self, mn: u32, keys: &Keys, change: impl FnOnce(&mut Repr)) {
            let mut repr = Repr {
                version: 1,
                priority: 10,
                key_server: true,
                desired: true,
                capability: 2,
                sci: Sci::new(MacAddr([2, 0, 0, 0, 0, 1]), 1),
                actor: Member { mi: Mi([1; 12]), mn },
                agility: AGILITY,
                ckn: ckn(),
                sets: vec![Set::Live { ssci: 0, peers: vec![Member { mi: OWN, mn: 3 }] }],
            };
            change(&mut repr);
            let (dst, src) = (MacAddr(eapol::PAE_GROUP), repr.sci.system());
            let ethernet = ethernet::Repr { dst, src, ethertype: EtherType::EAPOL };
            let frame = keys.frame(ethernet, &repr);
            self.1 += 1;
            self.0.note(Instant::from_secs(self.1), &frame, Some(OWN));
        }

        fn broken(&self) -> Vec<&'static str> {
            let checks = self.0.checks().into_iter();
            checks.filter(|c| matches!(c.found, Found::Broken(_))).map(|c| c.rule).collect()
        }
    }

    #[test]
    fn mka_checks_find_each_rule_that_is_broken() {
        let sak = |kn, keys: &Keys| {
            let wrapped = keys.wrap(&Secret::new(vec![5; 16])).unwrap();
            let key = Some(WrappedSak { kn, suite: None, wrapped });
            Set::DistributedSak(DistributedSak { an: 0, offset: 1, key })
        };
        let used = |receives, transmits| {
            let key = KeyId { mi: OWN, kn: 1 };
            let used = KeyUse { an: 0, transmits, receives, key, lowest_pn: 1 };
            Set::SakUse(SakUse { keys: Some([used, KeyUse::default()]), ..SakUse::default() })
        };
        let good = |watched: &mut Watched| {
            watched.says(1, &keys(1), |repr| repr.sets.push(sak(1, &keys(1))));
            watched.says(2, &keys(1), |repr| repr.sets.push(used(true, true)));
        };
        let mut watched = Watched::new();
        good(&mut watched);
        assert_eq!(watched.broken(), [""; 0]);
        assert_eq!(watched.0.echoed, 3);
        type Wrong<'a> = (&'static str, &'a dyn Fn(&mut Watched));
        let wrongs: [Wrong<'_>; 7] = [
            ("the ICV is that of the CAK", &|w| w.says(3, &keys(2), |_| {})),
            ("message numbers rise", &|w| w.says(2, &keys(1), |_| {})),
            ("a message every 2 s", &|w| {
                w.1 += 2;
                w.says(3, &keys(1), |_| {});
            }),
            ("the better priority, then SCI, is key server", &|w| {
                w.says(3, &keys(1), |repr| repr.key_server = false);
            }),
            ("SAKs unwrap under the KEK", &|w| {
                w.says(3, &keys(1), |repr| repr.sets.push(sak(2, &keys(2))));
            }),
            ("key numbers do not fall", &|w| {
                w.says(3, &keys(1), |repr| repr.sets.push(sak(0, &keys(1))));
            }),
            ("who transmits with a SAK receives with it", &|w| {
                w.says(3, &keys(1), |repr| repr.sets.push(used(false, true)));
            }),
        ];
        for (rule, wrong) in wrongs {
            let mut watched = Watched::new();
            good(&mut watched);
            wrong(&mut watched);
            assert_eq!(watched.broken(), [rule]);
        }
        // This station hears no other.
        let mut deaf = Watched::new();
        deaf.says(1, &keys(1), |repr| repr.sets.clear());
        assert_eq!(deaf.broken(), ["a station that answers is live"]);
    }
}
