//! One turn of a core, the same for every core of the control part.
//!
//! ```text
//!   time is due? ─▶ handle_timeout      orders ─▶ carried out, answered now or later
//!                                       news, messages ─▶ the node
//! ```
//!
//! Each [`Carrier`] translates its core's orders into the tables and workers of this node.

use ferrule_base::Instant;
use ferrule_control::{Core, Refused, Token};

/// Adapter between a core and the node.
pub(crate) trait Carrier {
    /// The protocol.
    type Of: Core;

    /// The core.
    fn core(&mut self) -> &mut Self::Of;

    /// Carries out an order, or begins to: nothing if it is answered later.
    fn order(
        &mut self,
        token: Token,
        order: <Self::Of as Core>::Order,
    ) -> Option<Result<(), Refused>>;

    /// Sends a message.
    fn transmit(&mut self, to: <Self::Of as Core>::Source, message: &[u8]);

    /// Tells news to whom they concern.
    fn news(&mut self, news: <Self::Of as Core>::News);
}

/// Orders and messages of a core in one turn at most.
#[derive(Clone, Copy)]
pub(crate) struct TurnBounds {
    pub orders: usize,
    pub messages: usize,
}

/// Timers, orders, news and messages of a core. Returns how much there was.
pub(crate) fn turn(carrier: &mut impl Carrier, now: Instant, bounds: TurnBounds) -> usize {
    if carrier.core().poll_timeout().is_some_and(|due| due <= now) {
        carrier.core().handle_timeout(now);
    }
    let mut done = 0;
    for _ in 0..bounds.orders {
        let Some((token, order)) = carrier.core().poll_order() else { break };
        if let Some(answer) = carrier.order(token, order) {
            carrier.core().handle_answer(now, token, answer);
        }
        done += 1;
    }
    while let Some(news) = carrier.core().poll_news() {
        carrier.news(news);
        done += 1;
    }
    for _ in 0..bounds.messages {
        let Some((to, message)) = carrier.core().poll_transmit() else { break };
        carrier.transmit(to, &message);
        done += 1;
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A core without end: orders and messages as often as it is asked, a time that is due.
    #[derive(Default)]
    struct Endless {
        orders: u64,
        answers: Vec<(Token, bool)>,
        timeouts: usize,
        news: usize,
    }

    impl Core for Endless {
        type Source = u8;
        type Command = ();
        type Event = ();
        type Order = u64;
        type News = &'static str;
        type Fault = ();

        fn handle_message(&mut self, _: Instant, _: u8, _: &[u8]) -> Result<(), ()> {
            Ok(())
        }

        fn handle_command(&mut self, _: Instant, (): ()) {}

        fn handle_event(&mut self, _: Instant, (): ()) {}

        fn handle_answer(&mut self, _: Instant, token: Token, answer: Result<(), Refused>) {
            self.answers.push((token, answer.is_ok()));
        }

        fn handle_timeout(&mut self, _: Instant) {
            (self.timeouts, self.news) = (self.timeouts + 1, 2);
        }

        fn poll_transmit(&mut self) -> Option<(u8, Vec<u8>)> {
            Some((7, vec![1, 2, 3]))
        }

        fn poll_order(&mut self) -> Option<(Token, u64)> {
            self.orders += 1;
            Some((Token(self.orders), self.orders))
        }

        fn poll_news(&mut self) -> Option<&'static str> {
            self.news = self.news.checked_sub(1)?;
            Some("news")
        }

        fn poll_timeout(&self) -> Option<Instant> {
            Some(Instant::from_secs(5))
        }
    }

    /// A node that does odd orders, refuses every fourth, and answers the others later.
    #[derive(Default)]
    struct Slow {
        core: Endless,
        news: usize,
        messages: usize,
        later: Vec<Token>,
    }

    impl Carrier for Slow {
        type Of = Endless;

        fn core(&mut self) -> &mut Endless {
            &mut self.core
        }

        fn order(&mut self, token: Token, order: u64) -> Option<Result<(), Refused>> {
            match order % 4 {
                0 => Some(Err(Refused("no".into()))),
                2 => {
                    self.later.push(token);
                    None
                }
                _ => Some(Ok(())),
            }
        }

        fn transmit(&mut self, to: u8, message: &[u8]) {
            assert_eq!((to, message), (7, &[1, 2, 3][..]));
            self.messages += 1;
        }

        fn news(&mut self, news: &'static str) {
            assert_eq!(news, "news");
            self.news += 1;
        }
    }

    #[test]
    fn turn_has_bounds_and_answers_each_order_at_most_once() {
        let (mut node, bounds) = (Slow::default(), TurnBounds { orders: 4, messages: 3 });
        let (early, due) = (Instant::from_secs(4), Instant::from_secs(5));
        assert_eq!(turn(&mut node, early, bounds), 4 + 3);
        assert_eq!((node.core.timeouts, node.news, node.messages), (0, 0, 3));
        let answers = [(Token(1), true), (Token(3), true), (Token(4), false)];
        assert_eq!((&node.core.answers[..], &node.later[..]), (&answers[..], &[Token(2)][..]));
        assert_eq!(turn(&mut node, due, bounds), 4 + 3 + 2);
        assert_eq!((node.core.timeouts, node.news, node.messages), (1, 2, 6));
        assert_eq!((node.core.answers.len(), node.core.orders), (6, 8));
    }
}
