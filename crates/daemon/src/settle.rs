//! Values of counters, once no worker counts any more.

use ferrule_dataplane::Lease;
use ferrule_node::Control;
use ferrule_node::message::WorkerReport;

/// Final value of a counter or window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// Numbers up to here were used, and none will be.
    Used([u8; 16], u64),
    /// A replay window stands here.
    Edge([u8; 16], u64),
}

/// Counters of all SAs. The use of a record is known only to the holder of its newest lease: in the
/// middle of a change an SA that is about to go may still be there, and its successor of the same
/// key not yet, or with other numbers. A record whose use is not known stays where its reservation
/// left it.
pub fn numbers(control: &Control, reports: &[WorkerReport]) -> Vec<Settled> {
    let mut all = Vec::new();
    for report in reports {
        let cards = &report.cards;
        let out = report.esp_out.iter().chain(cards.iter().flat_map(|c| &c.esp_out));
        let out = out.map(|sa| (sa.lease, sa.number));
        let sent = report.secy_out.iter().chain(cards.iter().flat_map(|c| &c.secy_out));
        let sent = sent.flat_map(|(_, r)| &r.sas).map(|sa| (sa.lease, sa.next_pn));
        let used = |(lease, next): (Lease, u64)| {
            let known = control.is_newest(lease);
            known.then_some(Settled::Used(lease.record, next.saturating_sub(1)))
        };
        all.extend(out.chain(sent).filter_map(used));
        let inn = report.esp_in.iter().chain(cards.iter().flat_map(|c| &c.esp_in));
        let inn = inn.map(|sa| (sa.lease, sa.number));
        let received = report.secy_in.iter().chain(cards.iter().flat_map(|c| &c.secy_in));
        let received = received.flat_map(|(_, r)| &r.sas).map(|sa| (sa.lease, sa.edge));
        // SAKs that were agreed on die with the process.
        let kept = inn.chain(received).filter(|(lease, _)| *lease != Lease::default());
        all.extend(kept.map(|(lease, edge)| Settled::Edge(lease.record, edge)));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrule_base::{Instant, MacAddr, Rng, Secret};
    use ferrule_crypto::Software;
    use ferrule_node::config::{Config, KeySource, TokenConfig, named_key};
    use ferrule_node::{Environment, Volatile, Worker, build, counters};
    use ferrule_pipeline::Pool;

    struct Named;

    impl KeySource for Named {
        fn read(&mut self, name: &str) -> Result<Secret, String> {
            named_key(name)
        }

        fn token(&mut self, _: &TokenConfig, _: &str, _: usize) -> Result<Secret, String> {
            Err("no token".into())
        }
    }

    fn config(mtu: usize) -> Config {
        let text = format!(
            r#"
            [node]
            name = "a"
            lab = true
            [[port]]
            name = "wan"
            driver = "wire"
            mtu = 1600
            [[interface]]
            port = "wan"
            address = ["192.0.2.1/24"]
            [[tunnel]]
            name = "t"
            local = "192.0.2.1"
            remote = "192.0.2.2"
            suite = "aes-gcm-128"
            mtu = {mtu}
            out = {{ spi = 4097, key = "gcm:1" }}
            in = {{ spi = 4098, key = "gcm:2" }}
            "#
        );
        Config::parse("a.toml", &text, &mut Named).expect("a good configuration")
    }

    fn used(control: &Control, worker: &Worker<Software>) -> Vec<Settled> {
        let all = numbers(control, &[worker.report(Instant::from_millis(1))]);
        all.into_iter().filter(|s| matches!(s, Settled::Used(..))).collect()
    }

    #[test]
    fn a_clean_stop_in_the_middle_of_an_apply_does_not_settle_by_a_predecessors_number() {
        let (macs, now) = ([MacAddr([2, 0, 0, 0, 0, 1])], Instant::from_millis(1));
        let store = Box::new(Volatile::default());
        let pool = Pool::heap(256, 2048);
        let environment = Environment {
            macs: macs.to_vec(),
            pool,
            store,
            now,
            secret: [0; 2],
            entropy: Box::new(Rng::new(1)),
        };
        let node = build(config(1400), environment, |_| Software::default());
        let (mut control, mut workers) = node.expect("it builds");
        let worker = &mut workers[0];
        worker.turn(now);
        let key = counters(&config(1400), &macs)[0].fingerprint;
        assert_eq!(used(&control, worker), [Settled::Used(key, 0)]);
        // Another SA of the same key is to come: its range begins where that of the one
        // before ends. Until it is there nobody knows how far the key was used.
        control.apply(now, config(1300), &macs).expect("it applies");
        assert_eq!(used(&control, worker), []);
        worker.turn(now);
        let reserved = 1 << 20;
        assert_eq!(used(&control, worker), [Settled::Used(key, reserved)], "of the new one alone");
        while control.is_changing() {
            control.turn(now);
            worker.turn(now);
        }
        assert_eq!(used(&control, worker), [Settled::Used(key, reserved)]);
    }
}
