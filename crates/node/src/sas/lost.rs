//! SAs that are lost with a card: those of one that goes with its port, and those of keying
//! protocols in one that was reset.

use super::{Client, Directories, Sa, Sas, UnderWay, Verb};
use crate::message::Seat;
use ferrule_base::PortId;
use ferrule_control::{Refused, Token};
use std::collections::HashSet;

impl Sas {
    /// SAs of a seat, by whose they are.
    fn at(&self, seat: Seat, is_whose: impl Fn(Client) -> bool) -> Vec<Sa> {
        let inbound = self.inbound.iter().filter(|(_, sa)| sa.seat == seat && is_whose(sa.client));
        let outbound = self.outbound.iter();
        let outbound = outbound.filter(|(_, sa)| sa.parts[0].0 == seat && is_whose(sa.client));
        let outbound = outbound.map(|(index, _)| Sa::Outbound(index));
        inbound.map(|(index, _)| Sa::Inbound(index)).chain(outbound).collect()
    }

    /// SAs of a seat that keying protocols agreed on and that do not leave.
    pub fn agreed_in(&self, seat: Seat) -> Vec<Sa> {
        let agreed = self.at(seat, |client| client != Client::Configuration);
        agreed.into_iter().filter(|&sa| self.has_agreed(sa)).collect()
    }

    /// Forgets all SAs of a card that goes with its port.
    pub fn forget_card(&mut self, dirs: &Directories, port: PortId) {
        let seat = Seat::Card(port);
        self.queue.retain(|(at, _)| *at != seat);
        self.forget_all(dirs, &self.at(seat, |_| true));
    }

    /// Forgets SAs that keying protocols agreed on, as a card did that was reset. Orders about
    /// them are answered; the SAs come back.
    pub fn lose(&mut self, dirs: &Directories, seat: Seat) -> Vec<Sa> {
        let lost = self.at(seat, |client| client != Client::Configuration);
        self.forget_all(dirs, &lost);
        lost
    }

    /// Forgets SAs that are nowhere any more. Their indices are free then: nothing may be left
    /// that would be done to others.
    fn forget_all(&mut self, dirs: &Directories, gone: &[Sa]) {
        for &sa in gone {
            self.cut_off(dirs, sa);
            self.forget(sa);
        }
        let gone: HashSet<Sa> = gone.iter().copied().collect();
        let about = self.under_way.extract_if(|_, order| gone.contains(&order.sa));
        let mut about: Vec<(Token, UnderWay)> = about.collect();
        about.sort_unstable_by_key(|&(token, _)| token);
        for (_, UnderWay { sa, verb, client, .. }) in about {
            match client {
                Client::Keying(token) if token != Token(0) => {
                    let lost = || Err(Refused("its card was reset".into()));
                    let answer = if verb == Verb::Drop { Ok(sa) } else { lost() };
                    self.answers.push_back((token, answer));
                }
                Client::Keying(_) => {}
                // Of its orders those that drop are counted.
                Client::Configuration => self.goes -= usize::from(verb == Verb::Drop),
            }
        }
        let mut dropped: Vec<(Sa, Client)> = Vec::new();
        let clearing = self.clearing.as_mut().map(|clearing| &mut clearing.sas);
        for waiting in [&mut self.leaving].into_iter().chain(clearing) {
            dropped.extend(waiting.extract_if(.., |(sa, _)| gone.contains(sa)));
        }
        for (sa, client) in dropped {
            match client {
                Client::Configuration => self.goes -= 1,
                Client::Keying(token) => self.answers.push_back((token, Ok(sa))),
            }
        }
    }
}
