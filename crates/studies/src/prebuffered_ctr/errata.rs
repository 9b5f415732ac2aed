//! The errata, each shown by arithmetic with the printed numbers.

use super::published::Study;
use crate::words::{self, Proof};
use ferrule_formulas::draining::{Ring, drained_s};
use ferrule_report::Erratum;

type Steps = (Vec<String>, bool);

const PROOFS: [Proof<Study>; 5] = [
    ("table 1", "packets-per-second", packets_and_bits),
    ("section 4.1.2", "630,000", drains),
    ("section 4.1.1", "252", minimum),
    ("figure 11", "net drains", net_drains),
    ("section 2.2", "predictable", predictable),
];

/// Every erratum with its proof, in the file's order.
pub fn show(study: &Study) -> Vec<Erratum> {
    words::shown(&study.erratum, &PROOFS, study, "not a matter of arithmetic")
}

/// True if two numbers agree within this many per cent.
fn within(a: f64, b: f64, percent: f64) -> bool {
    (a / b - 1.0).abs() * 100.0 <= percent
}

fn packets_and_bits(study: &Study) -> Steps {
    let (mut steps, mut holds) = (Vec::new(), true);
    for row in &study.throughput {
        let bits = row.packet_bytes as f64 * 8.0;
        for (what, kbps, pps, fits) in [
            (
                "before empty",
                row.prebuffered_before_empty_kbps,
                row.prebuffered_before_empty_pps,
                false,
            ),
            (
                "after empty",
                row.prebuffered_after_empty_kbps,
                row.prebuffered_after_empty_pps,
                true,
            ),
            ("AES-CTR", row.aes_ctr_kbps, row.aes_ctr_pps, true),
        ] {
            let found = kbps * 1000.0 / bits;
            holds &= within(found, pps, 1.0) == fits;
            steps.push(format!(
                "{} bytes, {what}: {kbps} kbit/s / {bits} bit = {found:.1} a second; printed {pps}",
                row.packet_bytes
            ));
        }
    }
    (steps, holds)
}

fn drains(study: &Study) -> Steps {
    let (drain, token) = (&study.drain, &study.token);
    let (blocks, used) = (drain.buffer_blocks, drain.network_blocks_per_second);
    let exchange = token.blocks_per_exchange;
    let mut steps = Vec::new();
    let mut after = |what: &str, used: f64, filled: f64| {
        let (starts, empty) = drained_s(&Ring { blocks, used, filled, exchange });
        steps.push(format!(
            "{what}: {used:.0} blocks a second out, {filled:.0} in: filling starts at {starts:.1} s, \
             empty at {empty:.1} s"
        ));
        (starts, empty)
    };
    let rate = |ms: f64| exchange * 1000.0 / ms;
    let full = token.io_delay_ms_full;
    let alone = after("126 blocks in 16 ms, one direction", used, rate(full));
    let shared = after("two directions share the token", used, rate(2.0 * full));
    let fast = after("126 blocks in 12 ms", used, rate(token.io_delay_ms_small));
    // With delay(5), read as 5 ms, a packet of 1520 bytes leaves every 5 ms: 95 blocks.
    let delay = drain.delay_ms.first().map_or(f64::NAN, |delay| delay.delay);
    let each = drain.packet_bytes as f64 / 16.0;
    let shaped = after("delay(5) read as 95 blocks every 5 ms", each * 1000.0 / delay, rate(full));
    let (begins, ends) = (drain.with_delay_filling_starts_s, drain.with_delay_empty_after_s);
    let used = blocks / 2.0 / begins;
    let filled = used - (blocks / 2.0 - exchange) / (ends - begins);
    steps.push(format!(
        "printed with delays, {begins} s and {ends} s: {used:.0} out, then {filled:.0} in, {:.1} ms \
         for 126 blocks: neither 16 nor 12",
        exchange * 1000.0 / filled
    ));
    steps.push(format!(
        "delay({delay}) has no unit in the print, milliseconds are our reading: the printed \
         {begins} s are a packet of {each:.0} blocks every {:.1} ms",
        each * 1000.0 / used
    ));
    let holds = within(alone.1, 18.0, 0.5)
        && within(shared.1, 16.9, 0.5)
        && within(fast.1, drain.empty_after_s, 1.0)
        && within(shaped.0, 16.6, 0.5)
        && within(shaped.1, 44.9, 0.5);
    (steps, holds)
}

