//! Orders of keying protocols about SAs: each is answered once, and no packet is lost on the way
//! from one key to the next.

mod net;

use ferrule_base::{DropReason, Duration, MacAddr, Rng, Secret};
use ferrule_crypto::{Aes, Late, Software, Suite};
use ferrule_node::{AgreedSa, Refused, Sa, SaOrder, Token};
use net::{Host, Net, agreed, ethernet, mac, udp4};
use std::collections::HashMap;

const HOSTS: [MacAddr; 2] = [MacAddr([2, 0, 0xaa, 1, 2, 3]), MacAddr([2, 0, 0xbb, 1, 2, 3])];

/// A gateway between a LAN 10.x.0.0/24 and the other one, with tunnels `t0` and on, each for a
/// port of UDP.
fn gateway(own: u8, workers: usize, tunnels: u32) -> String {
    let other = 3 - own;
    let mut text = format!(
        "[node]\nname = \"g{own}\"\nlab = true\ncores = {:?}\n\
         [[port]]\nname = \"lan\"\ndriver = \"wire\"\n\
         [[port]]\nname = \"wan\"\ndriver = \"wire\"\nmtu = 1600\n\
         [[interface]]\nport = \"lan\"\naddress = [\"10.{own}.0.1/24\"]\n\
         [[interface]]\nport = \"wan\"\naddress = [\"192.0.2.{own}/24\"]\n\
         [[route]]\nprefix = \"10.{other}.0.0/16\"\nvia = \"192.0.2.{other}\"\n",
        (0..workers).collect::<Vec<_>>(),
    );
    for t in 0..tunnels {
        let way = |to: u8| {
            let spi = 0x1000 + 2 * t + u32::from(to);
            format!("{{ spi = {spi}, key = \"gcm:{}\" }}", 10 + 2 * t + u32::from(to))
        };
        text += &format!(
            "[[tunnel]]\nname = \"t{t}\"\nlocal = \"192.0.2.{own}\"\nremote = \"192.0.2.{other}\"\n\
             suite = \"aes-gcm-128\"\nout = {}\nin = {}\n\
             [[policy]]\ninterface = \"wan\"\naction = \"protect\"\ntunnel = \"t{t}\"\n\
             local = \"10.{own}.0.0/24\"\nremote = \"10.{other}.0.0/24\"\nprotocol = \"udp\"\n\
             {}-ports = \"{}\"\n",
            way(other),
            way(own),
            if own == 1 { "remote" } else { "local" },
            9000 + t
        );
    }
    text
}

struct Two {
    net: Net,
    hosts: [Host; 2],
    answers: [HashMap<Token, Result<Sa, Refused>>; 2],
    sent: u32,
    last: u32,
}

impl Two {
    fn new(mut net: Net, workers: usize, tunnels: u32) -> Self {
        let nodes = [1, 2].map(|own| net.node(&gateway(own, workers, tunnels)));
        net.join((nodes[0], "wan"), (nodes[1], "wan"));
        let hosts = nodes.map(|node| net.host(node, "lan"));
        net.settle();
        for node in nodes {
            let tables = net.members[node].control.tables().clone();
            for iface in 0..tables.ifaces.len() as u16 {
                let know = |ip: [u8; 4], mac| tables.neighbours.set(iface, ip.into(), mac);
                know([10, node as u8 + 1, 0, 9], HOSTS[node]);
                know([192, 0, 2, 2 - node as u8], mac(["g2", "g1"][node], "wan"));
            }
        }
        Self { net, hosts, answers: Default::default(), sent: 0, last: 0 }
    }

    fn order(&mut self, node: usize, order: SaOrder) -> Token {
        self.net.members[node].control.order(order)
    }

    /// Takes the answers that are there.
    fn listen(&mut self) {
        for (member, answers) in self.net.members.iter_mut().zip(&mut self.answers) {
            while let Some((token, answer)) = member.control.poll_answer() {
                assert!(answers.insert(token, answer).is_none(), "{token:?} is answered twice");
            }
        }
    }

