//! Building a network: devices, stations, links, and what happens to them.
//!
//! ```
//! # use ferrule_lab::*;
//! # use ferrule_node::Config;
//! # fn example(config: Config, host: Box<dyn Station>) -> Result<(), LabError> {
//! let mut network = Network::new(7);
//! let gateway = network.node("gw1", config, Profile::ideal())?;
//! let host = network.station("h1", host);
//! let link = LinkSpec { rate: Some(1_000_000_000), ..LinkSpec::default() };
//! network.link(link, End::Device(gateway, "lan"), End::Station(host, 0))?;
//! network.run_until(ferrule_base::Instant::from_secs(1));
//! # Ok(()) }
//! ```

use crate::agenda::{Agenda, Event};
use crate::capture::Tap;
use crate::change::Change;
use crate::device::{Device, Engines, WORKERS_MAX};
use crate::link::{Direction, Lane, LinkSpec, LinkStats};
use crate::observe::{Observer, Place};
use crate::placing;
use crate::profile::Profile;
use crate::random::stream;
use crate::station::Station;
use crate::world::{World, lane_of};
use ferrule_base::{Instant, Rng};
use ferrule_crypto::Engine;
use ferrule_node::{BuildError, Config, CounterStore, Volatile};
use ferrule_pipeline::{Packet, Pool};
use std::fmt;

/// The engine of a worker in the laboratory.
pub type LabEngine = Box<dyn Engine<Packet> + Send>;

/// Packet buffers of a network that does not say how many it wants.
const BUFFERS: usize = 65_536;

/// Octets of each buffer.
const BUFFER_SIZE: usize = 2048;

/// Buffers that one worker may keep for itself.
const CACHE_MAX: usize = 32;

/// A device of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId(pub usize);

/// A station of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StationId(pub usize);

/// A link of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub usize);

/// A capture of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TapId(pub usize);

/// One end of a link.
#[derive(Clone, Copy, Debug)]
pub enum End<'a> {
    /// A port of a device, by name.
    Device(DeviceId, &'a str),
    /// A port of a station, by number.
    Station(StationId, usize),
}

/// Reasons for which a network cannot be built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LabError {
    /// The device has no such port; the ones that it has.
    NoPort(String, String, Vec<String>),
    /// The port has a link already.
    PortInUse(String, String),
    /// There is no such device, station or link.
    Unknown(&'static str, usize),
    /// The node cannot be built.
    Build(String, BuildError),
    /// More workers than the laboratory interleaves.
    TooManyWorkers(String, usize),
}

impl fmt::Display for LabError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPort(node, port, ports) => {
                write!(f, "{node} has no port `{port}`; its ports: {}", ports.join(", "))
            }
            Self::PortInUse(node, port) => {
                write!(f, "port {port} of {node} has a link already: a port takes one link")
            }
            Self::Unknown(kind, number) => {
                write!(
                    f,
                    "there is no {kind} {number} in this network: use the number that it was made with"
                )
            }
            Self::Build(node, e) => write!(f, "{node}: {e}"),
            Self::TooManyWorkers(node, count) => {
                write!(
                    f,
                    "{node} has {count} workers; the laboratory takes {WORKERS_MAX} at most: name fewer cores"
                )
            }
        }
    }
}

impl std::error::Error for LabError {}

/// A station and what belongs to it.
pub(crate) struct Post {
    pub name: String,
    pub station: Box<dyn Station>,
    pub rng: Rng,
    /// The lane that each port's frames leave by.
    pub lanes: Vec<Option<u32>>,
    pub planned: Option<Instant>,
    /// Frames given to it and taken from it.
    pub received: u64,
    pub sent: u64,
    /// Frames that it sent by a port without a link.
    pub unlinked: u64,
}

pub(crate) struct LinkEntry {
    pub name: String,
    pub ends: [String; 2],
}

/// A network in virtual time.
pub struct Network {
    pub(crate) world: World,
    pub(crate) devices: Vec<Device>,
    pub(crate) posts: Vec<Post>,
    pub(crate) links: Vec<LinkEntry>,
    pub(crate) changes: Vec<Option<Change>>,
    pub(crate) engines: Engines,
    /// Devices that were changed from outside.
    pub(crate) touched: Vec<DeviceId>,
    pub(crate) sent: Vec<(usize, Packet)>,
    stores: Box<dyn FnMut(DeviceId) -> Box<dyn CounterStore> + Send>,
    /// Goes last, so that every packet is back when it does.
    _pool: Pool,
}

impl Network {
    /// An empty network. The same seed gives the same run.
    pub fn new(seed: u64) -> Self {
        Self::with_buffers(seed, BUFFERS)
    }