fn minimum(study: &Study) -> Steps {
    let (exchange, voip) = (study.token.blocks_per_exchange, &study.voip);
    let least = 2.0 * exchange;
    let half = least / 2.0 / voip.blocks_per_second_used * 1000.0;
    let steps = vec![
        format!("2 × {exchange} = {least}, printed as 256"),
        format!(
            "half of {least} blocks at {} a second last {half:.0} ms; of 256, the printed {} ms",
            voip.blocks_per_second_used, voip.fill_event_every_ms_at_minimum
        ),
    ];
    (steps, least == voip.minimum_buffer_blocks && half < voip.fill_event_every_ms_at_minimum)
}

fn net_drains(study: &Study) -> Steps {
    let figure = &study.empty_time;
    let mut drains = Vec::new();
    let mut steps = Vec::new();
    for (mib, seconds) in figure.buffer_mib.iter().zip(&figure.empty_after_s) {
        let mbps = mib * 1024.0 * 1024.0 * 8.0 / seconds / 1e6;
        drains.push(mbps);
        steps.push(format!("{mib} MiB in {seconds} s: {mbps:.1} Mbit/s"));
    }
    let least = drains.iter().copied().fold(f64::MAX, f64::min);
    let most = drains.iter().copied().fold(0.0, f64::max);
    steps.push(format!(
        "one drain rate gives one ratio; these are apart by {:.0} %, in MB of 10^6 octets as well",
        100.0 * (most / least - 1.0)
    ));
    let printed = [8.0, 6.9, 7.6];
    let same = drains.iter().zip(printed).all(|(found, said)| within(*found, said, 1.0));
    (steps, same && most / least > 1.1)
}

/// Proof that under standard ciphers the receiver can compute a nonce before its packet comes.
fn predictable(_: &Study) -> Steps {
    let salt = [0x11, 0x22, 0x33, 0x44];
    let (sequence, constant) = (7_u64, 0x0123_4567_89ab_cdef_u64);
    let hex = |octets: &[u8]| octets.iter().map(|o| format!("{o:02x}")).collect::<String>();
    let nonce = |iv: u64| [salt.as_slice(), &iv.to_be_bytes()].concat();
    let ways = [
        ("ESP with an implicit IV (RFC 8750): salt, sequence number", nonce(sequence)),
        ("an IV that counts: salt, counter", nonce(sequence)),
        ("an IV that is the number XOR a constant", nonce(sequence ^ constant)),
        (
            "MACsec: SCI, packet number",
            [&[2, 0, 0, 0, 0, 1, 0, 1][..], &(sequence as u32).to_be_bytes()].concat(),
        ),
    ];
    // From one packet's nonce the next one's follows, the receiver having seen one.
    let seen = sequence ^ constant;
    let learnt = seen ^ sequence;
    let next = nonce((sequence + 1) ^ learnt);
    let known = next == nonce((sequence + 1) ^ constant);
    let twelve = ways.iter().all(|(_, nonce)| nonce.len() == 12);
    let mut steps: Vec<String> =
        ways.iter().map(|(what, nonce)| format!("{what}: nonce {}", hex(nonce))).collect();
    steps.push(format!(
        "the constant is known after one authentic packet: {seen:016x} XOR {sequence} = \
         {learnt:016x}; the next nonce is {}",
        hex(&next)
    ));
    steps.push(
        "GCM's counter restarts in each packet: what is made ahead is (number, block)".into(),
    );
    (steps, known && twelve)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrule_report::Proof;

    #[test]
    fn every_erratum_is_shown_by_arithmetic() {
        let study = Study::read();
        for erratum in show(&study) {
            assert!(
                matches!(&erratum.proof, Proof::Shown(steps) if !steps.is_empty()),
                "{erratum:#?}"
            );
        }
    }
}
