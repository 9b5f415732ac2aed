//! The numbers of a profile, each with its place in the file, its unit and what
//! it means. One table for reading, writing, fitting and `--help`.

use super::Profile;
use ferrule_base::Duration;
use ferrule_dataplane::Next;

/// A number of a profile.
pub struct Key {
    /// Its place in the file.
    pub path: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Its meaning.
    pub about: &'static str,
    /// The least and the greatest value.
    pub range: (f64, f64),
    /// Only whole numbers.
    pub whole: bool,
    /// Its value.
    pub get: fn(&Profile) -> f64,
    /// Changes it. (Whether the value is in range is the caller's to see to.)
    pub set: fn(&mut Profile, f64),
}

/// A second, in nanoseconds: no time in a profile is longer.
const SECOND: f64 = 1e9;
const NS: (f64, f64) = (0.0, SECOND);
const RATE: (f64, f64) = (0.0, 1e13);

macro_rules! number {
    ($path:literal, $unit:literal, $about:literal, $range:expr, $($field:tt).+) => {
        Key {
            path: $path,
            unit: $unit,
            about: $about,
            range: $range,
            whole: false,
            get: |p| p.$($field).+,
            set: |p, value| p.$($field).+ = value,
        }
    };
}

macro_rules! count {
    ($path:literal, $unit:literal, $about:literal, $range:expr, $($field:tt).+) => {
        Key {
            path: $path,
            unit: $unit,
            about: $about,
            range: $range,
            whole: true,
            get: |p| p.$($field).+ as f64,
            set: |p, value| p.$($field).+ = value as usize,
        }
    };
}

macro_rules! time {
    ($path:literal, $about:literal, $field:ident) => {
        Key {
            path: $path,
            unit: "ns",
            about: $about,
            range: NS,
            whole: false,
            get: |p| p.$field.as_nanos() as f64,
            set: |p, value| p.$field = Duration::from_nanos(value.round() as u64),
        }
    };
}

macro_rules! stage {
    ($path:literal, $stage:ident) => {
        Key {
            path: $path,
            unit: "ns",
            about: "each packet in this stage",
            range: NS,
            whole: false,
            get: |p| p.stages_ns[Next::$stage.number()],
            set: |p, value| p.stages_ns[Next::$stage.number()] = value,
        }
    };
}

macro_rules! knot {
    ($path:literal, $about:literal, $field:ident, $knot:literal) => {
        Key {
            path: $path,
            unit: "ns",
            about: $about,
            range: NS,
            whole: false,
            get: |p| p.$field[$knot],
            set: |p, value| p.$field[$knot] = value,
        }
    };
}