    /// An empty network with so many packet buffers for all of it.
    pub fn with_buffers(seed: u64, buffers: usize) -> Self {
        Self::with_pool(seed, Pool::heap(buffers, BUFFER_SIZE))
    }

    /// An empty network on this packet memory: for frames that want larger
    /// buffers.
    pub fn with_pool(seed: u64, pool: Pool) -> Self {
        let cache = pool.cache();
        pool.limit_caches(CACHE_MAX);
        Self {
            world: World {
                seed,
                now: Instant::ZERO,
                agenda: Agenda::default(),
                pool: pool.clone(),
                cache,
                lanes: Vec::new(),
                taps: Vec::new(),
                observers: Vec::new(),
                follower: None,
                visits: 0,
            },
            devices: Vec::new(),
            posts: Vec::new(),
            links: Vec::new(),
            changes: Vec::new(),
            engines: Box::new(|_, _, config, profile| Box::new(placing::engine(config, profile))),
            touched: Vec::new(),
            sent: Vec::new(),
            stores: Box::new(|_| Box::new(Volatile::default())),
            _pool: pool.clone(),
        }
    }

    /// Sets the function that makes the engine of each worker (device, worker), for devices added
    /// from now on and for each restart.
    pub fn engine(&mut self, mut make: impl FnMut(DeviceId, usize) -> LabEngine + Send + 'static) {
        self.engines = Box::new(move |device, worker, _, _| make(device, worker));
    }

    /// Like [`engine`](Self::engine), with the device's configuration and profile. Unless one of
    /// both is called, [`placing::engine`](crate::placing::engine) makes the engines.
    pub fn engine_of(
        &mut self,
        make: impl FnMut(DeviceId, usize, &Config, &Profile) -> LabEngine + Send + 'static,
    ) {
        self.engines = Box::new(make);
    }

    /// Sets the function that makes the counter store of each device added from now on. A store
    /// outlives restarts.
    pub fn store(&mut self, make: impl FnMut(DeviceId) -> Box<dyn CounterStore> + Send + 'static) {
        self.stores = Box::new(make);
    }

    /// Adds a device.
    pub fn node(
        &mut self,
        name: &str,
        config: Config,
        profile: Profile,
    ) -> Result<DeviceId, LabError> {
        let id = DeviceId(self.devices.len());
        if config.cores.len() > WORKERS_MAX {
            return Err(LabError::TooManyWorkers(name.into(), config.cores.len()));
        }
        let store = (self.stores)(id);
        let mut device = Device::new(id, name, config, profile, store, self.world.seed);
        device.boot(&self.world, &mut self.engines).map_err(|e| LabError::Build(name.into(), e))?;
        self.devices.push(device);
        self.touched.push(id);
        Ok(id)
    }

    /// Adds a station.
    pub fn station(&mut self, name: &str, station: Box<dyn Station>) -> StationId {
        self.posts.push(Post {
            name: name.into(),
            station,
            rng: stream(self.world.seed, name, "station"),
            lanes: Vec::new(),
            planned: None,
            received: 0,
            sent: 0,
            unlinked: 0,
        });
        StationId(self.posts.len() - 1)
    }

    /// Joins two ends.
    pub fn link(&mut self, spec: LinkSpec, a: End<'_>, b: End<'_>) -> Result<LinkId, LabError> {
        let (place_a, name_a) = self.place(a)?;
        let (place_b, name_b) = self.place(b)?;
        let id = LinkId(self.links.len());
        let name = match &*spec.name {
            "" => format!("{name_a}-{name_b}"),
            name => name.into(),
        };
        let back = spec.back.as_ref().unwrap_or(&spec.impairments);
        let lane = |to, impairments, from: &str| {
            Lane::new(&spec, impairments, to, self.world.seed, &format!("{name} from {from}"))
        };
        let lanes = [lane(place_b, &spec.impairments, &name_a), lane(place_a, back, &name_b)];
        self.world.lanes.extend(lanes);
        self.links.push(LinkEntry { name, ends: [name_a, name_b] });
        self.join(place_a, lane_of(id, Direction::Forward));
        self.join(place_b, lane_of(id, Direction::Reverse));
        Ok(id)
    }

