//! `ferrule init p`: a provider router that switches labels between two or more links.
//!
//! ```text
//!   PE ── 16001 ── [ P ] ── 16002 ── PE        a label for each neighbour: whoever sends
//!                    └───── 16003 ── P         it here means that neighbour
//! ```

use super::config::{NodePlan, PortPlan, Text};
use super::{Net, label_of, network};
use std::net::IpAddr;

/// A link to a neighbour, as it stands on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkPlan {
    /// The device.
    pub device: String,
    /// Our address.
    pub address: Net,
    /// The neighbour's.
    pub neighbour: IpAddr,
    /// The label that the neighbour takes; nothing: it is the edge, and the label is taken
    /// off before it (RFC 3031 section 3.16).
    pub label_out: Option<u32>,
}

/// `DEVICE,ADDRESS/LEN,NEIGHBOUR[,LABEL]`.
pub fn link(text: &str) -> Result<LinkPlan, String> {
    let form = "write it as eth0,192.0.2.2/24,192.0.2.1 or, with the neighbour's label, \
                eth0,192.0.2.2/24,192.0.2.1,16001";
    let words: Vec<&str> = text.split(',').collect();
    let (device, address, neighbour, label) = match words[..] {
        [device, address, neighbour] => (device, address, neighbour, None),
        [device, address, neighbour, label] => (device, address, neighbour, Some(label)),
        _ => return Err(form.to_owned()),
    };
    if device.is_empty() {
        return Err(form.to_owned());
    }
    Ok(LinkPlan {
        device: device.to_owned(),
        address: network(address)?,
        neighbour: neighbour.parse().map_err(|_| form.to_owned())?,
        label_out: label.map(label_of).transpose()?,
    })
}

/// A provider router.
#[derive(Clone, Debug)]
pub struct PPlan {
    /// The head.
    pub node: NodePlan,
    /// Its links, and the port of each.
    pub links: Vec<(PortPlan, LinkPlan)>,
    /// The label of the first link; the next one's is one more, and so on.
    pub first_label: u32,
}

impl PPlan {
    /// The configuration.
    pub fn toml(&self) -> String {
        let mut out = Text::default();
        out.comment(&format!(
            "{}: a provider router. It switches labels between its links and looks no further\n\
             into a packet. Each neighbour has a label here: who sends it means that neighbour.",
            self.node.name
        ));
        self.node.write(&mut out);
        out.gap().comment(
            "Labels and the customer's frame need an mtu larger than the customer's, on every\n\
             link alike: `ip link set DEVICE mtu …`.",
        );
        for (port, link) in &self.links {
            port.write(&mut out, &format!("towards {}", link.neighbour));
        }
        for (port, link) in &self.links {
            out.gap().table("[[interface]]").text("name", &port.name).text("port", &port.name);
            out.plain("address", format!("[\"{}\"]", link.address));
            out.plain_why("mpls", true, "labelled packets are taken here");
        }
        out.gap().comment("Labels that arrive here, and what becomes of them.");
        for (label, (_, link)) in (self.first_label..).zip(&self.links) {
            out.table("[[label]]").plain("label", label);
            match link.label_out {
                Some(next) => {
                    out.plain_why("swap", format!("[{next}]"), "the label that the neighbour takes")
                }
                None => out.plain_why("pop", true, "the neighbour is the edge: it needs none"),
            };
            out.text("via", link.neighbour).gap();
        }
        out.finish().trim_end().to_owned() + "\n"
    }
}
