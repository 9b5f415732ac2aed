//! Devices that go and come back: a veth that is made again, a TAP that was deleted.
//!
//! ```text
//!   kernel ── "wan" (7) went ───────────▶ port-down: shown as gone from now on; its
//!                                             sockets are closed
//!          ── "wan" (9) came, and is up ─▶ opened, by the companion if need be
//!                                             └─▶ its workers, port-reopened
//! ```
//!
//! A socket belongs to the device that it was opened on, and not to its name: another
//! device of the same name is another one.

use crate::daemon::Daemon;
use crate::opening;
use ferrule_base::{Duration, Instant};
use ferrule_node::config::{Config, Driver};
use ferrule_pipeline::{Batch, PoolCache, Port, PortStats};
use ferrule_ports::{Link, LinkNews, Netdev, News, OpenError};
use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, RawFd};

/// How soon a port that could not be opened is tried again.
const TRY_AGAIN: Duration = Duration::from_secs(1);
/// So long the node leaves it to others to make a TAP or TUN again.
const LEAVE_TO_OTHERS: Duration = Duration::from_secs(3);

/// The devices of all ports.
pub(crate) struct Devices {
    news: Option<LinkNews>,
    /// By the name of the port.
    of: BTreeMap<String, Device>,
    /// Time at which missing devices are looked for, even without news.
    due: Instant,
}

struct Device {
    name: String,
    opened: Netdev,
    gone: Option<Gone>,
}

struct Gone {
    since: Instant,
    /// Reason for which it could not be opened again, as last reported.
    why: String,
}

impl Devices {
    /// Listens from now on. Where it cannot, it looks once a second.
    pub fn new() -> Self {
        let news = LinkNews::new();
        if let Err(e) = &news {
            eprintln!("ferrule: {e}");
        }
        Self { news: news.ok(), of: BTreeMap::new(), due: Instant::ZERO }
    }

    /// A port was opened on a device.
    pub fn opened(&mut self, port: &str, device: &str, opened: Netdev) {
        let device = Device { name: device.into(), opened, gone: None };
        self.of.insert(port.into(), device);
    }

    /// Ports that the configuration has not are not looked after any more.
    pub fn keep(&mut self, config: &Config) {
        let device = |name: &str| config.ports.iter().find(|p| p.name == name)?.driver.device();
        self.of.retain(|port, known| device(port) == Some(&known.name));
    }

    /// True while the port's device is gone and the port is not opened again.
    pub fn is_gone(&self, port: &str) -> bool {
        self.of.get(port).is_some_and(|device| device.gone.is_some())
    }

    /// True for a reason, not reported yet, for which a port could not be opened again.
    fn is_another_reason(&mut self, port: &str, why: &str) -> bool {
        let device = self.of.get_mut(port).and_then(|device| device.gone.as_mut());
        let Some(gone) = device.filter(|gone| !why.is_empty() && gone.why != why) else {
            return false;
        };
        gone.why = why.into();
        true
    }

    /// Descriptor that becomes readable when there is news of devices.
    pub fn wait_fd(&self) -> Option<RawFd> {
        self.news.as_ref().map(LinkNews::as_raw_fd)
    }

    /// Ports whose device went since this was last asked, with its index; then all that
    /// are to be looked for now.
    fn turn(&mut self, now: Instant) -> (Vec<(String, u32)>, Vec<String>) {
        let (went, mut look) = self.hear(now);
        let mut lost = Vec::new();
        for (port, device) in &mut self.of {
            let index = device.opened.index;
            let asked = look || went.contains(&index);
            if asked && device.gone.is_none() && !device.opened.is_there(&device.name) {
                device.gone = Some(Gone { since: now, why: String::new() });
                lost.push((port.clone(), index));
            }
        }
        look |= now >= self.due;
        if !look && lost.is_empty() {
            return (lost, Vec::new());
        }
        self.due = now + TRY_AGAIN;
        let gone = self.of.iter().filter(|(_, device)| device.gone.is_some());
        (lost, gone.map(|(port, _)| port.clone()).collect())
    }

    /// Indices of devices that went, and whether devices of ours have to be looked at.
    fn hear(&mut self, now: Instant) -> (Vec<u32>, bool) {
        let Some(news) = &mut self.news else { return (Vec::new(), now >= self.due) };
        let (mut went, mut look) = (Vec::new(), false);
        for heard in news.take() {
            let News::Of { index, name, went: is_gone } = heard else {
                look = true;
                continue;
            };
            let is_ours = |d: &Device| d.opened.index == index || Some(&d.name) == name.as_ref();
            look |= self.of.values().any(is_ours);
            if is_gone {
                went.push(index);
            }
        }
        (went, look)
    }
}

