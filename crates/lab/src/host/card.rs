//! The host's network card: smoltcp's view of the station's one port.
//!
//! ```text
//!   stack ── queue ── at most ten full frames ahead of the wire ── link
//! ```
//!
//! A stack that has a full window to send does so at one instant; the card keeps
//! what is far ahead of the wire, as an operating system's queue does, and no
//! queue in the network overflows for it. The stack is never told to wait:
//! smoltcp 0.14 forgets a fast retransmission that its device refuses, and the
//! connection stands still for ever.

use crate::station::Io;
use ferrule_base::{Duration, Instant};
use ferrule_pipeline::{Packet, PoolCache};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::time::Instant as StackTime;
use std::collections::VecDeque;

/// Octets that the card gives the link ahead of the wire: ten full frames.
const AHEAD_OCTETS: u64 = 15_000;
/// Frames that wait in the card at most.
const QUEUE_MAX: usize = 1024;
/// Octets of a frame on the wire beside those in memory: preamble, FCS, gap.
const FRAMING: u64 = 24;
/// Octets of the shortest frame, without FCS.
const SHORTEST: u64 = 60;

/// State of a host's card between two calls.
pub(super) struct Card {
    /// Bits per second; nothing: no limit.
    rate: Option<u64>,
    mtu: usize,
    queue: VecDeque<Packet>,
    /// When the wire will have taken everything that the link was given.
    idle_at: Instant,
    /// Frames made, sent, and dropped because the queue was full.
    pub made: u64,
    pub sent: u64,
    pub dropped: u64,
    /// IPv4 packets leave without DF.
    pub may_be_cut: bool,
}

impl Card {
    /// `mtu` counts octets of an IP packet.
    pub fn new(mtu: usize, rate: Option<u64>) -> Self {
        let (queue, idle_at) = (VecDeque::new(), Instant::ZERO);
        Self { rate, mtu, queue, idle_at, made: 0, sent: 0, dropped: 0, may_be_cut: false }
    }

    fn time_of(&self, octets: u64) -> Duration {
        let Some(rate) = self.rate else { return Duration::ZERO };
        let nanos = u128::from(octets) * 8 * 1_000_000_000 / u128::from(rate.max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// When the link may be given a frame again.
    fn ready_at(&self) -> Instant {
        let ahead = self.time_of(AHEAD_OCTETS);
        Instant::from_nanos(self.idle_at.as_nanos().saturating_sub(ahead.as_nanos() as u64))
    }

    /// When the first frame that waits may go.
    pub fn due(&self) -> Option<Instant> {
        (!self.queue.is_empty()).then(|| self.ready_at())
    }

    /// Frames that wait.
    pub fn held(&self) -> u64 {
        self.queue.len() as u64
    }

    /// Gives the link what may go now.
    pub fn release(&mut self, now: Instant, sent: &mut Vec<(usize, Packet)>) {
        while self.ready_at() <= now
            && let Some(packet) = self.queue.pop_front()
        {
            let octets = (packet.len() as u64).max(SHORTEST) + FRAMING;
            self.idle_at = self.idle_at.max(now) + self.time_of(octets);
            self.sent += 1;
            sent.push((0, packet));
        }
    }

    /// Takes a frame to send.
    pub fn take(&mut self, now: Instant, sent: &mut Vec<(usize, Packet)>, mut packet: Packet) {
        self.made += 1;
        if self.may_be_cut {
            clear_df(packet.data_mut());
        }
        if self.queue.len() < QUEUE_MAX {
            self.queue.push_back(packet);
            self.release(now, sent);
        } else {
            self.dropped += 1;
        }
    }

    /// Sends a frame that the stack did not make; without a free buffer it is not sent.
    pub fn send(&mut self, io: &mut Io<'_>, frame: &[u8]) {
        if let Some(packet) = io.cache.packet_from(frame) {
            self.take(io.now, io.sent, packet);
        }
    }
}

/// The card at one instant, with the frame that has arrived.
pub(super) struct Wire<'a, 'b> {
    pub card: &'a mut Card,
    pub io: &'a mut Io<'b>,
    pub arrived: Option<Packet>,
    /// A packet for the next token, so that an unused token costs none.
    pub spare: Option<Packet>,
}

impl Wire<'_, '_> {
    fn token(&mut self) -> Option<Out<'_>> {
        if self.spare.is_none() {
            self.spare = self.io.cache.packet();
        }
        self.spare.as_ref()?;
        let Io { now, cache, sent, .. } = &mut *self.io;
        Some(Out { card: self.card, now: *now, cache, sent, packet: &mut self.spare })
    }
}

impl Device for Wire<'_, '_> {
    type RxToken<'t>
        = In
    where
        Self: 't;
    type TxToken<'t>
        = Out<'t>
    where
        Self: 't;

