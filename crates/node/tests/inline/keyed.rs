//! SAs that a keying program gives to a card.

use crate::net::{Net, agreed, ethernet, mac, udp4};
use crate::site::{MARK, PEER, Site, gateway};
use ferrule_base::{DropReason, Duration};
use ferrule_dataplane::ipsec::{Lifetime, Lifetimes};
use ferrule_node::{AgreedSa, Datagram, Incident, Refused, Sa, SaOrder, Token};

/// Gateway `own` whose tunnel has no keys.
fn external(own: u8, placement: &str) -> String {
    let text = gateway(own, placement, "aes-gcm-128", "gcm");
    let lines = text.lines().filter(|line| !line.contains("key = "));
    let lines: Vec<&str> = lines.collect();
    lines.join("\n").replace("name = \"t\"", "name = \"t\"\nkeying = \"external\"")
}

fn order(site: &mut Site, order: SaOrder) -> Token {
    site.net.members[site.node].control.order(order)
}

fn answers(site: &mut Site) -> Vec<(Token, Result<Sa, Refused>)> {
    let control = &mut site.net.members[site.node].control;
    std::iter::from_fn(|| control.poll_answer()).collect()
}

fn ask(site: &mut Site, what: SaOrder) -> Sa {
    let token = order(site, what);
    site.net.settle();
    let answers = answers(site);
    assert!(matches!(&answers[..], [(of, Ok(_))] if *of == token), "{answers:?}");
    answers[0].1.clone().expect("just looked at")
}

/// Both SAs of gateway `own`, that to the other one in use.
fn key(site: &mut Site, own: u8, round: u32) -> (Sa, Sa) {
    let spi = |to: u8| 0x2000 * round + u32::from(to);
    let inbound = ask(site, SaOrder::AddInbound(agreed("t", spi(own))));
    let outbound = ask(site, SaOrder::AddOutbound(agreed("t", spi(3 - own))));
    assert_eq!(ask(site, SaOrder::Use(outbound, None)), outbound);
    (inbound, outbound)
}

fn incidents(site: &mut Site) -> Vec<Incident> {
    site.net.members[site.node].control.take_incidents()
}

fn is_acquire(incident: &Incident) -> bool {
    matches!(incident, Incident::Acquire { tunnel, header } if tunnel == "t" && header[0] == 0x45)
}

fn packet(from: u8, len: usize) -> Vec<u8> {
    udp4([10, from, 0, 9], [10, 3 - from, 0, 9], (7, 9), len, MARK)
}

#[test]
fn inline_card_seals_and_opens_with_keys_of_a_program_as_software_does() {
    let mut card = Site::new(Net::new(), &external(1, "inline"));
    let mut node = Site::new(Net::new(), &external(1, "software"));
    let mut far = Site::new(Net::new(), &external(2, "software"));
    assert!(card.send(1, &packet(1, 60)).is_empty());
    assert!(card.send(1, &packet(1, 61)).is_empty());
    let asked = incidents(&mut card);
    assert!(matches!(&asked[..], [asks] if is_acquire(asks)), "asked once: {asked:?}");
    let late: Vec<Incident> = card.net.members[0].control.acquiring();
    assert_eq!(late, asked, "a program that comes later hears of it, too");
    assert_eq!(card.net.refused(0, DropReason::EspNoSa), 2, "a card keeps no packets");
    for site in [&mut card, &mut node] {
        key(site, 1, 1);
    }
    key(&mut far, 2, 1);
    assert!(card.net.members[0].control.acquiring().is_empty());
    for len in [60, 200, 1200] {
        let sealed = card.send(1, &packet(1, len));
        assert_eq!(sealed.len(), 1);
        let mut soft = node.send(1, &packet(1, len));
        soft[0][18..20].copy_from_slice(&sealed[0][18..20]);
        soft[0][24..26].copy_from_slice(&sealed[0][24..26]);
        assert_eq!(sealed, soft, "but for the IP identification");
        let mut back = far.send(2, &packet(2, len)).remove(0);
        back[..6].copy_from_slice(&mac("g1", "wan").0);
        let opened = card.arrive(&back);
        assert_eq!(opened.len(), 1);
        assert!(opened[0].ends_with(&[MARK; 8]));
    }
    card.net.assert_conserved();
}

