//! Programs that tell the node things while it runs: orders about SAs of tunnels with
//! `keying = "external"`, notices, and addresses, routes and labels beside the configuration.
//!
//! ```text
//!   program ─ add, use, move, drop ─▶ order ─▶ workers ─▶ reply
//!           ─ dynamic entries ──────▶ tables ─▶ workers ─▶ reply
//!           ◀─ notices: tunnels without an SA, lifetimes, other ends that moved
//! ```

use crate::api::{Notice, Reply, SaBound, SaRequest, SaVerb, Way};
use crate::daemon::Daemon;
use crate::fault::{Blame, Fault};
use ferrule_base::{Duration, Secret};
use ferrule_dataplane::ipsec::{Endpoints, Expiry, Lifetime, Lifetimes};
use ferrule_node::config::key_of_suite;
use ferrule_node::{AgreedSa, Datagram, Delta, Incident, Refused, Sa, SaName, SaOrder, Token};
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;

/// A client's request, until it is answered.
struct Asked {
    client: u64,
    name: &'static str,
}

/// Orders and listeners of keying programs.
#[derive(Default)]
pub(crate) struct Orders {
    under_way: HashMap<Token, Asked>,
    /// Clients that are told of notices, and how many each did not take.
    listeners: BTreeMap<u64, u64>,
}

impl Daemon {
    /// Begins to carry out a request about an SA. The reply, if it is known at once.
    pub(crate) fn order(&mut self, client: u64, request: SaRequest) -> Option<Reply> {
        let asked = Asked { client, name: request.verb.name() };
        match self.begin_order(asked, request) {
            Ok(()) => {
                self.server.keep_waiting(client);
                // Some are answered at once.
                self.answer_orders();
                None
            }
            Err(fault) => Some(Reply::refused(&fault)),
        }
    }

    fn begin_order(&mut self, asked: Asked, request: SaRequest) -> Result<(), Fault> {
        let SaRequest { tunnel, way, spi, verb } = request;
        let tunnels = &self.control.config().tunnels;
        let Some(of) = tunnels.iter().find(|t| t.name == tunnel) else {
            return Err(refused(format!("there is no tunnel `{tunnel}`"), "`ferrule show sa`"));
        };
        if !of.external {
            let what = format!("the SAs of tunnel `{tunnel}` are in the file");
            return Err(refused(what, "give it keying = \"external\", and no SA"));
        }
        let order = match verb {
            SaVerb::Add { key, worker, soft, hard } => {
                let (keys, salt) = key_of_suite(&key.0, of.suite).map_err(|e| {
                    refused(format!("the key {e}"), "see `ferrule init key --help`")
                })?;
                let lifetimes = Lifetimes { soft: lifetime(soft), hard: lifetime(hard) };
                if !lifetimes.is_in_order() {
                    let what = "a soft lifetime is not before the hard one".to_owned();
                    return Err(refused(what, "leave time in which another SA is agreed on"));
                }
                let sa = AgreedSa { tunnel, spi, keys, salt, worker, lifetimes };
                match way {
                    Way::In => SaOrder::AddInbound(sa),
                    Way::Out => SaOrder::AddOutbound(sa),
                }
            }
            SaVerb::Use { worker } => SaOrder::Use(self.agreed(&tunnel, way, spi)?, worker),
            SaVerb::Move { local, remote, ports } => {
                let ends = Endpoints { local, remote, ports };
                SaOrder::Move(self.agreed(&tunnel, way, spi)?, ends)
            }
            SaVerb::Drop {} => SaOrder::Drop(self.agreed(&tunnel, way, spi)?),
        };
        let token = self.control.order(order);
        self.orders.under_way.insert(token, asked);
        self.board.rouse_all();
        Ok(())
    }

    /// Begins to change dynamic entries. False: the node goes on.
    pub(crate) fn change_entries(&mut self, client: u64, deltas: Vec<Delta>) -> bool {
        let token = self.control.change_entries(self.clock.now(), deltas);
        self.orders.under_way.insert(token, Asked { client, name: "dynamic" });
        self.server.keep_waiting(client);
        self.answer_orders();
        self.board.rouse_all();
        false
    }

    fn agreed(&self, tunnel: &str, way: Way, spi: u32) -> Result<Sa, Fault> {
        let found = self.control.agreed(tunnel, spi, way == Way::Out);
        found.ok_or_else(|| {
            let what = format!("tunnel `{tunnel}` has no SA {spi:#x} {way} of a keying program");
            refused(what, "`ferrule show sa` lists those that are there")
        })
    }

