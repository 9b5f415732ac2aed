//! Routing tables keep to themselves: two provider edges, customers who all use the same
//! addresses, and routes at random between them. A customer's packets reach no other,
//! whatever their destination; those for its own other site arrive.

mod net;

use ferrule_base::{MacAddr, Rng};
use net::{Host, Net, ethernet, mac, udp4};
use std::fmt::Write;

const HOST: MacAddr = MacAddr([2, 0, 0xaa, 1, 2, 3]);

/// Customers and their labels at both edges, and what is configured of them at random.
struct Plan {
    customers: usize,
    /// By edge and customer.
    labels: [Vec<u32>; 2],
    texts: [String; 2],
}

impl Plan {
    fn new(rng: &mut Rng) -> Self {
        let customers = 2 + rng.below(4) as usize;
        let mut next = 100;
        let mut labels = || -> Vec<u32> {
            (0..customers)
                .map(|_| {
                    next += 1 + rng.below(5) as u32;
                    next
                })
                .collect()
        };
        let labels = [labels(), labels()];
        let texts = [0, 1].map(|edge| text(rng, edge, customers, &labels));
        Self { customers, labels, texts }
    }
}

/// An edge: customer c has port c and the network 10.0.EDGE.0/24, as every customer has.
fn text(rng: &mut Rng, edge: usize, customers: usize, labels: &[Vec<u32>; 2]) -> String {
    let (own, other) = (edge + 1, 2 - edge);
    let mut text = format!(
        "[node]\nname = \"pe{own}\"\nlab = true\nworkers = {}\n\
         [[port]]\nname = \"core\"\ndriver = \"wire\"\nmtu = 1600\n\
         [[interface]]\nport = \"core\"\nmpls = true\naddress = [\"192.0.2.{own}/24\"]\n",
        1 + rng.below(2),
    );
    for customer in 0..customers {
        let validation = match rng.below(3) {
            0 => "source-validation = \"strict\"\n",
            _ => "",
        };
        let _ = write!(
            text,
            "[[port]]\nname = \"c{customer}\"\ndriver = \"wire\"\n\
             [[interface]]\nport = \"c{customer}\"\nvrf = \"red{customer}\"\n{validation}\
             address = [\"10.0.{own}.1/24\"]\n\
             [[label]]\nlabel = {}\nvrf = \"red{customer}\"\nttl = \"{}\"\n",
            labels[edge][customer],
            ["uniform", "pipe"][rng.below(2) as usize],
        );
        let core = |labels: u32| format!("{{ via = \"192.0.2.{other}\", labels = [{labels}] }}");
        let label = labels[1 - edge][customer];
        let there = core(label);
        let site = format!("{{ via = \"10.0.{own}.9\" }}");
        let _ = write!(
            text,
            "[[route]]\nvrf = \"red{customer}\"\nprefix = \"10.0.{other}.0/24\"\n\
             paths = [{}]\n",
            vec![there.clone(); 1 + rng.below(3) as usize].join(", "),
        );
        // Whatever else: networks that others have, too, and some that are within the sites'.
        for at in 0..rng.below(6) {
            let len = [8, 16, 20, 26][rng.below(4) as usize];
            let network = u32::from_be_bytes([10, rng.below(4) as u8, 16 * at as u8, 0]);
            let network = network & u32::MAX << (32 - len);
            let way = match rng.below(4) {
                0 => "discard = true".to_owned(),
                1 => format!("paths = [{site}]"),
                2 => format!("paths = [{there}]"),
                _ => format!("paths = [{site}, {there}]"),
            };
            let prefix = format!("{}/{len}", std::net::Ipv4Addr::from(network));
            let route = format!("vrf = \"red{customer}\"\nprefix = \"{prefix}\"\n");
            if !text.contains(&route) {
                let _ = write!(text, "[[route]]\n{route}{way}\n");
            }
        }
    }
    text
}

/// Octet that marks a customer's packets.
fn mark(customer: usize) -> u8 {
    0xc0 + customer as u8
}

/// A packet of a customer, full of its mark.
fn packet(customer: usize, from: [u8; 4], to: [u8; 4], port: u16) -> Vec<u8> {
    udp4(from, to, (port, 9), 100, mark(customer))
}