impl Daemon {
    /// Notices devices that went, and opens the ports of those that are back.
    pub(crate) fn mind_devices(&mut self, now: Instant) {
        let (lost, gone) = self.devices.turn(now);
        for (port, index) in lost {
            self.umem.forget(index);
            self.events.device_gone(now, &port, &mut self.control);
            self.put_absent(&port);
        }
        for port in gone {
            if let Err(why) = self.reopen(now, &port)
                && self.devices.is_another_reason(&port, &why)
            {
                self.note(format!("port {port} cannot be opened again: {why}"));
            }
        }
    }

    /// Takes a port that is of no use any more from its workers, which close it.
    fn put_absent(&mut self, name: &str) {
        let ports = &self.control.config().ports;
        let Some(index) = ports.iter().position(|p| p.name == name) else { return };
        let queues = self.control.queues(&ports[index]);
        for queue in 0..queues {
            // A worker that takes no commands keeps the dead one, which sends nothing either.
            let _ = self.control.attach_queue(index, queue, Box::new(Absent::default()));
        }
        self.board.rouse_all();
    }

    /// Opens a port whose device is back. The error says why it could not; nothing, where
    /// it is not back yet.
    fn reopen(&mut self, now: Instant, name: &str) -> Result<(), String> {
        let config = self.control.config().clone();
        let Some(index) = config.ports.iter().position(|p| p.name == name) else { return Ok(()) };
        let port = &config.ports[index];
        if self.control.is_changing() || !self.is_back(now, name, &port.driver) {
            return Err(String::new());
        }
        let said = |e: OpenError| e.to_string();
        opening::check_mtu(port).map_err(said)?;
        let mac = opening::mac_of(&config, port).map_err(said)?;
        let mut queues: Vec<Box<dyn Port>> = Vec::new();
        let mut opened_on = None;
        for queue in 0..self.control.queues(port) {
            let opened = self.openings.open(port, queue, mac).map_err(said)?;
            opened_on = opened_on.or_else(|| opened.netdev());
            queues.push(opened.start(&self.umem).map_err(said)?);
        }
        let on = opened_on.ok_or("it went again meanwhile")?;
        if mac != self.macs[index] {
            let mut macs = self.macs.clone();
            macs[index] = mac;
            match self.control.apply(now, config.clone(), &macs) {
                Ok(_) => self.macs = macs,
                Err(e) => self.note(format!("port {name} keeps the address of before: {e}")),
            }
        }
        let gate = self.board.gate(name);
        for (queue, opened) in queues.into_iter().enumerate() {
            let attached = self.control.attach_queue(index, queue, gate.before(opened));
            attached.map_err(|e| e.to_string())?;
        }
        self.control.forget_neighbours(now, index);
        let device = port.driver.device().unwrap_or_default();
        self.devices.opened(name, device, on);
        self.events.reopened(self.control.port_id(index), name, device);
        self.board.rouse_all();
        Ok(())
    }

    /// True if there is a device to open. A TAP or TUN that is not made elsewhere, the node makes.
    fn is_back(&self, now: Instant, port: &str, driver: &Driver) -> bool {
        let link = driver.device().and_then(|device| Link::by_name(device).ok());
        let of = self.devices.of.get(port);
        // The same device, from another namespace: its program is still the dead port's.
        let index = link.as_ref().map(|link| link.index);
        if index.is_some_and(|index| !self.openings.has_let_go(index)) {
            return false;
        }
        let since = of.and_then(|device| device.gone.as_ref()).map(|gone| gone.since);
        let waited = since.is_some_and(|since| now.since(since) > LEAVE_TO_OTHERS);
        match (link, driver) {
            (Some(_), Driver::Tap(_) | Driver::Tun(_)) => true,
            (None, Driver::Tap(_) | Driver::Tun(_)) => waited,
            (link, _) => link.is_some_and(|link| link.up),
        }
    }
}

/// Stand-in for a port whose device is gone.
#[derive(Default)]
struct Absent {
    failed: u64,
}

impl Port for Absent {
    fn receive(&mut self, _: Instant, _: &mut PoolCache, _: &mut Batch) {}

    fn transmit(&mut self, _: Instant, cache: &mut PoolCache, batch: &mut Batch) {
        self.failed += batch.len() as u64;
        batch.drain(..).for_each(|packet| cache.recycle(packet));
    }

    fn stats(&self) -> PortStats {
        PortStats { tx_failed: self.failed, ..PortStats::default() }
    }

    fn is_up(&self) -> bool {
        false
    }
}
