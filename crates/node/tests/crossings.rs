//! Orders, changes of configuration and resets of cards that cross one another.

mod net;

use ferrule_node::{AgreedSa, BuildError, Refused, Sa, SaOrder, Token};
use net::{Net, agreed, config};
use std::collections::HashMap;
use std::net::IpAddr;

/// A gateway with two wide-area ports, and tunnels: name, port, placement, SPI and keys.
fn gateway(ports: &[&str], tunnels: &[(&str, &str, &str, u32, [u32; 2])]) -> String {
    let mut text = "[node]\nname = \"g1\"\nlab = true\n\
         [[port]]\nname = \"lan\"\ndriver = \"wire\"\n\
         [[interface]]\nport = \"lan\"\naddress = [\"10.1.0.1/24\"]\n"
        .to_owned();
    for port in ports {
        let net = if *port == "wan" { 2 } else { 3 };
        text += &format!(
            "[[port]]\nname = \"{port}\"\ndriver = \"wire\"\nmtu = 1600\n\
             [[interface]]\nport = \"{port}\"\naddress = [\"192.0.{net}.1/24\"]\n\
             [[route]]\nprefix = \"10.{net}.0.0/16\"\nvia = \"192.0.{net}.2\"\n"
        );
    }
    for (at, (name, port, placement, spi, keys)) in tunnels.iter().enumerate() {
        let net = if *port == "wan" { 2 } else { 3 };
        text += &format!(
            "[[tunnel]]\nname = \"{name}\"\nlocal = \"192.0.{net}.1\"\nremote = \"192.0.{net}.2\"\n\
             suite = \"aes-gcm-128\"\nplacement = \"{placement}\"\n\
             out = {{ spi = {spi}, key = \"gcm:{}\" }}\nin = {{ spi = {}, key = \"gcm:{}\" }}\n\
             [[policy]]\ninterface = \"{port}\"\naction = \"protect\"\ntunnel = \"{name}\"\n\
             local = \"10.1.0.0/24\"\nremote = \"10.{net}.{at}.0/24\"\n",
            keys[0],
            spi + 1,
            keys[1],
        );
    }
    text
}

const BOTH: [(&str, &str, &str, u32, [u32; 2]); 2] =
    [("t0", "wan", "software", 0x1000, [10, 11]), ("t1", "wan", "software", 0x1010, [12, 13])];

type Answers = HashMap<Token, Result<Sa, Refused>>;

fn order(net: &mut Net, order: SaOrder) -> Token {
    net.members[0].control.order(order)
}

fn listen(net: &mut Net, answers: &mut Answers) {
    while let Some((token, answer)) = net.members[0].control.poll_answer() {
        assert!(answers.insert(token, answer).is_none(), "{token:?} is answered twice");
    }
}

fn ask(net: &mut Net, what: SaOrder) -> Result<Sa, Refused> {
    let (token, mut answers) = (order(net, what), Answers::new());
    net.settle();
    listen(net, &mut answers);
    answers.remove(&token).expect("every order is answered")
}

/// One turn of every worker and the control part.
fn turn(net: &mut Net) {
    let (now, member) = (net.now, &mut net.members[0]);
    member.workers.iter_mut().for_each(|worker| _ = worker.turn(now));
    member.control.turn(now);
}

/// Numbers of the workers' outbound and inbound SAs.
fn count(net: &mut Net) -> (usize, usize) {
    let reports = net.reports(0);
    let all = |of: fn(&ferrule_node::message::WorkerReport) -> usize| {
        reports.iter().map(|report| of(report)).sum()
    };
    (all(|r| r.esp_out.len()), all(|r| r.esp_in.len()))
}

#[test]
fn key_that_was_agreed_on_is_no_key_of_a_configuration() {
    let mut net = Net::new();
    net.node(&gateway(&["wan"], &BOTH[..1]));
    let text = gateway(&["wan"], &BOTH);
    let of = config(&text).tunnels[1].outbound[0].clone();
    let sa = AgreedSa { keys: of.keys, salt: of.salt, ..agreed("t0", 0x2000) };
    let out = ask(&mut net, SaOrder::AddOutbound(sa.clone())).unwrap();
    assert!(matches!(net.try_apply(0, &text), Err(BuildError::Unfit(..))), "its nonces come twice");
    assert_eq!(ask(&mut net, SaOrder::Drop(out)), Ok(out));
    // And the other way round: from when it is to be in force, though it is not yet.
    let moved = [("t0", "wan", "software", 0x1030, [10, 11]), BOTH[1]];
    net.apply(0, &gateway(&["wan"], &moved));
    let refused = ask(&mut net, SaOrder::AddOutbound(sa));
    assert_eq!(refused, Err(Refused("its key makes the nonces of another SA".into())));
}

