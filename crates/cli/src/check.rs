//! `ferrule check`: what a configuration means, without running it.

use crate::answer::Form;
use crate::live::{finish, load};
use clap::Args;
use ferrule_daemon::Fault;
use ferrule_daemon::load::{Loaded, load_to_send};
use ferrule_node::config::{AclConfig, Config, Driver, Mode};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Read a configuration, look for what it needs of this machine, and say what
/// was understood.
#[derive(Args)]
#[command(after_help = "Examples:
  ferrule check gw.toml
  ferrule check --only-file gw.toml  without looking for interfaces and counters

Exit: 0 fine, 2 the configuration is wrong, 3 the machine lacks something.")]
pub struct CheckArgs {
    /// The node's configuration.
    node: PathBuf,
    /// Look at the file and its key files alone, not at this machine.
    #[arg(long)]
    only_file: bool,
    #[command(flatten)]
    form: Form,
}

impl CheckArgs {
    /// Checks.
    pub fn run(self) -> ExitCode {
        finish(self.go())
    }

    fn go(self) -> Result<(), Fault> {
        // Counters are known by keys, and a credential by the service alone.
        let loaded = match self.only_file {
            true => load_to_send(&self.node)?,
            false => load(&self.node)?,
        };
        let (mut text, mut object) = (understood(&loaded.config), object(&loaded.config));
        let mut notes = shadowed(&loaded);
        if !self.only_file {
            notes.extend(ferrule_daemon::check(loaded)?);
        }
        for note in &notes {
            let _ = writeln!(text, "  note: {note}");
        }
        object["notes"] = json!(notes);
        self.form.give(object, || text);
        Ok(())
    }
}

/// Entries of access lists that no packet comes to, with both lines.
fn shadowed(loaded: &Loaded) -> Vec<String> {
    let line = |at: usize| {
        let before = loaded.source.text.as_bytes().get(..at).unwrap_or_default();
        1 + before.iter().filter(|&&octet| octet == b'\n').count()
    };
    let file = &loaded.source.file;
    let of = |list: &AclConfig| {
        let note = |(at, by): (usize, usize)| {
            let [here, there] = [at, by].map(|entry| line(list.entries[entry].at));
            format!(
                "{file}:{here}: no packet comes to entry {} of access list `{}`: entry {} \
                 ({file}:{there}) and those around it have all of its traffic",
                at + 1,
                list.name,
                by + 1
            )
        };
        list.shadowed().into_iter().map(note).collect::<Vec<_>>()
    };
    loaded.config.lists.iter().flat_map(of).collect()
}

/// Summary of a configuration as JSON, like [`understood`].
fn object(config: &Config) -> Value {
    let port = |index: usize| config.ports[index].name.as_str();
    let ports = config.ports.iter().map(|p| {
        json!({ "name": p.name, "driver": p.driver.name(), "device": p.driver.device(),
                "mtu": p.mtu, "worker": p.worker })
    });
    let interfaces = config.interfaces.iter().map(|i| {
        let addresses = i.addresses.iter().map(|(a, len)| format!("{a}/{len}"));
        json!({ "name": i.name, "port": port(i.port), "mtu": i.mtu, "mpls": i.mpls,
                "addresses": addresses.collect::<Vec<_>>(), "vrf": config.vrfs[i.vrf] })
    });
    let bridges = config.bridges.iter().map(|b| {
        let members: Vec<_> = b.members.iter().map(|m| port(m.port)).collect();
        json!({ "name": b.name, "members": members })
    });
    let pseudowires = config.pseudowires.iter().map(|p| {
        json!({ "name": p.name, "port": port(p.port), "label-in": p.label_in,
                "label-out": p.label_out, "control-word": p.control_word })
    });
    let secys = config.secys.iter().map(|s| {
        let mka = s.mka.as_ref().map(|mka| {
            let caks: Vec<_> = mka.caks.iter().map(|cak| cak.ckn.to_string()).collect();
            json!({ "ckns": caks, "priority": mka.priority,
                    "destination": mka.destination.to_string(),
                    "rekey-seconds": mka.rekey.map(|after| after.as_nanos() as f64 / 1e9),
                    "should-secure": mka.should_secure, "delay-protect": mka.delay_protect })
        });
        json!({ "port": port(s.port), "cipher": s.entity.suite.to_string(), "xpn": s.entity.xpn,
                "encrypt": s.entity.encrypt, "transmit": s.transmit.len(),
                "receive": s.receive.len(), "mka": mka })
    });
    let tunnels = config.tunnels.iter().map(|t| {
        json!({ "name": t.name, "transport": t.mode == Mode::Transport, "local": t.local,
                "remote": t.remote, "suite": t.suite.to_string(), "udp": t.encap.is_some(),
                "spi-out": t.outbound.first().map(|sa| sa.spi),
                "spi-in": t.inbound.first().map(|sa| sa.spi), "mtu": t.mtu })
    });
    let lists = config.lists.iter().enumerate().map(|(number, list)| {
        let [inbound, outbound] = config.places_of(number);
        json!({ "name": list.name, "entries": list.entries.len(),
                "in": inbound, "out": outbound })
    });
    json!({
        "accepted": true,
        "node": config.name,
        "cores": config.cores,
        "buffers": config.buffers,
        "buffer-size": config.buffer_size,
        "ports": ports.collect::<Vec<_>>(),
        "interfaces": interfaces.collect::<Vec<_>>(),
        "bridges": bridges.collect::<Vec<_>>(),
        "pseudowires": pseudowires.collect::<Vec<_>>(),
        "macsec": secys.collect::<Vec<_>>(),
        "tunnels": tunnels.collect::<Vec<_>>(),
        "routes": config.routes.len(),
        "labels": config.labels.len(),
        "policies": config.policies.len(),
        "access-lists": lists.collect::<Vec<_>>(),
    })
}

