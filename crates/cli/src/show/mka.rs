//! `ferrule show mka`.

use super::draw;
use ferrule_daemon::mka::MkaView;

/// Ports, their peers and SAKs.
pub fn text(all: &[MkaView]) -> String {
    let parts: Vec<String> = all.iter().map(port).collect();
    if parts.is_empty() { "none\n".into() } else { parts.join("\n") }
}

fn port(view: &MkaView) -> String {
    let server = view.server.as_deref().unwrap_or("none");
    let mut text = format!("port {}: {}, key server {server}\n", view.port, view.state);
    if let Some(trouble) = &view.trouble {
        text += &format!("  {trouble}\n");
    }
    let yes = |is: bool| if is { "yes" } else { "no" }.to_owned();
    if !view.peers.is_empty() {
        let rows = view.peers.iter().map(|peer| {
            let (rx, tx) = (yes(peer.receives), yes(peer.transmits));
            vec![peer.sci.clone(), peer.ckn.clone(), peer.priority.to_string(), rx, tx]
        });
        let head = ["PEER", "CKN", "PRIORITY#", "RECEIVES", "TRANSMITS"];
        text += &draw(&head, &rows.collect::<Vec<_>>());
    }
    if !view.saks.is_empty() {
        let rows = view.saks.iter().map(|sak| {
            vec![sak.key.clone(), sak.an.to_string(), yes(sak.receives), yes(sak.transmits)]
        });
        let head = ["SAK", "AN#", "RECEIVES", "TRANSMITS"];
        text += &draw(&head, &rows.collect::<Vec<_>>());
    }
    let counters = view.counters.iter().map(|(name, count)| format!("{name} {count}"));
    text + "MKPDUs: " + &counters.collect::<Vec<_>>().join(", ") + "\n"
}
