//! Ten thousand entries, of several kinds.

use super::super::between;
use crate::ipsec::{Action, Addresses, Field, PolicyEntry, Selector, Spd};
use ferrule_base::Rng;
use ferrule_wire::Protocol;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Instant;

const MANY: u32 = 10_000;

fn v4(bits: u32, len: u8) -> Addresses {
    Addresses::from((IpAddr::V4(Ipv4Addr::from(bits)), len))
}

fn v6(bits: u128, len: u8) -> Addresses {
    Addresses::from((IpAddr::V6(Ipv6Addr::from(bits)), len))
}

fn hub(n: u32) -> Selector {
    Selector::between(v4(0x0a00_0000, 8), v4(0xac10_0000 + (n << 8), 24))
}

fn mesh(n: u32) -> Selector {
    Selector::between(
        v4(0x0a00_0000 + ((n % 100) << 16), 16),
        v4(0x0b00_0000 + ((n / 100) << 16), 16),
    )
}

fn hosts(n: u32) -> Selector {
    let spread = n.wrapping_mul(0x9e37_79b9);
    Selector::between(v4(spread, 32), v4(spread.rotate_left(13) ^ n, 32))
}

fn ports(n: u32) -> Selector {
    let ports = Field::Range(n as u16 * 6, n as u16 * 6 + 5);
    Selector { remote_ports: ports, ..between("10.0.0.0/8", "0.0.0.0/0").of(Protocol::TCP) }
}

fn sites6(n: u32) -> Selector {
    let site = |base: u128| v6(base << 96 | u128::from(n) << 64, 64);
    Selector::between(site(0x2001_0db8), site(0x2a00_1450))
}

/// As a firewall has it: some of all kinds, wide ones among them.
fn mixed(rng: &mut Rng, n: u32) -> Selector {
    let narrow =
        |rng: &mut Rng| v4(0x0a00_0000 | rng.below(1 << 24) as u32, 16 + rng.below(17) as u8);
    let (a, b) = (narrow(rng), narrow(rng));
    let wide = v4((rng.below(16) as u32) << 28, rng.below(12) as u8);
    let both = match rng.below(8) {
        0 => Selector::between(wide, b),
        1 => Selector::between(a, wide),
        _ => Selector::between(a, b),
    };
    match n % 4 {
        0 => both,
        1 => both.of(Protocol::UDP),
        _ => {
            let low = rng.below(60_000) as u16;
            let high = if n % 8 < 4 { low } else { low + rng.below(5000) as u16 };
            Selector { remote_ports: Field::Range(low, high), ..both.of(Protocol::TCP) }
        }
    }
}

fn compiled(name: &str, selector: impl FnMut(u32) -> Selector) -> Spd {
    let entries: Vec<_> =
        (0..MANY).map(selector).map(|s| PolicyEntry::new(s, Action::Protect(0))).collect();
    let start = Instant::now();
    let spd = Spd::new(&entries).unwrap();
    let (depth, rules) = spd.worst();
    println!(
        "{name}: {:?}, {} octets an entry, depth {depth}, {rules} rules at most",
        start.elapsed(),
        spd.octets() / MANY as usize
    );
    spd
}

#[test]
fn spd_of_ten_thousand_entries_is_a_few_steps_and_bounded_memory() {
    let mut rng = Rng::new(7);
    let kinds: [(&str, Spd, u32, usize); 5] = [
        ("hub", compiled("hub", hub), 4, 4),
        ("mesh", compiled("mesh", mesh), 4, 4),
        ("hosts", compiled("hosts", hosts), 6, 8),
        ("ports", compiled("ports", ports), 5, 8),
        ("sites6", compiled("sites6", sites6), 4, 4),
    ];
    for (name, spd, depth, rules) in kinds {
        let (found, longest) = spd.worst();
        assert!(found <= depth && longest <= rules, "{name}: {found} steps, {longest} rules");
        assert!(spd.octets() < MANY as usize * 400, "{name}: {} octets", spd.octets());
    }
    let mixed = compiled("mixed", |n| mixed(&mut rng, n));
    assert!(mixed.octets() < MANY as usize * 1200, "{} octets", mixed.octets());
}