    /// Follows the answers of the first node: the SAs that are there. Returns how many came.
    fn follow(&mut self, under_way: &mut HashMap<Token, SaOrder>, held: &mut Vec<Sa>) -> usize {
        let answers = std::mem::take(&mut self.answers[0]);
        let count = answers.len();
        for (token, answer) in answers {
            match (under_way.remove(&token).expect("an order"), answer) {
                (SaOrder::AddInbound(_) | SaOrder::AddOutbound(_), Ok(sa)) => held.push(sa),
                (SaOrder::Drop(sa), Ok(_)) => held.retain(|held| *held != sa),
                _ => {}
            }
        }
        count
    }

    /// The answer to an order.
    fn ask(&mut self, node: usize, order: SaOrder) -> Result<Sa, Refused> {
        let token = self.order(node, order);
        self.net.settle();
        self.listen();
        self.answers[node].remove(&token).expect("every order is answered")
    }

    /// Sends packets of many flows both ways, and checks those that arrived: all, in order.
    fn traffic(&mut self, tunnel: u16, flows: u16) {
        for flow in 0..flows {
            self.sent += 1;
            for (from, to) in [(0, 1), (1, 0)] {
                let ends = [[10, 1, 0, 9], [10, 2, 0, 9]];
                let port = if from == 0 { (flow, 9000 + tunnel) } else { (9000 + tunnel, flow) };
                let mut packet = udp4(ends[from], ends[to], port, 60, 7);
                packet[40..44].copy_from_slice(&self.sent.to_be_bytes());
                let gate = mac(["g1", "g2"][from], "lan");
                self.hosts[from].send(&ethernet(gate, HOSTS[from], 0x0800, &packet));
            }
        }
    }

    /// Numbers of the packets that arrived at a host, by flow.
    fn arrived(&mut self, host: usize) -> HashMap<[u8; 4], Vec<u32>> {
        let mut flows: HashMap<[u8; 4], Vec<u32>> = HashMap::new();
        for frame in self.hosts[host].received().iter().filter(|f| f[12..14] == [8, 0]) {
            let ports = frame[34..38].try_into().unwrap();
            let number = u32::from_be_bytes(frame[54..58].try_into().unwrap());
            flows.entry(ports).or_default().push(number);
        }
        flows
    }

    /// Another pair of keys for a tunnel, as a keying protocol does it: both receive first,
    /// then both send. Returns the new SAs: inbound and outbound of each node.
    fn rekey(&mut self, tunnel: u32, workers: usize) -> [[Sa; 2]; 2] {
        self.last += 2;
        let (spi, tunnel) = (0x10_0000 + self.last, format!("t{tunnel}"));
        let agreed = |to: u32| AgreedSa {
            lifetimes: Default::default(),
            worker: (self.last / 2 + to) as usize % workers,
            ..agreed(&tunnel, spi + to)
        };
        let all = [0, 1].map(agreed);
        let mut sas = [[Sa::Inbound(u32::MAX); 2]; 2];
        for node in [0, 1] {
            let order = SaOrder::AddInbound(all[node].clone());
            sas[node][0] = self.ask(node, order).expect("it is added");
        }
        for node in [0, 1] {
            let order = SaOrder::AddOutbound(all[1 - node].clone());
            sas[node][1] = self.ask(node, order).expect("it is added");
        }
        for node in [0, 1] {
            assert_eq!(self.ask(node, SaOrder::Use(sas[node][1], None)), Ok(sas[node][1]));
        }
        sas
    }
}

fn late() -> Net {
    Net::with_engines(false, |_, _, id| {
        let delay = Duration::from_micros(300);
        Box::new(Late::new(Software::default(), id as u64 + 1, delay, 512))
    })
}

