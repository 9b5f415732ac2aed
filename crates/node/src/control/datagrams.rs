//! Datagrams of keying programs, from and to the programs.

use super::Control;
use crate::protocols::datagrams::{Datagram, packet_of};
use ferrule_base::VrfId;
use ferrule_control::Refused;
use ferrule_dataplane::graph::{FLAG_EXEMPT, FLAG_LOCAL, Next};
use ferrule_dataplane::route::Route;
use ferrule_wire::EtherType;

/// The worker that sends.
const WORKER: usize = 0;

impl Control {
    /// A program listens from now on, or none does any more.
    pub fn listen_for_datagrams(&mut self, listens: bool) {
        self.protocols.lock().datagrams.listen(listens);
    }

    /// The next datagram for programs.
    pub fn poll_datagram(&mut self) -> Option<Datagram> {
        self.protocols.lock().datagrams.poll()
    }

    /// Sends a datagram of a program.
    pub fn send_datagram(&mut self, datagram: &Datagram) -> Result<(), Refused> {
        let Datagram { local, remote, payload } = datagram;
        let refused = |why: String| Err(Refused(why));
        if !self.config.keying_ports.contains(&local.port()) {
            return refused(format!("port {} is not one of keying-ports", local.port()));
        }
        if self.route_to(local.ip()) != Some(Route::Local) {
            return refused(format!("{} is no address of this node", local.ip()));
        }
        if remote.port() == 0 || !matches!(self.route_to(remote.ip()), Some(Route::Via(_))) {
            return refused(format!("there is no way to {remote}"));
        }
        let cores = &mut *self.protocols.lock();
        let octets = packet_of(datagram, cores.datagrams.next_ident());
        let packet = octets.and_then(|octets| cores.exchange.make(&octets));
        let Some(mut packet) = packet else {
            return refused(format!("{} octets find no buffer", payload.len()));
        };
        let meta = packet.meta_mut();
        let v6 = local.is_ipv6();
        meta.ethertype = if v6 { EtherType::IPV6.0 } else { EtherType::IPV4.0 };
        (meta.vrf, meta.flags) = (VrfId::GLOBAL, FLAG_LOCAL | FLAG_EXEMPT);
        cores.exchange.inject(WORKER, Next::Ip, packet);
        Ok(())
    }
}
