//! Orders of two stations whose SecYs answer late, in any order, and refuse some.

use super::lan::{cak, sci};
use crate::Core;
use crate::mka::config::{LIFE, PN_PENDING};
use crate::mka::{Command, Config, Event, Kay, Order, PortState, Suite};
use crate::tests::LatePath;
use ferrule_base::{Duration, Instant, Rng};
use ferrule_wire::mkpdu::{Ckn, KeyId};

const SECOND: Duration = Duration::from_secs(1);

struct Side {
    kay: Kay,
    path: LatePath<Kay>,
    /// The SAK with which the SecY transmits.
    key: Option<KeyId>,
    /// A second CAK comes, and goes.
    commands: Vec<Command>,
}

impl Side {
    fn new(number: u8, suite: Suite) -> Self {
        let config = Config { suite, priority: number, ..Config::new(sci(number)) };
        let kay = Kay::new(config, Box::new(Rng::new(number.into())));
        let commands = vec![Command::Leave(Ckn::new(&[2; 5]).unwrap()), Command::Join(cak(2, 16))];
        Self { kay, path: LatePath::new(), key: None, commands }
    }

    /// Orders and answers, some of them.
    fn turn(&mut self, now: Instant, rng: &mut Rng, refuses: bool, count: u64) {
        let key = &mut self.key;
        self.path.take(&mut self.kay, count, |order| {
            let is_done = !refuses || !rng.one_in(6);
            if let (Order::Transmit(new), true) = (order, is_done) {
                *key = Some(*new);
            }
            is_done
        });
        self.path.answer((now, &mut self.kay), count, rng, |kay| {
            format!("{:?} {:?}", kay.view(), kay.poll_timeout())
        });
    }
}

fn pass(sides: &mut [Side; 2], now: Instant) {
    for at in 0..2 {
        if sides[at].kay.poll_timeout().is_some_and(|due| due <= now) {
            sides[at].kay.handle_timeout(now);
        }
        while let Some(((), frame)) = sides[at].kay.poll_transmit() {
            let _ = sides[1 - at].kay.handle_message(now, (), &frame);
        }
    }
}

fn talk(seed: u64) {
    let mut rng = Rng::new(seed);
    let suite = if rng.one_in(2) { Suite::GcmAes128 } else { Suite::GcmAesXpn256 };
    let mut sides = [1, 2].map(|number| Side::new(number, suite));
    let mut now = Instant::from_secs(100);
    sides.iter_mut().for_each(|side| side.kay.handle_command(now, Command::Join(cak(1, 16))));
    for _ in 0..200 {
        now += Duration::from_millis(rng.below(1500));
        pass(&mut sides, now);
        for side in &mut sides {
            match rng.below(40) {
                0 => side.kay.handle_command(now, Command::Rekey),
                1 => {
                    let command = side.commands.pop();
                    command.into_iter().for_each(|command| side.kay.handle_command(now, command));
                }
                2 => now += LIFE + SECOND,
                3 => {
                    let event = side.key.map(|key| Event::NextPn(key, PN_PENDING));
                    event.into_iter().for_each(|event| side.kay.handle_event(now, event));
                }
                _ => {}
            }
            let count = rng.below(5);
            side.turn(now, &mut rng, true, count);
        }
    }
    // In peace all that is under way comes to its end.
    for _ in 0..200 {
        now += SECOND / 5;
        pass(&mut sides, now);
        sides.iter_mut().for_each(|side| side.turn(now, &mut rng, false, u64::MAX));
    }
    for side in &sides {
        assert!(side.path.is_done() && side.kay.asked.is_empty(), "seed {seed}");
        assert_eq!(side.kay.view().port, PortState::Secured, "seed {seed}");
    }
}

#[test]
fn mka_orders_are_answered_once_however_late_and_refused() {
    (0..500).for_each(talk);
}