/// Summary of a configuration, in a few lines.
fn understood(config: &Config) -> String {
    let mut out = String::new();
    let cores: Vec<_> =
        config.cores.iter().map(|c| c.map_or("any".into(), |c| c.to_string())).collect();
    let _ = writeln!(
        out,
        "node {}: {} on core {}, {} buffers of {}",
        config.name,
        plural(cores.len(), "worker"),
        cores.join(", "),
        config.buffers,
        config.buffer_size
    );
    ports(&mut out, config);
    interfaces(&mut out, config);
    for bridge in &config.bridges {
        let ports: Vec<_> =
            bridge.members.iter().map(|m| config.ports[m.port].name.as_str()).collect();
        let _ = writeln!(out, "  bridge {}: {}", bridge.name, ports.join(", "));
    }
    for pw in &config.pseudowires {
        let word = if pw.control_word { "control word" } else { "no control word" };
        let port = &config.ports[pw.port].name;
        let (label_in, label_out) = (pw.label_in, pw.label_out);
        let _ = writeln!(
            out,
            "  pseudowire {}: port {port}, label in {label_in}, out {label_out}, {word}",
            pw.name
        );
    }
    for tunnel in &config.tunnels {
        let (kind, clear) = match tunnel.mode {
            Mode::Tunnel => ("tunnel", "inner mtu"),
            Mode::Transport => ("transport", "mtu"),
        };
        let udp = if tunnel.encap.is_some() { " in UDP" } else { "" };
        let sas = match (tunnel.outbound.first(), tunnel.inbound.first()) {
            (Some(out), Some(inn)) => format!("SPI out 0x{:x}, in 0x{:x}", out.spi, inn.spi),
            _ => "keys from a keying program".to_owned(),
        };
        let _ = writeln!(
            out,
            "  {kind} {}: {} to {}{udp}, {}, {sas}, {clear} {}",
            tunnel.name, tunnel.local, tunnel.remote, tunnel.suite, tunnel.mtu
        );
    }
    for list in &config.lists {
        let _ = writeln!(out, "  access list {}: {}", list.name, entries(list.entries.len(), ""));
    }
    let (routes, labels) = (config.routes.len(), config.labels.len());
    let _ = writeln!(
        out,
        "  {}, {}, {}",
        plural(routes, "route"),
        plural(labels, "label"),
        entries(config.policies.len(), "policy ")
    );
    out
}

/// One line for each interface, with its lists.
fn interfaces(out: &mut String, config: &Config) {
    for interface in &config.interfaces {
        let addresses: Vec<_> =
            interface.addresses.iter().map(|(a, len)| format!("{a}/{len}")).collect();
        let mpls = if interface.mpls { ", mpls" } else { "" };
        let addresses = addresses.join(" ");
        let list = |way, number: Option<usize>| {
            let named = |number: usize| format!(", {way} by list {}", config.lists[number].name);
            number.map_or(String::new(), named)
        };
        let sources = interface
            .sources
            .map_or(String::new(), |check| format!(", sources validated, {}", check.name()));
        let lists = list("in", interface.acl_in) + &list("out", interface.acl_out);
        let _ = writeln!(
            out,
            "  interface {}: {addresses}, mtu {}{mpls}{sources}{lists}",
            interface.name, interface.mtu
        );
    }
}

/// One line for each port, with its SecY.
fn ports(out: &mut String, config: &Config) {
    for (index, port) in config.ports.iter().enumerate() {
        let device = port.driver.device().unwrap_or("-");
        let queue = match &port.driver {
            Driver::Xdp { queue, every_worker: true, .. } => {
                format!(" queues {queue} to {}", *queue as usize + config.cores.len() - 1)
            }
            Driver::Xdp { queue, .. } => format!(" queue {queue}"),
            _ => String::new(),
        };
        let _ = write!(
            out,
            "  port {}: {} {device}{queue}, mtu {}, worker {}",
            port.name,
            port.driver.name(),
            port.mtu,
            port.worker
        );
        if let Some(secy) = config.secys.iter().find(|s| s.port == index) {
            let xpn = if secy.entity.xpn { ", XPN" } else { "" };
            let what = if secy.entity.encrypt { "encrypts" } else { "integrity only" };
            let _ = write!(out, "; MACsec {} ({what}{xpn})", secy.entity.suite);
            let _ = match &secy.mka {
                Some(mka) => write!(out, ", MKA with {}", plural(mka.caks.len(), "CAK")),
                None => write!(out, ", {} tx, {} rx", secy.transmit.len(), secy.receive.len()),
            };
        }
        out.push('\n');
    }
}

fn entries(count: usize, of: &str) -> String {
    format!("{count} {of}{}", if count == 1 { "entry" } else { "entries" })
}

fn plural(count: usize, word: &str) -> String {
    format!("{count} {word}{}", if count == 1 { "" } else { "s" })
}