    /// Place and name of an end; an error if it is not there or in use.
    fn place(&self, end: End<'_>) -> Result<(Place, String), LabError> {
        match end {
            End::Device(id, port) => {
                let device = self.devices.get(id.0).ok_or(LabError::Unknown("device", id.0))?;
                let Some(at) = device.port(port) else {
                    let ports = device.port_names().into_iter().map(String::from).collect();
                    return Err(LabError::NoPort(device.name().into(), port.into(), ports));
                };
                if device.is_linked(at) {
                    return Err(LabError::PortInUse(device.name().into(), port.into()));
                }
                Ok((Place::Device(id, at), format!("{}:{port}", device.name())))
            }
            End::Station(id, port) => {
                let post = self.posts.get(id.0).ok_or(LabError::Unknown("station", id.0))?;
                if post.lanes.get(port).is_some_and(Option::is_some) {
                    return Err(LabError::PortInUse(post.name.clone(), port.to_string()));
                }
                let name = match port {
                    0 => post.name.clone(),
                    n => format!("{}:{n}", post.name),
                };
                Ok((Place::Station(id, port), name))
            }
        }
    }

    /// The frames of a place leave by this lane.
    fn join(&mut self, place: Place, lane: u32) {
        match place {
            Place::Device(id, port) => {
                self.devices[id.0].link(port, lane, &self.world);
                self.touched.push(id);
            }
            Place::Station(id, port) => {
                let lanes = &mut self.posts[id.0].lanes;
                if lanes.len() <= port {
                    lanes.resize(port + 1, None);
                }
                lanes[port] = Some(lane);
            }
        }
    }

    /// Captures what is put on a link, in one direction, or (with nothing) both.
    pub fn tap(&mut self, link: LinkId, direction: Option<Direction>) -> Result<TapId, LabError> {
        let entry = self.links.get(link.0).ok_or(LabError::Unknown("link", link.0))?;
        let number = self.world.taps.len() as u32;
        self.world.taps.push(Tap::new(&entry.ends[0], &entry.ends[1]));
        for way in Direction::BOTH {
            if direction.is_none_or(|d| d == way) {
                self.world.lanes[lane_of(link, way) as usize].tap = Some(number);
            }
        }
        Ok(TapId(number as usize))
    }

    /// Frames that a tap captured since the last call, as a pcapng file.
    pub fn take_capture(&mut self, tap: TapId) -> Vec<u8> {
        self.world.taps.get_mut(tap.0).map(Tap::take).unwrap_or_default()
    }

    /// Adds an observer, which sees every frame.
    pub fn observe(&mut self, observer: Box<dyn Observer>) {
        self.world.observers.push(observer);
    }

    /// The first observer of this type.
    pub fn observer<T: 'static>(&mut self) -> Option<&mut T> {
        self.world.observers.iter_mut().find_map(|o| o.as_any().downcast_mut())
    }

    /// Plans a change. One that is planned for the past happens at once when the
    /// network runs.
    pub fn at(&mut self, time: Instant, change: Change) {
        let index = self.changes.len() as u32;
        self.changes.push(Some(change));
        self.world.agenda.enter(time.max(self.world.now), Event::Change { index });
    }

    /// The time.
    pub fn now(&self) -> Instant {
        self.world.now
    }

    /// Time of the next event, if nothing changes before.
    pub fn next_event(&self) -> Option<Instant> {
        self.world.agenda.peek()
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.world.seed
    }

    /// Frames that arrived at devices so far.
    pub fn visits(&self) -> u64 {
        self.world.visits
    }

    /// The packet memory that all share.
    pub fn pool(&self) -> &Pool {
        &self.world.pool
    }

    /// A device. It panics on a number of another network.
    pub fn device(&self, id: DeviceId) -> &Device {
        &self.devices[id.0]
    }

    /// A device, to change its node: the next run carries on from there.
    pub fn device_mut(&mut self, id: DeviceId) -> &mut Device {
        self.touched.push(id);
        &mut self.devices[id.0]
    }

    /// Devices in the order of their numbers.
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// A station, if it is of this type.
    pub fn station_mut<T: 'static>(&mut self, id: StationId) -> Option<&mut T> {
        self.posts.get_mut(id.0)?.station.as_any().downcast_mut()
    }

    /// Counters of a link.
    pub fn link_stats(&self, id: LinkId) -> LinkStats {
        let of = |way| self.world.lanes.get(lane_of(id, way) as usize).map(|l| l.stats);
        LinkStats {
            forward: of(Direction::Forward).unwrap_or_default(),
            reverse: of(Direction::Reverse).unwrap_or_default(),
        }
    }

    /// The name of a link.
    pub fn link_name(&self, id: LinkId) -> &str {
        self.links.get(id.0).map_or("?", |l| &l.name)
    }

    /// Numbers of all links.
    pub fn links(&self) -> impl Iterator<Item = LinkId> + use<> {
        (0..self.links.len()).map(LinkId)
    }
}
