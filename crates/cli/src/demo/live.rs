//! The demo on real interfaces: namespaces, one process per node, stock tools.
//!
//! ```text
//!   network ─▶ pe1, p, pe2 ─▶ for each variant: ce1, ce2 ─▶ echo ─▶ frames under
//!   two captures ─▶ iperf3 both ways ─▶ a file ─▶ ce1, ce2 stop
//! ```
//!
//! Everything that is made is owned by a value here and goes with it: at the
//! end, at the first failure and at a signal alike.

use super::configs::{self, KEYS, Setting};
use super::network::{Network, remove_orphans};
use super::plan::{self, Place, Protect, VARIANTS, Variant};
use super::report::{Outcome, Refused, Row};
use super::traffic::{Delivery, Hosts};
use super::tshark;
use super::wiretap::{Wiretap, measure};
use crate::process::{Background, Fault, Folder, Runner, USED_KEYS, is_installed, stop_all, write};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Programs, and the Debian packages that have them.
const TOOLS: [(&str, &str); 8] = [
    ("ip", "iproute2"),
    ("ethtool", "ethtool"),
    ("ping", "iputils-ping"),
    ("iperf3", "iperf3"),
    ("curl", "curl"),
    ("python3", "python3"),
    ("dumpcap", "wireshark-common"),
    ("sh", "dash"),
];
/// Keys of the ESP tunnels, as Wireshark's table has them.
const KEY_LOG: &str = "esp_sa";
/// Seconds from one SAK to the next: the shortest time.
const REKEY: u32 = 10;
/// Commands of our own that must end within this time.
const OWN: Duration = Duration::from_secs(20);

/// Options of the user.
pub struct Wishes {
    /// Folder for what is kept.
    pub out: PathBuf,
    /// Captures, configurations and logs stay.
    pub keep: bool,
    /// Seconds of TCP each way.
    pub seconds: u32,
    /// Driver of the CEs' ports.
    pub driver: String,
}

/// Everything, from nothing to nothing.
pub fn run(runner: &Runner, wishes: &Wishes, say: &dyn Fn(&str)) -> Result<Outcome, Fault> {
    missing_tools()?;
    let orphans = remove_orphans();
    if orphans > 0 {
        say(&format!("removed {orphans} namespaces of a demo that was killed"));
    }
    let folder = Folder::new(wishes.out.join("files"), wishes.keep)?;
    say("seven network namespaces and six veth pairs");
    let network = Network::build(runner)?;
    let site = Site { runner, network: &network, folder: folder.path(), wishes };
    say("pe1, p and pe2: one process each");
    let setting = site.setting("provider")?;
    let mut provider = Vec::new();
    for place in [Place::Pe1, Place::P, Place::Pe2] {
        provider.push(site.node(place, &VARIANTS[0], &setting)?);
    }
    let mut rows = Vec::new();
    for variant in VARIANTS {
        rows.push(site.variant(&variant, &mut provider, say)?);
    }
    stop_all(provider);
    Ok(Outcome { live: true, rows })
}

/// Checks that all tools are installed; the error names those that are not.
pub fn missing_tools() -> Result<(), Fault> {
    let missing: Vec<_> = TOOLS.iter().filter(|(tool, _)| !is_installed(tool)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let packages: Vec<_> = missing.iter().map(|(_, package)| *package).collect();
    Err(Fault::Missing(
        format!("not installed: {}", missing.iter().map(|m| m.0).collect::<Vec<_>>().join(", ")),
        format!("apt-get install {}; or, without namespaces: --virtual", packages.join(" ")),
    ))
}

/// Everything that the steps of the live demo share.
pub struct Site<'a> {
    /// Runner of the steps, which ends them at a signal.
    pub runner: &'a Runner,
    /// Namespaces and wires.
    pub network: &'a Network,
    /// Configurations, keys, logs.
    pub folder: &'a Path,
    /// Options of the user.
    pub wishes: &'a Wishes,
}

