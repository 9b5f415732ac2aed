//! From the node towards the wire (RFC 4301 section 5.1).

use super::frame::Seen;
use super::links::Links;
use ferrule_base::DropReason;
use ferrule_dataplane::Tables;
use ferrule_dataplane::graph::Next;
use ferrule_pipeline::Packet;
use ferrule_wire::EtherType;

/// Next stage of a frame that the node sends:
///
/// 1. Its tag names the interface; without a policy there it passes.
/// 2. Protocols of the link itself pass: ARP, neighbour discovery.
/// 3. IP goes to the policy without its link header, which waits.
/// 4. Nothing else leaves an interface with a policy.
#[inline]
pub(super) fn down(
    tables: &Tables,
    links: &mut Links,
    packet: &mut Packet,
) -> Result<Next, DropReason> {
    // 1
    let Some(seen) = Seen::at(tables, packet)? else { return Ok(Next::Emit) };
    match seen.ethertype {
        // 2
        EtherType::ARP => Ok(Next::Emit),
        EtherType::IPV6 if seen.is_discovery(packet, false) => Ok(Next::Emit),
        // 3
        EtherType::IPV4 | EtherType::IPV6 => {
            links.save(packet, seen.link)?;
            let meta = packet.meta_mut();
            // The adjacency of an interface has its number, in a card.
            meta.adjacency = seen.number.into();
            meta.ethertype = seen.ethertype.0;
            Ok(Next::Policy)
        }
        // 4
        _ => Err(DropReason::PolicyDiscard),
    }
}