#[test]
fn inline_rekey_by_a_program_drops_nothing_and_old_sas_go() {
    let mut card = Site::new(Net::new(), &external(1, "inline"));
    let (mut inbound, mut outbound) = key(&mut card, 1, 1);
    for round in 2..20 {
        let new = key(&mut card, 1, round);
        assert_eq!(card.send(1, &packet(1, 90))[0][34..38], (0x2000 * round + 2).to_be_bytes());
        assert_eq!(ask(&mut card, SaOrder::Drop(inbound)), inbound);
        assert_eq!(ask(&mut card, SaOrder::Drop(outbound)), outbound);
        assert_eq!(card.send(1, &packet(1, 90)).len(), 1);
        let report = card.net.card(0);
        assert_eq!((report.esp_out.len(), report.esp_in.len()), (1, 1));
        (inbound, outbound) = new;
    }
    let taken = order(&mut card, SaOrder::AddInbound(agreed("t", 0x2000 * 19 + 1)));
    let why = Refused("the SPI 0x00026001 is another SA's".into());
    assert_eq!(answers(&mut card), [(taken, Err(why))]);
    assert_eq!(incidents(&mut card), []);
}

#[test]
fn inline_reset_takes_the_keys_of_a_program_and_says_so() {
    let mut card = Site::new(Net::new(), &external(1, "inline"));
    key(&mut card, 1, 1);
    let mut seen = vec![card.send(1, &packet(1, 90)).remove(0)[34..50].to_vec()];
    for _ in 0..3 {
        assert_eq!(card.net.members[0].control.reset_card(1), Ok(true));
        card.net.settle();
        let gone = incidents(&mut card);
        assert!(matches!(&gone[..], [Incident::SaGone(_), Incident::SaGone(_)]), "{gone:?}");
        assert_eq!(card.net.card(0).state, "up");
        assert!(card.send(1, &packet(1, 90)).is_empty());
        assert!(matches!(&incidents(&mut card)[..], [asks] if is_acquire(asks)));
        // The same keys again: another instance, so no nonce comes twice.
        key(&mut card, 1, 1);
        seen.push(card.send(1, &packet(1, 90)).remove(0)[34..50].to_vec());
    }
    assert!((1..seen.len()).all(|at| !seen[..at].contains(&seen[at])), "{seen:02x?}");
    card.net.assert_conserved();
}

#[test]
fn orders_to_a_card_that_fails_are_answered_once() {
    let mut card = Site::new(Net::new(), &external(1, "inline"));
    let (_, outbound) = key(&mut card, 1, 1);
    assert_eq!(card.net.members[0].control.halt_card(1), Ok(true));
    card.net.settle();
    let added = order(&mut card, SaOrder::AddOutbound(agreed("t", 0x4002)));
    let dropped = order(&mut card, SaOrder::Drop(outbound));
    card.net.settle();
    assert_eq!(answers(&mut card), [], "it does not answer");
    card.net.wait(Duration::from_secs(6));
    let mut told = answers(&mut card);
    told.sort_by_key(|(token, _)| *token);
    let why = Refused("its card was reset".into());
    assert_eq!(told, [(added, Err(why)), (dropped, Ok(outbound))]);
    let gone = incidents(&mut card);
    let count = gone.iter().filter(|gone| matches!(gone, Incident::SaGone(_))).count();
    assert_eq!(count, 2, "the inbound one, and that which was to come: {gone:?}");
    key(&mut card, 1, 3);
    assert_eq!(card.send(1, &packet(1, 90)).len(), 1);
}

#[test]
fn inline_lifetime_of_a_programs_sa_is_told_and_ends_it() {
    let mut card = Site::new(Net::new(), &external(1, "inline"));
    let [soft, hard] = [3, 5].map(|n| Lifetime { packets: Some(n), ..Lifetime::default() });
    let sa = AgreedSa { lifetimes: Lifetimes { soft, hard }, ..agreed("t", 0x2002) };
    let out = ask(&mut card, SaOrder::AddOutbound(sa));
    ask(&mut card, SaOrder::Use(out, None));
    let sent = (0..8).map(|_| card.send(1, &packet(1, 90)).len()).sum::<usize>();
    let told = incidents(&mut card);
    assert_eq!((sent, told.len()), (5, 2), "{told:?}");
}