#[test]
fn keys_follow_one_another_under_traffic_and_nothing_is_lost() {
    for (workers, is_late) in [(1, false), (2, false), (2, true)] {
        let mut two = Two::new(if is_late { late() } else { Net::new() }, workers, 2);
        let (mut before, mut sent) = (None, 0);
        for _ in 0..12 {
            two.traffic(1, 20);
            let sas = two.rekey(1, workers);
            two.traffic(1, 20);
            sent += 40;
            for node in [0, 1] {
                for sa in before.map_or([].to_vec(), |old: [[Sa; 2]; 2]| old[node].to_vec()) {
                    assert_eq!(two.ask(node, SaOrder::Drop(sa)), Ok(sa));
                }
            }
            before = Some(sas);
        }
        two.net.settle();
        for host in [0, 1] {
            let flows = two.arrived(host);
            assert_eq!(flows.values().map(Vec::len).sum::<usize>(), sent, "{workers} {is_late}");
            if !is_late {
                assert!(flows.values().all(|numbers| numbers.is_sorted()));
            }
        }
        // The SAs of the file are there still, and the last that were agreed on.
        for node in [0, 1] {
            let reports = two.net.reports(node);
            let count = |of: fn(&ferrule_node::message::WorkerReport) -> usize| {
                reports.iter().map(|report| of(report)).sum::<usize>()
            };
            assert_eq!((count(|r| r.esp_out.len()), count(|r| r.esp_in.len())), (3, 3));
        }
        two.net.assert_conserved();
    }
}

#[test]
fn what_cannot_be_done_is_refused_in_words_and_changes_nothing() {
    let mut two = Two::new(Net::new(), 1, 1);
    let words = |answer: Result<Sa, Refused>| answer.expect_err("it is refused").0;
    let add = |sa| SaOrder::AddInbound(sa);
    assert_eq!(words(two.ask(0, add(agreed("t9", 300)))), "there is no tunnel `t9`");
    let far = AgreedSa { worker: 3, ..agreed("t0", 300) };
    assert_eq!(words(two.ask(0, add(far))), "there is no worker 3");
    assert_eq!(words(two.ask(0, add(agreed("t0", 0x1001)))), "the SPI 0x00001001 is another SA's");
    let mut other = agreed("t0", 300);
    other.keys.suite = Suite::AesGcm(Aes::Aes256);
    let suites = "tunnel `t0` has the suite aes-gcm-128, not aes-gcm-256";
    assert_eq!(words(two.ask(0, add(other))), suites);
    let low = two.ask(0, add(agreed("t0", 9)));
    assert_eq!(words(low), "the SPI 9 is reserved; use 256 or above");
    let short = AgreedSa { salt: Secret::new(vec![1]), ..agreed("t0", 300) };
    let refused = two.ask(0, SaOrder::AddOutbound(short));
    assert_eq!(words(refused), "the salt has 1 octets, the suite needs 4");
    // A key twice would make its nonces twice.
    let out = two.ask(0, SaOrder::AddOutbound(agreed("t0", 301))).unwrap();
    let again = two.ask(0, SaOrder::AddOutbound(agreed("t0", 301)));
    assert_eq!(words(again), "its key makes the nonces of another SA");
    // Two of one SPI before either is there.
    let both = [two.order(0, add(agreed("t0", 400))), two.order(0, add(agreed("t0", 400)))];
    two.net.settle();
    two.listen();
    let [first, second] = both.map(|token| two.answers[0].remove(&token).unwrap());
    assert!(first.is_ok());
    assert_eq!(words(second), "the SPI 0x00000190 is another SA's");
    // An SA is dropped once; those of the file are not for others to drop.
    let inn = first.unwrap();
    assert_eq!(words(two.ask(0, SaOrder::Use(inn, None))), "there is no such SA");
    for sa in [inn, out] {
        let drops = [two.order(0, SaOrder::Drop(sa)), two.order(0, SaOrder::Drop(sa))];
        two.net.settle();
        two.listen();
        let [first, second] = drops.map(|token| two.answers[0].remove(&token).unwrap());
        assert_eq!((first, words(second)), (Ok(sa), "there is no such SA".to_owned()));
    }
    for sa in [Sa::Inbound(0), Sa::Outbound(0), Sa::Outbound(77)] {
        assert_eq!(words(two.ask(0, SaOrder::Drop(sa))), "there is no such SA");
    }
    two.traffic(0, 5);
    two.net.settle();
    assert_eq!(two.arrived(1).len(), 5, "by the keys of the file");
    let report = two.net.reports(0).remove(0);
    assert_eq!((report.esp_out.len(), report.esp_in.len()), (1, 1));
    two.net.assert_conserved();
}