    fn receive(&mut self, _: StackTime) -> Option<(In, Out<'_>)> {
        let packet = self.arrived.take()?;
        // Without a buffer for an answer the frame is lost, as on any card.
        Some((In(packet), self.token()?))
    }

    fn transmit(&mut self, _: StackTime) -> Option<Out<'_>> {
        self.token()
    }

    fn capabilities(&self) -> DeviceCapabilities {
        capabilities(self.card.mtu)
    }
}

fn capabilities(mtu: usize) -> DeviceCapabilities {
    let mut about = DeviceCapabilities::default();
    about.medium = Medium::Ethernet;
    about.max_transmission_unit = mtu + super::ETHERNET;
    about
}

/// Takes DF out of an IPv4 header, and its part out of the checksum (RFC 1624 section 3).
fn clear_df(frame: &mut [u8]) {
    const IPV4: [u8; 2] = [8, 0];
    const DF: u16 = 0x4000;
    let Some([version, _, _, _, _, _, flags, more, _, _, high, low]) =
        frame.get_mut(super::ETHERNET - 2..).and_then(|rest| {
            let (ethertype, packet) = rest.split_first_chunk_mut::<2>()?;
            if *ethertype == IPV4 { packet.first_chunk_mut::<12>() } else { None }
        })
    else {
        return;
    };
    let before = u16::from_be_bytes([*flags, *more]);
    if *version >> 4 != 4 || before & DF == 0 {
        return;
    }
    [*flags, *more] = (before & !DF).to_be_bytes();
    // The sum had DF in it: its complement has it taken away.
    let sum = u32::from(u16::from_be_bytes([*high, *low])) + u32::from(DF);
    [*high, *low] = ((sum & 0xffff) as u16 + (sum >> 16) as u16).to_be_bytes();
}

/// A card that is only described, while a stack is made for it.
pub(super) struct Described(pub usize);

impl Device for Described {
    type RxToken<'t> = In;
    type TxToken<'t> = Out<'t>;

    fn receive(&mut self, _: StackTime) -> Option<(In, Out<'_>)> {
        None
    }

    fn transmit(&mut self, _: StackTime) -> Option<Out<'_>> {
        None
    }

    fn capabilities(&self) -> DeviceCapabilities {
        capabilities(self.0)
    }
}

/// A frame that arrived.
pub(super) struct In(Packet);

impl RxToken for In {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(self.0.data())
    }
}

/// Leave to send a frame.
pub(super) struct Out<'t> {
    card: &'t mut Card,
    now: Instant,
    cache: &'t mut PoolCache,
    sent: &'t mut Vec<(usize, Packet)>,
    packet: &'t mut Option<Packet>,
}

impl TxToken for Out<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, write: F) -> R {
        let Some(mut packet) = self.packet.take().or_else(|| self.cache.packet()) else {
            return write(&mut vec![0; len]);
        };
        packet.renew(0);
        let Some(octets) = packet.append(len) else {
            // Larger than a buffer: such an mtu is refused where hosts are made.
            *self.packet = Some(packet);
            return write(&mut vec![0; len]);
        };
        octets.fill(0);
        let done = write(octets);
        self.card.take(self.now, self.sent, packet);
        done
    }
}