#[test]
fn port_that_goes_takes_the_keys_of_a_program_along() {
    let text = external(1, "inline");
    let mut card = Site::new(Net::new(), &text);
    key(&mut card, 1, 1);
    let under_way = order(&mut card, SaOrder::AddInbound(agreed("t", 0x4001)));
    let without = text.split("[[port]]\n        name = \"wan\"").next().expect("text");
    let lan = "[[interface]]\nport = \"lan\"\naddress = [\"10.1.0.1/24\"]\n";
    card.net.apply(0, &format!("{without}{lan}"));
    card.net.settle();
    let told = answers(&mut card);
    assert!(matches!(&told[..], [(token, _)] if *token == under_way), "{told:?}");
    let gone = incidents(&mut card);
    let count = gone.iter().filter(|gone| matches!(gone, Incident::SaGone(_))).count();
    assert!(count >= 2, "{gone:?}");
}

#[test]
fn inline_orders_and_an_apply_of_their_tunnel_are_answered_by_a_card_that_failed() {
    let text = external(1, "inline");
    let wide = text.replace("keying = ", "window = 256\nkeying = ");
    let mut card = Site::new(Net::new(), &text);
    key(&mut card, 1, 1);
    assert_eq!(card.net.members[0].control.halt_card(1), Ok(true));
    card.net.settle();
    let added = order(&mut card, SaOrder::AddInbound(agreed("t", 0x4001)));
    card.net.apply(0, &wide);
    card.net.wait(Duration::from_secs(6));
    let told = answers(&mut card);
    assert!(matches!(&told[..], [(token, Err(_))] if *token == added), "{told:?}");
    assert!(!card.net.members[0].control.is_changing());
    key(&mut card, 1, 3);
    assert_eq!(card.send(1, &packet(1, 90)).len(), 1);
}

/// At every step of an apply that drops its SAs.
#[test]
fn inline_reset_during_an_apply_harms_no_later_sa() {
    let text = external(1, "inline");
    let mut card = Site::new(Net::new(), &text);
    key(&mut card, 1, 1);
    for round in 0..24 {
        let window = ["64", "256"][round % 2];
        let changed = text.replace("keying = ", &format!("window = {window}\nkeying = "));
        card.net.apply(0, &changed);
        for _ in 0..round / 2 {
            card.net.now += Duration::from_micros(50);
            let (now, member) = (card.net.now, &mut card.net.members[0]);
            member.workers[0].turn(now);
            member.control.turn(now);
        }
        assert_eq!(card.net.members[0].control.reset_card(1), Ok(true));
        let early = order(&mut card, SaOrder::AddInbound(agreed("t", 0x5001)));
        card.net.settle();
        let told = answers(&mut card);
        assert!(matches!(&told[..], [(token, _)] if *token == early), "{round}: {told:?}");
        assert!(!card.net.members[0].control.is_changing(), "{round}");
        incidents(&mut card);
        key(&mut card, 1, 2 + round as u32);
        assert_eq!(card.send(1, &packet(1, 90)).len(), 1, "{round}");
        card.net.wait(Duration::from_secs(1));
        assert_eq!(incidents(&mut card), [], "{round}");
    }
}

#[test]
fn inline_sa_of_a_program_stays_in_use_across_an_apply() {
    let text = gateway(1, "inline", "aes-gcm-128", "gcm");
    let mut card = Site::new(Net::new(), &text);
    let out = ask(&mut card, SaOrder::AddOutbound(agreed("t", 0x2002)));
    ask(&mut card, SaOrder::Use(out, None));
    let more = "[[route]]\nprefix = \"10.9.0.0/16\"\nvia = \"192.0.2.2\"\n";
    card.net.apply(0, &format!("{text}{more}"));
    card.net.settle();
    assert_eq!(card.send(1, &packet(1, 90))[0][34..38], [0, 0, 0x20, 2]);
}

