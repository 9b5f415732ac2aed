//! Orders of the configuration about SecYs and their associations. Workers answer each once; cards
//! carry theirs out in their order and say nothing.
//!
//! Keys that MKA agrees on are ordered by [`keying`](crate::keying).

use crate::message::{Change, Ordered, Seat};
use crate::static_keys::Changes;
use ferrule_control::{Refused, Token};
use ferrule_dataplane::macsec::{RxChange, TxChange};
use std::collections::HashMap;

/// The first token of these orders: those of MKA are smaller.
const FIRST: u64 = 1 << 62;
/// Tokens from here on are of orders about SAs of ESP and AH.
const END: u64 = 1 << 63;

/// Object of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum SecyItem {
    /// SecY of a port.
    Secy(u16),
    /// Transmitting association: SecY and association number.
    Transmit(u16, u8),
    /// Receiving association: SecY, SCI and association number.
    Receive(u16, u64, u8),
}

impl SecyItem {
    /// Index of the SecY, which is its port's.
    pub const fn secy(self) -> u16 {
        match self {
            Self::Secy(secy) | Self::Transmit(secy, _) | Self::Receive(secy, ..) => secy,
        }
    }

    /// Object of a change that brings or changes something. To give up what is not there is no
    /// fault, and an association that is to encode was told of when it was refused.
    const fn of(change: &Change) -> Option<Self> {
        match change {
            Change::SecyOut(TxChange::Install(secy, _))
            | Change::SecyIn(RxChange::Install(secy, _)) => Some(Self::Secy(*secy)),
            Change::SecyOut(TxChange::Sa(secy, sa, _)) => Some(Self::Transmit(*secy, sa.an)),
            Change::SecyIn(RxChange::Sa(secy, sa) | RxChange::Move(secy, sa)) => {
                Some(Self::Receive(*secy, sa.sci, sa.an))
            }
            _ => None,
        }
    }
}

impl std::fmt::Display for SecyItem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Secy(_) => f.write_str("SecY"),
            Self::Transmit(_, an) => write!(f, "transmitting AN {an}"),
            Self::Receive(_, sci, an) => write!(f, "receiving SCI {sci:016x}, AN {an}"),
        }
    }
}

/// Orders that workers have not answered yet.
#[derive(Default)]
pub(crate) struct SecyOrders {
    under_way: HashMap<Token, Option<SecyItem>>,
    ordered: u64,
}

impl SecyOrders {
    /// True if an order of this token is of the configuration and about a SecY.
    pub const fn is_of(&self, token: Token) -> bool {
        FIRST <= token.0 && token.0 < END
    }

    /// Orders for changes, in their order.
    pub fn order(&mut self, changes: Changes) -> Vec<(Seat, Ordered)> {
        let mut order = |(seat, change): (Seat, Change)| {
            let token = Token(FIRST + self.ordered);
            self.ordered += 1;
            if matches!(seat, Seat::Worker(_)) {
                self.under_way.insert(token, SecyItem::of(&change));
            }
            (seat, Ordered { token, change })
        };
        changes.into_iter().map(&mut order).collect()
    }

    /// A worker answers. The object comes back if it is refused.
    pub fn done(&mut self, token: Token, done: Result<(), Refused>) -> Option<(SecyItem, Refused)> {
        let item = self.under_way.remove(&token)??;
        done.err().map(|refused| (item, refused))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrule_base::PortId;
    use ferrule_dataplane::macsec::SecyConfig;

    #[test]
    fn each_order_of_a_worker_is_answered_once_and_only_what_is_wanted_can_be_refused() {
        let install = || {
            Change::SecyOut(TxChange::Install(
                3,
                SecyConfig::new(1, ferrule_crypto::Suite::AesGcm(ferrule_crypto::Aes::Aes128)),
            ))
        };
        let mut orders = SecyOrders::default();
        let (worker, card) = (Seat::Worker(0), Seat::Card(PortId(3)));
        let retire = Change::SecyOut(TxChange::Retire(3, 0));
        let sent = orders.order(vec![(worker, retire), (card, install()), (worker, install())]);
        let tokens: Vec<Token> = sent.iter().map(|(_, ordered)| ordered.token).collect();
        assert!(tokens.iter().all(|&token| orders.is_of(token)));
        assert_eq!(orders.under_way.len(), 2);
        let refused = || Err(Refused("no".into()));
        assert_eq!(orders.done(tokens[0], refused()), None);
        let told = orders.done(tokens[2], refused());
        assert_eq!(told, Some((SecyItem::Secy(3), Refused("no".into()))));
        assert_eq!(orders.done(tokens[2], refused()), None);
        assert!(orders.under_way.is_empty());
    }
}
