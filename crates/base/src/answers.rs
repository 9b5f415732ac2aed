//! ICMP messages that a node sends about packets of others: a closed list, two counters
//! each.
//!
//! `rust: enum`, `show drops: name`, `metrics: label` are one and the same name.

macro_rules! answers {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal, $version:literal $kind:literal $code:literal;)+) => {
        /// An ICMP message that answers a packet.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Answer {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Answer {
            /// Every message, in order.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// The message of an IP version with this type and code; nothing: it is not sent.
            pub const fn of(version: u8, kind: u8, code: u8) -> Option<Self> {
                match (version, kind, code) {
                    $(($version, $kind, $code) => Some(Self::$variant),)+
                    _ => None,
                }
            }

            /// The name in `show drops` and in the metrics.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// IP version, type and code.
            pub const fn numbers(self) -> (u8, u8, u8) {
                match self { $(Self::$variant => ($version, $kind, $code),)+ }
            }

            /// Description in one sentence.
            pub const fn about(self) -> &'static str {
                match self { $(Self::$variant => concat!($($doc),+),)+ }
            }
        }
    };
}

answers! {
    /// Answers to echo requests (ping), IPv4.
    EchoReply4 = "echo-reply-v4", 4 0 0;
    /// No route to the destination, IPv4.
    NetUnreachable4 = "net-unreachable-v4", 4 3 0;
    /// The destination or its next hop did not answer ARP.
    HostUnreachable4 = "host-unreachable-v4", 4 3 1;
    /// The node has no use for the protocol, IPv4.
    ProtocolUnreachable4 = "protocol-unreachable-v4", 4 3 2;
    /// No listener on the node's port, IPv4.
    PortUnreachable4 = "port-unreachable-v4", 4 3 3;
    /// Larger than what is ahead, and not to be cut; tells the MTU. IPv4.
    TooBig4 = "too-big-v4", 4 3 4;
    /// TTL ended here: what traceroute looks for.
    TimeExceeded4 = "time-exceeded-v4", 4 11 0;
    /// The other fragments did not come in time, IPv4.
    ReassemblyTime4 = "reassembly-time-v4", 4 11 1;
    /// An IPv4 option that contradicts itself.
    ParameterProblem4 = "parameter-problem-v4", 4 12 0;
    /// Answers to echo requests (ping), IPv6.
    EchoReply6 = "echo-reply-v6", 6 129 0;
    /// No route to the destination, IPv6.
    NoRoute6 = "no-route-v6", 6 1 0;
    /// The destination or its next hop did not answer neighbour discovery.
    AddressUnreachable6 = "address-unreachable-v6", 6 1 3;
    /// No listener on the node's port, IPv6.
    PortUnreachable6 = "port-unreachable-v6", 6 1 4;
    /// Larger than what is ahead; tells the MTU. IPv6.
    TooBig6 = "too-big-v6", 6 2 0;
    /// Hop limit ended here: what traceroute looks for.
    TimeExceeded6 = "time-exceeded-v6", 6 3 0;
    /// The other fragments did not come in time, IPv6.
    ReassemblyTime6 = "reassembly-time-v6", 6 3 1;
    /// A header field that cannot be: bad fragments, routing headers that want to go on.
    WrongField6 = "wrong-field-v6", 6 4 0;
    /// The node has no use for the next header, IPv6.
    UnknownHeader6 = "unknown-header-v6", 6 4 1;
    /// An unknown option whose type asks that the sender be told, IPv6.
    UnknownOption6 = "unknown-option-v6", 6 4 2;
}

/// Two counters for each message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answers([(u64, u64); Answer::ALL.len()]);

impl Answers {
    /// Counts one message: made, or held back by the rate limit.
    #[inline]
    pub const fn count(&mut self, answer: Answer, made: bool) {
        let counts = &mut self.0[answer as usize];
        if made {
            counts.0 += 1;
        } else {
            counts.1 += 1;
        }
    }

    /// The messages that happened: made, and held back by the rate limit.
    pub fn iter(&self) -> impl Iterator<Item = (Answer, u64, u64)> + '_ {
        let all = Answer::ALL.iter().map(|&a| (a, self.0[a as usize]));
        all.filter(|&(_, counts)| counts != (0, 0)).map(|(a, (sent, limited))| (a, sent, limited))
    }

    /// Adds another worker's counts.
    pub fn merge(&mut self, other: &Self) {
        for (a, b) in self.0.iter_mut().zip(&other.0) {
            *a = (a.0 + b.0, a.1 + b.1);
        }
    }
}

impl Default for Answers {
    fn default() -> Self {
        Self([(0, 0); Answer::ALL.len()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_answer_has_a_name_and_numbers_of_its_own() {
        let mut names: Vec<_> = Answer::ALL.iter().map(|a| a.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Answer::ALL.len());
        for &answer in Answer::ALL {
            let (version, kind, code) = answer.numbers();
            assert_eq!(Answer::of(version, kind, code), Some(answer));
        }
        assert_eq!(Answer::of(4, 5, 0), None);
    }

    #[test]
    fn answers_are_counted_apart_from_those_held_back() {
        let (mut one, mut two) = (Answers::default(), Answers::default());
        one.count(Answer::TimeExceeded4, true);
        two.count(Answer::TimeExceeded4, true);
        two.count(Answer::UnknownOption6, false);
        one.merge(&two);
        let all: Vec<_> = one.iter().collect();
        assert_eq!(all, [(Answer::TimeExceeded4, 2, 0), (Answer::UnknownOption6, 0, 1)]);
    }
}
