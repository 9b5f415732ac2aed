//! The bridge, stage and table.

mod forward;
mod laws;
mod table;

use super::{Bridge, Forward, MacTable};
use crate::mpls::tests::Rig;
use crate::route::tests::rig::Fate;
use crate::tables::{Iface, IfaceKind, Tables, Tag};
use ferrule_base::{DropReason, MacAddr, PortId};
use ferrule_wire::EtherType;
use std::sync::Arc;

pub(super) const QINQ: u16 = 0x88a8;
/// Seconds until an address is forgotten.
pub(super) const AGEING: u32 = 300;

/// Interfaces 0 and 1 are trunks, 2 and 3 access interfaces of VLAN 10, 4 has a
/// tag of its own; 5 is of another bridge. Each is on the port of its number.
pub(super) fn rig() -> Rig<Forward> {
    let iface = |number: u16, tag, bridge, access_vlan| {
        let kind = IfaceKind::Bridged { bridge, access_vlan };
        Iface::new("member", PortId(number), tag, kind)
    };
    let bridge = |members: &[u16]| Bridge {
        name: "bridge".into(),
        members: members.to_vec(),
        table: Arc::new(MacTable::new(1024, AGEING, [1, 2])),
    };
    Rig::new(Tables {
        ifaces: vec![
            iface(0, Tag::None, 0, None),
            iface(1, Tag::None, 0, None),
            iface(2, Tag::None, 0, Some(10)),
            iface(3, Tag::None, 0, Some(10)),
            iface(4, Tag::Tag(QINQ, 30), 0, None),
            iface(5, Tag::None, 1, None),
        ],
        bridges: vec![bridge(&[0, 1, 2, 3, 4]), bridge(&[5])],
        workers: 1,
        ..Tables::default()
    })
}

pub(super) const fn host(number: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 1, number])
}

/// A frame in the bridge; VLAN 0 has no tag.
pub(super) fn frame(dst: MacAddr, src: MacAddr, tci: u16) -> Vec<u8> {
    let mut out = [dst.0, src.0].concat();
    if tci != 0 {
        out.extend(EtherType::VLAN.0.to_be_bytes());
        out.extend(tci.to_be_bytes());
    }
    out.extend([8, 0]);
    out.extend([7; 46]);
    out
}

impl Rig<Forward> {
    pub(super) fn fates(&mut self, iface: u16, octets: &[u8]) -> Vec<Fate> {
        let mut packet = self.packet(octets);
        packet.meta_mut().iface = iface;
        self.run(packet)
    }

    /// The ports by which a frame leaves, and its octets there; or the drop reason.
    pub(super) fn leaves(
        &mut self,
        iface: u16,
        octets: &[u8],
    ) -> Result<Vec<(u16, Vec<u8>)>, DropReason> {
        let mut out = Vec::new();
        for fate in self.fates(iface, octets) {
            match fate {
                Fate::Sent(crate::Next::Emit, p) => out.push((p.meta().port.0, p.data().to_vec())),
                Fate::Dropped(reason) => return Err(reason),
                other => panic!("{other:?}"),
            }
        }
        Ok(out)
    }

    pub(super) fn ports(&mut self, iface: u16, octets: &[u8]) -> Result<Vec<u16>, DropReason> {
        self.leaves(iface, octets).map(|out| out.into_iter().map(|(port, _)| port).collect())
    }
}
