//! Which counter stands where, once nobody counts any more.

use ferrule_base::PortId;
use ferrule_node::Control;
use ferrule_node::config::Config;
use ferrule_node::counters;
use ferrule_node::message::WorkerReport;

/// The counters of all SAs: their name, their number, and whether they count
/// what we send (the number is the next one) or where a replay window stands.
pub fn numbers(
    control: &Control,
    config: &Config,
    reports: &[WorkerReport],
) -> Vec<(String, u64, bool)> {
    let mut all = Vec::new();
    for report in reports {
        let cards = &report.cards;
        let out = report.esp_out.iter().chain(cards.iter().flat_map(|c| &c.esp_out));
        let inn = report.esp_in.iter().chain(cards.iter().flat_map(|c| &c.esp_in));
        for (way, sa) in out.map(|sa| ("out", sa)).chain(inn.map(|sa| ("in", sa))) {
            all.push((format!("esp-{way}-{}-{:08x}", sa.name, sa.spi), sa.number, way == "out"));
        }
        let sent = report.secy_out.iter().chain(cards.iter().flat_map(|c| &c.secy_out));
        let sent = sent.map(|(secy, r)| ("tx", *secy, &r.sas));
        let received = report.secy_in.iter().chain(cards.iter().flat_map(|c| &c.secy_in));
        let received = received.map(|(secy, r)| ("rx", *secy, &r.sas));
        for (way, secy, sas) in sent.chain(received) {
            let port = control.port_name(PortId(secy));
            all.extend(sas.iter().map(|sa| {
                let id = format!("macsec-{way}-{port}-{:016x}-{}", sa.sci, sa.an);
                let number = if way == "tx" { sa.next_pn } else { sa.lowest_pn };
                (id, number, way == "tx")
            }));
        }
    }
    // A retired SA's counter stays where its reservation left it.
    let macs: Vec<_> = control.tables().ports.iter().map(|p| p.mac).collect();
    let macs: Vec<_> = (0..config.ports.len())
        .map(|i| macs.get(control.port_id(i).0 as usize).copied().unwrap_or_default())
        .collect();
    let known: Vec<_> = counters(config, &macs).into_iter().map(|c| c.id).collect();
    all.retain(|(id, ..)| known.contains(id));
    all
}
