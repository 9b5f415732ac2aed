//! From what the clients saw to what the study's report shows.

use super::clients::Seen;
use super::lanes::{BARE, FITTED, LANES, Lane};
use super::node_times;
use ferrule_studies::ipsec_ip_layer::cases::{Application, Protection};
use ferrule_studies::ipsec_ip_layer::live::{Spent, Transfer, Transfers, middle};
use std::collections::HashMap;

/// Reason for which the study's own suites are not measured.
const REFUSED: &str = "refused outside the laboratory";
/// Sizes in octets for which the note states the time of FTP without any node.
const SMALL: usize = 1_000;
const LARGE: usize = 1_000_000;

/// Observed transfers, in the study's terms.
pub fn transfers(seen: &[Seen]) -> Transfers {
    let mut counts = HashMap::new();
    let mut bare = Vec::new();
    let all = seen.iter().filter_map(|one| {
        let lane = LANES[one.lane];
        let is_shown = lane.is_compared() || lane == BARE;
        let protection = Some(lane.protection.unwrap_or(Protection::None)).filter(|_| is_shown)?;
        let count = counts.entry((one.lane, one.app, one.octets)).or_insert(0);
        let repetition = *count;
        *count += 1;
        let transfer = Transfer {
            application: one.app,
            octets: one.octets as u64,
            protection,
            mode: lane.mode,
            repetition,
            response_us: one.seconds * 1e6,
            spent: one.spent.map(spent),
        };
        if lane == BARE {
            bare.push(transfer);
        }
        (lane != BARE).then_some(transfer)
    });
    let all: Vec<Transfer> = all.collect();
    let not_here = [Protection::AhMd5, Protection::EspDes].map(|which| (which, REFUSED.to_owned()));
    Transfers { note: note(seen), all, bare, not_here: not_here.to_vec() }
}

fn spent(spent: node_times::Spent) -> Spent {
    let us = |ns: u64| ns as f64 / 1000.0;
    Spent {
        lookup_us: us(spent.lookup_ns),
        copy_us: us(spent.pieces_ns),
        crypto_us: us(spent.crypto_ns),
        other_us: us(spent.other_ns + spent.ports_ns),
    }
}

/// The median response of FTP over a lane, in milliseconds.
fn ftp(seen: &[Seen], lane: Lane, octets: usize) -> Option<f64> {
    let wanted = |one: &&Seen| {
        (one.app, one.octets) == (Application::Ftp, octets) && LANES[one.lane] == lane
    };
    let each = seen.iter().filter(wanted).map(|one| one.seconds * 1e3);
    Some(middle(each.collect())?.median)
}

fn note(seen: &[Seen]) -> String {
    let mut note = String::from(
        "curl from vsftpd (logged in, from EPSV to 226) and to OpenSMTPD (from connecting to the \
         250 behind the message), and what a shell behind inetutils' telnetd says (from the \
         command to its last octet), between two network namespaces, each behind a node: TUN, \
         ferrule run, veth. Protections in turn, every octet compared. No IPsec is a node without \
         a policy. Hosts fill their segments as in the study, so a protected one takes two \
         frames.",
    );
    let pair = |lane| Some((ftp(seen, lane, SMALL)?, ftp(seen, lane, LARGE)?));
    if let Some((small, large)) = pair(BARE) {
        note += &format!(
            " Without any node FTP of {SMALL} octets takes {small:.2} ms and of {LARGE} {large:.2} ms."
        );
    }
    if let Some((small, large)) = pair(FITTED) {
        note += &format!(
            " AES-GCM with segments that fit when sealed, as hosts send them today: {small:.2} and \
             {large:.2} ms."
        );
    }
    note
}
