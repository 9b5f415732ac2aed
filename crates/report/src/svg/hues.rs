//! A colour means one thing: the same group has it in all figures of a page.

use crate::figure::{Figure, Plot};

/// Colours on white and on black, for lines: neighbours differ for those, too, who see
/// fewer colours.
pub(super) const LINES: [[&str; 2]; 12] = [
    ["#0072b2", "#5ab4f0"],
    ["#b85000", "#ff9f5a"],
    ["#7b3f9d", "#cfa3f0"],
    ["#00796b", "#4cc9b4"],
    ["#b5407f", "#f29cc8"],
    ["#8a6d00", "#e6c02f"],
    ["#56616c", "#b5bec8"],
    ["#7a4a2b", "#d0a585"],
    ["#3949ab", "#a3adff"],
    ["#00838f", "#4dd0e1"],
    ["#6d7f00", "#c5d24a"],
    ["#a33b3b", "#f09a94"],
];

/// The same for the parts of bars: pale areas, which no line has.
pub(super) const AREAS: [[&str; 2]; 10] = [
    ["#a6cee8", "#24506e"],
    ["#f3bf95", "#7a431a"],
    ["#c9ced3", "#4a535c"],
    ["#b9e0d6", "#1d5c50"],
    ["#dcc3ea", "#553a68"],
    ["#eedd9a", "#665511"],
    ["#f0c2da", "#6d3553"],
    ["#c5cdf5", "#3a4580"],
    ["#dbe59c", "#525e12"],
    ["#e8c6b4", "#6b4733"],
];

/// Groups in the order of their first appearance; the place is the colour's number.
#[derive(Clone, Debug, Default)]
pub struct Hues(Vec<String>);

impl Hues {
    /// Colours for the figures of a page.
    pub fn of<'a>(figures: impl IntoIterator<Item = &'a Figure>) -> Self {
        let mut groups: Vec<String> = Vec::new();
        for figure in figures {
            let Plot::Xy(xy) = &figure.plot else { continue };
            for series in &xy.series {
                if !groups.contains(&series.group) {
                    groups.push(series.group.clone());
                }
            }
        }
        Self(groups)
    }

    /// The number of a group's colour.
    pub fn hue(&self, group: &str) -> usize {
        self.0.iter().position(|known| known == group).unwrap_or_default() % LINES.len()
    }
}
