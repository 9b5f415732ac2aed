//! How a study's model is run.

use ferrule_base::Rng;

/// How a study's model is run: how long, and with which draws.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Fewer frames and coarser searches.
    pub quick: bool,
    /// The seed of its draws.
    pub seed: Seed,
}

impl Options {
    /// Fewer frames and coarser searches, with the studies' own seeds.
    pub const QUICK: Self = Self { quick: true, seed: Seed::OWN };
}

/// Seed of everything that a model draws: of each study its own, or one that somebody chose.
/// Fits keep their own, for their results are files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seed(Option<u64>);

impl Seed {
    /// The studies' own seeds.
    pub const OWN: Self = Self(None);

    /// Another seed, for every draw.
    pub const fn chosen(seed: u64) -> Self {
        Self(Some(seed))
    }

    /// The seed of draws whose own one this is.
    pub fn of(self, own: u64) -> u64 {
        self.0.map_or(own, |seed| Rng::new(seed).next_u64() ^ Rng::new(own).next_u64())
    }

    /// For the report's provenance.
    pub fn words(self) -> String {
        match self.0 {
            None => "the studies' own: the model gives the same numbers each time".into(),
            Some(seed) => format!(
                "{seed}, for every draw of the model, which gives the same numbers each time; fits \
                 keep their own, and what is measured live draws none"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chosen_seed_is_another_one_for_every_draw_and_always_the_same() {
        let chosen = Seed::chosen(7);
        assert_eq!(Seed::OWN.of(2001), 2001);
        assert_eq!(chosen.of(2001), chosen.of(2001));
        let all = [Seed::OWN.of(2001), chosen.of(2001), chosen.of(2002), Seed::chosen(8).of(2001)];
        for (at, seed) in all.iter().enumerate() {
            assert!(!all[..at].contains(seed), "{all:?}");
        }
        assert!(chosen.words().starts_with("7, "));
    }
}