    /// Passes answers on to those who asked.
    pub(crate) fn answer_orders(&mut self) {
        while let Some((token, answer)) = self.control.poll_answer() {
            let Some(Asked { client, name }) = self.orders.under_way.remove(&token) else {
                continue;
            };
            let reply = match answer {
                Ok(_) => Reply::Done {},
                Err(Refused(why)) => Reply::refused(&refused(why, "see `ferrule show sa`")),
            };
            self.answer(client, name, &reply);
        }
        while let Some((token, answer)) = self.control.poll_changed() {
            let Some(Asked { client, name }) = self.orders.under_way.remove(&token) else {
                continue;
            };
            let reply = match answer {
                Ok(()) => Reply::Done {},
                Err(Refused(why)) => {
                    let remedy = "nothing is changed; VRFs and interfaces are those of the file";
                    Reply::refused(&refused(why, remedy))
                }
            };
            self.answer(client, name, &reply);
        }
    }

    /// A client listens from now on, and hears of packets that wait already.
    pub(crate) fn listen(&mut self, client: u64) {
        self.answer(client, "notices", &Reply::Done {});
        self.orders.listeners.insert(client, 0);
        self.control.listen_for_datagrams(true);
        for notice in self.control.acquiring().iter().filter_map(notice) {
            self.server.say(client, &Reply::Notice(notice));
        }
    }

    /// A client listens no longer: it said so, or is gone. Its orders are carried out, and answered
    /// to nobody. Notices that it did not take, if it listened.
    pub(crate) fn end_listening(&mut self, client: u64) -> Option<u64> {
        let lost = self.orders.listeners.remove(&client);
        self.control.listen_for_datagrams(!self.orders.listeners.is_empty());
        lost
    }

    /// Sends a datagram of a keying program.
    pub(crate) fn send_datagram(
        &mut self,
        (local, remote): (SocketAddr, SocketAddr),
        payload: &str,
    ) -> Reply {
        let sent = match Secret::from_hex(payload) {
            Ok(octets) => {
                let payload = octets.expose().to_vec();
                self.control.send_datagram(&Datagram { local, remote, payload })
            }
            Err(e) => Err(Refused(format!("the payload: {e}"))),
        };
        match sent {
            Ok(()) => {
                self.board.rouse_all();
                Reply::Done {}
            }
            Err(Refused(why)) => Reply::refused(&refused(why, "see docs/howto/keying.md")),
        }
    }

    /// Passes datagrams on to keying programs.
    pub(crate) fn pass_datagrams(&mut self) {
        while let Some(Datagram { local, remote, payload }) = self.control.poll_datagram() {
            let payload = digits(&payload);
            self.tell(Notice::Datagram { local, remote, payload });
        }
    }

    /// Tells keying programs what concerns them.
    pub(crate) fn notify(&mut self, incident: &Incident) {
        if let Some(notice) = notice(incident) {
            self.tell(notice);
        }
    }

    fn tell(&mut self, notice: Notice) {
        let reply = Reply::Notice(notice);
        for (&client, lost) in &mut self.orders.listeners {
            if *lost > 0 && self.server.say(client, &Reply::Notice(Notice::Lost { count: *lost })) {
                *lost = 0;
            }
            if *lost > 0 || !self.server.say(client, &reply) {
                *lost += 1;
            }
        }
    }
}

fn refused(what: String, remedy: &str) -> Fault {
    Fault::new(Blame::Configuration, what, remedy)
}

fn lifetime(bound: SaBound) -> Lifetime {
    let SaBound { packets, octets, seconds } = bound;
    Lifetime { packets, octets, time: seconds.map(Duration::from_secs) }
}

/// Octets in hexadecimal digits.
fn digits(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

/// Notice of an incident that concerns keying programs.
fn notice(incident: &Incident) -> Option<Notice> {
    Some(match incident {
        Incident::Acquire { tunnel, header } => {
            Notice::Acquire { tunnel: tunnel.clone(), header: digits(header) }
        }
        Incident::SaLife(name, expiry, cause) => {
            let (SaName { tunnel, way, spi, .. }, cause) = (name.clone(), cause.to_string());
            match expiry {
                Expiry::Soft => Notice::Expires { tunnel, way: way.into(), spi, cause },
                Expiry::Hard => Notice::Expired { tunnel, way: way.into(), spi, cause },
            }
        }
        Incident::PeerMoved { tunnel, address } => {
            Notice::PeerMoved { tunnel: tunnel.clone(), address: *address }
        }
        Incident::SaGone(SaName { tunnel, way, spi, .. }) => {
            Notice::Gone { tunnel: tunnel.clone(), way: (*way).into(), spi: *spi }
        }
        _ => return None,
    })
}