/// True if a frame has packets, or parts of them, of the customer.
fn has(frame: &[u8], customer: usize) -> bool {
    frame.windows(16).any(|part| part.iter().all(|&octet| octet == mark(customer)))
}

struct Edges {
    net: Net,
    /// By edge and customer.
    hosts: [Vec<Host>; 2],
}

fn build(plan: &Plan) -> Edges {
    let mut net = Net::new();
    let nodes = plan.texts.each_ref().map(|text| net.node(text));
    net.join((nodes[0], "core"), (nodes[1], "core"));
    let hosts = nodes.map(|node| {
        (0..plan.customers).map(|customer| net.host(node, &format!("c{customer}"))).collect()
    });
    net.settle();
    for (edge, &node) in nodes.iter().enumerate() {
        let tables = net.members[node].control.tables().clone();
        let core = mac(["pe2", "pe1"][edge], "core");
        for iface in 0..tables.ifaces.len() as u16 {
            let known = |ip: [u8; 4], mac| tables.neighbours.set(iface, ip.into(), mac);
            known([10, 0, edge as u8 + 1, 9], HOST);
            known([192, 0, 2, 2 - edge as u8], core);
        }
    }
    Edges { net, hosts }
}

/// Sends from a customer's host at an edge; returns the packets that every host then heard.
fn heard(edges: &mut Edges, (edge, customer): (usize, usize), packet: &[u8]) -> Vec<[usize; 2]> {
    let port = mac(["pe1", "pe2"][edge], &format!("c{customer}"));
    edges.hosts[edge][customer].send(&ethernet(port, HOST, 0x0800, packet));
    edges.net.settle();
    let mut heard = Vec::new();
    for at in 0..2 {
        for (other, host) in edges.hosts[at].iter_mut().enumerate() {
            let all = host.received();
            assert!(
                other == customer || !all.iter().any(|frame| has(frame, customer)),
                "customer {other} at edge {at} heard customer {customer}: {all:02x?}"
            );
            heard.extend(all.iter().filter(|frame| has(frame, customer)).map(|_| [at, other]));
        }
    }
    heard
}

#[test]
fn what_one_customer_sends_reaches_no_other_over_random_networks() {
    for seed in 0..150 {
        let mut rng = Rng::new(seed);
        let plan = Plan::new(&mut rng);
        let mut edges = build(&plan);
        for edge in 0..2 {
            let (own, other) = (edge as u8 + 1, 2 - edge as u8);
            for customer in 0..plan.customers {
                let from = [10, 0, own, 9];
                let there = packet(customer, from, [10, 0, other, 9], 7);
                let reached = heard(&mut edges, (edge, customer), &there);
                assert_eq!(reached, [[1 - edge, customer]], "seed {seed}\n{}", plan.texts[edge]);
                for _ in 0..8 {
                    let to = [10, rng.below(4) as u8, rng.next_u64() as u8, rng.below(12) as u8];
                    let from = if rng.one_in(4) { [10, 0, other, 9] } else { from };
                    let any = packet(customer, from, to, rng.next_u64() as u16);
                    heard(&mut edges, (edge, customer), &any);
                }
            }
        }
        edges.net.assert_conserved();
    }
}

/// Labels open no way from one customer to another: a customer's port takes none.
#[test]
fn labelled_frames_of_a_customer_reach_nobody() {
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        let plan = Plan::new(&mut rng);
        let mut edges = build(&plan);
        for customer in 0..plan.customers {
            for label in plan.labels.iter().flatten() {
                let stack = (label << 12 | 0x140).to_be_bytes();
                let inner = packet(customer, [10, 0, 1, 9], [10, 0, 1, 9], 7);
                let port = mac("pe1", &format!("c{customer}"));
                let frame = ethernet(port, HOST, 0x8847, &[&stack[..], &inner].concat());
                edges.hosts[0][customer].send(&frame);
            }
        }
        edges.net.settle();
        let all = edges.hosts.iter_mut().flatten().flat_map(Host::received);
        assert!(!all.into_iter().any(|frame| (0..plan.customers).any(|c| has(&frame, c))));
    }
}
