//! The MAC Security Entity, SecY (IEEE 802.1AE-2018 clauses 9, 10 and 14).
//!
//! A SecY stands between a port and everything above it. Frames that leave are tagged,
//! numbered and sealed; frames that arrive are let through only if their tag is right,
//! their number fresh and their ICV good.
//!
//! ```text
//!   clear frame    │DA SA│                     user data │
//!                    │ │                           │
//!   on the wire    │DA SA│[VLAN]│SecTAG│[offset]│ text │ICV│[padding]
//!                  └─────┘      └───────────────┘└──────┘
//!                  additional data (contiguous)   encrypted
//! ```
//!
//! * The SecTAG is 8 octets, or 16 with an explicit SCI; the ICV has 16.
//! * *Integrity only*: all user data is additional data, the text is empty.
//! * *Confidentiality offset* 30 or 50: so many octets of user data stay
//!   readable; a frame with fewer has no text. Not with XPN.
//! * *XPN*: 64-bit packet numbers, of which the low half travels. The receiver
//!   takes the high half that brings the number closest to the next one.
//! * *VLAN in clear*: one or two VLAN tags stay in front of the SecTAG, as WAN
//!   practice wants it. Such a tag is the provider's business, who may change
//!   it: it is not under the ICV, as though it were added below the SecY.
//!
//! [`SecyOut`] protects ([`egress`]), [`SecyIn`] validates ([`ingress`]). Both
//! hold their SecYs and associations ([`transmit`], [`receive`]) by indices that
//! the configuration chose; [`config`] lists the choices, [`state`] has what
//! both need of an association, [`replay`] the window, [`stats`] the counters of
//! clause 10.7.
//!
//! * *Uncontrolled*: EAPOL goes to the port's MKA entity as far as [`eapol`] lets it, listed
//!   protocols (LLDP) pass in clear.
//! * *Validate* `check` and `disabled` let frames pass that can be read although nothing
//!   vouches for them (clause 10.6); without *protect* frames leave in clear.
//!
//! Jobs of one SecY leave in the order in which they came, over a rekey too.
//!
//! Drop reasons: out `NotAttached`, `Malformed`, `TooBig`, `NoRoom`,
//! `MacsecNoTxSa`, `MacsecPnExhausted`; in `NotAttached`, `MacsecUntagged`,
//! `MacsecBadTag`, `MacsecUnknownSci`, `MacsecUnusedSa`, `MacsecReplay`,
//! `MacsecBadIcv`, and of EAPOL `ControlQueueFull`, `MkaForged`, `MkaReplay`; both `EngineFull`, `EngineFailed`.

mod channels;
pub mod config;
pub mod eapol;
pub mod egress;
pub mod ingress;
pub mod receive;
pub mod replay;
pub mod state;
pub mod stats;
#[cfg(test)]
mod tests;
pub mod transmit;

pub use config::{
    CLEAR_TAGS_MAX, Cipher, Replay, RxSaConfig, SecyConfig, TxSaConfig, Validate, Xpn, pn_max,
};
pub use eapol::ParticipantConfig;
pub use receive::{RxChange, RxReport, SecyIn};
pub use replay::BITMAP_MAX;
pub use state::{SaError, SaReport};
pub use stats::Stats;
pub use transmit::{SecyOut, TxChange, TxReport};