#[test]
fn an_sa_with_another_key_and_the_same_spi_hears_of_its_path() {
    let mut net = Net::new();
    net.node(&gateway(&["wan"], &BOTH));
    let to: IpAddr = [192, 0, 2, 2].into();
    let path = |net: &Net| net.members[0].control.tables().sas.path(0x1000, to);
    let before = path(&net).expect("it is known");
    let keys = [("t0", "wan", "software", 0x1000, [40, 11]), BOTH[1]];
    net.apply(0, &gateway(&["wan"], &keys));
    net.settle();
    let now = net.members[0].control.tables().sas.slots(0).get(0);
    assert_ne!(now, Some(before));
    assert_eq!(path(&net), now);
}

#[test]
fn what_a_protocol_drops_while_its_tunnel_goes_takes_no_other_with_it() {
    for delay in 0..12 {
        let mut net = Net::new();
        net.node(&gateway(&["wan"], &BOTH));
        let inn = ask(&mut net, SaOrder::AddInbound(agreed("t1", 0x2001))).unwrap();
        let out = ask(&mut net, SaOrder::AddOutbound(agreed("t1", 0x2002))).unwrap();
        net.apply(0, &gateway(&["wan"], &BOTH[..1]));
        (0..delay).for_each(|_| turn(&mut net));
        let mut answers = Answers::new();
        for sa in [inn, out] {
            order(&mut net, SaOrder::Drop(sa));
        }
        let (mut spi, mut added) = (0x3000, Vec::new());
        for _ in 0..30 {
            spi += 2;
            added.push(order(&mut net, SaOrder::AddInbound(agreed("t0", spi))));
            added.push(order(&mut net, SaOrder::AddOutbound(agreed("t0", spi + 1))));
            turn(&mut net);
        }
        net.settle();
        listen(&mut net, &mut answers);
        assert_eq!(count(&mut net), (31, 31), "after {delay} turns");
        for token in added {
            let sa = answers[&token].clone().expect("it is added");
            assert_eq!(ask(&mut net, SaOrder::Drop(sa)), Ok(sa), "after {delay} turns");
        }
        assert_eq!(count(&mut net), (1, 1), "after {delay} turns");
        net.assert_conserved();
    }
}

#[test]
fn card_that_is_reset_while_a_change_begins_is_filled_by_it() {
    let inline = ("t", "wan", "inline", 0x1000, [10, 11]);
    let moving = |spi| ("v", "wan2", "software", spi, [12, 13]);
    let third = ("w", "wan2", "software", 0x1020, [14, 15]);
    let rekeyed = ("t", "wan", "inline", 0x1000, [20, 11]);
    for (turns, before, after) in (0..6).flat_map(|turns| {
        [
            (turns, [inline, moving(0x1010), third], [inline, moving(0x1030)]),
            (turns, [third, moving(0x1010), inline], [moving(0x1030), inline]),
            (turns, [inline, moving(0x1010), third], [rekeyed, moving(0x1010)]),
        ]
    }) {
        let mut net = Net::new();
        net.node(&gateway(&["wan", "wan2"], &before));
        net.settle();
        assert_eq!(net.members[0].control.reset_card(1), Ok(true));
        net.apply(0, &gateway(&["wan", "wan2"], &after));
        (0..turns).for_each(|_| turn(&mut net));
        net.wait(ferrule_base::Duration::from_secs(3));
        let card = net.card(0);
        assert_eq!((card.esp_out.len(), card.esp_in.len()), (1, 1));
        assert_eq!(count(&mut net), (1, 1));
        // The SA whose range was begun last has the record.
        let control = &net.members[0].control;
        assert!(card.esp_out.iter().all(|sa| control.is_newest(sa.lease)));
        let reports = net.reports(0);
        let control = &net.members[0].control;
        let sas = reports.iter().flat_map(|report| &report.esp_out);
        assert!(sas.into_iter().all(|sa| control.is_newest(sa.lease)), "it gets more numbers");
    }
}

#[test]
fn a_change_of_something_else_leaves_an_agreed_key_in_use() {
    let mut net = Net::new();
    net.node(&gateway(&["wan"], &BOTH));
    let out = ask(&mut net, SaOrder::AddOutbound(agreed("t0", 0x2002))).unwrap();
    let used = |net: &Net| net.members[0].control.tables().sas.slots(0).get(0).map(|p| p.index);
    let of_file = used(&net);
    let more = "[[route]]\nprefix = \"10.9.0.0/16\"\nvia = \"192.0.2.2\"\n";
    // Used before the change, and while it is under way.
    for delay in 0..6 {
        net.apply(0, &(gateway(&["wan"], &BOTH) + if delay % 2 == 0 { more } else { "" }));
        (0..delay).for_each(|_| turn(&mut net));
        order(&mut net, SaOrder::Use(out, None));
        net.settle();
        assert_ne!(used(&net), of_file, "after {delay} turns");
        net.apply(0, &(gateway(&["wan"], &BOTH) + if delay % 2 == 0 { "" } else { more }));
        net.settle();
        assert_ne!(used(&net), of_file);
    }
    assert_eq!(ask(&mut net, SaOrder::Drop(out)), Ok(out));
    net.apply(0, &gateway(&["wan"], &BOTH));
    net.settle();
    assert_eq!(used(&net), of_file);
}