/// Every number of a profile, in the order of the file.
pub const KEYS: &[Key] = &[
    number!("occupancy.packet-ns", "ns", "each frame taken from the queue", NS, plain.packet_ns),
    number!("occupancy.octet-ns", "ns", "each octet of it", NS, plain.octet_ns),
    number!("occupancy.lookup-ns", "ns", "each table look-up", NS, lookup_ns),
    number!("occupancy.label-ns", "ns", "each label put on a packet", NS, label_ns),
    number!("occupancy.sealed.packet-ns", "ns", "each packet sealed", NS, sealed.packet_ns),
    number!("occupancy.sealed.octet-ns", "ns", "each octet under its ICV", NS, sealed.octet_ns),
    number!("occupancy.opened.packet-ns", "ns", "each packet opened", NS, opened.packet_ns),
    number!("occupancy.opened.octet-ns", "ns", "each octet under its ICV", NS, opened.octet_ns),
    number!("occupancy.copied.packet-ns", "ns", "each packet copied", NS, copied.packet_ns),
    number!("occupancy.copied.octet-ns", "ns", "each octet copied", NS, copied.octet_ns),
    stage!("occupancy.stage.secy-in", SecyIn),
    stage!("occupancy.stage.attach", Attach),
    stage!("occupancy.stage.bridge", Bridge),
    stage!("occupancy.stage.pw-out", PwOut),
    stage!("occupancy.stage.mpls", Mpls),
    stage!("occupancy.stage.pw-in", PwIn),
    stage!("occupancy.stage.frame-acl-in", FrameAclIn),
    stage!("occupancy.stage.frame-acl-out", FrameAclOut),
    stage!("occupancy.stage.source-check", SourceCheck),
    stage!("occupancy.stage.acl-in", AclIn),
    stage!("occupancy.stage.ip", Ip),
    stage!("occupancy.stage.reassemble", Reassemble),
    stage!("occupancy.stage.local", Local),
    stage!("occupancy.stage.esp-in", EspIn),
    stage!("occupancy.stage.ah-in", AhIn),
    stage!("occupancy.stage.path-error", PathError),
    stage!("occupancy.stage.acl-out", AclOut),
    stage!("occupancy.stage.clamp", Clamp),
    stage!("occupancy.stage.policy", Policy),
    stage!("occupancy.stage.esp-out", EspOut),
    stage!("occupancy.stage.ah-out", AhOut),
    stage!("occupancy.stage.icmp-error", IcmpError),
    stage!("occupancy.stage.output", Output),
    stage!("occupancy.stage.emit", Emit),
    stage!("occupancy.stage.secy-out", SecyOut),
    stage!("occupancy.stage.transmit", Transmit),
    stage!("occupancy.stage.control", Control),
    stage!("occupancy.stage.resolve", Resolve),
    stage!("occupancy.stage.acquire", Acquire),
    stage!("occupancy.stage.keying", Keying),
    stage!("occupancy.stage.transmit-first", TransmitFirst),
    stage!("occupancy.stage.eapol", Eapol),
    knot!("occupancy.sas.100-ns", "each packet sealed or opened, of 100 SAs", sas_ns, 0),
    knot!("occupancy.sas.1000-ns", "the same of 1,000", sas_ns, 1),
    knot!("occupancy.sas.10000-ns", "the same of 10,000", sas_ns, 2),
    knot!("occupancy.routes.1000-ns", "each packet routed, by one of 1,000", routes_ns, 0),
    knot!("occupancy.routes.10000-ns", "the same of 10,000", routes_ns, 1),
    knot!("occupancy.routes.100000-ns", "the same of 100,000", routes_ns, 2),
    knot!("occupancy.entries.1000-ns", "each packet judged by a list, of 1,000", entries_ns, 0),
    knot!("occupancy.entries.10000-ns", "the same of 10,000", entries_ns, 1),
    knot!("occupancy.entries.100000-ns", "the same of 100,000", entries_ns, 2),
    count!("batch.size", "frames", "taken at once at most", (1.0, super::BATCH_MAX as f64), batch),
    time!("batch.timer-ns", "an idle device notices a frame only this much later", timer),
    time!("batch.poll-ns", "from one look at the ports to the next; 0: always looks", poll),
    time!("pipeline.latency-ns", "delay of each frame that occupies nobody", pipeline),
    count!("queue.frames", "frames", "wait for one server at most", (0.0, 1e6), queue),
    number!(
        "cap.frames-per-second",
        "frames/s",
        "taken at most; 0: no limit",
        RATE,
        cap.frames_per_second
    ),
    number!(
        "cap.bits-per-second",
        "bit/s",
        "taken at most, of frames without FCS; 0: no limit",
        RATE,
        cap.bits_per_second
    ),
    number!("cap.burst-frames", "frames", "may come at once", (1.0, 1e9), cap.burst_frames),
    number!("cap.burst-octets", "octets", "may come at once", (1.0, 1e12), cap.burst_octets),
    Key {
        path: "cap.queues",
        unit: "queues",
        about: "that share the frames per second; each flow has one",
        range: (1.0, 64.0),
        whole: true,
        get: |p| p.cap.queues as f64,
        set: |p, value| p.cap.queues = value as usize,
    },
    number!(
        "bus.latency-ns",
        "ns",
        "each transfer takes, in and out, beside its octets",
        NS,
        bus.latency_ns
    ),
    number!("bus.bits-per-second", "bit/s", "of the bus; 0: no limit", RATE, bus.bits_per_second),
    number!("card.packet-ns", "ns", "each frame takes in a card", NS, card.packet_ns),
    number!(
        "card.bits-per-second",
        "bit/s",
        "of a card, of frames on the wire; 0: no limit",
        RATE,
        card.bits_per_second
    ),
    number!(
        "card.latency-ns",
        "ns",
        "delay of each frame in a card that occupies nobody",
        NS,
        card.latency_ns
    ),
    number!(
        "card.buffer-octets",
        "octets",
        "wait for a card from the line at most",
        (0.0, 1e9),
        card.buffer_octets
    ),
    number!(
        "control.message-ns",
        "ns",
        "each protocol message that the control part hears or makes",
        NS,
        control.message_ns
    ),
    number!(
        "control.task-ns",
        "ns",
        "each order, answer or report in the control part",
        NS,
        control.task_ns
    ),
    time!("workers.stagger-ns", "a worker begins up to this much later, by the dice", stagger),
    number!(
        "look-aside.bus-bits",
        "bits",
        "width of its bus; 0: no bus",
        (0.0, 4096.0),
        look_aside.bus_bits
    ),
    number!("look-aside.bus-mhz", "MHz", "clock of its bus", (0.0, 1e6), look_aside.bus_mhz),
    number!(
        "look-aside.bus-latency-ns",
        "ns",
        "each transfer takes beside its clocks",
        NS,
        look_aside.bus_latency_ns
    ),
    number!(
        "look-aside.crossings",
        "times",
        "each packet crosses its bus, there and back together",
        (0.0, 16.0),
        look_aside.crossings
    ),
    number!("look-aside.packet-ns", "ns", "its unit, each packet", NS, look_aside.packet_ns),
    number!("look-aside.octet-ns", "ns", "its unit, each octet", NS, look_aside.octet_ns),
    number!(
        "look-aside.latency-ns",
        "ns",
        "delay behind its unit that occupies nobody",
        NS,
        look_aside.latency_ns
    ),
    count!("fit.points", "values", "published values it was fitted to", (0.0, 1e6), fit.points),
    number!("fit.error-percent", "%", "largest error of one", (0.0, 1e6), fit.error_percent),
    number!(
        "fit.leave-one-out-percent",
        "%",
        "largest error of one that was left out of its own fit",
        (0.0, 1e6),
        fit.leave_one_out_percent
    ),
];

impl Key {
    /// The number at this place.
    pub fn find(path: &str) -> Option<&'static Self> {
        KEYS.iter().find(|k| k.path == path)
    }

    /// The part of the path in front of the last dot.
    pub fn section(&self) -> &'static str {
        self.path.rsplit_once('.').map_or("", |(section, _)| section)
    }

    /// The part behind it.
    pub fn name(&self) -> &'static str {
        self.path.rsplit_once('.').map_or(self.path, |(_, name)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profile_prices_every_stage_under_its_own_name() {
        for stage in Next::ALL {
            let key = Key::find(&format!("occupancy.stage.{}", stage.name())).expect("a price");
            let mut profile = Profile::ideal();
            (key.set)(&mut profile, 7.0);
            assert_eq!((profile.stages_ns[stage.number()], (key.get)(&profile)), (7.0, 7.0));
        }
    }
}
