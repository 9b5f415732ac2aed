//! Stages run one at a time over tables made by hand.

mod laws;
mod pseudowire;
mod switch;
mod vectors;

use crate::graph::{Ctx, Next, Outputs, Stage, Tally};
use crate::route::tests::rig::{Fate, Told, tell};
use crate::tables::Tables;
use ferrule_base::Instant;
use ferrule_pipeline::{Batch, Meta, Packet, Pool, PoolCache};

/// A stage and all that it is given.
pub(crate) struct Rig<S> {
    pub stage: S,
    pub tables: Tables,
    pub now: Instant,
    pub worker: u8,
    pub cache: PoolCache,
    pub tally: Tally,
    out: Outputs,
}

impl<S: Stage + Default> Rig<S> {
    pub(crate) fn new(tables: Tables) -> Self {
        Self {
            stage: S::default(),
            tables,
            now: Instant::from_secs(1),
            worker: 0,
            cache: Pool::heap(64, 2048).cache(),
            tally: Tally::default(),
            out: Outputs::new(),
        }
    }

    pub(crate) fn packet(&mut self, octets: &[u8]) -> Packet {
        self.cache.packet_from(octets).unwrap()
    }

    /// Results for a packet and its copies; none may get lost.
    pub(crate) fn run(&mut self, packet: Packet) -> Vec<Fate> {
        self.run_all([packet])
    }

    /// Fates of a batch's packets.
    pub(crate) fn run_all(&mut self, packets: impl IntoIterator<Item = Packet>) -> Vec<Fate> {
        let mut batch = Box::new(Batch::from_iter(packets));
        let pushed = batch.len() as u64;
        let made = self.tally.made;
        self.tables.compile();
        let mut ctx = Ctx {
            now: self.now,
            worker: self.worker,
            tables: &self.tables,
            cache: &mut self.cache,
            tally: &mut self.tally,
            out: &mut self.out,
        };
        self.stage.push(&mut ctx, &mut batch);
        assert!(batch.is_empty(), "a stage takes every packet");
        let mut fates = Vec::new();
        for next in Next::ALL {
            fates.extend(self.out.queue(next).drain(..).map(|p| Fate::Sent(next, p)));
        }
        fates.extend(self.out.dropped().drain(..).map(|(_, reason)| Fate::Dropped(reason)));
        fates.extend(self.out.all_handoffs().into_iter().map(|(w, next, _)| Fate::Handed(w, next)));
        assert_eq!(fates.len() as u64, pushed + self.tally.made - made);
        fates
    }
}

/// A batch ends as each of its packets alone.
pub(crate) fn ends_as_each_alone<S: Stage + Default>(
    rig: impl Fn() -> Rig<S>,
    given: &[(Vec<u8>, Meta)],
) {
    let packet = |rig: &mut Rig<S>, (octets, meta): &(Vec<u8>, Meta)| {
        let mut packet = rig.packet(octets);
        *packet.meta_mut() = *meta;
        packet
    };
    let (mut alone, mut together) = (rig(), rig());
    let (mut expected, mut got) = (Told::new(), Told::new());
    for given in given {
        let packet = packet(&mut alone, given);
        tell(alone.run(packet), &mut expected);
    }
    let packets: Vec<_> = given.iter().map(|given| packet(&mut together, given)).collect();
    tell(together.run_all(packets), &mut got);
    assert_eq!(got, expected);
    assert_eq!((together.tally.made, together.tally.work), (alone.tally.made, alone.tally.work));
}
