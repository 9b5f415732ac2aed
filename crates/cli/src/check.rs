//! `ferrule check`: what a configuration means, without running it.

use crate::live::{finish, load};
use clap::Args;
use ferrule_daemon::Fault;
use ferrule_node::config::{Config, Driver, Mode};
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
}

impl CheckArgs {
    /// Checks.
    pub fn run(self) -> ExitCode {
        finish(self.go())
    }

    fn go(self) -> Result<(), Fault> {
        let loaded = load(&self.node)?;
        let mut text = understood(&loaded.config);
        if !self.only_file {
            for remark in ferrule_daemon::check(loaded)? {
                let _ = writeln!(text, "  note: {remark}");
            }
        }
        print!("{text}");
        Ok(())
    }
}

/// What a configuration says, in a few lines.
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
    for interface in &config.interfaces {
        let addresses: Vec<_> =
            interface.addresses.iter().map(|(a, len)| format!("{a}/{len}")).collect();
        let mpls = if interface.mpls { ", mpls" } else { "" };
        let addresses = addresses.join(" ");
        let _ = writeln!(
            out,
            "  interface {}: {addresses}, mtu {}{mpls}",
            interface.name, interface.mtu
        );
    }
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
        let _ = writeln!(
            out,
            "  {kind} {}: {} to {}{udp}, {}, SPI out 0x{:x}, in 0x{:x}, {clear} {}",
            tunnel.name,
            tunnel.local,
            tunnel.remote,
            tunnel.suite,
            tunnel.outbound.spi,
            tunnel.inbound.spi,
            tunnel.mtu
        );
    }
    let (routes, labels) = (config.routes.len(), config.labels.len());
    let _ = writeln!(
        out,
        "  {}, {}, {}",
        plural(routes, "route"),
        plural(labels, "label"),
        plural(config.policies.len(), "policy entr")
            .replace("entrs", "entries")
            .replace("1 policy entr", "1 policy entry")
    );
    out
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
            let _ = write!(out, ", {} tx, {} rx", secy.transmit.len(), secy.receive.len());
        }
        out.push('\n');
    }
}

fn plural(count: usize, word: &str) -> String {
    format!("{count} {word}{}", if count == 1 { "" } else { "s" })
}