#[test]
fn inline_datagrams_of_a_program_pass_the_card_both_ways() {
    let text = external(1, "inline").replace("lab = true", "lab = true\nkeying-ports = [500]");
    let mut card = Site::new(Net::new(), &text);
    card.net.members[0].control.listen_for_datagrams(true);
    let (local, remote) = (([192, 0, 2, 1], 500).into(), ([192, 0, 2, 2], 500).into());
    let sent = Datagram { local, remote, payload: b"keys?".to_vec() };
    assert_eq!(card.net.members[0].control.send_datagram(&sent), Ok(()));
    card.net.settle();
    let wire = card.on_wire();
    assert!(wire.len() == 1 && wire[0].ends_with(b"keys?"), "{wire:02x?}");
    let back = udp4([192, 0, 2, 2], [192, 0, 2, 1], (500, 500), 60, 7);
    card.arrive(&ethernet(mac("g1", "wan"), PEER, 0x0800, &back));
    let heard = card.net.members[0].control.poll_datagram().expect("it arrives");
    assert_eq!((heard.local, heard.remote), (local, remote));
    let other = udp4([192, 0, 2, 2], [192, 0, 2, 1], (500, 501), 60, 7);
    card.arrive(&ethernet(mac("g1", "wan"), PEER, 0x0800, &other));
    assert_eq!(card.net.refused(0, DropReason::PolicyDiscard), 1, "at no other port");
    assert!(incidents(&mut card).is_empty(), "nothing asks for keys");
}

/// Keying programs have addresses of the global table alone.
#[test]
fn inline_card_of_another_vrf_lets_no_datagram_of_keying_pass() {
    let text = external(1, "inline").replace("lab = true", "lab = true\nkeying-ports = [500]");
    let red = |port: &str| format!("port = \"{port}\"\n        vrf = \"red\"");
    let text = text.replace(
        "[[port]]\n        name = \"lan\"",
        "[[vrf]]\nname = \"red\"\n[[port]]\n        name = \"lan\"",
    );
    let text = text.replace("port = \"lan\"", &red("lan")).replace("port = \"wan\"", &red("wan"));
    let text = text.replace("via = ", "vrf = \"red\"\nvia = ");
    let text = text.replace("local = \"192.0.2.1\"", "vrf = \"red\"\nlocal = \"192.0.2.1\"");
    let more = "[[port]]\nname = \"more\"\ndriver = \"wire\"\n\
                [[interface]]\nport = \"more\"\naddress = [\"10.1.0.77/24\"]\n\
                [[route]]\nprefix = \"192.0.2.2/32\"\ninterface = \"wan\"\nvia = \"192.0.2.2\"\n";
    let mut card = Site::new(Net::new(), &format!("{text}{more}"));
    let forged = udp4([10, 1, 0, 77], [10, 9, 0, 9], (500, 500), 60, MARK);
    assert!(card.send(1, &forged).is_empty(), "to where no tunnel leads");
    let forged = udp4([10, 1, 0, 77], [10, 2, 0, 9], (500, 500), 60, MARK);
    assert!(card.send(1, &forged).is_empty(), "into the tunnel, which has no SA");
    assert_eq!(card.net.refused(0, DropReason::EspNoSa), 1);
}

#[test]
fn inline_key_of_the_file_seals_again_where_a_programs_was_lost() {
    let mut card = Site::new(Net::new(), &gateway(1, "inline", "aes-gcm-128", "gcm"));
    let of_file = card.send(1, &packet(1, 90))[0][34..38].to_vec();
    let out = ask(&mut card, SaOrder::AddOutbound(agreed("t", 0x2002)));
    ask(&mut card, SaOrder::Use(out, None));
    assert_eq!(card.send(1, &packet(1, 90))[0][34..38], [0, 0, 0x20, 2]);
    assert_eq!(card.net.members[0].control.reset_card(1), Ok(true));
    card.net.settle();
    assert_eq!(card.send(1, &packet(1, 90))[0][34..38], of_file);
}