impl Site<'_> {
    /// A new folder, and what stands in the configurations there.
    pub fn setting(&self, name: &str) -> Result<Setting, Fault> {
        let dir = self.folder.join(name);
        fs::create_dir(&dir).map_err(|e| Fault::failed(dir.display().to_string(), e))?;
        let dir = dir.display().to_string();
        Ok(Setting { dir, driver: "af-packet".into(), rekey: 0 })
    }

    /// Writes a node's configuration and starts it.
    pub fn node(
        &self,
        place: Place,
        variant: &Variant,
        setting: &Setting,
    ) -> Result<Background, Fault> {
        let text = configs::toml(place, variant, setting).expect("a node, not a host");
        let text = text.replacen("[node]\n", "[node]\nkey-log = true\n", 1);
        self.start((place, place.name()), &text, Path::new(&setting.dir))
    }

    /// Writes a configuration and starts its node, where one is.
    pub fn start(
        &self,
        (place, name): (Place, &str),
        text: &str,
        dir: &Path,
    ) -> Result<Background, Fault> {
        let file = dir.join(format!("{name}.toml"));
        write(&file, text.as_bytes())?;
        let program = std::env::current_exe().map_err(|e| Fault::failed("our own path", e))?;
        let used = self.folder.join("used-keys");
        if text.contains("\nstate = ") {
            // The keys are fresh: their counters begin.
            let mut create = self.network.inside(place);
            create.env(USED_KEYS, &used).arg(&program).args(["state", "create"]).arg(&file);
            self.runner.done(&mut create, OWN)?;
        }
        let mut command = self.network.inside(place);
        command.env(USED_KEYS, &used).arg(&program).arg("run").arg(&file);
        Background::start(name, &mut command, &dir.join(format!("{name}.log")))
    }

    /// Fresh keys for a variant that needs some.
    pub fn keys(&self, variant: &Variant, dir: &Path) -> Result<(), Fault> {
        let Some((kind, suite)) = variant.key_for() else { return Ok(()) };
        for name in KEYS {
            let key = kind.fresh(&format!("{suite}, {name}"));
            let key = key.map_err(|e| Fault::failed("a key", e))?;
            write(&dir.join(format!("{name}.key")), key.expose())?;
        }
        Ok(())
    }

    fn variant(
        &self,
        variant: &Variant,
        provider: &mut [Background],
        say: &dyn Fn(&str),
    ) -> Result<Row, Fault> {
        let (runner, network) = (self.runner, self.network);
        say(&format!("{}: ce1 and ce2, and an echo across", variant.name));
        let mut setting = self.setting(variant.key)?;
        setting.driver.clone_from(&self.wishes.driver);
        setting.rekey = REKEY;
        let dir = PathBuf::from(&setting.dir);
        self.keys(variant, &dir)?;
        network.address(runner, variant)?;
        let mut edges = Vec::new();
        for place in [Place::Ce1, Place::Ce2] {
            edges.push(self.node(place, variant, &setting)?);
        }
        let hosts = Hosts { runner, network, addresses: variant.hosts(), folder: &dir };
        hosts.wait_until_joined(|| {
            edges.iter_mut().chain(provider.iter_mut()).try_for_each(Background::check)
        })?;
        let rtt = hosts.round_trips()?;
        let before = self.denied()?;
        let arrived = hosts.refused()?;
        let denied = self.denied()?.saturating_sub(before);
        let refused = Refused { sent: plan::REFUSED_COUNT, arrived, denied };
        say(&format!("{}: the study's frame, captured on both core links", variant.name));
        let (delivery, [first, second]) = self.study_frames(variant, &hosts, &setting)?;
        let wires = [
            measure(&first, plan::end(Place::Pe1, "core"), variant)?,
            measure(&second, plan::end(Place::P, "right"), variant)?,
        ];
        let key_log = dir.join(KEY_LOG);
        let key_log = key_log.exists().then_some(key_log.as_path());
        let read = |file, bytes| -> Result<Option<tshark::Verdict>, Fault> {
            if !is_installed("tshark") {
                return Ok(None);
            }
            tshark::read(runner, file, bytes, variant, key_log).map(Some)
        };
        let tshark = [read(&first, wires[0].bytes)?, read(&second, wires[1].bytes)?];
        say(&format!("{}: iperf3 both ways, then a file over HTTP", variant.name));
        let throughput = hosts.bulk(self.wishes.seconds)?;
        if matches!(variant.protect, Protect::Macsec(_)) {
            let count = self.rekeys(&dir)?;
            let times = if count == 1 { "once".into() } else { format!("{count} times") };
            say(&format!("{}: MKA has changed the SAK {times} meanwhile", variant.name));
        }
        let file = Some(hosts.file()?);
        edges.iter_mut().chain(provider.iter_mut()).try_for_each(Background::check)?;
        stop_all(edges);
        let captures = if self.wishes.keep { vec![first, second] } else { Vec::new() };
        let variant = *variant;
        Ok(Row { variant, wires, rtt, delivery, refused, throughput, file, tshark, captures })
    }

    /// Times that CE1 has had another SAK; once at least, which may have to be waited for.
    fn rekeys(&self, dir: &Path) -> Result<u64, Fault> {
        let program = std::env::current_exe().map_err(|e| Fault::failed("our own path", e))?;
        let mut count = 0;
        self.runner.wait_for("no other SAK came into use", OWN, || {
            let mut show = Command::new(&program);
            show.args(["show", "mka", "--json", "--socket"]).arg(dir.join("ce1.socket"));
            let said = self.runner.done(&mut show, OWN)?;
            let report: serde_json::Value =
                serde_json::from_str(&said).map_err(|e| Fault::failed("ferrule show mka", e))?;
            // The number is behind the key server's member identifier.
            let key = report["mka"][0]["saks"][0]["key"].as_str().and_then(|key| key.get(24..));
            let number = key.and_then(|number| u64::from_str_radix(number, 16).ok());
            count = number.unwrap_or(0).saturating_sub(1);
            Ok(count > 0)
        })?;
        Ok(count)
    }

    /// Packets that PE1's list denied so far, as `ferrule show acl` has them.
    fn denied(&self) -> Result<u64, Fault> {
        let program = std::env::current_exe().map_err(|e| Fault::failed("our own path", e))?;
        let mut show = Command::new(program);
        show.args(["show", "acl", "--json", "--socket"]);
        let said = self.runner.done(show.arg(self.folder.join("provider/pe1.socket")), OWN)?;
        let report: serde_json::Value =
            serde_json::from_str(&said).map_err(|e| Fault::failed("ferrule show acl", e))?;
        let packets = report["acl"][0]["entries"][0]["packets_in"].as_u64();
        packets.ok_or_else(|| Fault::failed("ferrule show acl", said))
    }

    /// The study's frames from host to host, while both core links are captured,
    /// and the packets of CE1 by its own capture, which hands out the keys of ESP.
    fn study_frames(
        &self,
        variant: &Variant,
        hosts: &Hosts<'_>,
        setting: &Setting,
    ) -> Result<(Delivery, [PathBuf; 2]), Fault> {
        let (runner, dir) = (self.runner, Path::new(&setting.dir));
        let own = match variant.is_routed() {
            true => Some(self.own_capture(dir)?),
            false => None,
        };
        // A node sends past the queueing discipline, where no capture sees it:
        // each link is captured where its frames arrive.
        let places = [(Place::P, "left", "pe1-p.pcapng"), (Place::Pe2, "core", "p-pe2.pcapng")];
        let [first, second] = places.map(|(place, device, file)| {
            Wiretap::start(self.network, (place, device), dir.join(file))
        });
        let mut taps = [first?, second?];
        taps.iter_mut().try_for_each(|tap| tap.wait(runner))?;
        let delivery = hosts.study_frames()?;
        let [first, second] = taps.map(|tap| tap.stop(runner));
        let files = [first?, second?];
        if let Some(mut own) = own {
            own.check()?;
            own.stop();
        }
        Ok((delivery, files))
    }

    /// `ferrule capture` at CE1, with the key log.
    fn own_capture(&self, dir: &Path) -> Result<Background, Fault> {
        let program = std::env::current_exe().map_err(|e| Fault::failed("our own path", e))?;
        let key_log = dir.join(KEY_LOG);
        let mut command = Command::new(program);
        command.args(["capture", "--socket"]).arg(dir.join("ce1.socket"));
        command.arg("-w").arg(dir.join("ce1.pcapng")).arg("--keylog").arg(&key_log);
        let log = dir.join("capture.log");
        let mut capture = Background::start("ferrule capture", &mut command, &log)?;
        self.runner.wait_for("no key log", OWN, || {
            capture.check()?;
            Ok(fs::read_to_string(&key_log).is_ok_and(|text| text.lines().count() == 2))
        })?;
        Ok(capture)
    }
}