#[test]
fn slot_whose_sa_is_dropped_sends_nothing() {
    let mut two = Two::new(Net::new(), 1, 1);
    let [[_, out], _] = two.rekey(0, 1);
    assert_eq!(two.ask(0, SaOrder::Drop(out)), Ok(out));
    two.traffic(0, 3);
    two.net.settle();
    assert_eq!(two.net.dropped(0, DropReason::EspNoSa), 3);
    assert!(two.arrived(1).is_empty());
    // A configuration is in force by its own keys again.
    let text = gateway(1, 1, 1);
    two.net.apply(0, &text);
    two.net.settle();
    let [_, [inn, _]] = two.rekey(0, 1);
    two.traffic(0, 3);
    two.net.settle();
    assert_eq!(two.arrived(1).len(), 3);
    assert_eq!(two.ask(1, SaOrder::Drop(inn)), Ok(inn));
}

#[test]
fn agreed_sas_go_with_their_tunnel_and_stay_with_every_other_change() {
    let mut two = Two::new(Net::new(), 1, 2);
    for tunnel in [0, 1] {
        two.rekey(tunnel, 1);
    }
    let count = |two: &mut Two| {
        let report = two.net.reports(0).remove(0);
        (report.esp_out.len(), report.esp_in.len())
    };
    assert_eq!(count(&mut two), (4, 4));
    let text = gateway(1, 1, 2) + "[[route]]\nprefix = \"10.9.0.0/16\"\nvia = \"192.0.2.2\"\n";
    two.net.apply(0, &text);
    two.net.settle();
    assert_eq!(count(&mut two), (4, 4));
    two.net.apply(0, &gateway(1, 1, 1));
    two.net.settle();
    assert_eq!(count(&mut two), (2, 2));
    two.net.assert_conserved();
}

/// Orders at random against what they come to, with late engines and two workers.
#[test]
fn every_order_is_answered_once_and_only_what_was_added_is_there() {
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let mut two = Two::new(if seed % 2 == 0 { late() } else { Net::new() }, 2, 3);
        let (mut under_way, mut held) = (HashMap::new(), Vec::new());
        let (mut orders, mut answered) = (0, 0);
        for _ in 0..300 {
            let tunnel = format!("t{}", rng.below(3));
            let spi = 0x2000 + rng.below(40) as u32;
            let sa = AgreedSa { worker: rng.below(2) as usize, ..agreed(&tunnel, spi) };
            let any = |rng: &mut Rng, held: &Vec<Sa>| held[rng.below(held.len() as u64) as usize];
            let order = match rng.below(6) {
                0 | 1 => SaOrder::AddInbound(sa),
                2 => SaOrder::AddOutbound(sa),
                3 if !held.is_empty() => SaOrder::Use(any(&mut rng, &held), None),
                _ if !held.is_empty() => SaOrder::Drop(any(&mut rng, &held)),
                _ => continue,
            };
            orders += 1;
            under_way.insert(two.order(0, order.clone()), order);
            if rng.below(4) == 0 {
                two.traffic(rng.below(3) as u16, 4);
            }
            if rng.below(3) == 0 {
                two.net.settle();
            }
            two.listen();
            answered += two.follow(&mut under_way, &mut held);
        }
        two.net.settle();
        two.listen();
        answered += two.follow(&mut under_way, &mut held);
        assert_eq!((orders, under_way.len()), (answered, 0), "seed {seed}");
        let reports = two.net.reports(0);
        let there: usize = reports.iter().map(|r| r.esp_out.len() + r.esp_in.len()).sum();
        assert_eq!(there, held.len() + 6, "seed {seed}");
        let _ = two.net.members[0].control.take_failures();
        two.net.assert_conserved();
    }
}
